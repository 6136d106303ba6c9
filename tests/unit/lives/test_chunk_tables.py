"""Tables of the test lake that are cut into chunks: their rows follow Iceberg's rules, what is read
of their manifests is what was written, and the ports in memory do what the ports promise.
"""

import json
from collections.abc import Mapping

import pytest

from meltline.adapters.chunks.file_reader import AvroChunkFiles
from meltline.domain.chunks.layout import Times
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import CopyOutcome, CopyRequest, DropRequest
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    DAILY,
    EQUALITY,
    MERGE_ON_READ,
    VALUE,
    ChunkTable,
    chunk_table,
    day_name,
    reading,
    values_of,
)
from tests.doubles.chunks import (
    MemoryChunkDropper,
    MemoryChunkRows,
    MemoryReplicator,
    TableWriter,
)
from tests.lake.lake import Lake

MODES = (COPY_ON_WRITE, MERGE_ON_READ, EQUALITY)
COLD = TableName("ice", ("synced",), "t")


def filled(version: int = 2, lake: Lake | None = None) -> ChunkTable:
    """Three days with two rows each, ids 0 to 5."""
    table = chunk_table(lake or Lake(), "t", version=version)
    table.append_rows(*(reading(id, id // 2 + 0.25 * (id % 2)) for id in range(6)))
    return table


def writer(lake: Lake) -> TableWriter:
    return TableWriter({**lake.catalogs, "ice": lake.cold}, lake.store, lake.clock, lake.next_id)


def cold_of(table: ChunkTable) -> str:
    """An empty table in cold of the same columns. Returns its metadata's location."""
    lake = table.lake
    document = {**table.document, "location": "file:///cold/synced/t", "snapshots": [], "refs": {}}
    document |= {"current-snapshot-id": -1, "snapshot-log": [], "last-sequence-number": 0}
    at = "file:///cold/synced/t/metadata/00000-a.metadata.json"
    lake.store.write(at, json.dumps(document).encode())
    lake.cold.register(COLD, at)
    return at


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_deleted_row_is_gone_and_its_neighbours_stay(version: int, mode: str) -> None:
    table = filled(version)
    table.put([2], mode=mode)
    assert values_of(table.rows_now()) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_moves_to_another_day_is_there_once(version: int, mode: str) -> None:
    table = filled(version)
    table.put([0], [reading(0, 2.5, 7)], mode=mode)
    assert values_of(table.rows_now()) == [0, 1, 2, 3, 4, 5]
    assert values_of(table.chunks_now()[day_name(2)]) == [0, 4, 5]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_rows_are_deleted_again_and_again_and_compaction_changes_none(
    version: int, mode: str
) -> None:
    table = filled(version)
    for id in (0, 1, 3):
        table.put([id], mode=mode)
    before = table.rows_now()
    table.compact_chunks()
    assert sorted(table.rows_now()) == sorted(before)
    assert values_of(before) == [2, 4, 5]
    assert {f.kind for f in table.of_kind(*FileKind)} == {FileKind.DATA}


def test_an_equality_delete_reaches_no_row_that_came_with_it_or_later() -> None:
    table = filled()
    table.put([0], [reading(0, 0.5, 8)], mode=EQUALITY)
    table.append_rows(reading(0, 0.75, 9))
    assert values_of(table.rows_now(), VALUE) == [0] * 5 + [8, 9]


def test_an_equality_delete_reaches_no_other_partition() -> None:
    table = chunk_table(Lake(), "t")
    table.append_rows(reading(1, 0), reading(2, 1))
    table.put([1], mode=EQUALITY)
    (delete,) = table.of_kind(FileKind.EQUALITY_DELETE)
    (other,) = (f for f in table.of_kind(FileKind.DATA) if f.partition != delete.partition)
    assert not delete.covers(other, is_global=False)


# --- what manifests say --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_reader_finds_each_file_in_its_day(version: int) -> None:
    table = filled(version)
    table.append_rows(reading(9, None))
    names = sorted(
        name for file in live_files(table) for name in DAILY.names(file.times) or ("everywhere",)
    )
    assert names == [day_name(0), day_name(1), day_name(2), UNBOUNDED]


def test_the_reader_finds_a_file_of_an_unpartitioned_spec_by_its_bounds() -> None:
    table = chunk_table(Lake(), "t", unit="")
    table.append_rows(reading(1, 0), reading(2, 1))
    (file,) = live_files(table)
    assert DAILY.names(file.times) == [day_name(0), day_name(1)]
    table.append_rows(reading(3, None))
    assert Times(None) in [file.times for file in live_files(table)]


def test_a_commit_that_removes_stamps_what_it_removed() -> None:
    table = filled()
    table.put([0], [reading(0, 2.5)], mode=COPY_ON_WRITE)
    state = parse_table(table.name, table.metadata_location, 1, table.document)
    snapshot = state.snapshots[table.head]
    change = AvroChunkFiles(table.lake.store).change(snapshot, DAILY, 2)
    assert set(change.touched(DAILY) or ()) == {day_name(0), day_name(2)}


def live_files(table: ChunkTable):  # type: ignore[no-untyped-def]
    state = parse_table(table.name, table.metadata_location, 1, table.document)
    return AvroChunkFiles(table.lake.store).live(state.snapshots[table.head], DAILY)


# --- drops ---------------------------------------------------------------------------------------


def drop_of(table: ChunkTable, *days: int, base: int = 0) -> DropRequest:
    base = base or table.head
    names = tuple(day_name(day) for day in days)
    files = {
        f.path
        for f in table.rows.live(base)
        if f.kind is FileKind.DATA and set(table.rows.chunks(DAILY, f.path)) & set(names)
    }
    return DropRequest(table.name, base, DAILY, names, frozenset(files), {"meltline.plan-id": "p"})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_dropped_days_are_gone_and_engines_go_on(version: int) -> None:
    table = filled(version)
    outcome = MemoryChunkDropper(writer(table.lake)).drop(drop_of(table, 0, 1))
    assert outcome.snapshot_id == table.head
    assert values_of(table.rows_now()) == [4, 5]
    assert table.snapshot(table.head)["summary"]["meltline.plan-id"] == "p"
    assert table.snapshot(table.head)["summary"]["total-records"] == "2"
    table.append_rows(reading(7, 2.5))
    table.put([4], mode=COPY_ON_WRITE)
    assert values_of(table.rows_now()) == [5, 7]
    assert [f for f in live_files(table) if DAILY.names(f.times) == [day_name(0)]] == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_deletes_of_a_dropped_day_go_with_it_and_others_stay(version: int, mode: str) -> None:
    table = filled(version)
    table.put([0, 2], mode=mode)
    MemoryChunkDropper(writer(table.lake)).drop(drop_of(table, 0))
    assert values_of(table.rows_now()) == [3, 4, 5]
    assert len(table.of_kind(*FileKind)) == (2 if mode == COPY_ON_WRITE else 3)


LATE = {
    "late row": lambda table: table.append_rows(reading(8, 0.9)),
    "late delete": lambda table: table.put([0], mode=COPY_ON_WRITE),
    "late position delete": lambda table: table.put([0], mode=MERGE_ON_READ),
    "late equality delete": lambda table: table.put([0], mode=EQUALITY),
    "row moves away": lambda table: table.put([0], [reading(0, 2.5)], mode=MERGE_ON_READ),
    "row moves in": lambda table: table.put([4], [reading(4, 0.5)], mode=COPY_ON_WRITE),
    "compaction": lambda table: table.compact_chunks(day_name(0)),
    "foreign expiry": lambda table: table.delete_chunks(day_name(0)),
    "rollback": lambda table: table.rollback(table.snapshots[0]),
}


@pytest.mark.parametrize("late", LATE)
def test_whatever_reaches_a_day_after_the_gate_stops_its_drop(late: str) -> None:
    table = filled()
    table.append_rows(reading(6, 2.9))
    request = drop_of(table, 0)
    LATE[late](table)
    before = table.metadata_location
    outcome = MemoryChunkDropper(writer(table.lake)).drop(request)
    assert outcome.snapshot_id is None and outcome.conflict
    assert table.metadata_location == before


def test_what_happens_to_other_days_stops_no_drop() -> None:
    table = filled()
    request = drop_of(table, 0)
    table.append_rows(reading(8, 2.9))
    table.put([2], mode=MERGE_ON_READ)
    table.compact_chunks(day_name(2))
    assert MemoryChunkDropper(writer(table.lake)).drop(request).snapshot_id
    assert values_of(table.rows_now()) == [3, 4, 5, 8]


# --- copies --------------------------------------------------------------------------------------


def copied(table: ChunkTable, base: str, **more: object) -> CopyOutcome | None:
    request = CopyRequest(table.name, COLD, base, DAILY, table.head, **more)  # type: ignore[arg-type]
    return MemoryReplicator(writer(table.lake)).copy(request)


def cold_table(table: ChunkTable) -> ChunkTable:
    lake = table.lake
    lake.catalogs["ice"] = lake.cold
    return ChunkTable(lake, COLD)


def test_a_full_copy_has_the_same_digests() -> None:
    table = filled()
    table.put([0], mode=EQUALITY)
    table.put([3], mode=MERGE_ON_READ)
    outcome = copied(table, cold_of(table), replaced=None)
    assert outcome and outcome.rows == 4 and outcome.snapshot_id
    cold = cold_table(table)
    rows = MemoryChunkRows(table.lake.catalogs, table.lake.store)
    assert rows.digests(table.name, table.head, DAILY, None) == rows.digests(
        COLD, outcome.snapshot_id, DAILY, None
    )
    assert cold.head == outcome.snapshot_id


def test_appends_are_added_and_compactions_copied_no_second_time() -> None:
    table = filled()
    base, first = cold_of(table), table.head
    outcome = copied(table, base, replaced=None)
    table.append_rows(reading(6, 0.7), reading(7, 3))
    table.compact_chunks()
    assert outcome
    copied(table, outcome.location, after=first)
    assert values_of(cold_table(table).rows_now()) == list(range(8))


def test_a_replaced_chunk_is_as_it_is_in_hot() -> None:
    table = filled()
    base, first = cold_of(table), table.head
    outcome = copied(table, base, replaced=None)
    table.put([0], [reading(0, 2.6, 5)], mode=EQUALITY)
    table.append_rows(reading(6, 1.7))
    assert outcome
    cold = cold_table(table)
    leaving = drop_files(cold, 0, 2)
    names = frozenset({day_name(0), day_name(2)})
    copied(table, outcome.location, after=first, replaced=names, removed=leaving)
    assert sorted(cold.rows_now()) == sorted(table.rows_now())


def drop_files(cold: ChunkTable, *days: int) -> tuple[str, ...]:
    names = {day_name(day) for day in days}
    files = cold.of_kind(FileKind.DATA)
    return tuple(f.path for f in files if set(cold.rows.chunks(DAILY, f.path)) & names)


def test_what_is_not_proved_is_not_published() -> None:
    table = filled()
    base = cold_of(table)
    seen = []

    def prove(snapshot_id: int) -> Mapping[str, str]:
        rows = MemoryChunkRows({"ice": table.lake.cold}, table.lake.store)
        seen.append(rows.digests(COLD, snapshot_id, DAILY, None))
        raise SyncRefused("other rows", object="t")

    request = CopyRequest(table.name, COLD, base, DAILY, table.head, replaced=None)
    with pytest.raises(SyncRefused, match="other rows"):
        MemoryReplicator(writer(table.lake)).copy(request, prove)
    assert len(seen[0]) == 3
    cold = cold_table(table)
    assert cold.refs == {} and cold.snapshots == []


def test_nothing_is_copied_to_a_table_that_has_moved_on() -> None:
    table = filled()
    base = cold_of(table)
    assert copied(table, base, replaced=None)
    assert copied(table, base, replaced=None) is None


def test_what_cannot_be_read_is_refused() -> None:
    table = filled()
    base = cold_of(table)
    table.lake.spoil(table.of_kind(FileKind.DATA)[0].path)
    with pytest.raises(SyncRefused):
        copied(table, base, replaced=None)
