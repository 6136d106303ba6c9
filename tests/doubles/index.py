"""The manifest index in memory: what every manifest holds, and who refers to it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from meltline.adapters.manifests.fastavro_reader import checked_entries, counts_of
from meltline.domain.errors import MetadataUnreadable, StoreRefused
from meltline.domain.iceberg.files import (
    DepartureState,
    EntryStatus,
    ManifestEntry,
    ManifestFile,
    ManifestOutcome,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.linear_history import IndexedHead
from meltline.domain.iceberg.locations import OwnerIndex, Ownership, location_key
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.domain.path_aliases import places_in
from meltline.ports import (
    DepartingFile,
    IngestRequest,
    Neighbourhood,
    SnapshotKey,
)
from tests.doubles.file_tables import MemoryTables, ReadManifest

Records = Mapping[SnapshotKey, SnapshotRecord]


@dataclass
class _Leaving:
    """A file that candidates refer to, as far as it has been put together."""

    path: str
    kind: str
    bytes: int
    tables: set[str] = field(default_factory=set)


class MemoryManifests:
    """The port `ManifestIndex`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def counted(self, paths: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
        """Those of the manifests that have been read, and how many entries each has."""
        with self._tables.guard:
            manifests = self._tables.manifests
            reads = {p: manifests[k] for p in paths if (k := location_key(p)) in manifests}
        return {path: counts_of(e.status for e in read.entries) for path, read in reads.items()}

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once and keeps the entries of those that agree with their list."""
        owners = OwnerIndex(ownerships)
        outcomes = []
        for request, manifest in ((r, m) for r in requests for m in r.manifests):
            entries, outcome = self._read(manifest, owners)
            if request.changes_of is not None:
                outcome = _changed(outcome, entries, is_first=request.changes_of.is_first)
                ambiguity = "" if outcome.error else manifest.contradiction(outcome.counts)
                outcome = replace(outcome, ambiguity=ambiguity)
            outcomes.append(outcome)
            if not outcome.error:
                read = ReadManifest(manifest.path, manifest.bytes, entries)
                with self._tables.guard:
                    self._tables.manifests[location_key(manifest.path)] = read
        if any(not outcome.error for outcome in outcomes):
            self._tables.commits["manifests"] += 1
        return outcomes

    def _read(
        self, manifest: ManifestFile, owners: OwnerIndex
    ) -> tuple[tuple[ManifestEntry, ...], ManifestOutcome]:
        try:
            entries = tuple(checked_entries(manifest, self._tables.store.read(manifest.path)))
        except FileNotFoundError:
            return (), ManifestOutcome(manifest.path, error=f"{manifest.path} is missing")
        except (MetadataUnreadable, StoreRefused) as error:
            return (), ManifestOutcome(manifest.path, error=f"{error.message}: {error.found}")
        paths = [manifest.path, *(file.path for file in entries)]
        live = [file.path for file in entries if file.status is not EntryStatus.DELETED]
        return entries, ManifestOutcome(
            manifest.path,
            *counts_of(file.status for file in entries),
            owners=tuple(sorted({owner for path in paths for owner in owners.owners(path)})),
            places=tuple(sorted(places_in(live, self._tables.store.links_among))),
        )


class MemorySnapshots:
    """The port `SnapshotIndex`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def known(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded whose manifest list has not departed."""
        return set(self._tables.known())

    def reachable_sets(self, keys: Collection[SnapshotKey]) -> Mapping[SnapshotKey, ReachableSet]:
        """How the manifest lists of known snapshots were when they were read."""
        with self._tables.guard:
            records = {
                key: self._tables.snapshots[key] for key in keys if key in self._tables.snapshots
            }
        return {
            key: ReachableSet(record.manifest_list_bytes, record.list_sha256)
            for key, record in records.items()
        }

    def places(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Where known snapshots were read: their lists, or their inline manifests."""
        return [
            (key, record.manifest_list or "\n".join(m.path for m in record.manifests))
            for key, record in self._tables.known().items()
            if key.table_uuid in tables
        ]

    def record(self, records: Sequence[SnapshotRecord]) -> None:
        """Keeps snapshots with the manifests that each refers to; the first record stays."""
        with self._tables.guard:
            for record in records:
                key = SnapshotKey(record.table_uuid, record.snapshot_id)
                if record.by_changes:
                    self._tables.snapshots[key] = record
                else:
                    self._tables.snapshots.setdefault(key, record)
            self._tables.commits["snapshots"] += bool(records)

    def tips(self) -> Mapping[str, IndexedHead]:
        """The newest snapshot of each table that is known by its changes, by the table's UUID."""
        with self._tables.guard:
            records = [record for record in self._tables.snapshots.values() if record.by_changes]
        records.sort(key=lambda record: record.sequence_number)
        return {
            r.table_uuid: IndexedHead(r.snapshot_id, r.sequence_number, r.live_files, r.live_bytes)
            for r in records
        }

    def forgotten_manifests(
        self, records: Sequence[SnapshotRecord], read: Collection[str]
    ) -> set[str]:
        """Manifests of new snapshots that were read long ago and no known snapshot refers to."""
        just_read = {location_key(path) for path in read}
        with self._tables.guard:
            referred = {
                location_key(m.path)
                for recorded in self._tables.known().values()
                for m in recorded.manifests
            }
        return {
            manifest.path
            for record in records
            for manifest in record.manifests
            if location_key(manifest.path) not in referred | just_read
        }

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Live files and their bytes of each snapshot, by the index; unknown ones are absent."""
        totals: dict[SnapshotKey, tuple[int, int]] = {}
        with self._tables.guard:
            for key in heads:
                record = self._tables.snapshots.get(key)
                reads = [
                    self._tables.manifests.get(location_key(manifest.path))
                    for manifest in (record.manifests if record else ())
                ]
                if record and None not in reads:
                    sizes = [file.bytes for read in reads if read for file in read.live]
                    totals[key] = (len(sizes), sum(sizes))
        return totals


class MemoryReferences:
    """The port `FileReferences`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to."""
        leaving = frozenset(candidates)
        if not leaving:
            return ()
        with self._tables.guard:
            records = self._records(within)
            going = {key: record for key, record in records.items() if key in leaving}
            staying = {key: record for key, record in records.items() if key not in leaving}
            floors = self._floors(going, staying)
            referenced = self._referenced_within(staying, within, floors)
            return [
                DepartingFile(file.path, file.kind, file.bytes, tuple(sorted(file.tables)))
                for key, file in self._named_by(going).items()
                if key not in referenced and not self._tables.waits(key)
            ]

    def _records(self, within: Neighbourhood | None) -> Records:
        return {
            key: record
            for key, record in self._tables.known().items()
            if within is None or key.table_uuid in within.tables
        }

    def _named_by(self, going: Records) -> dict[str, _Leaving]:
        files: dict[str, _Leaving] = {}
        for key, record in going.items():
            for path, kind, size in self._tables.named_by(record):
                file = files.setdefault(location_key(path), _Leaving(path, str(kind), size))
                file.path, file.bytes = min(file.path, path), max(file.bytes, size)
                file.tables.add(key.table_uuid)
        return files

    def _floors(self, going: Records, staying: Records) -> dict[str, int]:
        """The least sequence number, by table, of what stands in manifests that all leave."""
        kept_manifests = {
            location_key(m.path) for record in staying.values() for m in record.manifests
        }
        floors: dict[str, int] = {}
        for key, record in going.items():
            left_out = [m for m in record.manifests if location_key(m.path) not in kept_manifests]
            first = min((number for _, number in self._numbered(left_out)), default=0)
            floors[key.table_uuid] = min(floors.get(key.table_uuid, first), first)
        return floors

    def _numbered(self, manifests: Sequence[ManifestFile]) -> Iterator[tuple[ManifestEntry, int]]:
        """What manifests keep alive, with sequence numbers, their own or inherited ones."""
        for manifest in manifests:
            read = self._tables.manifests.get(location_key(manifest.path))
            for file in read.live if read else ():
                own = file.sequence_number
                yield file, manifest.sequence_number if own is None else own

    def _referenced_within(
        self, staying: Records, within: Neighbourhood | None, floors: Mapping[str, int]
    ) -> set[str]:
        """What the others refer to, as narrowly as `within` lets it be looked for."""
        referenced: set[str] = set()
        for key, record in staying.items():
            referenced.update(location_key(manifest.path) for manifest in record.manifests)
            referenced.add(location_key(record.manifest_list))
            linear = within is not None and key.table_uuid in within.linear
            floor = floors.get(key.table_uuid, 0) if linear else 0
            for file, number in self._numbered(record.manifests):
                if number >= floor:
                    referenced.add(location_key(file.path))
        return referenced

    def _referenced(self, records: Sequence[SnapshotRecord]) -> set[str]:
        keys = {
            location_key(path) for record in records for path, _, _ in self._tables.named_by(record)
        }
        return keys | {location_key(m.path) for record in records for m in record.manifests}

    def among(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        dead_keys = frozenset(dead)
        with self._tables.guard:
            referenced = self._referenced(
                [r for key, r in self._tables.known().items() if key not in dead_keys]
            )
        return {path for path in paths if location_key(path) in referenced}

    def unknown(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        with self._tables.guard:
            keys = {key for _, key in self._tables.side_files} | set(self._tables.manifests)
            keys |= {location_key(r.manifest_list) for r in self._tables.snapshots.values()}
            for read in self._tables.manifests.values():
                keys.update(location_key(file.path) for file in read.entries)
        return {path for path in paths if location_key(path) not in keys}

    def waiting_in(self, manifests: Sequence[str]) -> set[str]:
        """Files in failsafe that are one of these manifests, or alive in one of them."""
        with self._tables.guard:
            keys = {location_key(path) for path in manifests}
            reads = [self._tables.manifests[key] for key in keys if key in self._tables.manifests]
            keys |= {location_key(file.path) for read in reads for file in read.live}
            return {self._tables.newest[key].path for key in keys if self._tables.waits(key)}

    def places(self) -> set[str]:
        """Where all files lie that the index knows, and those of them that are links."""
        with self._tables.guard:
            paths = [
                path
                for r in self._tables.snapshots.values()
                for path, _, _ in self._tables.named_by(r)
            ]
            paths += [file.path for file in self._tables.side_files.values()]
        return places_in(paths, self._tables.store.links_among)


class MemorySideFiles:
    """The port `SideFileIndex`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def known(self) -> Sequence[SideFile]:
        """Statistics and metadata files ever seen, that have not departed."""
        with self._tables.guard:
            return [
                file for (_, key), file in self._tables.side_files.items() if not self._is_gone(key)
            ]

    def _is_gone(self, key: str) -> bool:
        departure = self._tables.newest.get(key)
        return departure is not None and departure.state is not DepartureState.CANCELLED

    def record(self, files: Sequence[SideFile], seen_at: datetime) -> None:
        """Keeps statistics and metadata files seen for the first time."""
        with self._tables.guard:
            for file in files:
                self._tables.side_files.setdefault((file.table_uuid, location_key(file.path)), file)
            self._tables.commits["side_files"] += bool(files)


def _changed(
    outcome: ManifestOutcome, entries: Sequence[ManifestEntry], *, is_first: bool
) -> ManifestOutcome:
    """The outcome with the bytes that a snapshot's manifest adds and removes."""
    bytes_of = Counter[EntryStatus]()
    for file in entries:
        bytes_of[file.status] += file.bytes
    live = bytes_of[EntryStatus.ADDED] + (bytes_of[EntryStatus.EXISTING] if is_first else 0)
    removed = 0 if is_first else bytes_of[EntryStatus.DELETED]
    return replace(outcome, bytes_added=live, bytes_removed=removed)
