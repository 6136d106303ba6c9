"""Partitions by age, shown: a table of the weather, of which old days live in cold alone."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from demo.cold import hidden
from demo.place import Place
from demo.source import FIRST_DAY, weather_view
from demo.warehouse import NAMESPACE, TableFacts, stage
from meltline.app.chunks.drop import DroppedChunks, dropped_by
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import AddedPolicy, PolicyWish, add_policy
from meltline.app.chunks.reading.status import list_chunks
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.run import times_of
from meltline.app.services import ReadContext
from meltline.cli.output import print_rows
from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_size

TABLE = "weather_by_day"
POLICY = PolicyWish(PolicyType.TIERED_RETENTION, tier_after="14d", drop_after="28d")
DECLARED_BEFORE = timedelta(days=2)
"""The policy is so old when the DAG runs: on its first day it would only say what it would do."""
_LOAD = 9
"""Days in one load."""
_COLUMNS = ("status", "chunks", "first", "last", "rows", "bytes", "where")
_WHERE = {
    ChunkStatus.DROPPED: "cold alone",
    ChunkStatus.TIERED: "hot, and proved to be in cold",
    ChunkStatus.ACTIVE: "hot; too young to be asked for",
    ChunkStatus.REOPENED: "cold, and late rows in hot",
}


def load(
    spark: SparkSession, catalog: str, catalog_db: Path, today: datetime, *, days: int = 45
) -> TableFacts:
    """Writes `<catalog>.air.weather_by_day`: the weather, as if it were of the last `days`.

    Ages count by the rows' own times, so these move with the commits; the other tables' stay.

    Args:
        spark: As for `demo.warehouse.build`, which comes first; likewise the others.
        catalog: The catalog.
        catalog_db: Its SQLite file.
        today: Midnight UTC.
        days: Days of data.
    """
    name = f"{catalog}.{NAMESPACE}.{TABLE}"
    first = today - timedelta(days=days)
    # No history in the archive: cold has each row of it anyway.
    properties = "'format-version'='2', 'meltline.cold'='none'"
    with weather_view(spark, days, first.date() - FIRST_DAY) as weather:
        spark.sql(
            f"CREATE TABLE {name} USING iceberg PARTITIONED BY (days(observed_at))"
            f" TBLPROPERTIES ({properties}) AS SELECT * FROM {weather} WHERE false"
        )
        ends = [min(day + _LOAD, days) for day in range(0, days, _LOAD)]
        for day, end in zip(range(0, days, _LOAD), ends, strict=True):
            begin, until = first + timedelta(days=day), first + timedelta(days=end)
            spark.sql(
                f"INSERT INTO {name} SELECT * FROM {weather}"
                f" WHERE observed_at >= '{begin:%Y-%m-%d}' AND observed_at < '{until:%Y-%m-%d}'"
            )
    instants = [first + timedelta(hours=1), *(first + timedelta(days=d, hours=-1) for d in ends)]
    stage(catalog_db, catalog, TABLE, instants)
    rows = spark.table(name).count()
    return TableFacts(name, len(instants), rows, instants[0], instants[-1])


def declare(ledgers: ReadContext, table: str) -> AddedPolicy:
    """Has the table synced to cold, with ages at which its days are flagged and dropped."""
    name = TableName.parse(table)
    start_sync(ledgers, name)
    return add_policy(ledgers, name, POLICY)


def print_chunks(ledgers: ReadContext, place: Place, written: TableFacts) -> None:
    """How the table's days stand, what was dropped, and what is read of both sides afterwards.

    Raises:
        SystemExit: A row that was ever written is on neither side.
    """
    name = TableName.parse(written.name)
    chunks = [line.chunk for line in list_chunks(ledgers, name)]
    print()
    print_rows(
        f"Partitions by age: {name}, tier after 14d, drop after 28d", _COLUMNS, _lines(chunks)
    )
    for dropped in _drops(ledgers, name):
        print(f"{times_of(dropped)}.".replace("; ", ";\n"))
    with hidden(place):
        cold = _rows(place.lake / "archive.db", _cold_name(ledgers, name))
    hot = _rows(place.lake / "catalog.db", name)
    print(
        f"With the hot warehouse renamed away, PyIceberg reads {len(cold)} rows in cold; in hot it "
        f"reads {len(hot)}.\nTogether these are {len(cold | hot)} of the {written.rows} rows that "
        f"were ever written.\n  setup/run meltline chunks list {name}"
    )
    if len(cold | hot) != written.rows:
        sys.exit(f"demo: rows of {name} are missing")


def _lines(chunks: Sequence[Chunk]) -> list[list[str]]:
    lines = []
    for status, alike in sorted(grouped(chunks, lambda chunk: chunk.status).items(), key=_oldest):
        is_dropped = status is ChunkStatus.DROPPED
        rows = sum(c.dropped_rows if is_dropped else c.rows for c in alike)
        size = sum(c.dropped_bytes if is_dropped else c.bytes for c in alike)
        count = [str(len(alike)), alike[0].name, alike[-1].name, str(rows), format_size(size)]
        lines.append([str(status), *count, _WHERE[status]])
    return lines


def _oldest(group: tuple[ChunkStatus, Sequence[Chunk]]) -> str:
    return group[1][0].name


def _drops(ledgers: ReadContext, table: TableName) -> Iterator[DroppedChunks]:
    """What each plan took out of hot, and until when it is where."""
    for chunked in chunked_tables(ledgers, (str(table),)):
        uuid = chunked.state.uuid
        chunks = ledgers.control.chunks.of(uuid)
        for plan in ledgers.control.plans.find(table_uuid=uuid, states=[PlanState.APPLIED]):
            if plan.kind is PlanKind.DROP_CHUNKS:
                yield dropped_by(ledgers, chunked, plan, chunks)


def _cold_name(ledgers: ReadContext, table: TableName) -> TableName:
    return next(sync.cold for sync in ledgers.control.syncs.all() if sync.table == table)


def _rows(database: Path, table: TableName) -> set[tuple[object, ...]]:
    """A table's rows, as an engine reads them that knows nothing of Meltline."""
    catalog = SqlCatalog(table.catalog, uri=f"sqlite:///{database}")
    try:
        rows = catalog.load_table((*table.namespace, table.name)).scan().to_arrow()
    finally:
        catalog.close()
    columns = (rows[column].to_pylist() for column in sorted(rows.column_names))
    return set(zip(*columns, strict=True))
