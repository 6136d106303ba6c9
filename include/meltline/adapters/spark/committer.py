"""Expiration commits through Iceberg's Java library, for catalogs whose client writes metadata.

`app/expire` calls it. PyIceberg cannot write format 3 in these catalogs, and leaves gaps in the
snapshot log; the Java builder does neither.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from pyspark.sql import SparkSession

from meltline.adapters.spark.jvm import (
    CONFLICT,
    ENGINE_FAILURES,
    JavaClasses,
    kind_of,
    shown_failure,
)
from meltline.adapters.spark.session import spark_identifier
from meltline.config.load import CatalogConfig
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError
from meltline.ports import CommitOutcome


class JvmCommitter:
    """Implements `Committer` for catalogs whose client writes the metadata (sql, hive, glue)."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, CatalogConfig]) -> None:
        self._spark = spark
        self._catalogs = catalogs
        self._java = JavaClasses(spark)

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        """Commits by one compare-and-swap on the whole base metadata. See the port.

        Raises:
            MeltlineError: The outcome is unknown, or the commit failed without a conflict. The next
                run reads the outcome from the catalog.
        """
        try:
            loaded = self._java("org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
                self._spark._jsparkSession, spark_identifier(self._catalogs, plan.table)
            )
            operations = loaded.operations()
            base = operations.current()
            if base.metadataFileLocation() != base_location:
                return None
            builder = self._java("org.apache.iceberg.TableMetadata").buildFrom(base)
            for ref in plan.refs:
                builder = builder.removeRef(ref)
            if plan.snapshots:
                builder = builder.removeSnapshots(self._boxed(plan.snapshots))
            operations.commit(base, builder.build())
            return CommitOutcome(base_location, operations.refresh().metadataFileLocation())
        except ENGINE_FAILURES as failure:
            if kind_of(failure) == CONFLICT:
                return None
            raise MeltlineError(
                f"the expiration commit on {plan.table} failed",
                object=str(plan.table),
                expected="a commit or a conflict",
                found=shown_failure(failure),
                next="run again: the catalog tells what became of it",
            ) from failure

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        """Confirms every commit: its compare-and-swap covers the base, so no ref came meanwhile."""
        return CommitOutcome(plan.committed_base, "")

    def withdraw(self, plan: Plan) -> bool:
        """Returns False: a late commit fails, because its base is no longer current."""
        return False

    def _boxed(self, snapshots: Sequence[int]) -> Any:
        # A set of java.lang.Long: py4j would send small ids as Integer, and a list would match the
        # overload that takes snapshots instead of ids. As bytes all ids go in one message.
        context = self._spark.sparkContext
        array = context._gateway.new_array(context._jvm.long, len(snapshots))  # type: ignore[union-attr]
        ids = self._java("java.nio.ByteBuffer").wrap(pack(f">{len(snapshots)}q", *snapshots))
        ids.asLongBuffer().get(array)
        longs = self._java("java.util.stream.LongStream").of(array).boxed()
        return longs.collect(self._java("java.util.stream.Collectors").toSet())
