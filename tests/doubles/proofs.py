"""Proofs from the files alone, in this process: the gate's own reading, apart from the index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from meltline.adapters.manifests.pyiceberg_reader import (
    ListedManifest,
    LiveColumns,
    listed_manifests,
    live_columns,
)
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports import ObjectReader, ProofResult, ProofSnapshot, SnapshotKey


class MemoryProofReader:
    """The port `ProofReader` without Spark."""

    def __init__(self, store: ObjectReader) -> None:
        self._store = store

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        sought: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        """Reads everything the snapshots refer to, each time, and looks for the wanted paths."""
        return self._read(snapshots, sought).answer()

    def forget(self, before: datetime) -> str:
        """Remembers nothing, and so has nothing to drop."""
        return ""

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> Mapping[str, int]:
        """Bytes of the distinct live files of each table's snapshots."""
        of_table: dict[str, list[ProofSnapshot]] = {}
        for snapshot in snapshots:
            of_table.setdefault(snapshot.table_uuid, []).append(snapshot)
        return {uuid: self._read(of, ()).distinct_bytes() for uuid, of in of_table.items()}

    def _read(self, snapshots: Sequence[ProofSnapshot], sought: Sequence[str]) -> "_Reading":
        reading = _Reading(self._store, {location_key(path): path for path in sought})
        for snapshot in snapshots:
            reading.read_list(snapshot)
        for manifest in list(reading.listed.values()):
            reading.read_manifest(manifest)
        return reading


@dataclass
class _Reading:
    """What has been read so far."""

    store: ObjectReader
    sought: Mapping[str, str]
    listed: dict[str, ListedManifest] = field(default_factory=dict)
    _manifests: dict[SnapshotKey, list[str]] = field(default_factory=dict)
    _tables: dict[str, set[str]] = field(default_factory=dict)
    _live: dict[str, LiveColumns] = field(default_factory=dict)
    _hits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _errors: dict[str, list[str]] = field(default_factory=dict)
    _contradictions: dict[str, list[str]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _lists: dict[SnapshotKey, ReachableSet] = field(default_factory=dict)

    def read_list(self, snapshot: ProofSnapshot) -> None:
        """Notes which manifests a snapshot refers to."""
        uuid, path = snapshot.table_uuid, snapshot.manifest_list
        try:
            if not path:
                self._note(snapshot, self._inline(snapshot))
                return
            content = self.store.read(path)
            self._lists[snapshot.key] = ReachableSet.of_list(content)
            self._note(snapshot, listed_manifests(path, content))
            self._sizes[path] = len(content)
        except FileNotFoundError:
            self._errors.setdefault(uuid, []).append(f"{path} is missing")
        except MeltlineError as fault:
            self._errors.setdefault(uuid, []).append(f"{fault.message}: {fault.found}")

    def _inline(self, snapshot: ProofSnapshot) -> list[ListedManifest]:
        contents = [(path, self.store.read(path)) for path in snapshot.inline_manifests]
        self._lists[snapshot.key] = ReachableSet.of_manifests(contents)
        return [ListedManifest(path, len(content), None) for path, content in contents]

    def _note(self, snapshot: ProofSnapshot, manifests: Iterable[ListedManifest]) -> None:
        paths = self._manifests.setdefault(snapshot.key, [])
        for manifest in manifests:
            paths.append(manifest.path)
            self.listed.setdefault(manifest.path, manifest)
            self._tables.setdefault(manifest.path, set()).add(snapshot.table_uuid)

    def read_manifest(self, manifest: ListedManifest) -> None:
        """Notes what a manifest keeps alive; an unreadable one keeps an error instead."""
        live = LiveColumns([], [])
        error = ""
        try:
            live = live_columns(manifest, self.store.read(manifest.path))
        except FileNotFoundError:
            error = f"{manifest.path} is missing"
        except MeltlineError as fault:
            error = f"{fault.message}: {fault.found}"
        self._live[manifest.path] = live
        sought = [self.sought.get(location_key(path)) for path in live.paths]
        if hits := tuple(path for path in sought if path is not None):
            self._hits[manifest.path] = hits
        for uuid in self._tables[manifest.path] if error else ():
            self._errors.setdefault(uuid, []).append(error)
        for uuid in self._tables[manifest.path] if live.contradiction else ():
            self._contradictions.setdefault(uuid, []).append(live.contradiction)

    def answer(self) -> ProofResult:
        """All that was read."""
        return ProofResult(
            manifests={key: tuple(paths) for key, paths in self._manifests.items()},
            live_files={path: len(live.paths) for path, live in self._live.items()},
            live_bytes={path: sum(live.sizes) for path, live in self._live.items()},
            hits=self._hits,
            errors={uuid: tuple(messages) for uuid, messages in self._errors.items()},
            sizes=self._sizes | {path: manifest.bytes for path, manifest in self.listed.items()},
            read=len(self._live),
            lists=self._lists,
            contradictions={uuid: tuple(of) for uuid, of in self._contradictions.items()},
        )

    def distinct_bytes(self) -> int:
        """Bytes of the distinct live files of all that was read."""
        sizes: dict[str, int] = {}
        for live in self._live.values():
            for path, size in zip(live.paths, live.sizes, strict=True):
                key = location_key(path)
                sizes[key] = max(size, sizes.get(key, 0))
        return sum(sizes.values())
