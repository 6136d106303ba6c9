"""Time travel: which snapshot a point means, and when the answer is an error and never a guess."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.drop.drop import drop
from meltline.app.refs.tags import add_tag
from meltline.app.retention.policies import change_policy
from meltline.app.time_travel.query import SchemaChoice, locate, query
from meltline.domain.errors import (
    ObjectDropped,
    OutsideRetention,
    RefNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import RETENTION
from meltline.domain.time_travel.timetravel import (
    Moment,
    PointSide,
    Resolved,
    StatementPoint,
    TagPoint,
    TravelPoint,
    moment_of_offset,
)
from meltline.ports import Lease, PastView, ReadColumn, ReadRows
from tests.lake.lake import DAY, T0, Lake, Table

MS = timedelta(milliseconds=1)
Selector = Moment | StatementPoint | TagPoint


def daily(count: int = 4, version: int = 2) -> tuple[Lake, Table]:
    """A table overwritten every day from day 0 on; it is noon of the last day."""
    lake = Lake()
    table = lake.on(0).table("t", version=version)
    for day in range(count):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(count - 0.5)
    return lake, table


def found(lake: Lake, table: Table, side: PointSide, to: Selector) -> Resolved:
    return locate(lake.services(), table.name, TravelPoint(side, to)).resolved


def at(lake: Lake, table: Table, day: float) -> int | None:
    return found(lake, table, PointSide.AT, Moment(T0 + day * DAY)).snapshot_id


def before(lake: Lake, table: Table, day: float) -> int | None:
    return found(lake, table, PointSide.BEFORE, Moment(T0 + day * DAY)).snapshot_id


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_at_includes_a_change_at_that_very_instant_and_before_does_not(version: int) -> None:
    # TT-27
    lake, table = daily(version=version)
    first, second, third, _ = table.snapshots
    assert (at(lake, table, 1), before(lake, table, 1)) == (second, first)
    assert (at(lake, table, 1.5), before(lake, table, 1.5)) == (second, second)
    assert at(lake, table, 2) == third


def test_the_answer_says_from_when_to_when_the_snapshot_was_current() -> None:
    lake, table = daily()
    _, second, _, last = table.snapshots
    old = found(lake, table, PointSide.AT, Moment(T0 + 1.5 * DAY))
    assert old == Resolved(second, T0 + DAY, T0 + 2 * DAY)
    assert found(lake, table, PointSide.AT, Moment(lake.clock.now())) == Resolved(
        last, T0 + 3 * DAY, None
    )


def test_a_quiet_table_is_read_at_a_snapshot_far_older_than_the_window() -> None:
    lake, table = daily(1)
    lake.on(400).run()
    assert at(lake, table, 394) == table.head
    with pytest.raises(OutsideRetention):
        at(lake, table, 392)


def test_after_a_rollback_each_time_has_what_was_current_then() -> None:
    lake, table = daily()
    first, second, third, fourth = table.snapshots
    lake.on(4)
    table.rollback(first)
    lake.on(5)
    fifth = table.append("g")
    lake.on(5.5)
    got = [at(lake, table, day + 0.1) for day in range(6 - 1)] + [at(lake, table, 5)]
    assert got == [first, second, third, fourth, first, fifth]
    assert before(lake, table, 4) == fourth and before(lake, table, 5) == first


def test_two_commits_in_one_millisecond_are_told_apart_by_at_and_before() -> None:
    lake, table = daily(2)
    table.append("a")
    table.append("b")
    assert found(lake, table, PointSide.AT, Moment(lake.clock.now())).snapshot_id == table.head
    now = lake.clock.now()
    assert found(lake, table, PointSide.BEFORE, Moment(now)).snapshot_id == table.snapshots[1]


def test_a_commit_on_a_branch_is_no_past_of_main() -> None:
    lake, table = daily(2)
    table.branch("b", table.head)
    table.append("x", ref="b")
    lake.on(3)
    assert at(lake, table, 2.9) == table.head == table.snapshots[1]


# --- the window -----------------------------------------------------------------------------------


def test_the_very_edge_of_the_window_is_inside() -> None:
    lake, table = daily(20)  # the window is seven days: from day 12.5 on
    assert at(lake, table, 12.5) == table.snapshots[12]
    edge = Moment(T0 + 12.5 * DAY - MS)
    with pytest.raises(OutsideRetention) as refused:
        found(lake, table, PointSide.AT, edge)
    assert "2026-01-13T12:00:00Z" in refused.value.expected and "7d" in refused.value.expected
    assert "2026-01-20T12:00:00Z" in refused.value.expected


def test_outside_the_window_is_an_error_although_the_snapshot_is_still_there() -> None:
    # TT-2, TT-32
    lake, table = daily(20)
    table.tag("old", table.snapshots[2])
    for side in PointSide:
        with pytest.raises(OutsideRetention):
            found(lake, table, side, Moment(T0 + 3 * DAY))


def test_a_time_to_come_is_an_error() -> None:
    lake, table = daily()
    with pytest.raises(OutsideRetention, match="a time to come"):
        found(lake, table, PointSide.AT, Moment(lake.clock.now() + MS))


def test_every_point_of_the_window_is_readable_after_every_run() -> None:
    # TT-1
    lake, table = daily(30)
    by_day = list(table.snapshots)
    lake.run()
    assert len(table.snapshots) < 30
    for day in range(23, 30):
        assert at(lake, table, day) == by_day[day]
        assert before(lake, table, day) == by_day[day - 1]
    with pytest.raises(OutsideRetention):
        at(lake, table, 22.4)


def test_after_a_decrease_the_longer_window_counts_until_the_next_run() -> None:
    lake, table = daily(20)
    lake.run()
    name = find_object(lake.services(), str(table.name))
    change_policy(lake.services(), name, {RETENTION: "1"}, dry_run=False)
    assert at(lake, table, 14.5) == table.snapshots[table.snapshots.index(table.head) - 5]
    lake.run()
    with pytest.raises(OutsideRetention) as refused:
        at(lake, table, 14.5)
    assert "1d" in refused.value.expected
    assert at(lake, table, 18.9) == table.snapshots[-2]


def test_after_an_increase_what_has_expired_is_an_error_that_names_the_new_window() -> None:
    lake, table = daily(30)
    lake.run()
    name = find_object(lake.services(), str(table.name))
    change_policy(lake.services(), name, {RETENTION: "20"}, dry_run=False)
    assert at(lake, table, 23) is not None
    with pytest.raises(OutsideRetention) as refused:
        at(lake, table, 15)
    assert "20d" in refused.value.expected


def test_with_no_retention_only_the_present_is_readable() -> None:
    # TT-9
    lake, table = daily()
    name = find_object(lake.services(), str(table.name))
    change_policy(lake.services(), name, {RETENTION: "0"}, dry_run=False)
    assert found(lake, table, PointSide.AT, Moment(lake.clock.now())).snapshot_id == table.head
    with pytest.raises(OutsideRetention):
        at(lake, table, 3.4)


# --- where the log does not tell ------------------------------------------------------------------


def test_a_table_that_was_replaced_is_readable_as_it_was_before() -> None:
    lake, table = daily(3)
    third = table.head
    lake.on(3)
    new = table.start_over("n")
    assert [e["snapshot-id"] for e in table.document["snapshot-log"]] == [new]
    lake.on(4).run()
    assert (at(lake, table, 2.5), before(lake, table, 3), at(lake, table, 3)) == (third, third, new)
    old = found(lake, table, PointSide.AT, Moment(T0 + 2.5 * DAY))
    assert old == Resolved(third, T0 + 2 * DAY, T0 + 3 * DAY)


def test_a_gap_that_another_tool_has_left_is_filled_from_the_metadata_of_that_time() -> None:
    lake, table = daily(4)
    first, second, third, _ = table.snapshots

    def as_pyiceberg(document: dict[str, Any]) -> None:
        document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] != second]
        log = document["snapshot-log"]
        document["snapshot-log"] = [e for e in log if e["snapshot-id"] != second]

    table.edit(as_pyiceberg)
    assert (at(lake, table, 0.5), at(lake, table, 2.5)) == (first, third)
    with pytest.raises(OutsideRetention, match=f"snapshot {second} has expired"):
        at(lake, table, 1.5)


def test_a_gap_around_a_rollback_is_seen() -> None:
    lake, table = daily(2)
    first, second = table.snapshots
    lake.on(2)
    table.rollback(first)
    lake.on(3)

    def as_pyiceberg(document: dict[str, Any]) -> None:
        document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] != second]
        log = document["snapshot-log"]
        document["snapshot-log"] = [e for e in log if e["snapshot-id"] != second]

    table.edit(as_pyiceberg)
    table.edit(lambda document: document.update({"metadata-log": []}))
    assert at(lake, table, 2.5) == first
    with pytest.raises(OutsideRetention, match="nobody can tell"):
        at(lake, table, 1.5)


def test_before_the_first_commit_a_table_that_was_there_was_empty() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    lake.on(1)
    table.append("f")
    lake.on(2)
    assert found(lake, table, PointSide.AT, Moment(T0 + 0.5 * DAY)) == Resolved(None, T0, T0 + DAY)
    with pytest.raises(OutsideRetention):
        at(lake, table, -0.5)


def test_a_table_that_nobody_has_written_to_is_empty_now() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    lake.on(1)
    assert found(lake, table, PointSide.AT, Moment(lake.clock.now())) == Resolved(None, T0, None)


def test_without_log_and_earlier_metadata_nobody_guesses() -> None:
    lake, table = daily(3)
    for file in table.document["metadata-log"]:
        lake.store.delete([file["metadata-file"]])
    lake.on(3)
    table.start_over("n")
    lake.on(4)
    for file in table.document["metadata-log"]:
        lake.store.delete([file["metadata-file"]])
    with pytest.raises(OutsideRetention, match="nobody can tell"):
        at(lake, table, 2.5)


# --- tags -----------------------------------------------------------------------------------------


def test_a_tag_is_readable_whatever_the_window() -> None:
    lake, table = daily(20)
    third = table.snapshots[2]
    add_tag(lake.services(), table.name, "q1", Point(third), None, dry_run=False)
    lake.on(60).run()
    assert found(lake, table, PointSide.AT, TagPoint("q1")).snapshot_id == third
    with pytest.raises(OutsideRetention):
        found(lake, table, PointSide.BEFORE, TagPoint("q1"))


def test_before_a_tag_is_what_was_current_before_its_snapshot() -> None:
    lake, table = daily(4)
    table.tag("q1", table.snapshots[2])
    assert found(lake, table, PointSide.BEFORE, TagPoint("q1")).snapshot_id == table.snapshots[1]


@pytest.mark.parametrize("name", ["never", "main", "b"])
def test_what_is_no_tag_is_not_read_by_that_name(name: str) -> None:
    lake, table = daily()
    table.branch("b", table.head)
    with pytest.raises(RefNotFound, match=name):
        found(lake, table, PointSide.AT, TagPoint(name))


# --- offsets, names -------------------------------------------------------------------------------


def test_an_offset_counts_back_from_now() -> None:
    # TT-29
    assert moment_of_offset(T0, -300) == T0 - timedelta(minutes=5)
    assert moment_of_offset(T0, 0) == T0
    for ahead in (1, 0.5, -1e15, float("nan")):
        with pytest.raises(UsageInvalid, match="back from now"):
            moment_of_offset(T0, ahead)


def test_a_table_that_is_not_there_or_was_dropped_is_named() -> None:
    lake, table = daily()
    now = TravelPoint(PointSide.AT, Moment(lake.clock.now()))
    with pytest.raises(TableNotFound):
        locate(lake.services(), TableName.parse("lake.air.never"), now)
    drop(lake.services(), str(table.name), dry_run=False)
    with pytest.raises(TableNotFound):
        locate(lake.services(), table.name, now)
    (entry,) = lake.catalogs["lake"].listing().entries
    with pytest.raises(ObjectDropped):
        locate(lake.services(), entry.name, now)


# --- reading --------------------------------------------------------------------------------------


@dataclass
class WatchingReader:
    """Reads nothing, and remembers what it was asked and who had leased what meanwhile."""

    lake: Lake
    asked: list[tuple[int | None, int | None]] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)

    def read(self, view: PastView, limit: int | None) -> ReadRows:
        self.asked.append((view.snapshot_id, limit))
        self.leases += self.lake.control.leases.active(self.lake.clock.now())
        return ReadRows((ReadColumn("id", "bigint"),), ())


def test_the_snapshot_is_leased_while_it_is_read_and_no_longer() -> None:
    # TT-4
    lake, table = daily()
    reader = WatchingReader(lake)
    point = TravelPoint(PointSide.AT, Moment(T0 + 1.5 * DAY))
    answer = query(lake.services(), lambda: reader, table.name, point, limit=5)
    second = table.snapshots[1]
    assert answer.located.resolved.snapshot_id == second and answer.located.tier == "hot"
    assert reader.asked == [(second, 5)]
    assert [(one.snapshot_id, one.table) for one in reader.leases] == [(second, str(table.name))]
    assert lake.control.leases.active(lake.clock.now()) == []


def test_nothing_is_started_for_a_point_that_cannot_be_read() -> None:
    lake, table = daily()

    def start() -> WatchingReader:
        raise AssertionError("a JVM was started for nothing")

    ahead = TravelPoint(PointSide.AT, Moment(lake.clock.now() + DAY))
    with pytest.raises(OutsideRetention):
        query(lake.services(), start, table.name, ahead)
    here = TravelPoint(PointSide.AT, Moment(lake.clock.now()))
    with pytest.raises(UsageInvalid, match="limit"):
        query(lake.services(), start, table.name, here, limit=-1)


def test_the_snapshots_own_schema_is_read_on_request() -> None:
    # TT-3
    lake, table = daily(2)

    def renamed(document: dict[str, Any]) -> None:
        field = {"id": 1, "name": "number", "required": False, "type": "long"}
        document["schemas"].append({"type": "struct", "schema-id": 1, "fields": [field]})
        document["current-schema-id"] = 1

    table.edit(renamed)
    point = TravelPoint(PointSide.AT, Moment(T0 + DAY))
    located = locate(lake.services(), table.name, point)
    assert located.view(SchemaChoice.CURRENT) == PastView(table.name, table.head)
    assert located.view(SchemaChoice.SNAPSHOT) == PastView(table.name, table.head, 0)
