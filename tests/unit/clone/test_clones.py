"""Clones: tables of their own over the files of others, at one instant, whole or not at all."""

from datetime import timedelta
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.clone.clone import Cloned, clone
from meltline.app.refs.tags import add_tag
from meltline.app.retention.policies import change_policy
from meltline.domain.clone.clones import CLONED_AT, CLONED_FROM, CLONED_SNAPSHOT, CLONED_UUID
from meltline.domain.errors import (
    BeforeCreation,
    ChildInsufficientRetention,
    MeltlineError,
    OutsideRetention,
    RefNotFound,
    StatementNotCompleted,
    StatementNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import RETENTION
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    Moment,
    PointSide,
    StatementPoint,
    TagPoint,
    TravelPoint,
)
from meltline.domain.units import format_instant, to_millis
from meltline.ports import StatementRecord, StatementState
from tests.lake.lake import DAY, T0, Lake, Table

NAME, COPY = "lake.air.t", "lake.air.copy"


def daily(days: int = 4, version: int = 2, **properties: str) -> tuple[Lake, Table]:
    """A table overwritten on each day from day 0 on; it is noon of the last day."""
    lake = Lake()
    table = lake.on(0).table("t", version=version, properties=properties)
    for day in range(days):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(days - 0.5)
    return lake, table


def copied(
    lake: Lake, target: str = COPY, source: str = NAME, at: float | None = None, **more: Any
) -> Table:
    """A clone of a table, at so many days after the beginning or now."""
    point = None if at is None else TravelPoint(PointSide.AT, Moment(T0 + at * DAY))
    clone(lake.services(), source, target, point=point, **more)
    return Table(lake, TableName.parse(target))


def at(day: float, side: PointSide = PointSide.AT) -> TravelPoint:
    return TravelPoint(side, Moment(T0 + day * DAY))


def live(table: Table) -> set[str]:
    return {entry.path for entry in table.live()}


def names(lake: Lake) -> set[str]:
    return {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}


# --- what a clone is ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_clone_is_a_table_of_its_own_with_one_snapshot_and_no_past(version: int) -> None:
    # ML-22
    lake, table = daily(version=version)
    table.branch("wip", table.head)
    table.statistics(table.head)
    source = table.document
    made = copied(lake).document
    assert made["table-uuid"] != source["table-uuid"] and made["location"] != source["location"]
    (snapshot,) = made["snapshots"]
    same = ("snapshot-id", "manifest-list", "timestamp-ms", "summary", "sequence-number")
    assert [snapshot.get(k) for k in same] == [table.snapshot(table.head).get(k) for k in same]
    assert "parent-snapshot-id" not in snapshot
    now = to_millis(lake.clock.now())
    assert made["snapshot-log"] == [{"timestamp-ms": now, "snapshot-id": table.head}]
    assert (made["metadata-log"], made["statistics"], made["last-updated-ms"]) == ([], [], now)
    assert made["refs"] == {"main": {"snapshot-id": table.head, "type": "branch"}}
    kept = ("format-version", "last-sequence-number", "next-row-id", "schemas", "last-column-id",
            "partition-specs", "sort-orders", "current-schema-id", "default-spec-id")  # fmt: skip
    assert [made.get(key) for key in kept] == [source.get(key) for key in kept]


def test_not_one_file_is_written_but_the_metadata_of_the_clone_and_the_sources_guard() -> None:
    # ML-22, DS-2
    lake, table = daily()
    before = lake.paths()
    copy = copied(lake)
    written = sorted(lake.paths() - before)
    assert written == sorted([copy.metadata_location, table.metadata_location])
    assert copy.metadata_location.startswith(f"{copy.location}/metadata/00000-")


def test_its_location_is_new_and_under_its_new_name() -> None:
    lake, table = daily()
    copy = copied(lake, "lake.air.`../o d/ü`")
    assert copy.location == f"file:///w/air/o-d--{copy.uuid}"
    again = copied(lake, "lake.air.again")
    assert again.location == f"file:///w/air/again-{again.uuid}"
    assert len({table.location, copy.location, again.location}) == 3


def test_a_namespace_that_says_where_its_tables_lie_is_followed() -> None:
    lake, _ = daily()
    lake.catalogs["lake"].set_namespace_properties(("sea",), {"location": "file:///w/deep/"})
    copy = copied(lake, "lake.sea.copy")
    assert copy.location == f"file:///w/deep/copy-{copy.uuid}"


