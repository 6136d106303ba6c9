"""Compares how many rows of dropped chunks cold has with what was recorded at the drops.

Passes, drops, their gate, `doctor` and the query over all rows ask here before they count on cold:
nobody but replication should write there, and what is lost there is nowhere else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.chunks.replication.refusals import cold_changed, diverged
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.cold_rows import ColdRows
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.chunks.sync import TableSync
from meltline.ports import ChunkFileReader


@dataclass(frozen=True)
class ColdCount:
    """What cold has of a table's chunks, by its metadata alone."""

    synced: SyncedTable
    layout: ChunkLayout
    files: Sequence[ChunkFile]

    @classmethod
    def of(
        cls, reader: ChunkFileReader | None, synced: SyncedTable, layout: ChunkLayout
    ) -> "ColdCount":
        """Reads the manifests of cold. Raises MetadataUnreadable."""
        assert reader is not None  # there is a cold tier
        head = synced.state.current_snapshot
        return cls(synced, layout, reader.live(head, layout) if head else ())

    def _rows(self, bases: Mapping[str, int]) -> ColdRows:
        """Raises SyncRefused where cold's record of late files cannot be read."""
        try:
            late = LateFiles.read(self.synced.state.properties)
        except ValueError as error:
            raise diverged(self.synced.state.name, str(error)) from error
        return ColdRows.of(self.layout, self.files, bases, late)

    def differences(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Dropped chunks that cold does not have as it was recorded, and how they differ.

        A chunk that was dropped after cold was read is left out.
        """
        newest = int(self.synced.document["last-sequence-number"])
        bases = {c.name: c for c in chunks if -1 < _base(c) <= newest}
        rows = self._rows({n: _base(c) for n, c in bases.items()})
        texts = {n: rows.difference(c, self.synced.position) for n, c in bases.items()}
        return {name: text for name, text in texts.items() if text}

    def recordable(self, chunks: Iterable[Chunk]) -> Mapping[str, int | None]:
        """How many rows cold alone has of dropped chunks; None where nobody can tell."""
        bases = {c.name: c for c in chunks if _base(c) > -1}
        rows = self._rows({n: _base(c) for n, c in bases.items()})
        return {n: rows.recordable(c, self.synced.position) for n, c in bases.items()}

    def total(self, names: Iterable[str]) -> Mapping[str, int | None]:
        """All rows that cold has of chunks that are about to be dropped."""
        newest = int(self.synced.document["last-sequence-number"])
        bases = dict.fromkeys(names, newest)
        rows = self._rows(bases)
        return {name: rows.total(name) for name in bases}


def _base(chunk: Chunk) -> int:
    return -1 if chunk.only_copy_base is None else chunk.only_copy_base


def require_recorded_rows(
    context: ReadSources, sync: TableSync, synced: SyncedTable, chunks: Iterable[Chunk]
) -> None:
    """Refuses where cold has other rows of dropped chunks than were recorded.

    Where the newest snapshot of cold is the one that replication left, nobody has changed rows.

    Raises:
        SyncRefused: Which chunks, and how they differ.
        MetadataUnreadable: Cold cannot be read.
    """
    dropped = [chunk for chunk in chunks if chunk.was_dropped]
    if not dropped or synced.state.current_snapshot_id == sync.cold_snapshot:
        return
    (tracked,) = context.control.chunks.tracked([sync.table_uuid])
    count = ColdCount.of(context.cold_chunk_files, synced, tracked.layout)
    if changed := count.differences(dropped):
        raise cold_changed(sync.table, sync.cold, list(changed.values()))


def record_rows(
    context: ReadContext, synced: SyncedTable, layout: ChunkLayout, chunks: Mapping[str, Chunk]
) -> dict[str, Chunk]:
    """Records rows of chunks whose drops nobody has counted, as those of earlier versions.

    Returns:
        The chunks that it has changed, by name.
    """
    uncounted = [c for c in chunks.values() if c.only_copy and c.only_copy.rows is None]
    if not uncounted:
        return {}
    rows = ColdCount.of(context.cold_chunk_files, synced, layout).recordable(uncounted)
    moves = [(c, c.with_rows(count)) for c in uncounted if (count := rows.get(c.name)) is not None]
    is_moved = context.control.chunks.move(moves)
    return {new.name: new for (_, new), moved in zip(moves, is_moved, strict=True) if moved}
