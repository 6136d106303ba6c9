"""A table as it was, as Spark reads a table: with its filters, its partitions and its columns."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from meltline.adapters.spark.jvm import ENGINE_FAILURES, shown_failure
from meltline.adapters.spark.pinned_tables import PinnedTables
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
    try:
        if view.snapshot_id is None:
            return spark.table(spark_identifier(catalogs, view.table)).limit(0)
        tables = PinnedTables(spark, catalogs)
        pinned = tables.pinned(tables.load(view.table), view.snapshot_id, view.schema_id)
        return tables.frame(pinned)
    except ENGINE_FAILURES as failure:
        raise StatementRefused(
            f"snapshot {view.snapshot_id} of {view.table} cannot be read",
            object=str(view.table),
            expected="a table that this session can read",
            found=shown_failure(failure),
            next="give the session the catalogs of meltline.yaml",
        ) from failure
