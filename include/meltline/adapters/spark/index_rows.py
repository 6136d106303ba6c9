"""The manifest index, the snapshots and the side files as rows of the ledger."""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.departure_rows import DepartureRows
from meltline.adapters.spark.index import index_manifests
from meltline.adapters.spark.tables import TABLES
from meltline.domain.files import (
    DepartureState,
    FileKind,
    ManifestOutcome,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.locations import Ownership
from meltline.ports import IngestRequest, SnapshotKey


class IndexRows(DepartureRows):
    """What every manifest holds, and which snapshots refer to it."""

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        snapshots = self._read("snapshots")
        others = snapshots.where(~F.col("table_uuid").isin(list(readable)))
        kept = [row[0] for row in manifests_of(others).collect()]
        wanted = "" if not kept else f" WHERE manifest_id NOT IN ({', '.join(map(str, kept))})"
        for table in ("entries", "manifests"):
            self._spark.sql(f"DELETE FROM {self._namespace}.{table}{wanted}")
        names = ", ".join(f"'{uuid}'" for uuid in readable)
        for table in ("snapshots", "side_files") if readable else ():
            self._spark.sql(f"DELETE FROM {self._namespace}.{table} WHERE table_uuid IN ({names})")

    def unknown_manifests(self, paths: Sequence[str]) -> set[str]:
        """Those of the manifests that have never been read."""
        if not paths:
            return set()
        known = {
            row[0]
            for row in self._read("manifests")
            .join(self._hashes("manifest_id", paths), "manifest_id", "leftsemi")
            .select("manifest_id")
            .distinct()
            .collect()
        }
        return {path for path in paths if key_hash(path) not in known}

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once and appends the entries of those that agree with their list."""
        if not any(request.manifests for request in requests):
            return ()
        slices = self._spark.sparkContext.defaultParallelism * 2
        rows = index_manifests(self._spark, self._store, requests, ownerships, slices).persist()
        try:
            outcomes = rows.where(F.col("path") == "").collect()
            good = rows.where((F.col("path") != "") & F.col("manifest_id").isNotNull())
            marker = f"ingest-{time.time_ns()}"
            if any(row["added"] or row["existing"] or row["deleted"] for row in outcomes):
                self._write("entries", good.select(*TABLES["entries"].names).coalesce(2), marker)
            # The row in `manifests` says "read": it comes after the entries, so that a crash in
            # between costs a second reading and never an entry.
            self._append(
                "manifests", [_manifest_row(r) for r in outcomes if not r["error"]], marker
            )
        finally:
            rows.unpersist()
        return [
            ManifestOutcome(
                path=row["manifest"],
                added=row["added"],
                existing=row["existing"],
                deleted=row["deleted"],
                owners=tuple(row["owners"]),
                error=row["error"],
            )
            for row in outcomes
        ]

    def known_snapshots(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded whose manifest list has not departed."""
        rows = self._known().select("table_uuid", "snapshot_id").collect()
        return {SnapshotKey(row[0], row[1]) for row in rows}

    def _known(self) -> DataFrame:
        gone = self._newest_departures().where(
            (F.col("kind") == FileKind.MANIFEST_LIST) & (F.col("state") != DepartureState.CANCELLED)
        )
        return (
            self._read("snapshots")
            .dropDuplicates(["table_uuid", "snapshot_id"])
            .join(gone.select(F.col("key_hash").alias("list_hash")), "list_hash", "leftanti")
        )

    def record_snapshots(self, records: Sequence[SnapshotRecord]) -> None:
        """Appends snapshots with the manifests that each refers to."""
        rows = [
            {
                "table_uuid": record.table_uuid,
                "snapshot_id": record.snapshot_id,
                "committed_at": record.committed_at,
                "parent_id": record.parent_id,
                "manifest_list": record.manifest_list or None,
                "list_hash": key_hash(record.manifest_list) if record.manifest_list else None,
                "manifest_list_bytes": record.manifest_list_bytes,
                "manifests": [key_hash(manifest.path) for manifest in record.manifests],
            }
            for record in records
        ]
        self._append("snapshots", rows, f"snapshots-{time.time_ns()}")

    def side_files(self) -> Sequence[SideFile]:
        """Statistics and metadata files ever seen, that have not departed."""
        gone = self._newest_departures().where(F.col("state") != DepartureState.CANCELLED)
        rows = (
            self._read("side_files")
            .dropDuplicates(["table_uuid", "key_hash"])
            .join(gone.select("key_hash"), "key_hash", "leftanti")
            .collect()
        )
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for r in rows
        ]

    def record_side_files(self, files: Sequence[SideFile], seen_at: datetime) -> None:
        """Appends statistics and metadata files seen for the first time."""
        rows = [
            {
                "table_uuid": file.table_uuid,
                "path": file.path,
                "key_hash": key_hash(file.path),
                "kind": str(file.kind),
                "bytes": file.bytes,
                "snapshot_id": file.snapshot_id,
                "first_seen": seen_at,
            }
            for file in files
        ]
        self._append("side_files", rows, f"side-files-{time.time_ns()}")

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Live files and their bytes of each snapshot, by the index; unknown ones are absent.

        Absent are also those with a manifest of which entries are missing. Two runs at once, or a
        kill between two appends, may have stored a manifest's entries twice; they count once.
        """
        if not heads:
            return {}
        on = ["table_uuid", "snapshot_id"]
        manifests = (
            self._read("snapshots")
            .dropDuplicates(on)
            .join(self._keys(heads), on, "leftsemi")
            .select(*on, F.explode_outer("manifests").alias("manifest_id"))
        )
        stored = (
            self._read("entries")
            .where(F.col("status") < 2)
            .groupBy("manifest_id")
            .agg(F.count("bytes").alias("rows"), F.sum("bytes").alias("size"))
        )
        counted = (
            self._read("manifests")
            .dropDuplicates(["manifest_id"])
            .selectExpr("manifest_id", "added + existing AS files")
        )
        rows = (
            manifests.join(counted, "manifest_id", "left")
            .join(stored, "manifest_id", "left")
            .withColumn("copies", F.expr("greatest(rows div nullif(files, 0), 1)"))
            .groupBy(*on)
            .agg(
                F.expr("coalesce(sum(files), 0) AS files"),
                F.expr("coalesce(sum(size div copies), 0) AS size"),
                F.expr(
                    "bool_and(manifest_id IS NULL"
                    " OR coalesce(coalesce(rows, 0) = copies * files, false)) AS complete"
                ),
            )
            .collect()
        )
        return {
            SnapshotKey(r["table_uuid"], r["snapshot_id"]): (r["files"], r["size"])
            for r in rows
            if r["complete"]
        }

    def unknown_paths(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        if not paths:
            return set()
        asked = self._hashes("key_hash", paths)
        named = (
            self._read("entries")
            .select("key_hash")
            .unionByName(self._read("manifests").select(F.col("manifest_id").alias("key_hash")))
            .unionByName(self._read("snapshots").select(F.col("list_hash").alias("key_hash")))
            .unionByName(self._read("side_files").select("key_hash"))
        )
        found = {row[0] for row in named.join(asked, "key_hash", "leftsemi").distinct().collect()}
        return {path for path in paths if key_hash(path) not in found}


def _manifest_row(row: Any) -> dict[str, Any]:
    return {
        "table_uuid": row["table_uuid"],
        "manifest_id": row["manifest_id"],
        "path": row["manifest"],
        "bytes": row["bytes"],
        "added": row["added"],
        "existing": row["existing"],
        "deleted": row["deleted"],
    }


def manifests_of(snapshots: DataFrame, *columns: str) -> DataFrame:
    """The ids of the manifests that snapshots refer to, each once."""
    return snapshots.select(*columns, F.explode("manifests").alias("manifest_id")).distinct()
