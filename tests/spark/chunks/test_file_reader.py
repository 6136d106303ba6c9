"""What the reader tells of Spark's own tables is what Iceberg's metadata tables and the rows say.

The rows of each file are the judge of where its times are; `.files` and `.entries` of the rest.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import pytest

from meltline.adapters.chunks.file_reader import AvroChunkFiles
from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.chunks.layout import EVERYWHERE, ChunkFile, ChunkLayout, Times, layout_of
from meltline.domain.chunks.ranges import EPOCH, UNBOUNDED, Unit
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot
from tests.spark.setups.late_writes import delete_by_user
from tests.spark.setups.warehouse import SPACE, Warehouse

pytestmark = pytest.mark.spark

DELETED_PATH = 2147483546
MICROSECOND = timedelta(microseconds=1)
KINDS = {
    (0, "PARQUET"): FileKind.DATA,
    (1, "PARQUET"): FileKind.POSITION_DELETE,
    (1, "PUFFIN"): FileKind.DELETION_VECTOR,
    (2, "PARQUET"): FileKind.EQUALITY_DELETE,
}
DAYS = ("1969-12-31", "2026-01-05", "2026-01-06", "2026-02-01")
BEYOND = "+12000-01-01"
"""A day that Spark has and Python's calendar has not."""


@dataclass(frozen=True)
class Shape:
    """A kind of table: how its column `ts` is stored, and how it is partitioned.

    Attributes:
        type: The column's type; `cast` makes its values of timestamps.
        column: Of chunks, `unit` and `pattern` as a person says them.
    """

    spec: str
    type: str = "TIMESTAMP"
    cast: str = "ts"
    column: str = ""
    unit: Unit | None = None
    pattern: str = ""
    version: int = 2
    mode: str = "merge-on-read"
    later: tuple[str, ...] = ()
    has_nulls: bool = True


