"""What a file ledger in memory holds."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock

from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    EntryStatus,
    FileKind,
    ManifestEntry,
    PlannedFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.locations import location_key
from meltline.ports import IndexedFile, IndexedSnapshot, ObjectReader, SnapshotKey


@dataclass(frozen=True)
class ReadManifest:
    """A manifest that was read, and what it keeps alive or has removed."""

    path: str
    bytes: int
    entries: tuple[ManifestEntry, ...]

    @property
    def live(self) -> list[ManifestEntry]:
        """What it keeps alive."""
        return [file for file in self.entries if file.status is not EntryStatus.DELETED]


@dataclass(frozen=True)
class MemoryContents:
    """A file ledger whole: snapshots, manifests and their live entries, the rest as it is."""

    snapshots: Sequence[IndexedSnapshot]
    manifests: Sequence[IndexedFile]
    entries: Sequence[IndexedFile]
    side_files: Sequence[SideFile]
    departures: Sequence[Departure]


class MemoryTables:
    """What a file ledger in memory holds; its parts share it. Safe for this process's threads."""

    def __init__(self, store: ObjectReader) -> None:
        self.store = store
        self.guard = RLock()
        self.manifests: dict[str, ReadManifest] = {}
        self.snapshots: dict[SnapshotKey, SnapshotRecord] = {}
        self.side_files: dict[tuple[str, str], SideFile] = {}
        self.items: dict[str, tuple[PlannedFile, ...]] = {}
        self.markers: set[str] = set()
        self.newest: dict[str, Departure] = {}
        self.settled_snapshots: dict[SnapshotKey, SnapshotRecord] = {}
        self.settled_side_files: dict[tuple[str, str], SideFile] = {}
        self.settled: dict[str, Departure] = {}
        self.commits: Counter[str] = Counter()  # how often each of the tables was written to

    def known(self) -> dict[SnapshotKey, SnapshotRecord]:
        """The snapshots whose manifest list has not departed."""
        with self.guard:
            departed = {
                key
                for key, departure in self.newest.items()
                if departure.kind is FileKind.MANIFEST_LIST
                and departure.state is not DepartureState.CANCELLED
            }
            return {
                key: record
                for key, record in self.snapshots.items()
                if not (record.manifest_list and location_key(record.manifest_list) in departed)
            }

    def waits(self, key: str) -> bool:
        """Whether the file at a location is in failsafe."""
        departure = self.newest.get(key)
        return departure is not None and departure.state is DepartureState.FAILSAFE

    def named_by(self, record: SnapshotRecord) -> list[tuple[str, FileKind, int]]:
        """Every file that a snapshot refers to: path, kind and bytes."""
        files: list[tuple[str, FileKind, int]] = []
        if record.manifest_list:
            size = record.manifest_list_bytes
            files.append((record.manifest_list, FileKind.MANIFEST_LIST, size))
        for manifest in record.manifests:
            if read := self.manifests.get(location_key(manifest.path)):
                files.append((read.path, FileKind.MANIFEST, read.bytes))
                files += [(file.path, file.kind, file.bytes) for file in read.live]
        return files

    def edit_items(
        self, plan_id: str, edit: Callable[[Sequence[PlannedFile]], Sequence[PlannedFile]]
    ) -> None:
        """Changes stored items behind everybody's back, which nobody should."""
        with self.guard:
            self.items[plan_id] = tuple(edit(self.items.get(plan_id, ())))

    def contents(self) -> MemoryContents:
        """Everything there is."""
        with self.guard:
            reads = list(self.manifests.values())
            snapshots = {**self.settled_snapshots, **self.snapshots}
            departures = {**self.settled, **self.newest}
            return MemoryContents(
                snapshots=[_indexed(key, record) for key, record in snapshots.items()],
                manifests=[
                    IndexedFile(key_hash(r.path), r.path, FileKind.MANIFEST, r.bytes) for r in reads
                ],
                entries=[
                    IndexedFile(key_hash(read.path), file.path, file.kind, file.bytes)
                    for read in reads
                    for file in read.live
                ],
                side_files=list({**self.settled_side_files, **self.side_files}.values()),
                departures=sorted(departures.values(), key=_by_path),
            )


def _by_path(file: Departure) -> str:
    return file.path


def _indexed(key: SnapshotKey, record: SnapshotRecord) -> IndexedSnapshot:
    return IndexedSnapshot(
        key,
        record.committed_at,
        record.manifest_list,
        record.manifest_list_bytes,
        tuple(key_hash(manifest.path) for manifest in record.manifests),
    )
