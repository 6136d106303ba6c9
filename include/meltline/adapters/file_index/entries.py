"""The manifest index, the snapshots and the side files as rows of the ledger."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.index_tables.lifetimes import spans_of
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.snapshot_cache import COLUMNS, KnownSnapshots
from meltline.adapters.ingest.ingest import IngestRows
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import (
    EntryStatus,
    FileKind,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.linear_history import IndexedHead
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports import SnapshotKey

LIVE: Sequence[Condition] = [("status", "<", int(EntryStatus.DELETED))]
_ADDED: Sequence[Condition] = [("until", "is null", None)]


class IndexRows(IngestRows):
    """What every manifest holds, and which snapshots refer to it."""

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        readable = list(readable)
        others = self._read("snapshots").where(~F.col("table_uuid").isin(readable))
        named = others.select(F.explode("manifests").alias("manifest_id"))
        for table in ("entries", "manifests"):
            self._forget_unnamed(table, named)
        for table in ("snapshots", "side_files", "changes") if readable else ():
            where = "WHERE array_contains(:uuids, table_uuid)"
            self._spark.sql(
                f"DELETE FROM {self._namespace}.{table} {where}", args={"uuids": readable}
            )

    def _forget_unnamed(self, table: str, named: DataFrame) -> None:
        """Deletes the rows of all manifests that are not among these."""
        view = f"named_{uuid4().hex}"
        some = f"{self._namespace}.{table} AS some"
        others = f"SELECT 1 FROM {view} AS named WHERE named.manifest_id = some.manifest_id"
        where = "" if named.isEmpty() else f" WHERE NOT EXISTS ({others})"
        named.createTempView(view)
        try:
            self._spark.sql(f"DELETE FROM {some}{where}")
        finally:
            self._spark.catalog.dropTempView(view)

    def unknown_manifests(self, paths: Sequence[str]) -> set[str]:
        """Those of the manifests that have never been read wholly."""
        if not paths:
            return set()
        known = self._known_manifests(paths)
        return {path for path in paths if known.get(key_hash(path)) != location_key(path)}

    def lines(self) -> Mapping[str, IndexedHead]:
        """The newest snapshot of each table that is known by its changes, departed or not."""
        return KnownSnapshots(self._snapshots()).tips

    def known_snapshots(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded whose manifest list has not departed."""
        return set(self._known().keys)

    def reachable_sets(self, keys: Collection[SnapshotKey]) -> Mapping[SnapshotKey, ReachableSet]:
        """How the manifest lists of known snapshots were when they were read."""
        if not keys:
            return {}
        ids = ("snapshot_id", [key.snapshot_id for key in keys])
        columns = ("table_uuid", "snapshot_id", "manifest_list_bytes", "list_sha256")
        rows = self._look("snapshots", columns, among=ids).to_pylist()
        found = {
            SnapshotKey(row["table_uuid"], row["snapshot_id"]): ReachableSet(
                row["manifest_list_bytes"], row["list_sha256"] or ""
            )
            for row in rows
        }
        return {key: found[key] for key in keys if key in found}

    def places_of_lists(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Where known snapshots were read: their lists, or their inline manifests."""
        known, inline = self._known(), set[SnapshotKey]()
        for key, place in known.lists_of(tables):
            if place:
                yield key, place
            else:
                inline.add(key)
        if inline:
            yield from self._inline_places(known.only(inline))

    def _inline_places(self, known: KnownSnapshots) -> Iterable[tuple[SnapshotKey, str]]:
        """Snapshots of format 1 that name their manifests themselves, and those."""
        among = ("manifest_id", known.manifests)
        rows = self._look("manifests", ("manifest_id", "path"), among=among).to_pylist()
        paths = {row["manifest_id"]: row["path"] for row in rows}
        for key, ids in known.manifests_by_snapshot():
            yield key, "\n".join(paths.get(id, "") for id in ids)

    def _known(self) -> KnownSnapshots:
        return self._once("snapshots departures", "known", self._known_now)

    def _known_now(self) -> KnownSnapshots:
        # Departures first: what another process settles goes from `snapshots` before it does there.
        departed = self._departed(FileKind.MANIFEST_LIST)
        return KnownSnapshots.of(self._snapshots(), departed)

    def _snapshots(self) -> pa.Table:
        """A row for each snapshot that was recorded and is not settled; some twice."""
        return self._once("snapshots", "snapshots", lambda: self._look("snapshots", COLUMNS))

    def _spans(self, changes: pa.Table) -> pa.Table:
        """The spans that some rows of `changes` tell of, each file's once."""
        # What is settled leaves `snapshots`: while that is as it was, no step is missing.
        return spans_of(changes, self._once("snapshots", "steps", self._steps))

    def _steps(self) -> pa.Table:
        """The snapshots that are known by what they changed: a step of a line is one for ever."""
        steps = ("table_uuid", "snapshot_id")
        rows = self._snapshots()
        standing = rows.filter(pc.fill_null(rows.column("by_changes"), fill_value=False))
        settled = self._look("settled_snapshots", steps, [("by_changes", "=", True)])
        return pa.concat_tables([standing.select(steps), settled])

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
                "sequence_number": record.sequence_number,
                "by_changes": record.by_changes,
                "live_files": record.live_files if record.by_changes else None,
                "live_bytes": record.live_bytes if record.by_changes else None,
                "list_sha256": record.list_sha256,
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
        ids = pa.array(manifests, pa.int64())
        few = len(ids) <= len(waiting.hashes)
        among = ("manifest_id", ids) if few else ("key_hash", waiting.hashes)
        found = {*waiting.among(ids).hashes.to_pylist()}
        for table, alive in (("entries", LIVE), ("changes", _ADDED)):
            rows = self._look(table, ("manifest_id", "key_hash"), alive, among=among)
            here = pc.and_(
                pc.is_in(rows.column("manifest_id"), ids),
                pc.is_in(rows.column("key_hash"), waiting.hashes),
            )
            found.update(rows.filter(here).column("key_hash").to_pylist())
        return self._waiting_paths(found)

    def _waiting_paths(self, hashes: Collection[int]) -> set[str]:
        if not hashes:
            return set()
        return set(
            self._look("departures", ("path",), among=("key_hash", list(hashes)))
            .column("path")
            .to_pylist()
        )

    def side_files(self) -> Sequence[SideFile]:
        """Statistics and metadata files ever seen, that have not departed."""
        return self._once("side_files departures", "side files", self._side_files)

    def _side_files(self) -> Sequence[SideFile]:
        gone = set(self._departed(FileKind.METADATA, FileKind.STATISTICS).to_pylist())
        rows = self._once("side_files", "side file rows", self._side_file_rows).to_pylist()
        found = {(row["table_uuid"], row["key_hash"]): row for row in rows}
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for (_, key), r in found.items()
            if key not in gone
        ]

    def _side_file_rows(self) -> pa.Table:
        names = [name for name in TABLES["side_files"].names if name != "first_seen"]
        return self._look("side_files", names)

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
        on_lines = self._known().only(heads).on_lines
        columns = (on_lines.rows.column(name).to_pylist() for name in ("live_files", "live_bytes"))
        by_changes = dict(zip(on_lines.keys, zip(*columns, strict=True), strict=True))
        return by_changes | self._summed(self._known().only(heads).read_wholly)

    def _summed(self, known: KnownSnapshots) -> dict[SnapshotKey, tuple[int, int]]:
        """Live files and bytes of snapshots that were read wholly, summed over their manifests."""
        if not known.keys:
            return {}
        ids = known.manifests
        stored = self._stored(ids)
        counted = self._look(
            "manifests", ("manifest_id", "added", "existing"), among=("manifest_id", ids)
        )
        live = {
            row["manifest_id"]: _live(
                row["added"] + row["existing"], *stored.get(row["manifest_id"], (0, 0))
            )
            for row in counted.to_pylist()
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

    def _stored(self, ids: pa.Array) -> dict[int, tuple[int, int]]:
        """Live rows of manifests and their bytes, by the manifest's id."""
        rows = self._look_here("entries", ("manifest_id", "bytes"), LIVE, ("manifest_id", ids))
        if rows is None:
            found = (
                self._read("entries")
                .where(F.col("status") < int(EntryStatus.DELETED))
                .join(self._ids("manifest_id", ids), "manifest_id", "leftsemi")
                .groupBy("manifest_id")
                .agg(F.count("bytes").alias("rows"), F.sum("bytes").alias("size"))
            )
            return {row["manifest_id"]: (row["rows"], row["size"]) for row in found.collect()}
        summed = rows.group_by("manifest_id").aggregate([("bytes", "count"), ("bytes", "sum")])
        columns = (
            summed.column(n).to_pylist() for n in ("manifest_id", "bytes_count", "bytes_sum")
        )
        return {key: (count, size) for key, count, size in zip(*columns, strict=True)}

    def unknown_paths(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        if not paths:
            return set()
        asked = list(map(key_hash, paths))
        found: set[int] = set()
        for table, column in (
            ("changes", "key_hash"),
            ("entries", "key_hash"),
            ("manifests", "manifest_id"),
            ("snapshots", "list_hash"),
            ("side_files", "key_hash"),
        ):
            left = [one for one in asked if one not in found]
            found.update(self._look(table, [column], among=(column, left)).column(0).to_pylist())
        return {path for path in paths if key_hash(path) not in found}


def _live(files: int, rows: int, size: int) -> tuple[int, int] | None:
    """A manifest's live files and their bytes; None where entries of it are missing."""
    copies = max(rows // files, 1) if files else 1
    return (files, size // copies) if rows == copies * files else None
