"""Rows for dropped ranges are refused as a whole, and the error says what to do (LT-30)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.late_data import (
    dropped_chunks,
    dropped_on,
    earliest_accepted,
    guarded_append,
    late_files,
    require_accepted,
)
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.tracking import begin_tracking
from meltline.domain.chunks.chunk import ChunkStatus
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.chunks.sync import DROP_PLAN
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import CommitConflict, LateDataRejected
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import DropRequest
from tests.chunks.chunk_tables import AT, DAILY, ChunkTable, chunk_table, day_name, reading
from tests.doubles.chunks.rows import Row, chunk_of
from tests.lake.lake import T0, Lake
from tests.unit.chunks.chunks import DAYS, a_change, a_file


@dataclass
class RowWriter:
    """A writer of rows in memory; before it appends, something else may happen."""

    table: ChunkTable
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    looks: int = 0

    def late(
        self, rows: Sequence[Row], layout: ChunkLayout, dropped: Collection[str]
    ) -> Mapping[str, int]:
        self.looks += 1
        names = [chunk_of(layout, row) for row in rows]
        return {name: names.count(name) for name in names if name in dropped}

    def append(
        self, table: TableName, rows: Sequence[Row], expected_head: int | None, accept: Any = None
    ) -> bool:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        if self.table.head != expected_head:
            return False
        self.table.append_rows(*rows)
        return True


def tracked_table(*dropped: str) -> ChunkTable:
    """Three days with two rows each; the ledger knows them, and calls some of them dropped."""
    lake = Lake()
    table = chunk_table(lake, "t")
    table.append_rows(*(reading(id, id // 2 + 0.25 * (id % 2)) for id in range(6)))
    services = lake.services()
    begin_tracking(services, HotTable.load(services, table.name), DAILY)
    mark(table, ChunkStatus.DROPPED, *dropped)
    return table


def mark(table: ChunkTable, status: ChunkStatus, *names: str) -> None:
    """Has the ledger say that of some chunks."""
    chunks = table.lake.control.chunks
    before = chunks.of(uuid(table))
    chunks.move([(before[name], replace(before[name], status=status)) for name in names])


def uuid(table: ChunkTable) -> str:
    return load_table(table.lake.services(), table.name).uuid


def drop_unnoticed(table: ChunkTable, *days: str) -> None:
    """Commits a drop of ours that no run has walked yet."""
    services, state = table.lake.services(), load_table(table.lake.services(), table.name)
    assert services.dropper is not None and state.current_snapshot_id is not None
    plan = Plan(
        "p1", "r", PlanKind.DROP_CHUNKS, table.name, state.uuid, "sha256:0", T0, T0,
        state.metadata_location, chunks=days,
    )  # fmt: skip
    services.control.plans.add([plan])
    files = {
        file.path
        for file in table.rows.live(table.head)
        if table.rows.chunks(DAILY, file.path).keys() & set(days)
    }
    outcome = services.dropper.drop(
        DropRequest(table.name, table.head, DAILY, days, frozenset(files), {DROP_PLAN: plan.id})
    )
    assert outcome.snapshot_id is not None


def ids(table: ChunkTable) -> list[int]:
    return sorted(dict(row)[1] for row in table.rows_now())


# --- which chunks count ---------------------------------------------------------------------------


def test_a_table_that_is_not_tracked_or_has_nothing_dropped_has_no_such_chunks() -> None:
    lake = Lake()
    table = chunk_table(lake, "t")
    assert dropped_chunks(lake.services(), uuid(table)) is None
    table = tracked_table()
    services = table.lake.services()
    assert dropped_chunks(services, uuid(table)) is None
    assert dropped_on(services, load_table(services, table.name)) is None


def test_dropped_and_reopened_chunks_count_and_no_others() -> None:
    table = tracked_table(day_name(0))
    mark(table, ChunkStatus.REOPENED, day_name(1))
    mark(table, ChunkStatus.TIERED, day_name(2))
    services = table.lake.services()
    assert dropped_chunks(services, uuid(table)) == (DAILY, {day_name(0), day_name(1)})


def test_a_drop_that_the_ledger_has_not_noted_yet_counts_too() -> None:
    table = tracked_table()
    drop_unnoticed(table, day_name(0))
    table.append_rows(reading(9, 2))
    services = table.lake.services()
    assert dropped_chunks(services, uuid(table)) is None
    known = dropped_on(services, load_table(services, table.name))
    assert known is not None and known[1] == {day_name(0)}


def test_the_column_has_its_present_name() -> None:
    table = tracked_table(day_name(0))
    table.edit(lambda document: document["schemas"][0]["fields"][1].update(name="moment"))
    services = table.lake.services()
    known = dropped_on(services, load_table(services, table.name))
    assert known is not None and known[0].column.name == "moment"
    assert known[0].column.field_id == AT


def test_the_earliest_time_accepted_is_where_the_last_dropped_chunk_ends() -> None:
    known = earliest_accepted((DAYS, ["2026-01-03", "2026-01-01", UNBOUNDED]))
    assert known == DAYS.unit.parse("2026-01-04")
    assert earliest_accepted((DAYS, [UNBOUNDED])) is None


# --- what is late ---------------------------------------------------------------------------------


def test_files_are_late_where_they_reach_into_a_dropped_chunk() -> None:
    dropped = (DAYS, ["2026-01-01", "2026-01-02"])
    assert late_files(a_change(1, ["2026-01-03", UNBOUNDED]), dropped) == {}
    assert late_files(a_change(1, removed=["2026-01-01"]), dropped) == {}
    assert late_files(a_change(1, ["2026-01-01", "2026-01-01"]), dropped) == {"2026-01-01": 20}
    assert late_files(a_change(1, ["2026-01-02..2026-01-05"]), dropped) == {"2026-01-02": 10}
    everywhere = a_change(1, [a_file("everywhere", rows=3)])
    assert late_files(everywhere, dropped) == {"2026-01-01": 3, "2026-01-02": 3}


def test_the_refusal_names_windows_counts_the_earliest_time_and_a_way_to_backfill() -> None:
    table = tracked_table(day_name(0), day_name(1))
    services = table.lake.services()
    state = load_table(services, table.name)
    require_accepted(services, state, {})
    require_accepted(services, state, {day_name(0): 0})
    with pytest.raises(LateDataRejected) as refused:
        require_accepted(services, state, {day_name(1): 1, day_name(0): 7})
    error = refused.value
    assert error.object == "lake.air.t" and error.exit_code == 3
    assert error.found == f"{day_name(0)} (7 rows), {day_name(1)} (1 rows)"
    assert error.expected == f"rows from {day_name(2)}T00:00Z on"
    assert "meltline chunks status lake.air.t" in error.next and "docs/chunks.md" in error.next


def test_of_many_windows_the_first_are_named_and_the_rest_counted() -> None:
    table = tracked_table(day_name(0))
    services = table.lake.services()
    late = {f"2020-01-{day:02}": 1 for day in range(1, 21)}
    with pytest.raises(LateDataRejected) as refused:
        require_accepted(services, load_table(services, table.name), late)
    assert "2020-01-08 (1 rows) and 12 more" in refused.value.found


# --- appends --------------------------------------------------------------------------------------


def test_an_append_is_refused_as_a_whole() -> None:
    table = tracked_table(day_name(0))
    before, services = ids(table), table.lake.services()
    with pytest.raises(LateDataRejected, match="nothing was written"):
        guarded_append(services, RowWriter(table), table.name, [reading(7, 2), reading(8, 0.5)])
    assert ids(table) == before
    guarded_append(services, RowWriter(table), table.name, [reading(7, 2)])
    assert ids(table) == [*before, 7]


def test_a_drop_between_look_and_commit_is_met_whether_the_ledger_knows_it_or_not() -> None:
    table = tracked_table()
    writer = RowWriter(table, [lambda: drop_unnoticed(table, day_name(0))])
    with pytest.raises(LateDataRejected):
        guarded_append(table.lake.services(), writer, table.name, [reading(7, 0.5)])
    assert writer.looks == 1 and ids(table) == [2, 3, 4, 5]


def test_other_commits_in_between_make_it_look_again_and_at_last_give_up() -> None:
    table = tracked_table(day_name(0))
    services = table.lake.services()
    writer = RowWriter(table, [lambda: table.append_rows(reading(20, 2))])
    guarded_append(services, writer, table.name, [reading(7, 2)])
    assert writer.looks == 2 and {7, 20} <= set(ids(table))
    writer = RowWriter(table, [lambda: table.append_rows(reading(30, 2))] * 20)
    with pytest.raises(CommitConflict, match="8 times"):
        guarded_append(services, writer, table.name, [reading(8, 2)])
    assert 8 not in ids(table)
