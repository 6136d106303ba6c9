"""Row digests and files of chunks, computed by Spark and Iceberg for the gate; reads of all rows.

The gate uses it as an independent check: it shares no code with the reader of manifests. Reads that
join hot's rows with those that only cold has are here too, since they use the same predicates.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.chunks.predicates import (
    PredicateTime,
    chunk_name,
    chunk_ordinal,
    floored,
    in_chunks,
    moment_ordinal,
    near_chunks,
    ordinals,
)
from meltline.adapters.chunks.row_hashes import row_hash, unsupported
from meltline.adapters.spark.jvm import ENGINE_FAILURES, shown_failure
from meltline.adapters.spark.pinned_tables import Field, PinnedTables, column_of, fields_of
from meltline.adapters.spark.session import file_io_settings
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.complete import ColdPart, CompleteRead
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.names import TableName
from meltline.ports import SPANNING

_FILE = "file"


class SparkChunkRows:
    """Implements `ChunkRows`."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and the configuration of its catalogs."""
        self._tables = PinnedTables(spark, catalogs)

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
        columns: Collection[int] | None = None,
    ) -> Mapping[str, RowDigest]:
        """Computes counts, sums of hashes, and nulls, by chunk, in one job. See the port.

        Args:
            table: A table of hot or of cold.
            snapshot_id: The snapshot; it is read under the table's current columns.
            layout: The definition of its chunks.
            chunks: The chunks; None is every one that has rows.
            only_files: Restricts the rows to these data files; None is all.
            columns: Field ids; a column that the table lacks is null in every row. None is all
                columns of the table.

        Raises:
            SyncRefused: It cannot be read, or has a column that cannot be hashed.
        """
        with refusing(table, snapshot_id):
            pinned = self._tables.pinned(self._tables.load(table), snapshot_id)
            fields = fields_of(self._tables.schema(pinned))
            chosen = [f for f in fields if columns is None or f["id"] in columns]
            require_supported(table, chosen)
            frame = self._tables.frame(pinned)
            if only_files is not None:
                frame = frame.where(F.col("_file").isin(list(only_files)))
            rows = frame.toDF(*(column_of(field) for field in fields))
            digested = _digested(rows, layout, chunks, chosen).collect()
        lacking = set(columns or ()) - {int(field["id"]) for field in chosen}
        return {
            chunk_name(layout.unit, row["chunk"]): _digest(row, chosen, lacking) for row in digested
        }

    def files(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str],
    ) -> Mapping[str, Collection[str]]:
        """Reads the metadata table of data files at that snapshot. See the port.

        A file that may have rows of several chunks is under `*` alone, if one of them is requested;
        a chunk without files is left out.

        Raises:
            SyncRefused: It cannot be read.
        """
        with refusing(table, snapshot_id):
            pinned = self._tables.pinned(self._tables.load(table), snapshot_id)
            placed = file_places(self._tables, pinned, layout).collect()
        return _by_chunk(placed, layout, chunks)


@contextmanager
def refusing(table: TableName, snapshot_id: int | None) -> Iterator[None]:
    """Converts errors of Spark and Iceberg to a readable refusal."""
    try:
        yield
    except ENGINE_FAILURES as error:
        raise SyncRefused(
            f"snapshot {snapshot_id} of {table} cannot be read or copied",
            object=str(table),
            expected="a table whose rows this session can read",
            found=shown_failure(error),
            next="run again; if it stays, have a look at the table with the engine itself",
        ) from error


def require_supported(table: TableName, fields: Sequence[Field]) -> None:
    """Refuses columns that cannot be copied and proved, by name."""
    if found := unsupported(fields):
        raise SyncRefused(
            f"{table} has columns that cannot be copied and proved: {', '.join(found)}",
            object=str(table),
            expected="numbers, texts, times to the microsecond, and what is made of these",
            found=", ".join(found),
            next="drop these columns or give them another type, or leave the table unsynced",
        )


def _digested(
    rows: DataFrame, layout: ChunkLayout, chunks: Collection[str] | None, fields: Sequence[Field]
) -> DataFrame:
    time = f"c{layout.column.field_id}"
    if chunks is not None:
        rows = rows.where(near_chunks(layout, time, chunks)).where(in_chunks(layout, time, chunks))
    names = [column_of(field) for field in fields]
    hashed = rows.select(
        F.expr(chunk_ordinal(layout, time)).alias("chunk"),
        F.expr(row_hash(fields)).alias("hash"),
        *(F.isnull(name).alias(name) for name in names),
    )
    # In two halves the sum of four billion hashes fits a long, which is faster than decimals.
    return hashed.groupBy("chunk").agg(
        F.count("*").alias("rows"),
        F.sum(F.shiftright("hash", 32)).alias("high"),
        F.sum(F.expr("hash & 4294967295L")).alias("low"),
        *(F.count_if(name).alias(name) for name in names),
    )


