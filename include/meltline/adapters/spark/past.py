"""A table as it was, as Spark reads a table: with its filters, its partitions and its columns.

Stock `VERSION AS OF` reads a snapshot with the snapshot's own schema, and its partition specs with
the present names: a filter on a partition column that was renamed since fails (Iceberg 1.12). So
the table's own metadata is taken, main is set to the snapshot in this copy of it, and Iceberg
reads that: columns by field id, specs bound to the same schema. Nothing is written.
"""

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.spark.session import spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.errors import StatementRefused
from meltline.ports import PastView


def past_frame(
    spark: SparkSession, catalogs: Mapping[str, CatalogConfig], view: PastView
) -> DataFrame:
    """The rows of a table as it was.

    Args:
        spark: A session of this process.
        catalogs: What its catalogs stand for.
        view: The table, and as of when.

    Raises:
        StatementRefused: The engine cannot read it.
    """
    identifier = spark_identifier(catalogs, view.table)
    try:
        if view.snapshot_id is None:
            return spark.table(identifier).limit(0)
        return _snapshot_frame(spark, identifier, view.snapshot_id, view.schema_id)
    except Py4JJavaError as failure:
        java = failure.java_exception
        raise StatementRefused(
            f"snapshot {view.snapshot_id} of {view.table} cannot be read",
            object=str(view.table),
            expected="a table that this session can read",
            found=f"{java.getClass().getSimpleName()}: {java.getMessage()}",
            next="give the session the catalogs of meltline.yaml",
        ) from failure


def _snapshot_frame(
    spark: SparkSession, identifier: str, snapshot_id: int, schema_id: int | None
) -> DataFrame:
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, identifier
    )
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(table.operations().current())
    builder = builder.setBranchSnapshot(snapshot_id, "main")
    if schema_id is not None:
        # What new rows would be partitioned and sorted by may not have been there yet.
        iceberg = jvm.org.apache.iceberg
        builder = builder.setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
        builder = builder.setDefaultSortOrder(iceberg.SortOrder.unsorted())
        builder = builder.setCurrentSchema(schema_id)
    operations = jvm.org.apache.iceberg.StaticTableOperations(
        builder.discardChanges().build(), table.io(), table.locationProvider()
    )
    static = jvm.org.apache.iceberg.BaseTable(operations, table.name())
    source = jvm.org.apache.iceberg.spark.source.SparkTable(static)
    none = jvm.scala.Option.empty()
    v2 = jvm.org.apache.spark.sql.execution.datasources.v2
    relation = v2.DataSourceV2Relation.create(source, none, none)
    classic = jvm.org.apache.spark.sql.classic
    return DataFrame(classic.Dataset.ofRows(spark._jsparkSession, relation), spark)
