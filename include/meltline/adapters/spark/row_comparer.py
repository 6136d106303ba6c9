"""Compares the rows of a snapshot in hot and in cold, read by Spark, for the archive's gate.

It reads the copies as any query would, so it also detects copies that no engine can read.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.spark.jvm import JavaClasses
from meltline.adapters.spark.session import spark_identifier
from meltline.adapters.spark.snapshot_reader import AS_JSON
from meltline.config.load import CatalogConfig
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.iceberg.names import TableName
from meltline.domain.redaction import discreet
from meltline.ports import RowSample

_WHOLE = 64 * 1024 * 1024  # bytes; larger snapshots are sampled by a few data files
_FILES = 3


class SparkRowComparer:
    """Implements `RowComparer`; rows are compared as JSON, which covers maps and nested values."""

    def __init__(
        self,
        spark: SparkSession,
        catalogs: Mapping[str, CatalogConfig],
        warehouse: str,
        whole_below: int = _WHOLE,
    ) -> None:
        """Takes the catalogs of both sides, cold's folder, and the size that is read completely."""
        self._whole_below = whole_below
        self._java = JavaClasses(spark)
        self._spark = spark
        self._catalogs = catalogs
        self._warehouse = warehouse

    def differing(self, samples: Sequence[RowSample]) -> Sequence[str]:
        """Describes what differs or is unreadable; empty if all rows agree."""
        problems = []
        for sample in samples:
            subject = f"{sample.cold}@{sample.snapshot_id}"
            try:
                differ = any(rows_differ(hot, cold) for hot, cold in self._sides(sample))
            except Exception as error:  # any error of Spark: the rows are unreadable
                problems.append(f"{subject} cannot be compared: {discreet(str(error))[:300]}")
                continue
            if differ:
                problems.append(f"{subject} has other rows than {sample.hot}")
        return problems

    def count(self, table: TableName, snapshot_id: int) -> int | str:
        """Reads every column of every row, with deletes applied, and counts the rows."""
        try:
            rows = _as_json(self._at(table, RowSample(table, table, snapshot_id)))
            read = rows.agg(F.count("*"), F.bit_xor(F.xxhash64("row"))).collect()
        except Exception as error:  # any error of Spark: the rows are unreadable
            return f"{table}@{snapshot_id} cannot be read: {discreet(str(error))[:300]}"
        return int(read[0][0])

    def _sides(self, sample: RowSample) -> Iterator[tuple[DataFrame, DataFrame]]:
        """Yields the whole snapshot with deletes applied, or some of its data files without."""
        if self._bytes(sample) < self._whole_below:
            yield self._at(sample.hot, sample), self._at(sample.cold, sample)
            return
        files = self._at(sample.hot, sample, ".files").where("content = 0")
        smallest = files.orderBy("file_size_in_bytes", "file_path").limit(_FILES)
        for row in smallest.select("file_path", "file_format").collect():
            reader = self._spark.read.format(row["file_format"].lower())
            reader.option("__globPaths__", "false")  # a path, not a pattern of paths
            yield (
                reader.load(row["file_path"]),
                reader.load(mirrored(row["file_path"], self._warehouse)),
            )

    def _bytes(self, sample: RowSample) -> int:
        """Returns the snapshot's size from its summary; the limit if the summary lacks it."""
        table = self._java("org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
            self._spark._jsparkSession, self._name(sample.hot)
        )
        snapshot = table.snapshot(sample.snapshot_id)
        size = None if snapshot is None else snapshot.summary().get("total-files-size")
        return self._whole_below if size is None else int(size)

    def _at(self, table: TableName, sample: RowSample, part: str = "") -> DataFrame:
        past = self._spark.read.option("versionAsOf", sample.snapshot_id)
        return past.table(f"{self._name(table)}{part}")

    def _name(self, table: TableName) -> str:
        return spark_identifier(self._catalogs, table)


def rows_differ(hot: DataFrame, cold: DataFrame) -> bool:
    """Returns whether a row occurs more often on one side; the order does not matter."""
    sides = [_as_json(hot).select("row", F.lit(1).alias("times"))]
    sides += [_as_json(cold).select("row", F.lit(-1).alias("times"))]
    counted = sides[0].unionAll(sides[1]).groupBy("row").agg(F.sum("times").alias("times"))
    return bool(counted.where("times <> 0").take(1))


def _as_json(rows: DataFrame) -> DataFrame:
    return rows.select(F.to_json(F.struct("*"), AS_JSON).alias("row"))