def _digest(row: Row, fields: Sequence[Field], lacking: Collection[int]) -> RowDigest:
    nulls = {int(field["id"]): int(row[column_of(field)]) for field in fields}
    nulls |= dict.fromkeys(lacking, int(row["rows"]))
    checksum = (int(row["high"]) << 32) + int(row["low"])
    return RowDigest(int(row["rows"]), checksum, tuple(sorted(nulls.items())))


def _by_chunk(
    placed: Sequence[Row], layout: ChunkLayout, chunks: Collection[str]
) -> dict[str, list[str]]:
    numbers = ordinals(layout.unit, chunks)
    asked = set(numbers)
    by_chunk: defaultdict[str, list[str]] = defaultdict(list)
    for path, is_timeless, first, last in placed:
        if is_timeless:
            if UNBOUNDED in chunks:
                by_chunk[UNBOUNDED].append(path)
        elif first is None or last is None or first > last:
            by_chunk[SPANNING].append(path)
        elif first == last:
            if first in asked:
                by_chunk[chunk_name(layout.unit, first)].append(path)
        elif _any_between(numbers, first, last):
            by_chunk[SPANNING].append(path)
    return dict(by_chunk)


def _any_between(numbers: Sequence[int], first: int, last: int) -> Any:
    at = bisect_left(numbers, first)
    return at < len(numbers) and numbers[at] <= last


# --- all rows, of hot and of cold ----------------------------------------------------------------


def complete_frame(
    spark: SparkSession, catalogs: Mapping[str, CatalogConfig], read: CompleteRead
) -> DataFrame:
    """Returns the rows of a `CompleteRead`, under hot's columns: cold's are matched by field id.

    The cold table is read from its metadata file, without a catalog. A session that runs SQL
    does not know cold's catalog, so no statement can write there (AR-34).

    Args:
        spark: A session of this process, with hot's catalog.
        catalogs: The configuration of hot's catalog and of cold's.
        read: The read.

    Raises:
        SyncRefused: It cannot be read.
    """
    tables = PinnedTables(spark, catalogs)
    with refusing(read.table, read.hot.snapshot_id):
        hot = tables.at(tables.load(read.table).io(), read.hot.location)
        if read.hot.snapshot_id is None:
            rows = tables.frame(hot).limit(0)
        else:
            rows = tables.frame(tables.pinned(hot, read.hot.snapshot_id))
        if read.cold is None:
            return rows
        schema = hot.schema()
        if read.cold.instead:
            names = [column_of(field) for field in fields_of(tables.schema(hot))]
            layout, columns = read.cold.layout, rows.columns
            instead = in_chunks(layout, f"c{layout.column.field_id}", read.cold.instead)
            rows = rows.toDF(*names).where(f"NOT {instead}").toDF(*columns)
    with refusing(read.cold.pinned.table, read.cold.pinned.snapshot_id):
        return rows.union(_of_cold(tables, catalogs, read.cold, schema))


def _of_cold(
    tables: PinnedTables, catalogs: Mapping[str, CatalogConfig], part: ColdPart, schema: Any
) -> DataFrame:
    name, snapshot_id, layout = part.pinned.table, part.pinned.snapshot_id, part.layout
    assert snapshot_id is not None  # a table without a snapshot is not read
    io = tables.file_io(*file_io_settings(catalogs[name.catalog]))
    pinned = tables.pinned(tables.at(io, part.pinned.location), snapshot_id, schema)
    names = [column_of(field) for field in fields_of(tables.schema(pinned))]
    time = f"c{layout.column.field_id}"
    frame = tables.frame(pinned)
    copies = part.copies
    if not (copies.whole or copies.parts):
        frame = frame.toDF(*names)
    else:
        frame = frame.select("*", F.col("_file")).toDF(*names, _FILE)
        if copies.whole:
            frame = frame.where(~F.col(_FILE).isin(list(copies.whole)))
        for chunks, paths in copies.parts.items():
            is_copy = F.col(_FILE).isin(list(paths)) & F.expr(in_chunks(layout, time, chunks))
            frame = frame.where(~is_copy)
    rows = frame.where(near_chunks(layout, time, part.chunks))
    return rows.where(in_chunks(layout, time, part.chunks)).select(*names)


_TIMES = frozenset(("hour", "day", "month", "year", "identity"))


def file_places(tables: PinnedTables, pinned: Any, layout: ChunkLayout) -> DataFrame:
    """Returns each file's path, whether no row has a time, and the numbers of its chunks' range.

    The numbers are null if unknown. The partition decides if it is of time. If it is longer than a
    chunk, or there is none, the column's bounds decide.
    """
    java = tables.java
    kind = java("org.apache.iceberg.MetadataTableType").DATA_FILES
    files = tables.frame(
        java("org.apache.iceberg.MetadataTableUtils").createMetadataTableInstance(pinned, kind)
    )
    renamed = ["f.file_path AS path", "f.spec_id AS spec", f"{_metrics(pinned, layout)} AS bounds"]
    is_partitioned = "partition" in files.columns
    if is_partitioned:
        renamed.append(f"{_partition_by_id(tables, pinned, files)} AS part")
    places = _Places(layout, dict(_timed_parts(tables, pinned, layout)) if is_partitioned else {})
    return (
        files.alias("f")
        .selectExpr(*renamed)
        .selectExpr("path", *places.partition(), *places.bounds())
        .selectExpr(
            "path",
            "coalesce(part_null, all_null) AS timeless",
            # Both functions ignore nulls: one source may know what the other does not.
            "greatest(part_first, bound_first) AS first",
            "least(part_last, bound_last) AS last",
        )
    )


