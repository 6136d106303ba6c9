"""The ledger's Iceberg tables: made, read, appended to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.tables import TABLES
from meltline.domain.errors import SetupMissing
from meltline.domain.names import quote_part
from meltline.ports import ObjectStore, SnapshotKey


class LedgerTables:
    """Reads and appends rows of the ledger's tables."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, catalog: str, namespace: str
    ) -> None:
        self._spark = spark
        self._store = store
        self._namespace = f"{quote_part(catalog)}.{quote_part(namespace)}"

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
                "'write.parquet.compression-codec'='zstd')"
            )

    def _read(self, table: str) -> DataFrame:
        try:
            return self._spark.table(f"{self._namespace}.{table}")
        except AnalysisException as missing:
            raise SetupMissing(
                f"the file ledger's table {self._namespace}.{table} cannot be opened",
                object=f"{self._namespace}.{table}",
                expected="the tables that `meltline init` creates",
                found=missing.getCondition() or "an error of Spark's",
                next="restore the table; or `meltline init --adopt`, which starts without its past",
            ) from missing

    def _append(self, table: str, rows: Sequence[Mapping[str, Any]], marker: str) -> None:
        if not rows:
            return
        arrow = pa.Table.from_pylist(list(rows), schema=TABLES[table])
        frame = self._spark.createDataFrame(arrow).coalesce(1)
        self._write(table, frame, marker)

    def _write(self, table: str, frame: DataFrame, marker: str) -> None:
        writer = frame.writeTo(f"{self._namespace}.{table}")
        writer.option("snapshot-property.meltline.marker", marker).append()

    def _values(self, table: str, column: str, wanted: Sequence[str]) -> set[str]:
        if not wanted:
            return set()
        found = self._read(table).where(F.col(column).isin(list(wanted))).select(column).distinct()
        return {row[0] for row in found.collect()}

    def _hashes(self, column: str, paths: Iterable[str]) -> DataFrame:
        hashes = pa.table({column: pa.array([key_hash(path) for path in paths], pa.int64())})
        return F.broadcast(self._spark.createDataFrame(hashes))

    def _keys(self, keys: Sequence[SnapshotKey]) -> DataFrame:
        return self._spark.createDataFrame(
            pa.table(
                {
                    "table_uuid": [key.table_uuid for key in keys],
                    "snapshot_id": pa.array([key.snapshot_id for key in keys], pa.int64()),
                }
            )
        )
