"""A new object under the path of a waiting file is not the one that departed: it stays (DS-12)."""

from datetime import timedelta

import pytest

from meltline.app.doctor.init import init
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gated_plans import judge
from meltline.app.run.lifecycle import Run
from meltline.app.safety.switches import arm, go, stop
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.iceberg.files import DepartureState
from tests.lake.lake import DAY, MINUTE, T0, Lake, MovingClock, Table
from tests.lake.swept import swept
from tests.lives.restored_ledgers import backup_of, restore

BODY = 100  # what an engine's file holds besides its path's length


def departed(*, sandbox: bool = False) -> tuple[Lake, Table]:
    """A table of four snapshots, the first three of which were expired on day 12."""
    lake = Lake(sandbox=sandbox, clock=MovingClock(simulated=sandbox))
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12).run()
    assert table.data("f0") in lake.waiting()
    return lake, table


def size_of(path: str) -> int:
    return BODY + len(path)


@pytest.mark.parametrize("more", [1, 0, -1], ids=["longer", "of the same size", "shorter"])
def test_a_new_object_under_the_path_of_a_waiting_file_is_kept_and_named(more: int) -> None:
    lake, table = departed()
    path, others = table.data("f0"), [table.data("f1"), table.data("f2")]
    content = b"n" * (size_of(path) + more)
    lake.on(15).store.write(path, content)
    summary = lake.on(20).run()
    assert lake.store.read(path) == content
    assert not set(others) & lake.paths()
    (left,) = lake.files.departures.in_states(frozenset(DepartureState), paths=[path])
    assert left.was_left and path not in lake.deleter.deleted
    assert summary.exit_code == 0
    assert any(path in notice for notice in summary.notices)
    (entry,) = [e for e in lake.control.audit.entries() if e.action == "keep replaced file"]
    assert entry.detail.splitlines()[0].startswith(path)
    assert summary.tables["lake.air.t"].files_purged == len(lake.deleter.deleted)
    assert not lake.on(21).run().plans, "it is not tried again"


def test_one_that_is_written_between_the_gate_and_the_delete_is_kept_too() -> None:
    lake, table = departed()
    services = lake.on(20).services()
    run = Run(services, lake.request())
    run.plan_purge()
    run.gate_purge()
    lake.store.write(table.data("f0"), b"new")
    run.purge()
    assert lake.store.read(table.data("f0")) == b"new"
    assert table.data("f1") not in lake.paths()


def test_a_copy_that_a_person_put_back_is_newer_than_the_departure_and_is_kept() -> None:
    lake, table = departed()
    path = table.data("f0")
    content = lake.store.read(path)
    lake.on(19.9)
    lake.store.write(path, content)
    lake.on(20).run()
    assert lake.store.read(path) == content


@pytest.mark.parametrize(("before", "kept"), [(4, True), (6, False)])
def test_the_store_s_clock_may_be_five_minutes_behind(before: int, kept: bool) -> None:
    lake, table = departed()
    path = table.data("f0")
    lake.clock.moment -= before * MINUTE
    lake.store.write(path, lake.store.read(path))
    lake.on(20).run()
    assert (path in lake.paths()) is kept


def test_what_was_kept_is_swept_as_any_file_that_nothing_refers_to() -> None:
    lake, table = departed()
    path = table.data("f0")
    lake.on(15).store.write(path, b"new")
    lake.on(20).run()
    swept(lake, 22, 29)
    lake.on(35.9).run()
    assert path in lake.paths()
    lake.on(36).run()
    assert path not in lake.paths()


def test_what_was_kept_may_be_committed_again() -> None:
    lake, table = departed()
    path = table.data("f0")
    lake.on(15).store.write(path, b"new")
    lake.on(20).run()
    table.append("f0")
    for day in (21, 28, 36):
        lake.on(day).run()
    assert lake.store.read(path) == b"new"


def test_in_a_sandbox_times_count_up_to_its_present_and_sizes_always() -> None:
    lake, table = departed(sandbox=True)
    later, larger, to_come = (table.data(name) for name in ("f0", "f1", "f2"))
    content = lake.store.read(later), lake.store.read(to_come)
    lake.on(15)
    lake.store.write(later, content[0])
    lake.on(99)  # the machine's own time, where the simulated one is that of some past days
    lake.store.write(larger, b"new")
    lake.store.write(to_come, content[1])
    lake.on(20).run()
    assert {later, larger} <= lake.paths() and to_come not in lake.paths()


@pytest.mark.parametrize(
    ("size", "time", "kept"),
    [(7, DAY, False), (7, 3 * DAY, True), (7, 9 * DAY, False), (8, DAY, True), (8, 9 * DAY, True)],
)
def test_a_size_that_was_recorded_counts_first(size: int, time: timedelta, kept: bool) -> None:
    departed = DepartedObject("p", 7, T0 + 2 * DAY, T0 + 5 * DAY)
    assert bool(departed.unlike(size, T0 + time)) is kept


@pytest.mark.parametrize(("days", "kept"), [(1, False), (3, True), (9, True)])
def test_where_no_size_was_recorded_the_time_alone_decides_and_without_it_all_is_kept(
    days: int, kept: bool
) -> None:
    departed = DepartedObject("p", 0, T0 + 2 * DAY, T0 + 5 * DAY)
    assert bool(departed.unlike(8, T0 + days * DAY)) is kept


def test_a_purge_that_keeps_some_is_applied_and_counts_only_what_it_took() -> None:
    lake, table = departed()
    lake.on(15).store.write(table.data("f0"), b"new")
    services = lake.on(20).services()
    planned = Run(services, lake.request()).plan_purge()
    judged = judge(services, [p.plan for p in planned])
    (purged,) = apply_purges(services, judged)
    assert purged.error is None and purged.failed == ()
    assert purged.files_purged == purged.plan.files - 1
    assert [path for path, _ in purged.replaced] == [table.data("f0")]


def test_a_ledger_that_is_adopted_knows_what_a_purge_has_left() -> None:
    lake, table = departed()
    path = table.data("f0")
    lake.on(15).store.write(path, lake.store.read(path))  # as long as what departed
    lake.on(20).run()
    before = backup_of(lake)
    stop(lake.services(), "a fire")
    restore(lake, before)
    init(lake.services(), adopt=True)
    go(lake.services())
    arm(lake.services(), "lake", "after the fire")
    for day in (28, 40):
        lake.on(day).run()
    assert path in lake.paths()