def _metrics(pinned: Any, layout: ChunkLayout) -> str:
    name = str(pinned.schema().findColumnName(layout.column.field_id))
    return f"f.readable_metrics.{_quoted(name)}"


def _partition_by_id(tables: PinnedTables, pinned: Any, files: DataFrame) -> str:
    """Returns the partition with fields named by id, since two specs may share a name."""
    struct: Any = files.schema["partition"].dataType
    fields = tables.java("org.apache.iceberg.Partitioning").partitionType(pinned).fields()
    types = (
        f"p{field.fieldId()}: {part.dataType.simpleString()}"
        for field, part in zip(fields, struct.fields, strict=True)
    )
    return f"CAST(f.partition AS STRUCT<{', '.join(types)}>)"


def _timed_parts(
    tables: PinnedTables, pinned: Any, layout: ChunkLayout
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yields each partition spec's fields of the column of times, with their transforms."""
    to_json = tables.java("org.apache.iceberg.PartitionSpecParser").toJson
    for spec in pinned.specs().values():
        fields = [
            (f"part.p{field['field-id']}", str(field["transform"]))
            for field in json.loads(to_json(spec))["fields"]
            if field["source-id"] == layout.column.field_id and field["transform"] in _TIMES
        ]
        if fields:
            yield int(spec.specId()), fields


class _Places:
    """Spark SQL for the first and last chunk of a file."""

    def __init__(self, layout: ChunkLayout, parts: dict[int, list[tuple[str, str]]]) -> None:
        self._layout = layout
        self._parts = parts

    def partition(self) -> list[str]:
        """Returns columns from the partition: null if it is not of time."""
        ends = {
            spec: [self._ends(value, transform) for value, transform in fields]
            for spec, fields in self._parts.items()
        }
        first = {spec: _most("greatest", [one for one, _ in e]) for spec, e in ends.items()}
        last = {spec: _most("least", [other for _, other in e]) for spec, e in ends.items()}
        null = {
            spec: " OR ".join(f"({end}) IS NULL" for pair in e for end in pair)
            for spec, e in ends.items()
        }
        return [
            f"{_by_spec(first, 'BIGINT')} AS part_first",
            f"{_by_spec(last, 'BIGINT')} AS part_last",
            f"{_by_spec(null, 'BOOLEAN')} AS part_null",
        ]

    def bounds(self) -> list[str]:
        """Returns columns from the column's bounds: null if only some rows lack a time."""
        full = "bounds.null_value_count = 0"
        if self._layout.column.kind is ColumnKind.TEXT:
            full = "FALSE"  # bounds of texts are truncated
        ends = [chunk_ordinal(self._layout, f"bounds.{end}_bound") for end in ("lower", "upper")]
        both = " AND ".join(f"({end}) IS NOT NULL" for end in ends)
        return [
            f"CASE WHEN {full} AND {both} THEN {ends[0]} END AS bound_first",
            f"CASE WHEN {full} AND {both} THEN {ends[1]} END AS bound_last",
            "coalesce(bounds.value_count > 0"
            " AND bounds.null_value_count = bounds.value_count, FALSE) AS all_null",
        ]

    def _ends(self, value: str, transform: str) -> tuple[str, str]:
        if transform == "identity":
            number = chunk_ordinal(self._layout, value)
            return number, number
        first, last = _moments(value, transform)
        unit = self._layout.unit
        return moment_ordinal(unit, first), moment_ordinal(unit, last)


def _moments(value: str, transform: str) -> tuple[PredicateTime, PredicateTime]:
    """Returns the first and last hour of a partition, which Iceberg numbers from 1970."""
    if transform == "hour":
        day = f"date_from_unix_date(CAST({floored(value, 24)} AS INT))"
        hour = PredicateTime(day, f"pmod({value}, 24)")
        return hour, hour
    if transform == "day":
        return PredicateTime(value), PredicateTime(value, "23")
    months = value if transform == "month" else f"{value} * 12"
    start = f"add_months(DATE '1970-01-01', {months})"
    end = f"date_sub(add_months({start}, {1 if transform == 'month' else 12}), 1)"
    return PredicateTime(start), PredicateTime(end, "23")


def _most(function: str, values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"{function}({', '.join(values)})"


def _by_spec(by_spec: dict[int, str], type: str) -> str:
    if not by_spec:
        return f"CAST(NULL AS {type})"
    cases = " ".join(f"WHEN {spec} THEN {value}" for spec, value in by_spec.items())
    return f"CASE spec {cases} END"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
