"""Which files a snapshot has, and which it added and removed, with the chunks they lie in."""

from collections.abc import Iterable, Sequence
from functools import partial

from meltline.adapters.chunks.file_entries import ChunkEntry, chunk_entries
from meltline.adapters.manifests.fastavro_reader import read_manifest_list, unreadable
from meltline.concurrency import thread_map
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import ObjectReader


class AvroChunkFiles:
    """The port `ChunkFileReader` over an object store.

    Args:
        store: Where the table lies: that of hot or that of cold.
    """

    def __init__(self, store: ObjectReader) -> None:
        self._store = store

    def live(self, snapshot: Snapshot, layout: ChunkLayout) -> Sequence[ChunkFile]:
        """Every data and delete file of a snapshot. Raises MetadataUnreadable."""
        entries = self._entries(self._manifests(snapshot), layout)
        return [entry.file for entry in entries if entry.status in _LIVE]

    def change(self, snapshot: Snapshot, layout: ChunkLayout, place: int) -> SnapshotChange:
        """What a snapshot added and removed, by the manifests that it wrote."""
        own = snapshot.snapshot_id
        manifests = [
            manifest
            for manifest in self._manifests(snapshot)
            if manifest.added_snapshot_id in (own, None) and _may_have(manifest, _CHANGED)
        ]
        entries = [
            entry for entry in self._entries(manifests, layout) if entry.file.snapshot_id == own
        ]
        change = SnapshotChange(
            snapshot_id=own,
            operation=snapshot.summary.get("operation", ""),
            place=place,
            summary=snapshot.summary,
            added=[entry.file for entry in entries if entry.status is EntryStatus.ADDED],
            removed=[entry.file for entry in entries if entry.status is EntryStatus.DELETED],
        )
        _require_explained(snapshot, change)
        return change

    def _manifests(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        if not snapshot.manifest_list:  # the oldest form of format 1 counts nothing
            return [ManifestFile(path, 0) for path in snapshot.inline_manifests]
        content = self._read(snapshot.manifest_list, "a manifest list")
        return read_manifest_list(snapshot.manifest_list, content)

    def _entries(
        self, manifests: Iterable[ManifestFile], layout: ChunkLayout
    ) -> Iterable[ChunkEntry]:
        for entries in thread_map(partial(self._of_manifest, layout), manifests):
            yield from entries

    def _of_manifest(self, layout: ChunkLayout, manifest: ManifestFile) -> Sequence[ChunkEntry]:
        content = self._read(manifest.path, "a manifest")
        return chunk_entries(manifest, content, layout.column)

    def _read(self, path: str, kind: str) -> bytes:
        try:
            return self._store.read(path)
        except FileNotFoundError as missing:
            raise unreadable(path, kind, missing) from missing


_LIVE = frozenset((EntryStatus.ADDED, EntryStatus.EXISTING))
_CHANGED = frozenset((EntryStatus.ADDED, EntryStatus.DELETED))


def _may_have(manifest: ManifestFile, statuses: Iterable[EntryStatus]) -> bool:
    """Whether it has entries of some status, or nobody counted them."""
    counts = {
        EntryStatus.ADDED: manifest.added_files,
        EntryStatus.EXISTING: manifest.existing_files,
        EntryStatus.DELETED: manifest.deleted_files,
    }
    return any(counts[status] != 0 for status in statuses)


def _require_explained(snapshot: Snapshot, change: SnapshotChange) -> None:
    """Refuses a change that is not what its snapshot says of itself.

    One file may be added or removed twice by one snapshot, which writers count as one or as two.
    """
    for total, files in (
        ("added-data-files", change.added),
        ("deleted-data-files", change.removed),
    ):
        said = snapshot.summary.get(total)
        paths = [file.path for file in files if file.kind is FileKind.DATA]
        if said is not None and not len(set(paths)) <= _number(said) <= len(paths):
            raise MetadataUnreadable(
                f"the manifests of snapshot {snapshot.snapshot_id} do not explain its summary",
                object=snapshot.place,
                expected=f"{total}={said}",
                found=f"{len(paths)} such entries",
                next="find out who wrote the snapshot: its summary or a manifest is wrong",
            )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
