"""The manifest index, the snapshots and the side files as rows of the ledger."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.spark.bulk_index import BulkManifest, bulk_entries, packed, worth_bulk
from meltline.adapters.spark.departure_rows import DepartureRows
from meltline.adapters.spark.index import OUTCOME, Asked, index_here, index_spread, outcome_of
from meltline.adapters.spark.known_snapshots import COLUMNS, KnownSnapshots
from meltline.adapters.spark.tables import TABLES
from meltline.domain.files import (
    EntryStatus,
    FileKind,
    ManifestOutcome,
    ManifestRef,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.locations import Ownership
from meltline.ports import IngestRequest, SnapshotKey


@dataclass(frozen=True)
class ReadingLimits:
    """Up to where each way of reading manifests is the cheapest (decision 002).

    Attributes:
        here_manifests: So many manifests are read in this process; likewise `here_entries`, which
            take about two seconds. More of either go to executors.
        bulk_entries: From more entries on, Spark's own reader takes the large manifests.
        bulk_manifest: A large one has at least so many entries.
        driver_rows: So many rows of leaving manifests are compared in this process.
    """

    here_manifests: int = 5_000
    here_entries: int = 100_000
    bulk_entries: int = 20_000
    bulk_manifest: int = 500
    driver_rows: int = 200_000


class IndexRows(DepartureRows):
    """What every manifest holds, and which snapshots refer to it."""

    limits = ReadingLimits()

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        snapshots = self._read("snapshots")
        others = snapshots.where(~F.col("table_uuid").isin(list(readable)))
        named = others.select(F.explode("manifests").alias("manifest_id")).distinct()
        kept = [row[0] for row in named.collect()]
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
        """Reads each manifest once and appends the entries of those that agree with their list.

        The row in `manifests` says "read": it comes after the entries, so that a crash in between
        costs a second reading and never an entry.
        """
        marker = f"ingest-{time.time_ns()}"
        manifests = [manifest for request in requests for manifest in request.manifests]
        large = _entries(manifests) > self.limits.bulk_entries
        bulk = worth_bulk(requests, self.limits.bulk_manifest) if large else []
        outcomes = self._ingest_bulk(bulk, marker) if bulk else {}
        rest = [
            Asked(request.table_uuid, manifest)
            for request in requests
            for manifest in request.manifests
            if manifest.path not in outcomes
        ]
        read = self._ingest_rest(rest, ownerships, marker)
        outcomes |= {outcome.path: outcome for outcome in read}
        found = [
            (request.table_uuid, manifest, outcomes[manifest.path])
            for request in requests
            for manifest in request.manifests
        ]
        rows = [_manifest_row(*one) for one in found if not one[2].error]
        self._append("manifests", rows, marker)
        return [outcome for _, _, outcome in found]

    def _ingest_rest(
        self, asked: Sequence[Asked], ownerships: Sequence[Ownership], marker: str
    ) -> Sequence[ManifestOutcome]:
        """What the object-store port reads: a few here, many on executors."""
        few = len(asked) <= self.limits.here_manifests
        if few and _entries([one.manifest for one in asked]) <= self.limits.here_entries:
            indexed = index_here(self._store, asked, ownerships)
            if indexed.entries.num_rows:
                self._append_arrow("entries", indexed.entries, marker)
            return indexed.outcomes
        slices = self._spark.sparkContext.defaultParallelism * 2
        rows = index_spread(self._spark, self._store, asked, ownerships, slices).persist()
        try:
            said = rows.where(OUTCOME).toArrow().to_pylist()
            entries = rows.where(f"NOT ({OUTCOME})").select(*TABLES["entries"].names)
            if any(row["added"] or row["existing"] or row["deletes"] for row in said):
                self._write("entries", entries.coalesce(2), marker)
        finally:
            rows.unpersist()
        return [outcome_of(row) for row in said]

    def _ingest_bulk(self, bulk: Sequence[BulkManifest], marker: str) -> dict[str, ManifestOutcome]:
        """What Spark's own reader takes. Those that do not add up are left to the other way.

        The rows are counted as they stand in the ledger, after they were written. A manifest of
        another length than its list says, a file that cannot be read, or an odd path: left out.
        """
        sound = [b for b in bulk if self._store.size(b.manifest.path) == b.manifest.bytes]
        if not sound:
            return {}
        before = self._current("entries")
        try:
            with packed(self._spark, sound):
                self._write("entries", bulk_entries(self._spark, sound), marker)
        except (PySparkException, Py4JJavaError):  # one broken file fails the whole job
            return {}
        counted = {row["manifest_id"]: row for row in self._written_since(before)}
        outcomes = {}
        for one in sound:
            row = counted.get(one.id)
            if row is None or row["odd"]:
                continue
            counts: tuple[int, int, int] = (row["added"], row["existing"], row["deleted"])
            if counts == one.counts:
                path = one.manifest.path
                outcomes[path] = ManifestOutcome(path, *counts, owners=(one.table_uuid,))
        return outcomes

    def _written_since(self, before: int | None) -> list[Any]:
        reader = self._spark.read.format("iceberg")
        after = self._current("entries")
        if after is None or after == before:
            return []
        if before is not None:
            reader = reader.option("start-snapshot-id", before)
            reader = reader.option("end-snapshot-id", after)
        return (
            reader.load(f"{self._namespace}.entries")
            .groupBy("manifest_id")
            .agg(
                F.expr("cast(count_if(status = 1) AS int) AS added"),
                F.expr("cast(count_if(status = 0) AS int) AS existing"),
                F.expr("cast(count_if(status = 2) AS int) AS deleted"),
                F.expr("count_if(key_hash IS NULL OR kind IS NULL OR bytes IS NULL) AS odd"),
            )
            .collect()
        )

    def known_snapshots(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded whose manifest list has not departed."""
        return set(self._known().keys)

    def _known(self) -> KnownSnapshots:
        return self._once("snapshots departures", "known", self._known_now)

    def _known_now(self) -> KnownSnapshots:
        read = self._read("snapshots").select(*COLUMNS)
        rows = self._once("snapshots", "snapshots", read.toArrow)
        return KnownSnapshots.of(rows, self._departed(FileKind.MANIFEST_LIST))

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

    def forgotten_manifests(
        self, records: Sequence[SnapshotRecord], read: Collection[str]
    ) -> set[str]:
        """Manifests of new snapshots that were read long ago and no known snapshot refers to."""
        paths = {manifest.path for record in records for manifest in record.manifests} - set(read)
        if not paths:
            return set()
        found = self._known().naming([key_hash(path) for path in paths])
        return {path for path in paths if key_hash(path) not in found}

    def waiting_in(self, manifests: Sequence[str]) -> set[str]:
        """Files in failsafe that are one of these manifests, or alive in one of them."""
        if not manifests or not self._waiting().rows.num_rows:
            return set()
        return self._waiting_named_by([key_hash(path) for path in manifests])

    def _waiting_named_by(self, manifests: Sequence[int]) -> set[str]:
        """Files in failsafe that are one of these manifests, or alive in one of them."""
        waiting = self._waiting()
        named = (
            self._read("entries")
            .where(F.col("status") < int(EntryStatus.DELETED))
            .join(self._ids("manifest_id", manifests), "manifest_id", "leftsemi")
            .join(self._ids("key_hash", waiting.hashes), "key_hash", "leftsemi")
            .select("key_hash")
            .distinct()
        )
        hashes = [row[0] for row in named.collect()] + waiting.among(manifests).hashes.to_pylist()
        if not hashes:
            return set()
        rows = self._read("departures").join(self._ids("key_hash", hashes), "key_hash", "leftsemi")
        return {row[0] for row in rows.select("path").distinct().collect()}

    def side_files(self) -> Sequence[SideFile]:
        """Statistics and metadata files ever seen, that have not departed."""
        return self._once("side_files departures", "side files", self._side_files)

    def _side_files(self) -> Sequence[SideFile]:
        gone = set(self._departed(FileKind.METADATA, FileKind.STATISTICS).to_pylist())
        read = self._read("side_files").drop("first_seen")
        rows = self._once("side_files", "side file rows", read.toArrow).to_pylist()
        found = {(row["table_uuid"], row["key_hash"]): row for row in rows}
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for (_, key), r in found.items()
            if key not in gone
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
        known = self._known().only(heads)
        ids = self._ids("manifest_id", known.manifests)
        stored = {
            row["manifest_id"]: (row["rows"], row["size"])
            for row in self._read("entries")
            .where(F.col("status") < int(EntryStatus.DELETED))
            .join(ids, "manifest_id", "leftsemi")
            .groupBy("manifest_id")
            .agg(F.count("bytes").alias("rows"), F.sum("bytes").alias("size"))
            .collect()
        }
        counted = self._read("manifests").join(ids, "manifest_id", "leftsemi")
        live = {
            row[0]: _live(row[1], *stored.get(row[0], (0, 0)))
            for row in counted.selectExpr("manifest_id", "added + existing").collect()
        }
        found = {
            key: [live.get(manifest) for manifest in manifests]
            for key, manifests in known.manifests_by_snapshot()
        }
        return {
            key: (sum(one[0] for one in totals), sum(one[1] for one in totals))
            for key, parts in found.items()
            if len(totals := [one for one in parts if one is not None]) == len(parts)
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


def _entries(manifests: Iterable[ManifestRef]) -> int:
    """How many entries manifests have, as far as their lists count them."""
    counts = (c for m in manifests for c in (m.added_files, m.existing_files, m.deleted_files))
    return sum(count or 0 for count in counts)


def _live(files: int, rows: int, size: int) -> tuple[int, int] | None:
    """A manifest's live files and their bytes; None where entries of it are missing."""
    copies = max(rows // files, 1) if files else 1
    return (files, size // copies) if rows == copies * files else None


def _manifest_row(uuid: str, manifest: ManifestRef, outcome: ManifestOutcome) -> dict[str, Any]:
    return {
        "table_uuid": uuid,
        "manifest_id": key_hash(manifest.path),
        "path": manifest.path,
        "bytes": manifest.bytes,
        "added": outcome.added,
        "existing": outcome.existing,
        "deleted": outcome.deleted,
    }