def test_it_says_where_it_comes_from_and_writes_nowhere_but_at_home() -> None:
    own = {
        "write.data.path": "file:///w/elsewhere",
        "write.metadata.path": "file:///w/elsewhere/m",
        "write.metadata.delete-after-commit.enabled": "true",
        "meltline.hold": "audit",
        RETENTION: "30",
        "owner": "ann",
    }
    lake = Lake()
    table = lake.on(0).table("t", properties=own)
    table.append("a")
    lake.on(1)
    copy = copied(lake)
    assert copy.document["properties"] == {
        RETENTION: "30",
        "owner": "ann",
        "write.metadata.delete-after-commit.enabled": "false",
        "gc.enabled": "false",
        "meltline.gc-enabled-before": "not set",
        CLONED_FROM: NAME,
        CLONED_UUID: table.uuid,
        CLONED_SNAPSHOT: str(table.head),
        CLONED_AT: format_instant(lake.clock.now()),
    }
    assert copy.metadata_location.startswith(f"{copy.location}/metadata/")


def test_a_table_that_nobody_has_written_to_has_a_clone_that_shares_nothing() -> None:
    lake = Lake()
    table = lake.on(0).table("t", version=3)
    lake.on(1)
    copy = copied(lake)
    assert copy.document["snapshots"] == [] and copy.document["current-snapshot-id"] is None
    assert "gc.enabled" not in table.document["properties"] | copy.document["properties"]
    copy.append("a")
    assert lake.run().exit_code == 0


def test_source_and_clone_go_on_each_for_itself() -> None:
    # DS-13
    lake, table = daily()
    copy = copied(lake)
    shared = live(copy)
    copy.append("c")
    table.overwrite("t")
    assert live(copy) == shared | {copy.data("c")} and live(table) == {table.data("t")}
    copy.overwrite("c2")
    assert live(table) == {table.data("t")}


def test_clones_of_clones_name_the_first_ones_files() -> None:
    # DS-15
    lake, table = daily()
    copy = copied(lake)
    second = copied(lake, "lake.air.second", COPY)
    assert live(second) == live(copy) == {table.data("f3")}
    assert second.document["properties"][CLONED_FROM] == COPY
    assert second.document["properties"]["meltline.gc-enabled-before"] == "not set"


# --- as of when -----------------------------------------------------------------------------------


def test_a_clone_holds_what_the_table_held_at_the_point() -> None:
    # TT-33
    lake, table = daily()
    assert live(copied(lake, at=1.5)) == {table.data("f1")}
    clone(lake.services(), NAME, "lake.air.before", point=at(1, PointSide.BEFORE))
    assert live(Table(lake, TableName.parse("lake.air.before"))) == {table.data("f0")}


def test_a_statement_and_a_tag_are_points_too() -> None:
    lake, table = daily()
    table.edit(lambda d: d["snapshots"][2]["summary"].update({STATEMENT_ID: "s"}))
    add_tag(lake.services(), table.name, "q1", Point(table.snapshots[1]), 90, dry_run=False)
    before = TravelPoint(PointSide.BEFORE, StatementPoint("s"))
    clone(lake.services(), NAME, COPY, point=before)
    assert live(Table(lake, TableName.parse(COPY))) == {table.data("f1")}
    tagged = TravelPoint(PointSide.AT, TagPoint("q1"))
    clone(lake.services(), NAME, "lake.air.q1", point=tagged)
    assert live(Table(lake, TableName.parse("lake.air.q1"))) == {table.data("f1")}


def _new_columns(document: dict[str, Any]) -> None:
    """Another column, and partitions and an order by it."""
    schema = {
        "type": "struct",
        "schema-id": 1,
        "fields": [{"id": 2, "name": "day", "required": False, "type": "date"}],
    }
    by_day = {"name": "day", "transform": "identity", "source-id": 2}
    document["schemas"].append(schema)
    document["partition-specs"].append({"spec-id": 1, "fields": [{**by_day, "field-id": 1000}]})
    document["sort-orders"].append({"order-id": 1, "fields": [{"source-ids": [2]}]})
    document |= {
        "last-column-id": 2,
        "current-schema-id": 1,
        "default-spec-id": 1,
        "default-sort-order-id": 1,
    }
    if "schema" in document:
        document |= {"schema": schema, "partition-spec": [by_day]}


