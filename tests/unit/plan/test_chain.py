"""The chain over days, on an in-memory lake with real metadata, manifest lists and manifests.

The lake's deleter holds every delete against a walk of all metadata at that very moment, and each
run ends with a look for files that are needed and gone.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations

import pytest

from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.run.gate_step import run_gate
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import AsOfInFuture
from meltline.domain.iceberg.files import DepartureState, PlannedFile
from tests.lake.lake import DAY, T0, Lake, Table, business

FAILSAFE = timedelta(days=7)
MS = timedelta(milliseconds=1)


def daily(lake: Lake, days: int, name: str = "t") -> Table:
    """A table that is overwritten every day."""
    table = lake.on(0).table(name)
    for day in range(days):
        lake.on(day)
        table.overwrite(f"{name}{day}")
    return table


def rows_written(lake: Lake) -> tuple[int, int]:
    return len(lake.files.departures.in_states(frozenset(DepartureState))), len(
        lake.control.plans.find()
    )


def test_a_second_run_right_away_changes_nothing_but_the_run_record() -> None:
    lake = Lake()
    table = daily(lake, 12)
    lake.on(12).run()
    before = (table.metadata_location, rows_written(lake), lake.paths())
    summary = lake.run()
    assert summary.plans == {}
    assert (table.metadata_location, rows_written(lake), lake.paths()) == before


def test_failsafe_ends_exactly_at_its_time_and_not_a_millisecond_before() -> None:
    # ML-13
    lake = Lake()
    daily(lake, 12)
    lake.on(12).run()
    waiting = lake.waiting()
    assert waiting and set(waiting.values()) == {lake.clock.moment + FAILSAFE}
    lake.clock.moment += FAILSAFE - MS
    lake.run()
    assert lake.deleter.deleted == []
    lake.clock.moment += MS
    lake.run()
    assert set(waiting) <= set(lake.deleter.deleted)


def test_a_backfill_of_past_days_within_an_hour_deletes_nothing_it_has_just_expired() -> None:
    # PX-7
    lake = Lake()
    daily(lake, 30)
    lake.on(30)
    for day in range(10, 31):
        lake.clock.moment += timedelta(minutes=2)
        lake.run(as_of=T0 + day * DAY)
    assert lake.waiting()
    assert lake.deleter.deleted == []


def test_past_days_in_any_order_end_in_the_same_state() -> None:
    # PX-8
    ends = set()
    for order in permutations((12, 15, 18)):
        lake = Lake()
        table = daily(lake, 18)
        lake.on(18)
        for day in order:
            lake.run(as_of=T0 + day * DAY)
        ends.add((tuple(table.snapshots), tuple(sorted(lake.waiting()))))
    assert len(ends) == 1


def test_an_as_of_that_has_not_come_is_refused() -> None:
    lake = Lake()
    with pytest.raises(AsOfInFuture):
        lake.on(1).run(as_of=T0 + 2 * DAY)


def test_with_thirty_days_of_window_a_file_goes_between_day_37_and_39() -> None:
    lake = Lake(account=business(retention_days=30))
    table = lake.on(0).table("t")
    table.overwrite("old")
    old = table.data("old")
    lake.on(1)
    table.overwrite("new")  # from here on the old file is history
    gone_on = None
    for day in range(2, 45):
        lake.on(day).run()
        if gone_on is None and old in lake.deleter.deleted:
            gone_on = day - 1
    assert gone_on is not None and 37 <= gone_on <= 39


def test_files_of_a_transient_table_wait_one_day() -> None:
    # ML-13
    lake = Lake()
    table = lake.on(0).table("t", properties={"meltline.transient": "true"})
    for day in range(6):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(6).run()
    assert set(lake.waiting().values()) == {lake.clock.moment + DAY}


def test_with_no_retention_replaced_files_wait_in_failsafe_all_the_same() -> None:
    # ML-14, TT-10
    lake = Lake(account=business(retention_days=0))
    table = lake.on(0).table("t")
    table.overwrite("a")
    lake.on(1)
    table.overwrite("b")
    lake.on(1.5).run()
    assert table.data("a") in lake.waiting()
    assert lake.deleter.deleted == []


def test_with_no_retention_a_query_under_way_reads_on_for_the_grace_of_readers() -> None:
    lake = Lake(account=business(retention_days=0, reader_grace=timedelta(hours=6)))
    table = lake.on(0).table("t")
    first = table.overwrite("a")
    lake.on(1)
    table.overwrite("b")
    lake.on(1.2).run()
    assert first in table.snapshots
    lake.on(1.25).run()
    assert first in table.snapshots
    lake.on(1.3).run()
    assert first not in table.snapshots


def test_a_gate_refuses_what_a_planner_without_grace_has_planned() -> None:
    lake = Lake(account=business(retention_days=0, reader_grace=timedelta(0)))
    table = lake.on(0).table("t")
    table.overwrite("a")
    lake.on(1)
    table.overwrite("b")
    lake.on(1.2)
    services = lake.services()
    observation, request = observe(services), lake.request()
    (planned,) = plan_expiration(services, observation, run_id=request.run_id, as_of=request.as_of)
    lake.account = business(retention_days=0, reader_grace=timedelta(hours=6))
    ((_, verdict),) = run_gate(lake.services(), [planned.plan])
    assert [failed.fact for failed in verdict.failed] == ["planned_in_window"]


def test_a_file_that_two_tables_share_goes_when_the_last_one_lets_go() -> None:
    lake = Lake()
    source = lake.on(0).table("source")
    source.overwrite("shared")
    shared = source.data("shared")
    lake.on(1)
    copy = lake.clone(source, "lake.air.copy")
    source.overwrite("s1")
    for day in range(2, 30):
        lake.on(day).run()
    assert shared not in lake.deleter.deleted and shared in lake.paths()
    copy.overwrite("c1")
    for day in range(30, 60):
        lake.on(day).run()
    assert shared in lake.deleter.deleted


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_is_expired_and_purged(version: int) -> None:
    lake = Lake()
    table = lake.on(0).table("t", version=version)
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    for day in (12, 20):
        lake.on(day).run()
    assert table.data("f0") in lake.deleter.deleted
    assert table.data("f3") in lake.paths()
    assert len(table.snapshots) == 1


def test_statistics_go_with_their_snapshot() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    path = table.statistics(table.overwrite("a"))
    lake.on(1)
    kept = table.statistics(table.overwrite("b"))
    for day in (12, 20):
        lake.on(day).run()
    assert path in lake.deleter.deleted and kept in lake.paths()


@pytest.mark.parametrize("key", ["statistics", "partition-statistics"])
def test_a_statistics_entry_that_names_a_live_data_file_of_another_table_is_never_planned(
    key: str,
) -> None:
    lake = Lake()
    table, other = lake.on(0).table("t"), lake.table("other")
    other.append("live")
    live, first = other.data("live"), table.overwrite("a")
    entry = {"snapshot-id": first, "statistics-path": live, "file-size-in-bytes": 50}
    entry |= {"file-footer-size-in-bytes": 10, "blob-metadata": []}
    table.edit(lambda document: document[key].append(entry))
    lake.on(1)
    table.overwrite("b")
    for day in (12, 20, 28):
        assert lake.on(day).run().exit_code == 0
    assert len(table.snapshots) == 1  # it went on expiring
    assert live in lake.paths()
    assert all(f.path != live for files in planned(lake) for f in files)
    other.overwrite("newer")
    for day in (40, 60):
        lake.on(day).run()
    assert live in lake.deleter.deleted  # and once nothing needs it, it goes


def test_a_data_file_that_a_statistics_entry_still_names_stays() -> None:
    lake = Lake()
    table, other = lake.on(0).table("t"), lake.table("other")
    other.append("named")
    path, head = other.data("named"), table.append("a")
    entry = {"snapshot-id": head, "statistics-path": path, "file-size-in-bytes": 50}
    entry |= {"file-footer-size-in-bytes": 10, "blob-metadata": []}
    table.edit(lambda document: document["statistics"].append(entry))
    lake.on(1).run()
    other.overwrite("newer")
    for day in (12, 20, 28):
        assert lake.on(day).run().exit_code == 0
    assert path in lake.paths()


def planned(lake: Lake) -> list[Sequence[PlannedFile]]:
    """The items of every plan that was ever stored."""
    return list(lake.files.items.of([plan.id for plan in lake.control.plans.find()]).values())


def test_sibling_tables_with_a_common_prefix_do_not_touch_each_other() -> None:
    lake = Lake()
    one, other = lake.on(0).table("tbl"), lake.table("tbl_backup")
    for day in range(3):
        lake.on(day)
        one.overwrite(f"a{day}")
        other.append(f"b{day}")
    for day in (12, 20):
        lake.on(day).run(tables=("lake.air.tbl",))
    assert lake.deleter.deleted
    assert all(path.startswith("file:///w/air/tbl/") for path in lake.deleter.deleted)


def test_a_table_nested_in_another_keeps_its_files_when_the_outer_one_expires() -> None:
    lake = Lake()
    outer = daily(lake, 5, "outer")
    inner = lake.table("inner", location=f"{outer.location}/data/inner")
    inner.append("i")
    for day in (15, 23):
        lake.on(day).run(tables=("lake.air.outer",))
    assert lake.deleter.deleted
    assert inner.data("i") in lake.paths()


def test_another_catalogs_references_count_and_nothing_of_it_is_changed() -> None:
    lake = Lake(other_catalogs=("theirs",))
    source = lake.on(0).table("source")
    source.overwrite("shared")
    copy = lake.clone(source, "theirs.x.copy")
    before = copy.metadata_location
    lake.on(1)
    source.overwrite("s1")
    for day in (12, 20, 40):
        lake.on(day).run()
    assert source.data("shared") in lake.paths()
    assert copy.metadata_location == before


@pytest.mark.parametrize("word", ["false", "no", "FALSE", "0", ""])
def test_a_table_that_opts_out_is_left_alone(word: str) -> None:
    lake = Lake()
    table = daily(lake, 5)
    table.configure(**{"meltline.enabled": word})
    for day in (20, 40):
        lake.on(day).run()
    assert len(table.snapshots) == 5 and lake.deleter.deleted == []


def test_a_dropped_tables_files_stay_for_its_retention_from_the_day_it_was_missed() -> None:
    lake = Lake()
    table = daily(lake, 5)
    lake.on(5).run()
    files = lake.paths()
    table.drop()
    for day in (20, 24, 27):
        lake.on(day).run()
    assert files <= lake.paths() and lake.waiting() == {}
    lake.on(28).run()
    assert lake.waiting()


def test_files_that_another_tool_has_expired_and_left_lying_depart_too() -> None:
    lake = Lake()
    table = daily(lake, 3)
    lake.on(3).run()
    first = table.snapshots[0]
    table.expire_elsewhere(first)
    lake.on(4).run()
    assert table.data("t0") in lake.waiting()
    lake.on(12).run()
    assert table.data("t0") in lake.deleter.deleted


def test_a_table_whose_files_a_clone_still_reads_gets_one_plan_that_passes() -> None:
    lake = Lake()
    source = lake.on(0).table("t")
    source.append("a", "b")
    copy = lake.clone(source, "lake.air.copy")
    lake.on(1)
    source.overwrite("c")
    lake.on(2)
    copy.append("d")
    summary = lake.on(12).run()
    assert {plan.state for plan in summary.plans.values()} == {PlanState.APPLIED}
    assert len(source.snapshots) == 1
    assert source.data("a") not in lake.waiting()


def test_two_names_of_one_table_expire_by_plans_that_pass() -> None:
    lake = Lake()
    table = daily(lake, 3)
    other = lake.register("lake.air.again", table.metadata_location)
    lake.on(4)
    table.overwrite("late")
    summary = lake.on(9).run(tables=("lake.air.t",))
    assert {plan.state for plan in summary.plans.values()} <= {PlanState.APPLIED}
    assert {other.data(f"t{day}") for day in range(3)} <= lake.paths()
    assert not lake.waiting().keys() & lake.needed()
