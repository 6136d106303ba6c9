"""Reading what has left hot: only when asked, only what is proved, and never the nearest."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.workers import LocalCrew
from meltline.app.drop.drop import drop
from meltline.app.restore.tiers import COLD, locate_anywhere
from meltline.app.services import RunContext
from meltline.app.time_travel.query import Located, SchemaChoice
from meltline.domain.archive.archive import COLD_OF, Validity, archived_property
from meltline.domain.archive.cold_past import ColdPast
from meltline.domain.errors import (
    CatalogReadOnly,
    MetadataUnreadable,
    NameConflict,
    OutsideRetention,
    RefNotFound,
    StatementNotFound,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import (
    STATEMENT_ID,
    Moment,
    PointSide,
    Resolved,
    StatementPoint,
    TagPoint,
    TravelPoint,
)
from meltline.domain.units import format_instant, to_millis
from meltline.ports import PastView, StatementRecord, StatementState
from tests.lake.lake import DAY, MINUTE, T0, Lake, Table

COLD_WAREHOUSE = "file:///cold"
NAME = TableName.parse("lake.air.t")


def services(lake: Lake, **changes: Any) -> RunContext:
    """With the archive that is used in earnest."""
    stores = Stores(lake.store, lake.store, COLD_WAREHOUSE)
    return lake.services(
        archive=ColdArchive(stores, lake.cold, LocalCrew, lake.control.copies, lake.clock),
        **changes,
    )


def handed_over(days: int = 12, cold: str = "all") -> tuple[Lake, Table]:
    """A table that is overwritten each day; what is older than its retention is in cold alone."""
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": cold})
    for day in range(days):
        lake.on(day)
        table.overwrite(f"t{day}")
    lake.on(days).run(services=services(lake))
    return lake, table


def moment(day: float, side: PointSide = PointSide.AT) -> TravelPoint:
    return TravelPoint(side, Moment(T0 + day * DAY))


def found(
    lake: Lake, point: TravelPoint, name: TableName = NAME, *, allow_cold: bool = True
) -> Located:
    return locate_anywhere(services(lake), name, point, allow_cold=allow_cold)


# --- by time --------------------------------------------------------------------------------------


def test_what_hot_has_is_never_read_from_cold() -> None:
    lake, table = handed_over()
    lake.store.delete([lake.cold.location(replace(NAME, catalog="ice"))])
    located = found(lake, moment(11.5))
    assert (located.tier, located.resolved.snapshot_id) == ("hot", table.head)


def test_a_time_outside_the_window_is_read_from_cold_with_the_interval_of_its_answer() -> None:
    # AR-28
    lake, _ = handed_over()
    first, second, *_ = lake.control.archived.all()
    located = found(lake, moment(0.5))
    assert located.tier == COLD and located.table == NAME
    assert located.resolved == Resolved(first.snapshot_id, T0, T0 + DAY)
    assert located.view(SchemaChoice.CURRENT) is None
    assert located.state.name == TableName.parse("ice.air.t")
    assert found(lake, moment(1)).resolved.snapshot_id == second.snapshot_id
    assert found(lake, moment(1, PointSide.BEFORE)).resolved.snapshot_id == first.snapshot_id


def test_without_leave_the_error_says_that_cold_has_it_and_cold_is_not_read() -> None:
    # AR-28
    lake, _ = handed_over()
    lake.store.delete([lake.cold.location(replace(NAME, catalog="ice"))])
    with pytest.raises(OutsideRetention) as refused:
        found(lake, moment(0.5), allow_cold=False)
    assert "--allow-cold" in refused.value.next


def test_the_error_of_a_table_without_copies_promises_nothing() -> None:
    lake, _ = handed_over(cold="none")
    with pytest.raises(OutsideRetention) as refused:
        found(lake, moment(0.5), allow_cold=False)
    assert "--allow-cold" not in refused.value.next
    with pytest.raises(OutsideRetention, match="outside the retention"):
        found(lake, moment(0.5))


def test_a_gap_is_an_error_that_names_what_lies_on_both_sides() -> None:
    lake, table = handed_over(20)
    first, second, third, *_ = lake.control.archived.all()
    forget(lake, second.snapshot_id)
    with pytest.raises(OutsideRetention, match="cold does not have") as gap:
        found(lake, moment(1.5))
    for one in (first, third):
        assert one.validity.end is not None
        span = f"{format_instant(one.validity.start)} to {format_instant(one.validity.end)}"
        assert f"{span} (snapshot {one.snapshot_id})" in gap.value.expected
    assert table.head


def forget(lake: Lake, snapshot_id: int) -> None:
    """Takes a snapshot out of the cold table, as if it had never been handed over."""
    name = replace(NAME, catalog="ice")
    base = lake.cold.location(name)
    document = lake.document(base)
    document["snapshots"] = [s for s in document["snapshots"] if s["snapshot-id"] != snapshot_id]
    assert lake.cold.commit(name, base, document)


def test_a_time_before_all_and_one_to_come_are_errors() -> None:
    lake, _ = handed_over()
    for day, why in ((-1, "cold does not have"), (40, "a time to come")):
        for allow_cold in (True, False):
            with pytest.raises(OutsideRetention) as refused:
                found(lake, moment(day), allow_cold=allow_cold)
            assert not allow_cold or why in str(refused.value)
            assert day < 0 or "--allow-cold" not in refused.value.next


# --- one cold table, made by hand -----------------------------------------------------------------


def past(log: list[tuple[float, int]], **copies: tuple[float, float]) -> ColdPast:
    """A cold table with snapshots `s1`, `s2`, … and the days in which each was current."""
    properties = {COLD_OF: "u"}
    snapshots = []
    for name, (start, end) in copies.items():
        id, validity = int(name[1:]), Validity(T0 + start * DAY, T0 + end * DAY)
        key, said = archived_property(id, validity, files=1, bytes=1, rows=1, at=T0 + 99 * DAY)
        properties[key] = said
        snapshots.append(
            {"snapshot-id": id, "timestamp-ms": at(start), "manifest-list": f"file:///cold/{id}"}
        )
    lake = Lake(has_cold=True)
    table = lake.table("t")
    document = table.document | {"snapshots": snapshots, "properties": properties}
    document["snapshot-log"] = [{"timestamp-ms": at(d), "snapshot-id": id} for d, id in log]
    state = parse_table(
        TableName.parse("ice.air.t"), "file:///cold/m", 1, json.loads(json.dumps(document))
    )
    return ColdPast(NAME, state)


def at(day: float) -> int:
    return to_millis(T0 + day * DAY)


def day_of(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - T0) / DAY


def span(resolved: Resolved) -> tuple[int | None, float | None, float | None]:
    return resolved.snapshot_id, day_of(resolved.valid_from), day_of(resolved.valid_to)


def test_after_a_rollback_the_one_that_was_current_in_between_answers() -> None:
    log = [(0.0, 1), (2.0, 2), (5.0, 1), (8.0, 3)]
    rolled = past(log, s1=(0, 8), s2=(2, 5))
    assert span(rolled.at(T0 + 1 * DAY)) == (1, 0, 2)
    assert span(rolled.at(T0 + 3 * DAY)) == (2, 2, 5)
    assert span(rolled.at(T0 + 6 * DAY)) == (1, 5, 8)


def test_what_was_current_in_between_and_is_not_archived_is_a_gap() -> None:
    log = [(0.0, 1), (2.0, 2), (5.0, 1), (8.0, 3)]
    rolled = past(log, s1=(0, 8))
    assert span(rolled.at(T0 + 1 * DAY)) == (1, 0, 2)
    with pytest.raises(OutsideRetention):
        rolled.at(T0 + 3 * DAY)
    assert span(rolled.at(T0 + 6 * DAY)) == (1, 5, 8)


def test_a_copy_of_which_nobody_knows_when_it_was_current_answers_no_time() -> None:
    side = past([], s1=(3, 3), s2=(5, 6))
    for moment in (T0 + 3 * DAY, T0 + 3 * DAY + MINUTE):
        with pytest.raises(OutsideRetention) as gap:
            side.at(moment)
        assert "snapshot 1" not in gap.value.expected
    known = side.of(1)
    assert known is not None and span(known) == (1, 3, 3)
    assert side.of(9) is None


# --- tags and statements --------------------------------------------------------------------------


def test_a_tag_that_is_in_cold_alone_is_read_there() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    for day in range(12):
        lake.on(day)
        table.overwrite(f"t{day}")
    third = table.snapshots[2]
    table.edit(
        lambda d: d["refs"].update(q1={"snapshot-id": third, "type": "tag", "max-ref-age-ms": 1})
    )
    lake.on(12).run(services=services(lake))
    tag = TravelPoint(PointSide.AT, TagPoint("q1"))
    located = found(lake, tag)
    assert (located.tier, located.resolved) == (COLD, Resolved(third, T0 + 2 * DAY, T0 + 3 * DAY))
    before = found(lake, TravelPoint(PointSide.BEFORE, TagPoint("q1")))
    assert before.resolved == Resolved(table_second(lake), T0 + DAY, T0 + 2 * DAY)
    for name in ("main", "never"):
        with pytest.raises(RefNotFound):
            found(lake, TravelPoint(PointSide.AT, TagPoint(name)))


def table_second(lake: Lake) -> int:
    return lake.control.archived.all()[1].snapshot_id


def statement(lake: Lake, started: float, completed: float) -> StatementPoint:
    record = StatementRecord(
        "q-1", "INSERT", "ann", StatementState.COMPLETED, T0 + started * DAY, T0 + completed * DAY
    )
    lake.control.statements.save(record)
    return StatementPoint("q-1")


def marked() -> tuple[Lake, list[int]]:
    """The second commit of a table is a statement's."""
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    for day in range(12):
        lake.on(day)
        table.overwrite(f"t{day}")
    ids = list(table.snapshots)
    table.edit(lambda d: summary(d, ids[1]).update({STATEMENT_ID: "q-1"}))
    lake.on(12).run(services=services(lake))
    return lake, ids