def shape(document: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("current-schema-id", "default-spec-id", "default-sort-order-id", "last-column-id")
    return tuple(document[key] for key in keys)


@pytest.mark.parametrize("version", [1, 2])
def test_columns_partitions_and_order_are_those_of_the_point(version: int) -> None:
    lake, table = daily(3, version)
    table.edit(_new_columns)  # at 2.5
    lake.on(3)
    assert shape(copied(lake, at=2.4).document) == (0, 0, 0, 2)
    assert shape(copied(lake, "lake.air.late", at=2.6).document) == (1, 1, 1, 2)
    assert shape(copied(lake, "lake.air.now").document) == (1, 1, 1, 2)
    old = Table(lake, TableName.parse(COPY)).document
    assert len(old["schemas"]) == 2
    assert version != 1 or (old["schema"], old["partition-spec"]) == (old["schemas"][0], [])


def test_where_the_metadata_of_then_is_gone_the_snapshot_tells_its_columns() -> None:
    lake, table = daily(3)
    table.edit(lambda d: [s.update({"schema-id": 0}) for s in d["snapshots"]])
    table.configure(**{"write__metadata__previous_versions_max": "1"})
    table.edit(_new_columns)
    lake.on(3)
    assert shape(copied(lake, at=1).document) == (0, 0, 0, 2)


@pytest.mark.parametrize(
    ("point", "error"),
    [
        (at(0), BeforeCreation),
        (at(0, PointSide.BEFORE), BeforeCreation),
        (at(-1), BeforeCreation),
        (at(9), OutsideRetention),
        (TravelPoint(PointSide.AT, StatementPoint("no")), StatementNotFound),
        (TravelPoint(PointSide.AT, TagPoint("no")), RefNotFound),
    ],
)
def test_a_point_without_an_answer_is_refused(point: TravelPoint, error: type[Exception]) -> None:
    # TT-38
    lake, _ = daily()
    before = lake.paths()
    with pytest.raises(error):
        clone(lake.services(), NAME, COPY, point=point)
    assert lake.paths() == before and names(lake) == {NAME}


@pytest.mark.parametrize("state", [StatementState.RUNNING, StatementState.FAILED])
def test_a_statement_that_runs_or_has_failed_is_no_point(state: StatementState) -> None:
    lake, _ = daily()
    began = StatementRecord("q-1", "INSERT", "ann", state, lake.clock.now())
    lake.control.statements.save(began)
    before = lake.paths()
    point = TravelPoint(PointSide.BEFORE, StatementPoint("q-1"))
    with pytest.raises(StatementNotCompleted, match="q-1"):
        clone(lake.services(), NAME, COPY, point=point)
    assert lake.paths() == before and names(lake) == {NAME}


def test_a_table_is_cloned_right_after_its_creation() -> None:
    # TT-38
    lake = Lake()
    table = lake.on(0).table("t")
    lake.on(1)
    table.append("a")
    empty = copied(lake, at=0.5)
    assert empty.document["snapshots"] == []
    millisecond = timedelta(milliseconds=1) / DAY
    assert copied(lake, "lake.air.b", at=millisecond).document["snapshots"] == []


def test_a_point_outside_the_window_is_refused_with_the_window() -> None:
    lake, table = daily(10)
    with pytest.raises(OutsideRetention) as refused:
        copied(lake, at=1)
    assert NAME in refused.value.object and "2026-01-03T12:00:00Z" in refused.value.expected
    assert "gc.enabled" not in table.document["properties"]


# --- schemas and databases ------------------------------------------------------------------------


def a_database() -> tuple[Lake, dict[str, Table]]:
    """Tables t and u in `lake.air`, v in `lake.air.deep`, overwritten each day; and `new`."""
    lake = Lake()
    tables = {n: lake.on(0).table(f"lake.air.{n}") for n in ("t", "u", "deep.v")}
    for day in range(4):
        lake.on(day)
        for table in tables.values():
            table.overwrite(f"f{day}")
    lake.on(3.2)
    tables["new"] = lake.table("lake.air.new")
    tables["new"].append("n")
    lake.catalogs["lake"].set_namespace_properties(
        ("air",), {"owner": "ann", "meltline.hold": "audit", "location": "file:///w/air"}
    )
    return lake.on(3.5), tables


def cloned_database(lake: Lake, **more: Any) -> Cloned:
    return clone(lake.services(), "lake.air", "lake.copy", ObjectKind.DATABASE, **more)


def test_a_database_is_cloned_with_all_that_is_in_it_at_one_instant() -> None:
    # TT-34
    lake, tables = a_database()
    done = cloned_database(lake, point=at(1.5))
    assert {str(one.table) for one in done.created} == {
        "lake.copy.t", "lake.copy.u", "lake.copy.deep.v",
    }  # fmt: skip
    for one in done.created:
        source = Table(lake, one.source)
        assert live(Table(lake, one.table)) == {source.data("f1")}
    (absent,) = done.skipped
    assert str(absent.table) == "lake.air.new" and "made at" in absent.reason
    assert lake.catalogs["lake"].listing().namespaces["copy",] == {"owner": "ann"}
    assert "gc.enabled" not in tables["new"].document["properties"]


def test_without_a_point_a_database_is_cloned_as_it_is() -> None:
    lake, tables = a_database()
    done = cloned_database(lake)
    assert len(done.created) == 4 and done.skipped == ()
    copy = Table(lake, TableName.parse("lake.copy.new"))
    assert live(copy) == {tables["new"].data("n")}
    assert copy.location.startswith("file:///w/copy/new-")


def test_a_schema_is_cloned_with_what_lies_below_it() -> None:
    lake, _ = a_database()
    done = clone(lake.services(), "lake.air.deep", "lake.air.deeper", ObjectKind.SCHEMA)
    assert [str(one.table) for one in done.created] == ["lake.air.deeper.v"]


def test_a_statement_that_changed_some_of_the_tables_is_a_point_for_all() -> None:
    # TT-35
    lake, tables = a_database()
    tables["t"].edit(lambda d: d["snapshots"][2]["summary"].update({STATEMENT_ID: "s"}))
    before = TravelPoint(PointSide.BEFORE, StatementPoint("s"))
    done = cloned_database(lake, point=before)
    held = {one.table.name: live(Table(lake, one.table)) for one in done.created}
    assert held == {n: {tables[k].data("f1")} for n, k in (("t", "t"), ("u", "u"), ("v", "deep.v"))}


def short_of_days(lake: Lake, name: str) -> None:
    services = lake.services()
    change_policy(services, find_object(services, name), {RETENTION: "1"}, dry_run=False)


def test_one_table_that_cannot_be_read_so_far_back_stops_the_whole_clone() -> None:
    # TT-36
    lake, _ = a_database()
    short_of_days(lake, "lake.air.u")
    before, paths = names(lake), lake.paths()
    with pytest.raises(ChildInsufficientRetention) as refused:
        cloned_database(lake, point=at(1.5))
    assert refused.value.object == "lake.air.u" and "1d back" in refused.value.found
    assert names(lake) == before and lake.paths() == paths
    assert ("copy",) not in lake.catalogs["lake"].listing().namespaces
    done = cloned_database(lake, point=at(1.5), ignore_insufficient=True)
    assert {str(one.table) for one in done.skipped} == {"lake.air.u", "lake.air.new"}
    assert len(done.created) == 2


def test_a_time_to_come_is_no_tables_fault() -> None:
    lake, _ = a_database()
    with pytest.raises(OutsideRetention, match="a time to come"):
        cloned_database(lake, point=at(9), ignore_insufficient=True)


def test_a_tag_is_one_tables_and_no_point_for_several() -> None:
    lake, _ = a_database()
    with pytest.raises(UsageInvalid, match="at a tag"):
        cloned_database(lake, point=TravelPoint(PointSide.AT, TagPoint("q")))


def test_a_table_that_cannot_be_read_stops_the_whole_clone() -> None:
    lake, tables = a_database()
    content = lake.spoil(tables["u"].metadata_location)
    with pytest.raises(MeltlineError, match="cannot be read"):
        cloned_database(lake, ignore_insufficient=True)
    lake.mend(tables["u"].metadata_location, content)
    assert len(names(lake)) == 4
