"""The ledger's Iceberg tables: made, read, appended to."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.tables import TABLES
from meltline.domain.errors import SetupMissing
from meltline.domain.names import quote_part
from meltline.ports import ObjectStore

_MANY_FILES = 60
_MANY_SNAPSHOTS = 60
_FEW_ROWS = 100_000


Derived = TypeVar("Derived")


class LedgerTables:
    """Reads and appends rows of the ledger's tables."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, catalog: str, namespace: str
    ) -> None:
        self._spark = spark
        self._store = store
        self._namespace = f"{quote_part(catalog)}.{quote_part(namespace)}"
        self._kept: dict[str, tuple[tuple[int | None, ...], Any]] = {}

    def prepare(self) -> None:
        """Creates the namespace and the tables where they are missing."""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        for name, schema in TABLES.items():
            empty = self._spark.createDataFrame(schema.empty_table())
            columns = ", ".join(
                f"{field.name} {field.dataType.simpleString()}" for field in empty.schema.fields
            )
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._namespace}.{name} ({columns}) USING iceberg "
                "TBLPROPERTIES ('format-version'='2', 'gc.enabled'='true', "
                "'write.parquet.compression-codec'='zstd', "
                # Small row groups: a look for some manifests passes over the others' rows.
                "'write.parquet.row-group-size-bytes'='8388608', "
                "'write.metadata.delete-after-commit.enabled'='true', "
                "'write.metadata.previous-versions-max'='20')"
            )

    def upkeep(self) -> Sequence[str]:
        """Compacts and expires the ledger's own tables, by Iceberg's procedures, where it pays.

        Snapshots of the last day stay: a run that reads them may be under way.
        """
        done = []
        catalog, _, namespace = self._namespace.rpartition(".")
        for name in TABLES:
            current = self._loaded(name).currentSnapshot()
            if current is None:
                continue
            table = f"{namespace}.{name}".replace("'", "\\'")
            files = int(current.summary().get("total-data-files") or 0)
            if files >= _MANY_FILES:
                self._spark.sql(
                    f"CALL {catalog}.system.rewrite_data_files(table => '{table}', "
                    "options => map('min-input-files', '10'))"
                )
                done.append(f"{name}: {files} files compacted")
            snapshots = self._loaded(name).snapshots()
            if sum(1 for _ in snapshots) >= _MANY_SNAPSHOTS:
                self._spark.sql(
                    f"CALL {catalog}.system.expire_snapshots(table => '{table}', "
                    "older_than => current_timestamp() - INTERVAL 1 DAY, retain_last => 5)"
                )
                done.append(f"{name}: snapshots expired")
        return done

    def _read(self, table: str) -> DataFrame:
        try:
            return self._spark.table(f"{self._namespace}.{table}")
        except AnalysisException as missing:
            raise self._missing(table, missing) from missing

    def _missing(self, table: str, missing: AnalysisException) -> SetupMissing:
        return SetupMissing(
            f"the file ledger's table {self._namespace}.{table} cannot be opened",
            object=f"{self._namespace}.{table}",
            expected="the tables that `meltline init` creates",
            found=missing.getCondition() or "an error of Spark's",
            next="restore the table; or `meltline init --adopt`, which starts without its past",
        )

    def _append(self, table: str, rows: Sequence[Mapping[str, Any]], marker: str) -> None:
        if not rows:
            return
        self._append_arrow(table, pa.Table.from_pylist(list(rows), schema=TABLES[table]), marker)

    def _append_columns(self, table: str, columns: Mapping[str, list[Any]], marker: str) -> None:
        rows = pa.table(dict(columns), schema=TABLES[table])
        if rows.num_rows:
            self._append_arrow(table, rows, marker)

    def _append_arrow(self, table: str, rows: pa.Table, marker: str) -> None:
        if rows.num_rows > _FEW_ROWS:
            self._write(table, self._spark.createDataFrame(rows).coalesce(1), marker)
        else:
            self._append_here(table, rows, marker)

    def _append_here(self, table: str, rows: pa.Table, marker: str) -> None:
        """One data file, written by this process: a Spark job takes longer to start."""
        loaded, iceberg = self._loaded(table), self._spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        path = loaded.locationProvider().newDataLocation(f"{uuid4()}.parquet")
        content = _parquet(rows, _with_field_ids(rows.schema, loaded.schema()))
        self._store.write(path, content)
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(
            loaded.io().newInputFile(path), iceberg.MetricsConfig.forTable(loaded)
        )
        file = (
            iceberg.DataFiles.builder(loaded.spec())
            .withPath(path)
            .withFormat("parquet")
            .withFileSizeInBytes(len(content))
            .withMetrics(metrics)
            .build()
        )
        loaded.newAppend().appendFile(file).set("meltline.marker", marker).commit()

    def _write(self, table: str, frame: DataFrame, marker: str) -> None:
        writer = frame.writeTo(f"{self._namespace}.{table}")
        writer.option("snapshot-property.meltline.marker", marker).append()

    def _once(self, tables: str, name: str, made: Callable[[], Derived]) -> Derived:
        """What was derived from tables, kept in memory until one of them gets a new snapshot."""
        now = tuple(self._current(table) for table in tables.split())
        then, before = self._kept.get(name, ((), None))
        if name in self._kept and then == now:
            return cast(Derived, before)
        if isinstance(before, DataFrame):
            before.unpersist()
        derived = made()
        self._kept[name] = (now, derived)
        return derived

    def _current(self, table: str) -> int | None:
        """The current snapshot of one of the ledger's tables; None while it has none."""
        loaded = self._loaded(table)
        current = loaded.currentSnapshot()
        return None if current is None else int(current.snapshotId())

    def _loaded(self, table: str) -> Any:
        jvm: Any = self._spark._jvm
        name = f"{self._namespace}.{table}"
        try:
            return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
                self._spark._jsparkSession, name
            )
        except AnalysisException as missing:
            raise self._missing(table, missing) from missing

    def _values(self, table: str, column: str, wanted: Sequence[str]) -> set[str]:
        if not wanted:
            return set()
        found = self._read(table).where(F.col(column).isin(list(wanted))).select(column).distinct()
        return {row[0] for row in found.collect()}

    def _hashes(self, column: str, paths: Iterable[str]) -> DataFrame:
        return self._ids(column, [key_hash(path) for path in paths])

    def _ids(self, column: str, ids: Collection[int] | pa.Array) -> DataFrame:
        values = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.int64())
        return F.broadcast(self._spark.createDataFrame(pa.table({column: values})))


def _with_field_ids(rows: pa.Schema, table: Any) -> pa.Schema:
    """The same columns with Iceberg's ids, by which its readers find them."""

    def known(field: pa.Field, path: str) -> pa.Field:
        if pa.types.is_list(field.type):
            element = known(field.type.value_field.with_name("element"), f"{path}.element")
            field = field.with_type(pa.list_(element))
        return field.with_metadata({"PARQUET:field_id": str(table.findField(path).fieldId())})

    return pa.schema([known(field, field.name) for field in rows])


def _parquet(rows: pa.Table, schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.cast(schema), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
