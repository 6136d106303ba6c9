"""Tables whose rows are deleted without rewriting files: by position, by value, by vector."""

from typing import Any

from pyspark.sql import SparkSession

from tests.spark.setups.warehouse import SPACE, Warehouse

_MODES = ("delete", "update", "merge")


def create(lake: Warehouse, table: str, version: int, *properties: str) -> None:
    """An empty table of numbers and words, partitioned by whether a number is odd."""
    modes = [f"write.{mode}.mode=merge-on-read" for mode in _MODES]
    pairs = [p.partition("=") for p in (f"format-version={version}", *modes, *properties)]
    words = ", ".join(f"'{key}'='{value}'" for key, _, value in pairs)
    lake.sql(
        f"CREATE TABLE {{{table}}} (id BIGINT, odd INT, word STRING) USING iceberg"
        f" PARTITIONED BY (odd) TBLPROPERTIES ({words})"
    )


def insert(lake: Warehouse, table: str, start: int, end: int, more: str = "") -> None:
    """A commit of some numbers; `more` gives further columns."""
    lake.sql(
        f"INSERT INTO {{{table}}} SELECT /*+ COALESCE(1) */ id, CAST(id % 2 AS INT),"
        f" concat('w', id){more} FROM range({start}, {end})"
    )


def delete_by_value(lake: Warehouse, table: str, column: str, *values: Any) -> None:
    """A commit of equality deletes, one file for each value of `odd`; Spark itself writes none."""
    spark = lake.spark
    jvm: Any = spark._jvm
    iceberg = jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, lake.name(table))
    by, spec = loaded.schema().select([column]), loaded.spec()
    writers = (
        getattr(iceberg.data, "GenericFileWriterFactory$Builder")(loaded)
        .equalityFieldIds(_int_array(spark, loaded.schema().findField(column).fieldId()))
        .equalityDeleteRowSchema(by)
        .build()
    )
    files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).build()
    delta = loaded.newRowDelta()
    for odd in (0, 1):
        partition = iceberg.PartitionData(spec.partitionType())
        partition.set(0, odd)
        writer = writers.newEqualityDeleteWriter(
            files.newOutputFile(spec, partition), spec, partition
        )
        for value in values:
            record = iceberg.data.GenericRecord.create(by)
            record.setField(column, value)
            writer.write(record)
        writer.close()
        delta.addDeletes(writer.toDeleteFile())
    delta.commit()


def _int_array(spark: SparkSession, value: int) -> Any:
    gateway: Any = spark.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.int, 1)
    made[0] = value
    return made


def history(lake: Warehouse, table: str, version: int, *properties: str) -> None:
    """Deletes of each kind, a change of columns, one of partitioning, tags and statistics.

    Nine snapshots. The last shares all but one of its files with the one before.
    """
    create(lake, table, version, *properties)
    insert(lake, table, 0, 40)
    insert(lake, table, 40, 80)
    lake.sql(f"DELETE FROM {{{table}}} WHERE id IN (3, 4, 41)")
    lake.sql(f"ALTER TABLE {{{table}}} CREATE TAG early")
    delete_by_value(lake, table, "word", "w10", "w50", "w51")
    lake.sql(
        f"ALTER TABLE {{{table}}} ADD COLUMN more STRING",
        f"ALTER TABLE {{{table}}} RENAME COLUMN word TO text",
    )
    insert(lake, table, 80, 120, ", 'm'")
    lake.sql(f"ALTER TABLE {{{table}}} ADD PARTITION FIELD bucket(2, id)")
    insert(lake, table, 120, 160, ", 'n'")
    lake.sql(f"DELETE FROM {{{table}}} WHERE id IN (5, 6, 81, 121)")
    lake.sql(
        f"CALL compute_table_stats('{SPACE}.{table}')",
        f"CALL compute_partition_stats('{SPACE}.{table}')",
        f"ALTER TABLE {{{table}}} CREATE TAG late",
    )
    lake.sql(f"UPDATE {{{table}}} SET text = 'x' WHERE id = 7")
    insert(lake, table, 200, 201, ", 'h'")
