"""A table of measurements by day, and what engines may write to it between a gate and its drop."""

from collections.abc import Sequence
from typing import Any

from meltline.domain.chunks.layout import ChunkLayout, layout_of
from meltline.domain.iceberg.names import TableName
from meltline.ports.chunks import DropRequest
from tests.spark.setups.warehouse import SPACE, Warehouse

DAY_1, DAY_2, DAY_3 = "2026-01-01", "2026-01-02", "2026-01-03"
FIRST_DAY = 20454  # 2026-01-01, in days since 1970
DROP_PLAN = "meltline.plan-id"


def create(lake: Warehouse, table: str, version: int, mode: str, type: str = "TIMESTAMP") -> None:
    """An empty table of ids, times and users, cut into days; `mode` of row deletes."""
    modes = "".join(f", 'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
    lake.sql(
        f"CREATE TABLE {{{table}}} (id BIGINT, ts {type}, user INT) USING iceberg"
        f" PARTITIONED BY (days(ts)) TBLPROPERTIES ('format-version'='{version}'{modes})"
    )


def insert(lake: Warehouse, table: str, day: str, *ids: int) -> None:
    """A commit of one file: a row for each id, at minutes of a day; users are ids modulo ten."""
    rows = ", ".join(f"({id}L, TIMESTAMP '{day} 08:{id % 60:02}:00', {id % 10})" for id in ids)
    lake.sql(f"INSERT INTO {{{table}}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")


def java_table(lake: Warehouse, table: str) -> Any:
    """The table in Iceberg's own library."""
    jvm: Any = lake.spark._jvm
    spark3 = jvm.org.apache.iceberg.spark.Spark3Util
    return spark3.loadIcebergTable(lake.spark._jsparkSession, lake.name(table))


def delete_by_user(
    lake: Warehouse,
    table: str,
    user: int | str,
    *days: int,
    spec: int = -1,
    column: str = "user",
) -> None:
    """A commit of equality deletes; Spark itself writes none.

    Args:
        lake: Where the table is.
        table: The table.
        user: Whose rows go.
        days: The partitions, in days since 1970; none is one file of a spec without partitions.
        spec: By its id; negative is the table's own.
        column: Of another table the one by which rows go.
    """
    spark, loaded = lake.spark, java_table(lake, table)
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    iceberg = jvm.org.apache.iceberg
    by, schema = loaded.schema().select([column]), loaded.schema()
    chosen = loaded.spec() if spec < 0 else loaded.specs().get(spec)
    fields = gateway.new_array(gateway.jvm.int, 1)
    fields[0] = schema.findField(column).fieldId()
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(loaded)
    writers = factory.equalityFieldIds(fields).equalityDeleteRowSchema(by).build()
    files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).build()
    delta = loaded.newRowDelta()
    for day in days or (None,):
        partition = iceberg.PartitionData(chosen.partitionType())
        if day is not None:
            partition.set(0, day)
        target = files.newOutputFile(chosen, partition)
        writer = writers.newEqualityDeleteWriter(target, chosen, partition)
        record = iceberg.data.GenericRecord.create(by)
        record.setField(column, user)
        writer.write(record)
        writer.close()
        delta.addDeletes(writer.toDeleteFile())
    delta.commit()


def add_unwritten(
    lake: Warehouse, table: str, days: Sequence[str], vectors: Sequence[str] = ()
) -> dict[str, str]:
    """Two commits: a data file per day, a deletion vector for some. No such file is there.

    Returns:
        The data files, by day.
    """
    loaded, jvm = java_table(lake, table), lake.spark._jvm
    iceberg: Any = jvm.org.apache.iceberg  # type: ignore[union-attr]
    files: dict[str, str] = {}
    append, delta = loaded.newAppend(), loaded.newRowDelta()
    for day in days:
        files[day] = f"{loaded.location()}/data/{day}.parquet"
        builder = iceberg.DataFiles.builder(loaded.spec()).withPath(files[day])
        builder = builder.withPartitionPath(f"ts_day={day}").withRecordCount(3)
        append.appendFile(builder.withFileSizeInBytes(100).build())
    append.commit()
    for day in vectors:
        builder = iceberg.FileMetadata.deleteFileBuilder(loaded.spec()).ofPositionDeletes()
        builder = builder.withFormat("puffin").withPath(f"{loaded.location()}/data/{day}.puffin")
        builder = builder.withPartitionPath(f"ts_day={day}").withRecordCount(1)
        builder = builder.withReferencedDataFile(files[day]).withFileSizeInBytes(100)
        delta.addDeletes(builder.withContentOffset(4).withContentSizeInBytes(40).build())
    delta.commit()
    return files


def name(lake: Warehouse, table: str) -> TableName:
    """The table's name for Meltline."""
    return TableName(lake.catalog, (SPACE,), table)


def head(lake: Warehouse, table: str) -> int:
    """Main's snapshot."""
    return int(lake.document(table)["refs"]["main"]["snapshot-id"])


def rows(lake: Warehouse, table: str, version: int | None = None) -> list[int]:
    """The ids of all rows, now or as of a snapshot."""
    at = "" if version is None else f" VERSION AS OF {version}"
    return sorted(row.id for row in lake.sql(f"SELECT id FROM {{{table}}}{at}"))


def live_files(lake: Warehouse, table: str) -> set[str]:
    """Paths of the data files that main has."""
    files = lake.spark.sql(f"SELECT file_path FROM {lake.name(table)}.files WHERE content = 0")
    return {row.file_path for row in files.collect()}


def deletes(lake: Warehouse, table: str) -> int:
    """How many row deletes main has as files, or as vectors in files that others share."""
    files = lake.spark.sql(f"SELECT * FROM {lake.name(table)}.files WHERE content > 0")
    return files.count()


def files_of(lake: Warehouse, table: str, days: Sequence[str]) -> frozenset[str]:
    """Data files whose rows lie in some days, as Spark reads them."""
    words = ", ".join(f"DATE '{day}'" for day in days)
    files = lake.sql(f"SELECT DISTINCT _file FROM {{{table}}} WHERE CAST(ts AS DATE) IN ({words})")
    return frozenset(row[0] for row in files)


def request(
    lake: Warehouse, table: str, *days: str, layout: ChunkLayout | None = None
) -> DropRequest:
    """What a gate passes now: a drop of some days, with all their files."""
    return DropRequest(
        name(lake, table),
        head(lake, table),
        layout or layout_of(lake.document(table)),
        days,
        files_of(lake, table, days),
        {DROP_PLAN: "plan-7", "meltline.chunks": ",".join(days)},
    )
