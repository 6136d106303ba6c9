"""What others do between two of our steps: nothing that is needed goes, and the reason is named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.purge.purge import apply_purges
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.run.gate_step import run_gate
from meltline.app.run.gated_plans import judge
from meltline.app.run.lifecycle import (
    Run,
    run_chain,
)
from meltline.app.run.summary import Summary
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    ApprovalMissing,
    ClockRefused,
    GateNotPassed,
    LedgerOutOfStep,
    PlanAltered,
    PlanStale,
    Stopped,
)
from meltline.domain.iceberg.files import DepartureState, PlannedFile
from meltline.ports import Lease, StopSwitch
from tests.lake.lake import DAY, ROOMY, T0, Lake, Table


def overwritten() -> tuple[Lake, Table]:
    """A table of four snapshots; on day 12 the first three may go."""
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    return lake, table


def expiration(lake: Lake, gated: bool = True) -> Plan:
    services = lake.services()
    request = lake.request()
    (planned,) = plan_expiration(
        services, observe(services), run_id=request.run_id, as_of=request.as_of
    )
    return run_gate(services, [planned.plan])[0][0] if gated else planned.plan


def purge(lake: Lake) -> Plan:
    services = lake.services()
    (planned,) = Run(services, lake.request()).plan_purge()
    return run_gate(services, [planned.plan])[0][0]


def departed() -> tuple[Lake, Table, Plan]:
    """The same lake eight days after its expiration, with a gated purge."""
    lake, table = overwritten()
    lake.run()
    lake.on(20)
    return lake, table, purge(lake)


def test_a_commit_that_changes_nothing_planned_lets_the_same_plan_through() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    table.append("late")
    (done,) = apply_expirations(lake.services(), [plan])
    assert (done.error, done.snapshots_expired) == (None, 3)
    assert done.plan.digest == plan.digest and table.data("late") in lake.paths()


@pytest.mark.parametrize(
    "interfere",
    [
        lambda table, first: table.tag("keep", first),
        lambda table, first: table.branch("b", first),
        lambda table, first: table.rollback(first),
        lambda table, first: table.configure(**{"meltline.hold": "audit"}),
        lambda table, first: table.configure(**{"meltline.enabled": "false"}),
        lambda table, first: table.configure(**{"meltline.retention-days": "90"}),
        lambda table, first: table.configure(**{"history.expire.min-snapshots-to-keep": "9"}),
        lambda table, first: table.drop(),
    ],
    ids=["tag", "branch", "rollback", "hold", "opt-out", "retention", "min-snapshots", "drop"],
)
def test_what_makes_a_planned_snapshot_needed_makes_the_plan_stale(
    interfere: Callable[[Table, int], None],
) -> None:
    # AR-40
    lake, table = overwritten()
    before = table.snapshots
    plan = expiration(lake)
    interfere(table, before[0])
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, PlanStale)
    assert done.plan.state is PlanState.STALE
    assert lake.waiting() == {}


def test_a_lease_taken_after_the_plan_makes_it_stale() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    until = lake.clock.moment + DAY
    lake.control.leases.save(Lease("l", table.uuid, table.snapshots[0], until))
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, PlanStale) and "lease" in done.error.found


def test_a_table_replaced_under_its_name_is_not_touched_by_the_old_plan() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    table.drop()
    new = lake.table("t", location="file:///w/air/t2")
    new.append("n")
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, PlanStale) and len(new.snapshots) == 1


def test_no_gate_no_commit() -> None:
    # PX-1
    lake, table = overwritten()
    plan = expiration(lake, gated=False)
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, GateNotPassed) and len(table.snapshots) == 4


def test_a_gate_that_has_ended_approves_nothing_any_more() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    lake.clock.moment += timedelta(hours=6)
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, GateNotPassed) and len(table.snapshots) == 4


def test_a_plan_whose_items_were_edited_is_refused() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    services = lake.services()
    items = services.files.items.of([plan.id])[plan.id]
    victim = replace(items[0], path=table.data("f3"))
    tampered = replace(services.files, items=_Tampered({plan.id: [victim, *items[1:]]}))
    (done,) = apply_expirations(replace(services, files=tampered), [plan])
    assert isinstance(done.error, PlanAltered) and len(table.snapshots) == 4


@dataclass(frozen=True)
class _Tampered:
    """Items of plans that somebody has edited."""

    edited: Mapping[str, Sequence[PlannedFile]]

    def of(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        return {plan_id: self.edited[plan_id] for plan_id in plan_ids}

    def store(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        raise AssertionError("nothing is planned here")


def test_a_purge_that_another_run_overtook_is_stale_and_complains_of_nothing() -> None:
    lake, _ = overwritten()
    lake.run()
    lake.on(20)
    services = lake.services()
    slow = replace(lake.request(), run_id="slow")
    run = Run(services, slow)
    run.plan_purge()
    assert lake.run().exit_code == 0  # the fast run purges them all
    run.gate_purge()
    run.purge()
    summary = run.summary
    assert [plan.state for plan in summary.plans.values()] == [PlanState.STALE]
    assert summary.exit_code == 0 and not any(table.refused for table in summary.tables.values())


def two_purges() -> tuple[Lake, Table, Plan, list[Plan]]:
    """A fast run's gated purge of one file, and a slow run's plan for that file and two more."""
    lake, table = overwritten()
    lake.run(as_of=T0 + 8.5 * DAY)
    lake.on(12.1).run()
    fast = purge(lake.on(19.05))
    slow = [planned.plan for planned in Run(lake.on(19.2).services(), lake.request()).plan_purge()]
    assert sum(plan.files for plan in slow) > fast.files > 0
    return lake, table, fast, slow


def test_what_a_faster_run_leaves_of_a_purge_is_planned_anew_and_purged_the_same_night() -> None:
    lake, table, fast, slow = two_purges()
    services = lake.services()
    assert apply_purges(services, [fast])[0].error is None
    assert lake.waiting()
    judged = judge(services, slow)
    assert [plan.state for plan in judged] == [PlanState.STALE, PlanState.PASSED]
    assert {plan.run_id for plan in judged} == {slow[0].run_id}
    assert conclude(lake, judged).exit_code == 0
    assert lake.waiting() == {}
    assert not {table.data(f"f{day}") for day in range(3)} & lake.paths()


def test_a_purge_that_is_overtaken_while_it_is_judged_leaves_nothing_and_refuses_nothing() -> None:
    lake, _, fast, slow = two_purges()
    services = lake.services()
    claims = _Once(services.control.claims, "paths", lambda: apply_purges(services, [fast]))
    control = replace(services.control, claims=claims)
    judged = judge(replace(services, control=control), slow)
    assert claims.done
    assert [plan.state for plan in judged] == [PlanState.STALE, PlanState.PASSED]
    assert conclude(lake, judged).exit_code == 0
    assert lake.waiting() == {}


def test_files_of_a_purge_that_another_run_has_only_begun_are_left_to_it() -> None:
    lake, _, fast, slow = two_purges()
    services = lake.services()
    begun = services.control.plans.move(fast, PlanState.APPLYING)
    (stale, passed) = judge(services, slow)
    assert (stale.state, passed.state) == (PlanState.STALE, PlanState.PASSED)
    items = services.files.items.of([fast.id, passed.id])
    assert not {f.path for f in items[fast.id]} & {f.path for f in items[passed.id]}
    assert conclude(lake, [begun, passed]).exit_code == 0
    assert lake.waiting() == {}


def conclude(lake: Lake, judged: Sequence[Plan]) -> Summary:
    """Purges what was judged; nothing that is needed may be missing afterwards."""
    run = Run(lake.services(), replace(lake.request(), run_id=judged[-1].run_id))
    run.purge()
    lake.check_nothing_is_missing()
    return run.summary


class _Once:
    """A ledger during one of whose calls somebody else does something, the first time."""

    def __init__(self, ledger: object, call: str, act: Callable[[], object]) -> None:
        self._ledger, self._call, self._act = ledger, call, act
        self.done = False

    def __getattr__(self, name: str) -> object:
        if name == self._call and not self.done:
            self.done = True
            found = getattr(self._ledger, name)()
            self._act()
            return lambda: found
        return getattr(self._ledger, name)


def test_stop_holds_back_the_commit_and_the_purge() -> None:
    lake, table = overwritten()
    plan = expiration(lake)
    lake.control.switch.set(StopSwitch("eva", "an audit", lake.clock.moment))
    (done,) = apply_expirations(lake.services(), [plan])
    assert isinstance(done.error, Stopped) and len(table.snapshots) == 4
    lake.control.switch.set(None)
    assert apply_expirations(lake.services(), [plan])[0].snapshots_expired == 3
    lake.on(20)
    last = purge(lake)
    lake.control.switch.set(StopSwitch("eva", "an audit", lake.clock.moment))
    (purged,) = apply_purges(lake.services(), [last])
    assert isinstance(purged.error, Stopped) and lake.deleter.deleted == []


def test_a_ledger_of_another_generation_destroys_nothing() -> None:
    lake, _, plan = departed()
    lake.control.database.set_generation(7)
    (purged,) = apply_purges(lake.services(), [plan])
    assert isinstance(purged.error, LedgerOutOfStep) and lake.deleter.deleted == []


def test_a_clock_behind_the_ledger_purges_nothing() -> None:
    lake, _, plan = departed()
    lake.clock.moment -= DAY
    (purged,) = apply_purges(lake.services(), [plan])
    assert isinstance(purged.error, ClockRefused) and lake.deleter.deleted == []


def test_a_file_that_a_new_table_refers_to_since_the_gate_is_taken_back() -> None:
    # AR-51
    lake, table, plan = departed()
    path = table.data("f0")
    back = lake.register("lake.air.again", _old_metadata(lake, table))
    (purged,) = apply_purges(lake.services(), [plan])
    assert purged.error is None
    assert path not in lake.deleter.deleted and path in lake.paths()
    assert back.snapshots
    cancelled = lake.files.departures.in_states(frozenset({DepartureState.CANCELLED}))
    assert path in {departure.path for departure in cancelled}
    assert any(entry.action == "cancel departure" for entry in lake.control.audit.entries())


def _old_metadata(lake: Lake, table: Table) -> str:
    """The metadata file that the expiration replaced: it still describes what was expired."""
    return str(table.document["metadata-log"][-1]["metadata-file"])


def test_a_purge_over_the_limit_needs_a_person() -> None:
    lake, _ = overwritten()
    lake.limits = replace(ROOMY, approve_above=1)
    lake.run()
    lake.on(20)
    plan = purge(lake)
    (purged,) = apply_purges(lake.services(), [plan])
    assert isinstance(purged.error, ApprovalMissing) and lake.deleter.deleted == []


def test_a_catalog_that_cannot_be_listed_stops_all_purging_and_expires_what_it_can() -> None:
    lake = Lake(other_catalogs=("theirs",))
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12).run()
    assert lake.waiting()
    lake.catalogs["theirs"].unlistable = "no answer"
    summary = lake.on(20).run()
    assert lake.deleter.deleted == [] and summary.exit_code == 4
    assert "theirs" in summary.notes[0]
    lake.catalogs["theirs"].unlistable = ""
    lake.run()
    assert lake.deleter.deleted


def test_an_unreadable_table_holds_back_its_group_and_no_other() -> None:
    lake = Lake()
    source, alone = lake.on(0).table("source"), lake.table("alone")
    source.overwrite("s0")
    alone.overwrite("a0")
    copy = lake.clone(source, "lake.air.copy")
    lake.on(1)
    source.overwrite("s1")
    alone.overwrite("a1")
    lake.on(2).run()
    content = lake.spoil(copy.metadata_location)
    # Not by lake.run(): its own walk could not read the spoilt table either.
    lake.on(12)
    tables = run_chain(lake.services(), lake.request()).tables
    assert "copy" in tables["lake.air.source"].skipped
    assert tables["lake.air.alone"].snapshots_expired == 1
    assert len(source.snapshots) == 2
    lake.mend(copy.metadata_location, content)
    assert lake.run().tables["lake.air.source"].snapshots_expired == 1


def test_a_dropped_second_name_that_cannot_be_read_holds_back_the_table() -> None:
    lake = Lake(unique=lambda: str(lake.next_id()))
    table = lake.on(0).table("t")
    table.overwrite("first")
    second = lake.register("lake.air.second", table.metadata_location)
    second.append("its_own")
    table.overwrite("later")
    lake.on(1).run()
    left_at = second.catalog.drop(second.name)
    content = lake.spoil(left_at)
    for day in (12, 24):
        run_chain(lake.on(day).services(), lake.request())
        assert lake.deleter.deleted == [] and lake.waiting() == {}
    lake.mend(left_at, content)
    # It has been gone for longer than its retention: now that its files are known, they wait.
    lake.on(36).run()
    assert table.data("its_own") in lake.waiting() and table.data("first") in lake.waiting()
    for day in (44, 52):
        lake.on(day).run()
    assert lake.paths().isdisjoint({table.data("its_own"), table.data("first")})
    assert table.data("later") in lake.paths()


def test_a_proof_sees_what_was_committed_since_it_began() -> None:
    lake, table, plan = departed()
    services = lake.services()
    paths = [file.path for file in services.files.items.of([plan.id])[plan.id]]
    proof = PurgeRecheck.of(services, paths)
    assert table.data("f0") in paths and proof.still_needed(paths) == set()
    table.append("f0")
    assert proof.still_needed(paths) == {table.data("f0")}


@pytest.mark.parametrize("seen_since", [False, True])
def test_a_proof_knows_a_snapshot_by_its_list_and_not_by_its_id(seen_since: bool) -> None:
    lake, table, plan = departed()
    services = lake.services()
    paths = [file.path for file in services.files.items.of([plan.id])[plan.id]]
    proof = PurgeRecheck.of(services, paths)
    assert proof.still_needed(paths) == set()
    if seen_since:
        table.append("new")
        assert proof.still_needed(paths) == set()
    before = table.head
    again = table.manifest_list(table.append("f0"))

    def set_back(document: dict[str, Any]) -> None:
        """The snapshot that was there before, as one that refers to the file again."""
        document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] == before]
        document["snapshots"][0]["manifest-list"] = again
        document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = before

    table.edit(set_back)
    assert proof.still_needed(paths) == {table.data("f0")}
