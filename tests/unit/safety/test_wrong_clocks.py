"""A clock that was ahead holds nothing back for ever, and nothing goes early for a wrong clock."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.purge.approvals import approve
from meltline.app.purge.purge import apply_purges
from meltline.app.retention.clock_override import disown
from meltline.app.retention.leases import acquire_lease
from meltline.app.safety.preconditions import require_not_behind
from meltline.domain.errors import ApprovalMissing, ClockRefused, GateNotPassed, UsageInvalid
from meltline.domain.units import format_instant
from tests.lake.lake import DAY, MINUTE, ROOMY, Lake, Table
from tests.unit.plan.test_guards import two_tables_in_failsafe

AHEAD = 400 * DAY


def ahead(lake: Lake, act: Callable[[], Any], span: timedelta = AHEAD) -> datetime:
    """Something is done while the clock is ahead. Returns its wrong time."""
    lake.clock.moment += span
    then = lake.clock.moment
    act()
    lake.clock.moment -= span
    return then


def note(lake: Lake) -> None:
    """Any write to the ledger."""
    lake.control.observations.save_sightings({})


def aged(lake: Lake, name: str = "one") -> Table:
    table = lake.on(0).table(name)
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    return table


def newest(lake: Lake) -> datetime:
    found = lake.control.database.newest_time()
    assert found is not None
    return found


# --- the way out ----------------------------------------------------------------------------------


def test_a_clock_that_was_once_ahead_is_refused_with_the_way_out() -> None:
    lake, _, plans = two_tables_in_failsafe()
    then = ahead(lake, lambda: note(lake))
    (first, _) = apply_purges(lake.services(), plans)
    assert isinstance(first.error, ClockRefused)
    assert f"meltline clock disown {format_instant(then)} --reason" in first.error.next
    (found,) = [one for one in examine(lake.services()) if one.code == "clock_behind"]
    assert "meltline clock disown" in found.fix
    with pytest.raises(ClockRefused):
        lake.run()


@pytest.mark.parametrize("sandbox", [True, False])
def test_in_a_sandbox_the_refusal_names_the_simulated_clock(sandbox: bool) -> None:
    lake, _, _ = two_tables_in_failsafe()
    then = format_instant(ahead(lake, lambda: note(lake)))
    ledgers = lake.services(config=replace(lake.config(), sandbox=sandbox))
    with pytest.raises(ClockRefused) as refused:
        require_not_behind(ledgers)
    assert refused.value.next.startswith(f"in a sandbox set MELTLINE_NOW to {then}") == sandbox
    assert "meltline clock disown" in refused.value.next


def test_a_person_s_word_lets_it_go_on_at_once_and_is_audited() -> None:
    lake, tables, _ = two_tables_in_failsafe()
    then = ahead(lake, lambda: note(lake))
    done = disown(lake.services(), then, "the battery of the old controller was empty")
    assert newest(lake) >= done.word.at == lake.clock.moment
    assert newest(lake) < then
    assert lake.run().exit_code == 0
    assert tables[0].data("f0") in lake.deleter.deleted
    (word,) = lake.control.decisions.disowned_times()
    assert (word.recorded, word.who) == (then, "tester")
    (entry,) = [one for one in lake.control.audit.entries() if one.action == "clock disown"]
    assert entry.object == format_instant(then) and "battery" in entry.reason


def test_the_word_is_for_that_instant_and_the_next_wrong_clock_is_found_again() -> None:
    lake, _, plans = two_tables_in_failsafe()
    then = ahead(lake, lambda: note(lake))
    disown(lake.services(), then, "it was wrong")
    lake.clock.moment -= DAY  # now it is behind
    (purged, _) = apply_purges(lake.services(), plans)
    assert isinstance(purged.error, ClockRefused)
    lake.clock.moment += DAY
    again = ahead(lake, lambda: note(lake), AHEAD + DAY)
    (purged, _) = apply_purges(lake.services(), plans)
    assert isinstance(purged.error, ClockRefused)
    with pytest.raises(UsageInvalid):
        disown(lake.services(), then, "it was wrong")
    disown(lake.services(), again, "once more")
    assert len(lake.control.decisions.disowned_times()) == 2


@pytest.mark.parametrize(
    ("moved", "reason"), [(timedelta(0), " "), (MINUTE, "why"), (-MINUTE, "why")]
)
def test_another_instant_or_no_reason_is_refused(moved: timedelta, reason: str) -> None:
    lake = Lake()
    then = ahead(lake, lambda: note(lake))
    with pytest.raises(UsageInvalid):
        disown(lake.services(), then + moved, reason)
    assert newest(lake) == then and not lake.control.decisions.disowned_times()


def test_a_time_that_has_come_cannot_be_disowned() -> None:
    lake = Lake()
    note(lake)
    with pytest.raises(UsageInvalid):
        disown(lake.services(), newest(lake), "why")


def test_a_lock_that_was_taken_by_that_clock_is_free() -> None:
    lake = Lake()
    lake.lease_time.seconds += AHEAD.total_seconds()
    note(lake)
    lake.control.locks.rows.take({"group": "a run that was killed"}, timedelta(minutes=2))
    lake.lease_time.seconds -= AHEAD.total_seconds()
    then = ahead(lake, lambda: note(lake))
    assert lake.control.locks.rows.holding("group") is not None
    disown(lake.services(), then, "it was wrong")
    assert lake.control.locks.rows.holding("group") is None


# --- what a clock that was ahead has dated --------------------------------------------------------


def test_files_that_departed_by_it_wait_their_whole_failsafe_anew_and_no_less() -> None:
    lake = Lake()
    aged(lake)
    then = ahead(lake, lake.run)
    assert lake.waiting() and all(due > then for due in lake.waiting().values())
    disown(lake.services(), then, "it was wrong")
    assert set(lake.waiting().values()) == {lake.clock.moment + 7 * DAY}
    lake.clock.moment += 7 * DAY - MINUTE
    lake.run()
    assert lake.deleter.deleted == []
    lake.clock.moment += MINUTE
    lake.run()
    assert lake.deleter.deleted


def test_a_gate_that_ran_by_it_lets_nothing_pass() -> None:
    lake, _, plans = two_tables_in_failsafe()
    results = lake.control.verdicts.newest([plan.id for plan in plans])
    lake.control.verdicts.save(
        [
            replace(one, ran_at=one.ran_at + AHEAD, valid_until=one.valid_until + AHEAD)
            for one in results.values()
        ]
    )
    for purged in apply_purges(lake.services(), plans):
        assert isinstance(purged.error, GateNotPassed)
    assert lake.deleter.deleted == []


def test_an_approval_that_was_given_by_it_does_not_count() -> None:
    lake, _, plans = two_tables_in_failsafe(replace(ROOMY, approve_above=0))
    then = ahead(lake, lambda: approve(lake.services(), plans, "seen"))
    disown(lake.services(), then, "it was wrong")
    for purged in apply_purges(lake.services(), plans):
        assert isinstance(purged.error, ApprovalMissing)
    approve(lake.services(), plans, "seen")
    for purged in apply_purges(lake.services(), plans):
        assert purged.error is None


def test_a_lease_that_was_acquired_by_it_lasts_as_one_of_now() -> None:
    lake = Lake()
    table = aged(lake)
    lake.run()
    hour = timedelta(hours=1)
    then = ahead(lake, lambda: acquire_lease(lake.services(), table.name, None, hour))
    done = disown(lake.services(), then, "it was wrong")
    (lease,) = lake.control.leases.active(lake.clock.moment)
    assert done.leases == 1 and lease.expires_at == lake.clock.moment + hour


def test_what_it_dropped_or_committed_is_named_with_the_way_out() -> None:
    lake = Lake()
    table, other = aged(lake), aged(lake, "two")
    lake.run()

    def act() -> None:
        other.append("late")
        drop(lake.services(), str(table.name))

    then = ahead(lake, act)
    left = disown(lake.services(), then, "it was wrong").remaining
    assert any(f"meltline undrop {table.name}" in line for line in left)
    assert any(str(other.name) in line for line in left)


def test_a_catalog_that_cannot_be_listed_is_named_and_hides_nothing_of_the_others() -> None:
    lake = Lake(other_catalogs=("theirs",))
    table, other = aged(lake), aged(lake, "two")
    lake.run()

    def act() -> None:
        other.append("late")
        drop(lake.services(), str(table.name))

    then = ahead(lake, act)
    lake.catalogs["theirs"].unlistable = "no answer"
    left = disown(lake.services(), then, "it was wrong").remaining
    assert [line for line in left if "theirs" in line and "is not known" in line]
    assert any(f"meltline undrop {table.name}" in line for line in left)
    assert any(str(other.name) in line for line in left)


# --- a clock that is behind -----------------------------------------------------------------------


def test_nothing_expires_by_a_clock_that_is_behind_so_nothing_departs_too_early() -> None:
    lake = Lake()
    table = aged(lake)
    lake.on(30)
    note(lake)
    before = len(table.snapshots)
    lake.table("new")
    lake.clock.moment -= 10 * DAY
    with pytest.raises(ClockRefused):
        lake.run()
    assert len(table.snapshots) == before and lake.waiting() == {}
    assert list(lake.control.registrations.all()) == []  # it has not even looked, and dated nothing
    with pytest.raises(ClockRefused):
        drop(lake.services(), str(table.name))
    with pytest.raises(ClockRefused):
        acquire_lease(lake.services(), table.name, None, timedelta(hours=1))


def test_a_clock_that_is_a_little_behind_lets_files_wait_from_the_ledger_s_newest_time() -> None:
    lake = Lake()
    aged(lake)
    lake.on(30)
    note(lake)
    at = lake.clock.moment
    lake.clock.moment -= 4 * MINUTE
    with pytest.raises(ClockRefused):  # it purges nothing
        lake.run()
    assert set(lake.waiting().values()) == {at + 7 * DAY}