def summary(document: dict[str, Any], id: int) -> dict[str, str]:
    (found,) = (s["summary"] for s in document["snapshots"] if s["snapshot-id"] == id)
    return found


def test_a_statement_is_read_from_cold_by_when_it_ran() -> None:
    lake, ids = marked()
    first, second = ids[:2]
    q = statement(lake, 0.9, 1.1)
    assert found(lake, TravelPoint(PointSide.AT, q)).resolved.snapshot_id == second
    assert found(lake, TravelPoint(PointSide.BEFORE, q)).resolved.snapshot_id == first


def test_where_the_commit_of_a_statement_is_not_archived_nobody_can_tell() -> None:
    lake, _ = marked()
    q = statement(lake, 0.9, 1.1)
    forget(lake, lake.control.archived.all()[1].snapshot_id)
    for side in PointSide:
        with pytest.raises(OutsideRetention):
            found(lake, TravelPoint(side, q))


def test_a_statement_that_nobody_knows_is_no_point_in_cold_either() -> None:
    lake, _ = marked()
    with pytest.raises(StatementNotFound):
        found(lake, TravelPoint(PointSide.AT, StatementPoint("q-1")))


# --- tables that hot has no more ------------------------------------------------------------------


def test_a_dropped_table_is_read_from_cold_by_its_name() -> None:
    lake, _ = handed_over()
    drop(services(lake), str(NAME), dry_run=False)
    with pytest.raises(TableNotFound) as refused:
        found(lake, moment(0.5), allow_cold=False)
    assert "--allow-cold" in refused.value.next
    assert found(lake, moment(0.5)).resolved.valid_to == T0 + DAY


