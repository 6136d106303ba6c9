"""Appends rows to main only if no other commit came first (LT-30).

`app/chunks` calls it for writes to tables with dropped chunks. The rows are written to a scratch
branch first, and a compare-and-swap sets main to it. A plain append of Spark or PyIceberg would
retry after a concurrent drop, and put its rows into a chunk that is gone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.chunks.predicates import chunk_name, chunk_ordinal, ordinals
from meltline.adapters.spark.jvm import (
    CONFLICT,
    ENGINE_FAILURES,
    kind_of,
    shown_failure,
)
from meltline.adapters.spark.pinned_tables import PinnedTables
from meltline.adapters.spark.session import spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName, quoted
from meltline.domain.iceberg.table_metadata import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAY_MS = 24 * 3600 * 1000  # maximum age of a branch whose writer was killed
_TRIES = 4
_SPARK_TYPES = {"timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "long": "BIGINT"}


class SparkGuardedWriter:
    """Implements `GuardedWriter` for DataFrames."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        """Takes a session of this process, and the configuration of its catalogs."""
        self._tables = PinnedTables(spark, catalogs)
        self._catalogs = catalogs

    def late(
        self, rows: DataFrame, layout: ChunkLayout, dropped: Collection[str]
    ) -> Mapping[str, int]:
        """Counts rows in dropped chunks in one job, with the types that they will have."""
        column = layout.column
        numbers = ordinals(layout.unit, dropped)
        if not numbers or column.name.lower() not in map(str.lower, rows.columns):
            return {}
        type = _SPARK_TYPES.get(column.type, column.type)
        value = f"CAST({quoted(column.name)} AS {type})"
        numbered = rows.select(F.expr(chunk_ordinal(layout, value)).alias("chunk"))
        found = numbered.where(F.col("chunk").isin(numbers)).groupBy("chunk").count().collect()
        return {chunk_name(layout.unit, row["chunk"]): int(row["count"]) for row in found}

    def append(
        self,
        table: TableName,
        rows: DataFrame,
        expected_head: int | None,
        accept: Callable[[int], None] | None = None,
    ) -> bool:
        """Appends rows by a branch. See the port.

        Raises:
            MeltlineError: It is unknown whether main was set; the table's history shows it.
            PySparkException: The rows do not fit the table, or could not be computed.
        """
        loaded = self._tables.load(table)
        if _head(loaded) != expected_head:
            return False
        branch = _new_branch()
        try:
            refs = loaded.manageSnapshots()
            refs = (
                refs.createBranch(branch)
                if expected_head is None
                else (refs.createBranch(branch, expected_head))
            )
            refs.setMaxRefAgeMs(branch, _DAY_MS).commit()
            identifier = spark_identifier(self._catalogs, table)
            rows.writeTo(f"{identifier}.branch_{branch}").append()
            loaded.refresh()
            snapshot_id = int(loaded.operations().current().ref(branch).snapshotId())
            if accept is not None:
                accept(snapshot_id)
            return self._publish(table, loaded, branch, expected_head)
        finally:
            self._remove(loaded, branch)

    def _publish(self, name: TableName, table: Any, branch: str, expected: int | None) -> bool:
        operations = table.operations()
        for _ in range(_TRIES):
            table.refresh()
            base = operations.current()
            if _head(table) != expected:
                return False
            builder = self._tables.java("org.apache.iceberg.TableMetadata").buildFrom(base)
            builder = builder.setBranchSnapshot(base.ref(branch).snapshotId(), MAIN)
            try:
                operations.commit(base, builder.removeRef(branch).build())
                return True
            except ENGINE_FAILURES as failure:
                if kind_of(failure) != CONFLICT:
                    raise _unknown(name, shown_failure(failure)) from failure
        return False

    def _remove(self, table: Any, branch: str) -> None:
        """Removes the branch if it still exists; otherwise its maximum age ends it."""
        with suppress(*ENGINE_FAILURES):
            table.refresh()
            if table.operations().current().ref(branch) is not None:
                table.manageSnapshots().removeBranch(branch).commit()


class ArrowGuardedWriter:
    """Implements `GuardedWriter` for Arrow tables, through PyIceberg. Starts no JVM."""

    def __init__(self, catalogs: Mapping[str, CatalogConfig]) -> None:
        self._catalogs = catalogs

    def late(self, rows: Any, layout: ChunkLayout, dropped: Collection[str]) -> Mapping[str, int]:
        """Counts rows in dropped chunks; checks each distinct value once."""
        column = layout.column
        if column.name not in rows.column_names:
            return {}
        found: Counter[str] = Counter()
        for value, count in _counted(rows.column(column.name), layout):
            moment = column.instant(value)
            name = None if moment is None else layout.unit.label(layout.unit.floor(moment))
            if name in dropped:
                found[str(name)] += count
        return dict(found)

    def append(
        self,
        table: TableName,
        rows: Any,
        expected_head: int | None,
        accept: Callable[[int], None] | None = None,
    ) -> bool:
        """Appends rows by a branch. See the port.

        Raises:
            MeltlineError: It is unknown whether main was set; the table's history shows it.
            ValueError: The rows do not fit the table.
        """
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - starts slowly

        from meltline.adapters.chunks.arrow_files import append_to_branch  # noqa: PLC0415 - Arrow

        loaded = self._catalog(table.catalog).load_table((*table.namespace, table.name))
        branch = _new_branch()
        try:
            if _arrow_head(loaded) != expected_head:
                return False
            if expected_head is None:  # no chunk of an empty table was ever dropped
                append_to_branch(loaded, rows, MAIN)
                return True
            refs = loaded.manage_snapshots()
            refs.create_branch(expected_head, branch, max_ref_age_ms=_DAY_MS).commit()
            append_to_branch(loaded, rows, branch)
            loaded.refresh()
            snapshot_id = loaded.metadata.refs[branch].snapshot_id
            if accept is not None:
                accept(snapshot_id)
            return self._publish(table, loaded, branch, expected_head)
        except CommitFailedException:
            return False
        finally:
            self._remove(loaded, branch)

    def _publish(self, name: TableName, table: Any, branch: str, expected: int | None) -> bool:
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - starts slowly

        for _ in range(_TRIES):
            table.refresh()
            if _arrow_head(table) != expected:
                return False
            snapshot_id = table.metadata.refs[branch].snapshot_id
            try:
                # It requires that main has not moved since the table was refreshed.
                refs = table.manage_snapshots().set_current_snapshot(snapshot_id=snapshot_id)
                refs.remove_branch(branch).commit()
                return True
            except CommitFailedException:
                continue
            except Exception as failure:  # any error of a catalog's client
                raise _unknown(name, type(failure).__name__) from failure
        return False

    def _remove(self, table: Any, branch: str) -> None:
        with suppress(Exception):  # any error of a catalog's client: the branch ends by its age
            table.refresh()
            if branch in table.metadata.refs:
                table.manage_snapshots().remove_branch(branch).commit()

    def _catalog(self, name: str) -> Any:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - starts slowly

        config = self._catalogs[name]
        words = {
            "type": config.type,
            "uri": config.uri,
            "warehouse": config.warehouse,
            "init_catalog_tables": "false",
            **config.properties,
        }
        known_as = config.catalog_name if config.type == "sql" else config.name
        return load_catalog(known_as, **{key: text for key, text in words.items() if text})


def _counted(column: Any, layout: ChunkLayout) -> "Iterator[tuple[object, int]]":
    """Yields the column's distinct values with counts; instants are truncated to chunks."""
    import pyarrow as pa  # noqa: PLC0415 - starts slowly
    import pyarrow.compute as pc  # noqa: PLC0415

    if layout.column.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMPTZ):
        if not pa.types.is_timestamp(column.type):  # a date, say
            column = column.cast(pa.timestamp("us"))
        zone = column.type.tz and "UTC"
        instants = column.cast(pa.timestamp("us", zone), safe=False)
        column = pc.floor_temporal(instants, unit=layout.unit.value).cast(pa.int64())
    elif layout.column.pattern in ("s", "ms", "us"):
        instants = column.cast(pa.int64()).cast(pa.timestamp(layout.column.pattern))
        floored = pc.floor_temporal(instants, unit=layout.unit.value)
        column = floored.cast(pa.int64())
    for pair in pc.value_counts(column):
        yield pair["values"].as_py(), pair["counts"].as_py()


def _head(table: Any) -> int | None:
    snapshot = table.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def _arrow_head(table: Any) -> int | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None else int(snapshot.snapshot_id)


def _new_branch() -> str:
    return f"meltline_guarded_{token_hex(6)}"


def _unknown(table: TableName, found: str) -> MeltlineError:
    return MeltlineError(
        f"nobody knows whether the rows were appended to {table}",
        object=str(table),
        expected="a commit or a conflict",
        found=found,
        next="have a look at the table before you write them again",
    )


def writer_of(
    rows: Any, catalogs: Mapping[str, CatalogConfig]
) -> SparkGuardedWriter | ArrowGuardedWriter:
    """Returns the writer for some rows: Spark's for a DataFrame, else the one for Arrow tables."""
    if isinstance(rows, DataFrame):
        return SparkGuardedWriter(rows.sparkSession, catalogs)
    return ArrowGuardedWriter(catalogs)
