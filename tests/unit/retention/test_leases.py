"""Leases: what is being read stays, and what nobody reads any more goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread

import pytest

from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.retention.leases import (
    acquire_lease,
    leased,
    living_leases,
    release_lease,
    renew_lease,
)
from meltline.app.run.gate_step import run_gate
from meltline.domain.clock import WallClock
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import (
    LeaseLost,
    LeaseNotFound,
    SnapshotNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.ports import CommitOutcome, Lease
from tests.doubles.committer import MemoryCommitter
from tests.lake.lake import DAY, ROOMY, Lake, Table

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def overwritten(**more: Limits) -> tuple[Lake, Table]:
    """A table of four snapshots; on day 12 the first three may go."""
    lake = Lake(**more)  # type: ignore[arg-type]
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    return lake, table


def acquire(lake: Lake, table: Table, snapshot: int | None, ttl: timedelta = HOUR) -> Lease:
    return acquire_lease(lake.services(), table.name, snapshot, ttl)


def is_there(lake: Lake, path: str) -> bool:
    return location_key(path) in {location_key(found) for found in lake.paths()}


# --- what a lease keeps ---------------------------------------------------------------------------


def test_a_leased_snapshot_stays_with_its_files_and_goes_after_its_release() -> None:
    # DS-21, TT-4
    lake, table = overwritten()
    first, data = table.snapshots[0], table.data("f0")
    lease = acquire(lake, table, first, 7 * DAY)
    lake.run()
    assert first in table.snapshots and len(table.snapshots) == 2
    for day in (15, 18):
        lake.on(day)
        renew_lease(lake.services(), lease.id)
    lake.on(21).run()
    assert first in table.snapshots and is_there(lake, data)
    assert not is_there(lake, table.data("f1"))  # its neighbour has gone all the way
    release_lease(lake.services(), lease.id)
    lake.run()
    assert first not in table.snapshots and is_there(lake, data)
    lake.on(29).run()
    assert not is_there(lake, data)


def test_a_dead_lease_ends_by_itself() -> None:
    # C-16
    lake, table = overwritten()
    first = table.snapshots[0]
    acquire(lake, table, first, HOUR)
    lake.on(12 + 1 / 24).run()
    assert first in table.snapshots  # in its last millisecond it still holds
    lake.on(12.1).run()
    assert first not in table.snapshots


def test_without_a_snapshot_the_lease_is_on_what_is_current() -> None:
    lake, table = overwritten()
    lease = acquire(lake, table, None)
    assert lease.snapshot_id == table.head
    table.overwrite("g")
    lake.on(19.5)
    assert lake.control.leases.active(lake.clock.now()) == []
    assert (lease.table, lease.table_uuid, lease.who) == (str(table.name), table.uuid, "tester")


def test_two_readers_of_one_snapshot_do_not_end_each_others_leases() -> None:
    lake, table = overwritten()
    one, other = (acquire(lake, table, table.snapshots[0]) for _ in range(2))
    release_lease(lake.services(), one.id)
    assert [lease.id for lease in living_leases(lake.services())] == [other.id]
    lake.run()
    assert other.snapshot_id in table.snapshots


# --- its life -------------------------------------------------------------------------------------


def test_a_renewal_counts_from_now() -> None:
    lake, table = overwritten()
    lease = acquire(lake, table, None, 2 * HOUR)
    assert lease.expires_at == lake.clock.now() + 2 * HOUR
    lake.clock.moment += HOUR
    assert renew_lease(lake.services(), lease.id).expires_at == lake.clock.now() + 2 * HOUR


def test_an_ended_or_unknown_lease_is_neither_renewed_nor_released() -> None:
    lake, table = overwritten()
    lease = acquire(lake, table, None)
    lake.on(13)
    for change in (renew_lease, release_lease):
        for id in (lease.id, "never"):
            with pytest.raises(LeaseNotFound, match=id):
                change(lake.services(), id)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(milliseconds=999), 7 * DAY + SECOND])
def test_a_lease_is_neither_for_no_time_nor_for_ever(ttl: timedelta) -> None:
    lake, table = overwritten()
    with pytest.raises(UsageInvalid, match="a lease cannot"):
        acquire(lake, table, None, ttl)
    assert living_leases(lake.services()) == []


def test_what_is_not_there_cannot_be_leased_and_leaves_no_lease() -> None:
    lake, table = overwritten()
    gone = table.snapshots[0]
    lake.run()
    with pytest.raises(SnapshotNotFound, match=str(gone)):
        acquire(lake, table, gone)
    with pytest.raises(TableNotFound):
        acquire_lease(lake.services(), TableName.parse("lake.air.never"), None, HOUR)
    assert living_leases(lake.services()) == []


def test_decisions_about_leases_are_in_the_audit() -> None:
    lake, table = overwritten()
    lease = acquire(lake, table, None)
    renew_lease(lake.services(), lease.id)
    release_lease(lake.services(), lease.id)
    found = [entry for entry in lake.control.audit.entries() if entry.action.startswith("lease")]
    assert [entry.action for entry in found] == ["lease", "lease renew", "lease release"]
    assert {entry.object for entry in found} == {f"{table.name}@{table.head}"}
    assert all(lease.id in entry.detail and entry.who == "tester" for entry in found)


# --- while an expiration is on its way ------------------------------------------------------------


def gated(lake: Lake) -> Plan:
    services, request = lake.services(), lake.request()
    (planned,) = plan_expiration(
        services, observe(services), run_id=request.run_id, as_of=request.as_of
    )
    return run_gate(services, [planned.plan])[0][0]


@dataclass
class LateCommitter:
    """Commits only after somebody has begun to lease what is about to expire."""

    lake: Lake
    table: Table
    errors: list[BaseException]
    leaser: Thread | None = None

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        self.leaser = Thread(target=self._lease, args=(plan.snapshots[0],))
        self.leaser.start()
        while not self.lake.control.leases.active(self.lake.clock.now()):
            time.sleep(0.001)
        time.sleep(0.05)  # long enough for a look that does not wait for the lock
        real = MemoryCommitter(self.lake.catalogs, self.lake.store)
        return real.expire(plan, base_location)

    def _lease(self, snapshot_id: int) -> None:
        try:
            acquire(self.lake, self.table, snapshot_id)
        except SnapshotNotFound as refused:
            self.errors.append(refused)


def test_a_lease_taken_between_the_last_check_and_the_commit_is_refused_and_not_left_blind() -> (
    None
):
    lake, table = overwritten(limits=Limits(max_delete_ratio=1.0, lock_wait=timedelta(seconds=30)))
    plan = gated(lake)
    committer = LateCommitter(lake, table, [])
    (done,) = apply_expirations(lake.services(committer=committer), [plan])
    assert done.error is None and committer.leaser is not None
    committer.leaser.join(30)
    assert len(committer.errors) == 1 and living_leases(lake.services()) == []


def test_a_lease_on_a_planned_snapshot_that_is_not_being_applied_holds() -> None:
    lake, table = overwritten(limits=ROOMY)
    plan = gated(lake)
    lease = acquire(lake, table, plan.snapshots[0])
    (done,) = apply_expirations(lake.services(), [plan])
    assert done.error is not None and lease.snapshot_id in table.snapshots


# --- the context manager --------------------------------------------------------------------------


@contextmanager
def reading(lake: Lake, table: Table, ttl: timedelta) -> Iterator[str]:
    with leased(lake.services(), table.name, table.snapshots[0], ttl) as kept:
        yield kept.id


def test_a_lease_outlives_its_time_while_its_block_runs_and_ends_with_it() -> None:
    lake, table = overwritten()
    services = lake.services(clock=WallClock())
    with leased(services, table.name, table.snapshots[0], SECOND) as kept:
        first_end = kept.lease.expires_at
        deadline = time.monotonic() + 30
        while services.clock.now() <= first_end and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [lease.id for lease in living_leases(services)] == [kept.id]
        assert not kept.lost
    assert living_leases(services) == []


def test_a_block_whose_lease_somebody_else_released_is_told_so() -> None:
    lake, table = overwritten()
    with pytest.raises(LeaseLost, match=str(table.snapshots[0])), reading(lake, table, HOUR) as id:
        release_lease(lake.services(), id)


def test_a_block_that_fails_ends_its_lease_and_shows_its_own_error() -> None:
    lake, table = overwritten()
    with pytest.raises(ZeroDivisionError), reading(lake, table, HOUR):
        raise ZeroDivisionError
    assert living_leases(lake.services()) == []