def test_with_the_hot_warehouse_gone_cold_answers() -> None:
    lake, _ = handed_over()
    lake.store.delete(sorted(lake.paths()))
    with pytest.raises(MetadataUnreadable):
        found(lake, moment(0.5), allow_cold=False)
    assert found(lake, moment(0.5)).resolved.valid_to == T0 + DAY


def test_a_cold_table_is_read_by_its_own_name_too() -> None:
    lake, _ = handed_over()
    name = TableName.parse("ice.air.t")
    assert found(lake, moment(0.5), name).resolved.valid_to == T0 + DAY
    with pytest.raises(CatalogReadOnly):
        found(lake, moment(0.5), name, allow_cold=False)


def test_a_new_table_of_the_name_does_not_answer_for_the_old_one() -> None:
    lake, _ = handed_over()
    drop(services(lake), str(NAME), dry_run=False)
    new = lake.table("t")
    new.append("n")
    with pytest.raises(OutsideRetention):
        found(lake, moment(0.5))
    assert found(lake, moment(0.5), TableName.parse("ice.air.t")).resolved.snapshot_id


def test_two_tables_that_had_the_name_at_once_are_told_apart_by_the_reader() -> None:
    lake, _ = handed_over()
    name = replace(NAME, catalog="ice")
    twin = lake.document(lake.cold.location(name))
    twin["properties"][COLD_OF] = "another"
    place = "file:///cold/twin.metadata.json"
    lake.store.write(place, json.dumps(twin).encode())
    lake.cold.register(replace(name, name="t__another"), place)
    copy = lake.control.archived.all()[0]
    lake.control.archived.save([replace(copy, table_uuid="another")])
    drop(services(lake), str(NAME), dry_run=False)
    with pytest.raises(NameConflict, match="several tables"):
        found(lake, moment(0.5))


def test_rows_of_cold_are_read_under_the_names_of_its_catalog() -> None:
    lake, _ = handed_over()
    located = found(lake, moment(0.5))
    snapshot = located.resolved.snapshot_id
    renamed: dict[str, Any] = {**located.document, "current-schema-id": 7}
    schema = {**located.document["schemas"][0], "schema-id": 7, "fields": []}
    renamed["schemas"] = [*located.document["schemas"], schema]
    for raw in renamed["snapshots"]:
        raw["schema-id"] = 0
    changed = replace(located, document=renamed)
    cold = TableName.parse("ice.air.t")
    assert changed.view(SchemaChoice.SNAPSHOT) == PastView(cold, snapshot, 0)
