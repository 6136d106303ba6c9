"""Rows of a snapshot on both sides, read by Spark and held against each other, for the gate."""

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

_WHOLE = 64 * 1024 * 1024  # bytes; of a larger snapshot a few data files are read instead
_FILES = 3


class SparkRowComparer:
    """The port `RowComparer`: each row as JSON, so that maps and nested values compare too."""

    def __init__(
        self,
        spark: SparkSession,
        catalogs: Mapping[str, CatalogConfig],
        warehouse: str,
        whole_below: int = _WHOLE,
    ) -> None:
        """Takes the catalogs of both sides, the folder of cold, and what is read as a whole."""
        self._whole_below = whole_below
        self._java = JavaClasses(spark)
        self._spark = spark
        self._catalogs = catalogs
        self._warehouse = warehouse

    def differing(self, samples: Sequence[RowSample]) -> Sequence[str]:
        """What differs, or cannot be read; nothing where all agree."""
        problems = []
        for sample in samples:
            subject = f"{sample.cold}@{sample.snapshot_id}"
            try:
                differ = any(rows_differ(hot, cold) for hot, cold in self._sides(sample))
            except Exception as error:  # whatever Spark raises: rows that nobody can read
                problems.append(f"{subject} cannot be compared: {discreet(str(error))[:300]}")
                continue
            if differ:
                problems.append(f"{subject} has other rows than {sample.hot}")
        return problems

    def count(self, table: TableName, snapshot_id: int) -> int | str:
        """Reads every column of every row, with the deletes applied."""
        try:
            rows = _as_json(self._at(table, RowSample(table, table, snapshot_id)))
            read = rows.agg(F.count("*"), F.bit_xor(F.xxhash64("row"))).collect()
        except Exception as error:  # whatever Spark raises: rows that nobody can read
            return f"{table}@{snapshot_id} cannot be read: {discreet(str(error))[:300]}"
        return int(read[0][0])

    def _sides(self, sample: RowSample) -> Iterator[tuple[DataFrame, DataFrame]]:
        """The whole snapshot with its deletes applied, or some of its data files as they are."""
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
        """The snapshot's size by its summary; what does not say is as large as can be."""
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
    """Whether one side has a row more, or more often, than the other; the order does not count."""
    sides = [_as_json(hot).select("row", F.lit(1).alias("times"))]
    sides += [_as_json(cold).select("row", F.lit(-1).alias("times"))]
    counted = sides[0].unionAll(sides[1]).groupBy("row").agg(F.sum("times").alias("times"))
    return bool(counted.where("times <> 0").take(1))


def _as_json(rows: DataFrame) -> DataFrame:
    return rows.select(F.to_json(F.struct("*"), AS_JSON).alias("row"))
