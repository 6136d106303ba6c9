"""The file ledger on Spark: Iceberg tables in the namespace `ledger-namespace` of the hot catalog.

It answers the one question the plans ask: which files do only these snapshots refer to?
Manifests anti-join first, then hashes of locations; a collision can only keep a file.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.index_rows import IndexRows, manifests_of
from meltline.domain.files import DepartureState, EntryStatus, FileKind
from meltline.ports import DepartingFile, SnapshotKey


class SparkFileLedger(IndexRows):
    """The port `FileLedger`, on Spark and Iceberg."""

    def departing(self, candidates: Sequence[SnapshotKey]) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to."""
        if not candidates:
            return ()
        leaving, staying = self._split(candidates)
        kept = manifests_of(staying).persist()
        own = manifests_of(leaving, "table_uuid")
        gone = own.join(kept, "manifest_id", "leftanti").persist()
        try:
            lists = self._lists(leaving, staying)
            return self._grouped(
                lists.unionByName(self._manifests(gone)).unionByName(self._files(gone, kept))
            )
        finally:
            kept.unpersist()
            gone.unpersist()

    @staticmethod
    def _lists(leaving: DataFrame, staying: DataFrame) -> DataFrame:
        """Manifest lists that no snapshot that stays shares."""
        own = leaving.where(F.col("list_hash").isNotNull())
        return own.join(staying.select("list_hash"), "list_hash", "leftanti").select(
            "table_uuid",
            F.col("manifest_list").alias("path"),
            F.col("list_hash").alias("key_hash"),
            F.lit(str(FileKind.MANIFEST_LIST)).alias("kind"),
            F.col("manifest_list_bytes").alias("bytes"),
        )

    def _manifests(self, gone: DataFrame) -> DataFrame:
        """The manifests that only leaving snapshots refer to."""
        manifests = self._read("manifests").drop("table_uuid")
        return manifests.join(gone, "manifest_id").select(
            "table_uuid",
            "path",
            F.col("manifest_id").alias("key_hash"),
            F.lit(str(FileKind.MANIFEST)).alias("kind"),
            "bytes",
        )

    def _files(self, gone: DataFrame, kept: DataFrame) -> DataFrame:
        """Files alive in those manifests and in none that is kept."""
        live = self._read("entries").where(F.col("status") < int(EntryStatus.DELETED))
        needed = live.join(kept, "manifest_id", "leftsemi").select("key_hash")
        return (
            live.drop("table_uuid")
            .join(gone, "manifest_id")
            .select("table_uuid", "path", "key_hash", "kind", "bytes")
            .join(needed, "key_hash", "leftanti")
        )

    def _split(self, candidates: Sequence[SnapshotKey]) -> tuple[DataFrame, DataFrame]:
        keys = self._keys(candidates)
        known = self._known()
        on = ["table_uuid", "snapshot_id"]
        return known.join(keys, on, "leftsemi"), known.join(keys, on, "leftanti")

    def _grouped(self, rows: DataFrame) -> Sequence[DepartingFile]:
        waiting = self._newest_departures().where(F.col("state") == DepartureState.FAILSAFE)
        grouped = (
            rows.join(waiting.select("key_hash"), "key_hash", "leftanti")
            .groupBy("key_hash")
            .agg(
                F.min("path").alias("path"),
                F.first("kind").alias("kind"),
                F.max("bytes").alias("bytes"),
                F.sort_array(F.collect_set("table_uuid")).alias("table_uuids"),
            )
        )
        return [
            DepartingFile(row["path"], row["kind"], row["bytes"], tuple(row["table_uuids"]))
            for row in grouped.collect()
        ]

    def referenced_now(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        if not paths:
            return set()
        _, staying = self._split(dead) if dead else (None, self._known())
        kept = manifests_of(staying)
        asked = self._hashes("key_hash", paths)
        live = self._read("entries").where(F.col("status") < int(EntryStatus.DELETED))
        hits = (
            live.join(kept, "manifest_id", "leftsemi")
            .select("key_hash")
            .unionByName(kept.select(F.col("manifest_id").alias("key_hash")))
            .unionByName(staying.select(F.col("list_hash").alias("key_hash")))
            .join(asked, "key_hash", "leftsemi")
            .distinct()
            .collect()
        )
        found = {row[0] for row in hits}
        return {path for path in paths if key_hash(path) in found}
