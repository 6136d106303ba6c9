"""Reads and writes snapshots and side files as rows of the ledger.

It implements the ports `SnapshotIndex` and `SideFileIndex` for `file_index.py`. Rows of plans and
departures are in `tombstone_rows.py`.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import functions as F

from meltline.adapters.index_tables.lifetimes import spans_of
from meltline.adapters.index_tables.rows import tuples
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.snapshot_cache import COLUMNS, KnownSnapshots
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.index_tables.tombstone_rows import DepartureRows
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import (
    EntryStatus,
    FileKind,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.linear_history import IndexedHead
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports import SnapshotKey

LIVE: Sequence[Condition] = [("status", "<", int(EntryStatus.DELETED))]


class SnapshotRows:
    """Implements the port `SnapshotIndex`: rows of `snapshots`, also for the rest of the index."""

    def __init__(self, tables: LedgerTables, departures: DepartureRows) -> None:
        self._tables = tables
        self._departures = departures

    def tips(self) -> Mapping[str, IndexedHead]:
        """Returns each table's newest snapshot that is known by its changes, departed or not."""
        return KnownSnapshots(self.rows()).tips

    def known(self) -> set[SnapshotKey]:
        """Returns every snapshot ever recorded whose manifest list has not departed."""
        return set(self.standing().keys)

    def reachable_sets(self, keys: Collection[SnapshotKey]) -> Mapping[SnapshotKey, ReachableSet]:
        """Returns the length and SHA-256 of known snapshots' manifest lists, as they were read."""
        if not keys:
            return {}
        ids = ("snapshot_id", [key.snapshot_id for key in keys])
        columns = ("table_uuid", "snapshot_id", "manifest_list_bytes", "list_sha256")
        rows = self._tables.look("snapshots", columns, among=ids).to_pylist()
        by_key = {
            SnapshotKey(row["table_uuid"], row["snapshot_id"]): ReachableSet(
                row["manifest_list_bytes"], row["list_sha256"]
            )
            for row in rows
        }
        return {key: by_key[key] for key in keys if key in by_key}

    def places(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Returns the paths from which known snapshots were read: lists, or inline manifests."""
        standing, inline = self.standing(), set[SnapshotKey]()
        for key, place in standing.lists_of(tables):
            if place:
                yield key, place
            else:
                inline.add(key)
        if inline:
            yield from self._inline_places(standing.only(inline))

    def _inline_places(self, standing: KnownSnapshots) -> Iterable[tuple[SnapshotKey, str]]:
        """Returns snapshots of format 1 that name their manifests themselves, with these."""
        among = ("manifest_id", standing.manifests)
        rows = self._tables.look("manifests", ("manifest_id", "path"), among=among).to_pylist()
        paths = {row["manifest_id"]: row["path"] for row in rows}
        for key, ids in standing.manifests_by_snapshot():
            yield key, "\n".join(paths.get(id, "") for id in ids)

    def standing(self) -> KnownSnapshots:
        """Returns the known snapshots, with the manifests of each."""
        return self._tables.once("snapshots departures", "known", self._standing)

    def _standing(self) -> KnownSnapshots:
        # Departures first: another process moves rows out of `snapshots` before `departures`.
        departed = self._departures.departed(FileKind.MANIFEST_LIST)
        return KnownSnapshots.of(self.rows(), departed)

    def rows(self) -> pa.Table:
        """Returns a row for each recorded snapshot outside the history tables; some twice."""
        return self._tables.once(
            "snapshots", "snapshots", lambda: self._tables.look("snapshots", COLUMNS)
        )

    def spans(self, changes: pa.Table) -> pa.Table:
        """Returns the lifetimes in some rows of `changes`, each file's once."""
        # Moved rows leave `snapshots`: while that table is unchanged, no step is missing.
        return spans_of(changes, self._tables.once("snapshots", "steps", self._steps))

    def _steps(self) -> pa.Table:
        """Returns the snapshots known by their changes, moved ones too: they stay so for ever."""
        steps = ("table_uuid", "snapshot_id")
        rows = self.rows()
        standing = rows.filter(rows.column("by_changes"))
        settled = self._tables.look("settled_snapshots", steps, [("by_changes", "=", True)])
        return pa.concat_tables([standing.select(steps), settled])

    def record(self, records: Sequence[SnapshotRecord]) -> None:
        """Appends snapshots with the manifests that each references."""
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
        self._tables.append("snapshots", rows, f"snapshots-{time.time_ns()}")

    def forgotten_manifests(
        self, records: Sequence[SnapshotRecord], read: Collection[str]
    ) -> set[str]:
        """Finds manifests of new snapshots that were read before, and that no known one names."""
        paths = {manifest.path for record in records for manifest in record.manifests} - set(read)
        if not paths:
            return set()
        remembered = self.standing().naming([key_hash(path) for path in paths])
        return {path for path in paths if key_hash(path) not in remembered}

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Sums each snapshot's live files and their bytes, by the index; unknown ones are absent.

        Snapshots with an incomplete manifest are absent too. Two runs at once, or a kill between
        two appends, may have stored a manifest's entries twice; they count once.
        """
        if not heads:
            return {}
        on_lines = self.standing().only(heads).on_lines
        totals = tuples(on_lines.rows, "live_files", "live_bytes")
        by_changes = dict(zip(on_lines.keys, totals, strict=True))
        return by_changes | self._summed(self.standing().only(heads).read_wholly)

    def _summed(self, standing: KnownSnapshots) -> dict[SnapshotKey, tuple[int, int]]:
        """Sums live files and bytes of fully read snapshots over their manifests."""
        if not standing.keys:
            return {}
        ids = standing.manifests
        stored = self._stored(ids)
        counted = self._tables.look(
            "manifests", ("manifest_id", "added", "existing"), among=("manifest_id", ids)
        )
        live = {
            row["manifest_id"]: _live(
                row["added"] + row["existing"], *stored.get(row["manifest_id"], (0, 0))
            )
            for row in counted.to_pylist()
        }
        totals = {
            key: _total([live.get(manifest) for manifest in manifests])
            for key, manifests in standing.manifests_by_snapshot()
        }
        return {key: total for key, total in totals.items() if total is not None}

    def _stored(self, ids: pa.Array) -> dict[int, tuple[int, int]]:
        """Returns live rows of manifests and their bytes, by the manifest's id."""
        rows = self._tables.look_here(
            "entries", ("manifest_id", "bytes"), LIVE, ("manifest_id", ids)
        )
        if rows is None:
            sums = (
                self._tables.read("entries")
                .where(F.col("status") < int(EntryStatus.DELETED))
                .join(self._tables.ids("manifest_id", ids), "manifest_id", "leftsemi")
                .groupBy("manifest_id")
                .agg(F.count("bytes").alias("rows"), F.sum("bytes").alias("size"))
            )
            return {row["manifest_id"]: (row["rows"], row["size"]) for row in sums.collect()}
        summed = rows.group_by("manifest_id").aggregate([("bytes", "count"), ("bytes", "sum")])
        totals = tuples(summed, "manifest_id", "bytes_count", "bytes_sum")
        return {key: (count, size) for key, count, size in totals}


def _live(files: int, rows: int, size: int) -> tuple[int, int] | None:
    """Returns a manifest's live files and their bytes; None if entries are missing."""
    copies = max(rows // files, 1) if files else 1
    return (files, size // copies) if rows == copies * files else None


def _total(parts: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Sums files and bytes of manifests; None if one of them is unknown."""
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts):
        return None
    return sum(files for files, _ in whole), sum(size for _, size in whole)


class SideFileRows:
    """Implements the port `SideFileIndex`: rows of `side_files`."""

    def __init__(self, tables: LedgerTables, departures: DepartureRows) -> None:
        self._tables = tables
        self._departures = departures

    def known(self) -> Sequence[SideFile]:
        """Returns statistics and metadata files ever seen that have not departed."""
        return self._tables.once("side_files departures", "side files", self._current)

    def _current(self) -> Sequence[SideFile]:
        old = set(self._departures.departed(FileKind.METADATA, FileKind.STATISTICS).to_pylist())
        rows = self._tables.once("side_files", "side file rows", self._rows).to_pylist()
        newest = {(row["table_uuid"], row["key_hash"]): row for row in rows}
        return [
            SideFile(r["table_uuid"], r["path"], FileKind(r["kind"]), r["bytes"], r["snapshot_id"])
            for (_, key), r in newest.items()
            if key not in old
        ]

    def _rows(self) -> pa.Table:
        names = [name for name in TABLES["side_files"].names if name != "first_seen"]
        return self._tables.look("side_files", names)

    def record(self, files: Sequence[SideFile], seen_at: datetime) -> None:
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
        self._tables.append("side_files", rows, f"side-files-{time.time_ns()}")
