"""Reads a table at a snapshot as a DataFrame, with the filters, partitions and columns of Spark.

The snapshot reader and the SQL engine use it for time travel.
"""

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
    """Returns the rows of a table at an earlier snapshot.

    Args:
        spark: A session of this process.
        catalogs: The configuration of its catalogs.
        view: The table and its snapshot.

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