SHAPES = {
    "hours": Shape("hours(ts)", version=3),
    "days": Shape("days(ts)"),
    "days in format 1": Shape("days(ts)", version=1, mode="copy-on-write"),
    "days in format 3": Shape("days(ts), bucket(2, id)", version=3),
    "dates": Shape("ts", type="DATE", cast="CAST(ts AS DATE)", version=3),
    "timestamps": Shape("ts", version=2),
    "text": Shape("ts", type="STRING", cast="date_format(ts, 'y-MM-dd')", pattern="%Y-%m-%d"),
    "integers": Shape(
        "ts", type="INT", cast="CAST(date_format(ts, 'yMMdd') AS INT)", pattern="%Y%m%d"
    ),
    "unpartitioned": Shape("", column="ts", unit=Unit.DAY),
    "void": Shape(
        "days(ts)", version=1, mode="copy-on-write", later=("DROP PARTITION FIELD days(ts)",)
    ),
    "days, then hours": Shape(
        "days(ts)", later=("REPLACE PARTITION FIELD days(ts) WITH hours(ts)",)
    ),
    "renamed": Shape("days(ts)", later=("ADD PARTITION FIELD hours(ts) AS `an hour/x`",)),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    yield Warehouse.empty(tmp_path_factory.mktemp("chunk_files"), "chunk_files")


@dataclass(frozen=True)
class Read:
    """A table with history, beside what Iceberg says of each of its snapshots."""

    lake: Warehouse
    table: str
    layout: ChunkLayout
    snapshots: Sequence[Snapshot]

    @classmethod
    def of(cls, lake: Warehouse, table: str, shape: Shape) -> "Read":
        document = lake.document(table)
        name = TableName(lake.catalog, (SPACE,), table)
        state = parse_table(name, lake.location(table), 1, document)
        assert state.current_snapshot_id is not None
        line = list(state.ancestry(state.current_snapshot_id))[::-1]
        assert len(line) == len(state.snapshots)
        before = {**document, "default-spec-id": 0}  # chunks stay as they were declared
        layout = layout_of(before, shape.column, shape.unit, shape.pattern)
        return cls(lake, table, layout, line)

    @cached_property
    def reader(self) -> AvroChunkFiles:
        return AvroChunkFiles(ObjectStores({}, Pace(1_000_000)))

    def of_each(self, columns: str, metadata: str = "", more: str = "") -> Mapping[int, list[Any]]:
        """A query of each snapshot, all in one job."""
        source = f"{self.lake.name(self.table)}{metadata}"
        query = " UNION ALL ".join(
            f"SELECT {s.snapshot_id}L AS at, {columns}"
            f" FROM {source} VERSION AS OF {s.snapshot_id} {more}"
            for s in self.snapshots
        )
        rows: dict[int, list[Any]] = {s.snapshot_id: [] for s in self.snapshots}
        for row in self.lake.spark.sql(query).collect():
            rows[row["at"]].append(row)
        return rows


def with_history(lake: Warehouse, table: str, shape: Shape) -> Read:
    """Appends, deletes, an update that moves rows, maintenance, and a change of the spec."""
    by = f"PARTITIONED BY ({shape.spec})" if shape.spec else ""
    modes = ", ".join(f"'write.{verb}.mode'='{shape.mode}'" for verb in ("delete", "update"))
    lake.sql(
        f"CREATE TABLE {{{table}}} (id BIGINT, ts {shape.type}, user INT) USING iceberg {by}"
        f" TBLPROPERTIES ('format-version'='{shape.version}', {modes},"
        " 'commit.manifest.min-count-to-merge'='4', 'write.delete.granularity'='partition')"
    )
    insert(lake, table, shape, *DAYS)
    insert(lake, table, shape, *DAYS[1:3])
    if shape.has_nulls:
        insert(lake, table, shape, None)
        insert(lake, table, shape, None, *DAYS[1:])
    insert(lake, table, shape, BEYOND)
    insert(lake, table, shape, "9999-12-31")
    lake.sql(f"DELETE FROM {{{table}}} WHERE id % 10 = 1 AND user = 1")
    for statement in shape.later:
        lake.sql(f"ALTER TABLE {{{table}}} {statement}")
    insert(lake, table, shape, *DAYS[1:3])
    lake.sql(f"DELETE FROM {{{table}}} WHERE id % 10 = 2 AND user = 2")
    moved = shape.cast.replace("ts", "TIMESTAMP '2026-02-02 03:04:05'")
    lake.sql(f"UPDATE {{{table}}} SET ts = {moved} WHERE id % 10 = 3 AND user = 3")
    if not shape.spec and shape.version > 1:
        delete_by_user(lake, table, 3)
    lake.sql(
        f"CALL rewrite_data_files(table => '{SPACE}.{table}',"
        " options => map('rewrite-all', 'true'), where => 'id < 40')",
        f"CALL rewrite_manifests('{SPACE}.{table}')",
        f"DELETE FROM {{{table}}} WHERE ts IS NULL",
    )
    insert(lake, table, shape, DAYS[3])
    return Read.of(lake, table, shape)


def insert(lake: Warehouse, table: str, shape: Shape, *days: str | None) -> None:
    """A commit of ten rows in an hour of each day; ids count on."""
    first = int(lake.sql(f"SELECT coalesce(max(id) + 1, 0) FROM {{{table}}}")[0][0])
    rows = ", ".join(
        f"({first + 10 * place + n}L, {moment(day, n)}, {n % 5})"
        for place, day in enumerate(days)
        for n in range(10)
    )
    lake.sql(
        f"INSERT INTO {{{table}}} SELECT /*+ COALESCE(1) */ id, {shape.cast}, user"
        f" FROM VALUES {rows} AS t(id, ts, user)"
    )


def moment(day: str | None, minute: int) -> str:
    return "CAST(NULL AS TIMESTAMP)" if day is None else f"TIMESTAMP '{day} 23:{minute:02}:07'"


@pytest.fixture(scope="module")
def tables() -> dict[str, Read]:
    """Tables by shape, each filled when it is first asked for."""
    return {}


@pytest.fixture(params=SHAPES)
def read(lake: Warehouse, tables: dict[str, Read], request: pytest.FixtureRequest) -> Read:
    shape = request.param
    if shape not in tables:
        tables[shape] = with_history(lake, f"t{len(tables)}", SHAPES[shape])
    return tables[shape]


def facts(file: ChunkFile) -> tuple[Any, ...]:
    return (
        file.kind,
        file.path,
        file.rows,
        file.bytes,
        file.spec_id,
        file.sequence_number,
        file.referenced,
        file.part,
    )


def facts_of(row: Any) -> tuple[Any, ...]:
    """The same of a row of `.entries`."""
    kind = KINDS[row["content"], row["file_format"]]
    referenced = row["referenced_data_file"] or ""
    if kind is FileKind.POSITION_DELETE and not referenced:
        lower, upper = ((row[b] or {}).get(DELETED_PATH) for b in ("lower_bounds", "upper_bounds"))
        referenced = lower.decode() if lower and lower == upper else ""
    return (
        kind,
        row["file_path"],
        row["record_count"],
        row["file_size_in_bytes"],
        row["spec_id"],
        row["sequence_number"],
        referenced,
        row["content_offset"],
    )


OF_FILE = (
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "record_count",
    "file_size_in_bytes",
    "lower_bounds",
    "upper_bounds",
    "referenced_data_file",
    "content_offset",
)
# Not the partitions: Python has no such dates.
ENTRIES = f"status, snapshot_id, sequence_number, {', '.join(f'data_file.{f}' for f in OF_FILE)}"


def test_live_files_and_changes_are_those_of_icebergs_own_tables(read: Read) -> None:
    entries = read.of_each(ENTRIES, ".entries")
    for place, snapshot in enumerate(read.snapshots, 1):
        rows = entries[snapshot.snapshot_id]
        live = read.reader.live(snapshot, read.layout)
        assert Counter(map(facts, live)) == Counter(
            facts_of(row) for row in rows if row["status"] != 2
        )
        assert {(f.path, f.part): f.snapshot_id for f in live} == {
            (row["file_path"], row["content_offset"]): row["snapshot_id"]
            for row in rows
            if row["status"] != 2
        }
        change = read.reader.change(snapshot, read.layout, place)
        own = [row for row in rows if row["snapshot_id"] == snapshot.snapshot_id]
        for status, files in ((1, change.added), (2, change.removed)):
            assert Counter(map(facts, files)) == Counter(
                facts_of(row) for row in own if row["status"] == status
            )
        assert (change.place, change.operation) == (place, snapshot.summary["operation"])


def test_changes_one_after_another_come_to_the_live_files(read: Read) -> None:
    alive: Counter[tuple[str, int | None, Times]] = Counter()
    for place, snapshot in enumerate(read.snapshots, 1):
        change = read.reader.change(snapshot, read.layout, place)
        alive.update((f.path, f.part, f.times) for f in change.added)
        alive.subtract((f.path, f.part, f.times) for f in change.removed)
        live = read.reader.live(snapshot, read.layout)
        assert +alive == Counter((f.path, f.part, f.times) for f in live)
        assert not -alive


def test_every_row_lies_in_the_times_of_its_file(read: Read, request: Any) -> None:
    shape = SHAPES[request.node.callspec.params["read"]]
    by = {
        "DATE": "unix_micros(CAST(ts AS TIMESTAMP))",
        "TIMESTAMP_NTZ": "unix_micros(CAST(ts AS TIMESTAMP))",
        "STRING": "unix_micros(to_timestamp(ts, 'y-MM-dd'))",
        "INT": "unix_micros(to_timestamp(CAST(ts AS STRING), 'yMMdd'))",
    }.get(shape.type, "unix_micros(ts)")
    columns = f"_file AS path, min({by}) AS first, max({by}) AS last, count(*) AS n, count(ts) AS t"
    rows = read.of_each(columns, more="GROUP BY _file")
    for snapshot in read.snapshots:
        times = {f.path: f.times for f in read.reader.live(snapshot, read.layout)}
        for row in rows[snapshot.snapshot_id]:
            assert lies_in(times[row["path"]], row), (row, times[row["path"]])


def lies_in(times: Times, row: Any) -> bool:
    if times.is_everywhere:
        return True
    ends = [row["first"], row["last"]]
    calendar = (-62_135_596_800_000_000, 253_402_214_400_000_000)  # its last day has no end
    if times.range is None:
        return row["t"] == 0 or not (calendar[0] <= ends[0] and ends[1] < calendar[1])
    first, end = ((t - EPOCH) // MICROSECOND for t in (times.range.start, times.range.end))
    return bool(row["n"] == row["t"] and first <= ends[0] and ends[1] < end)


BY_PARTITION = ("days", "days in format 1", "days in format 3", "dates", "text")


@pytest.mark.parametrize("read", [*BY_PARTITION, "integers", "timestamps", "hours"], indirect=True)
def test_each_file_of_a_partition_lies_in_its_one_chunk(read: Read) -> None:
    named = set()
    for snapshot in read.snapshots:
        for file in read.reader.live(snapshot, read.layout):
            names = read.layout.names(file.times)
            assert names is not None and len(names) == 1
            named.update(names)
    assert {name[:10] for name in named} == {*DAYS, "2026-02-02", UNBOUNDED}


@pytest.mark.parametrize("read", ["void"], indirect=True)
def test_where_no_partition_tells_the_bounds_do(read: Read) -> None:
    live = read.reader.live(read.snapshots[-1], read.layout)
    newest = [f for f in live if f.snapshot_id == read.snapshots[-1].snapshot_id]
    assert [read.layout.names(f.times) for f in newest] == [[DAYS[3]]]


@pytest.mark.parametrize("read", ["unpartitioned"], indirect=True)
def test_row_deletes_that_no_partition_bounds_may_be_about_all(read: Read) -> None:
    files = [f for s in read.snapshots for f in read.reader.live(s, read.layout)]
    deletes = [f for f in files if f.kind is not FileKind.DATA]
    assert deletes
    assert any(f.times == EVERYWHERE for f in deletes)


@pytest.mark.parametrize("read", ["days, then hours"], indirect=True)
def test_files_of_a_newer_spec_lie_in_the_chunks_that_were_declared(read: Read) -> None:
    live = read.reader.live(read.snapshots[-1], read.layout)
    lengths = {f.spec_id: f.times.range.end - f.times.range.start for f in live if f.times.range}
    assert sorted(length.total_seconds() for length in lengths.values()) == [3600, 86400]
    assert all(len(read.layout.names(f.times) or ()) == 1 for f in live)
