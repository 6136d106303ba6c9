"""Compares cold's rows of dropped chunks with what was recorded at the drops.

Passes, drops, their gate, `doctor` and the query over all rows call it before they rely on cold.
Only replication should write there, and rows lost there exist nowhere else. Rows are counted from
file metadata. If others have changed a chunk's files, its rows are read and digested too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.chunks.replication.refusals import cold_changed, diverged
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED, ColdRows
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.row_digests import ColdDigest, comparable, present_columns
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, chunks_of
from meltline.domain.chunks.sync import SYNC_COMMIT, RowDigest, TableSync
from meltline.ports import ChunkFileReader, ChunkRows, CopyOutcome

_RECORDED_AT_ONCE = 10
"""Number of chunks without a recorded digest that one pass digests, which reads their rows."""


@dataclass(frozen=True)
class ColdCount:
    """Cold's rows of a table's chunks, counted from metadata and digested by an engine."""

    reader: ChunkFileReader
    synced: SyncedTable
    layout: ChunkLayout
    files: Sequence[ChunkFile]

    @classmethod
    def of(
        cls, reader: ChunkFileReader | None, synced: SyncedTable, layout: ChunkLayout
    ) -> "ColdCount":
        """Reads the manifests of cold. Raises MetadataUnreadable."""
        assert reader is not None  # a cold tier is configured
        head = synced.state.current_snapshot
        return cls(reader, synced, layout, reader.live(head, layout) if head else ())

    def _rows(self, bases: Mapping[str, int]) -> ColdRows:
        """Counts rows by chunk. Raises SyncRefused if cold's record of late files is unreadable."""
        try:
            late = LateFiles.read(self.synced.state.properties)
        except ValueError as error:
            raise diverged(self.synced.state.name, str(error)) from error
        return ColdRows.of(self.layout, self.files, bases, late)

    def differences(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Returns dropped chunks whose number of rows in cold is not the recorded one, with both.

        A chunk that was dropped after cold was read is left out.
        """
        seen = self._seen(chunks)
        rows = self._rows(_bases(seen))
        texts = {c.name: rows.difference(c, self.synced.position) for c in seen}
        return {name: text for name, text in texts.items() if text}

    def _seen(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Filters chunks that were dropped before cold was read."""
        return [c for c in chunks if -1 < _base(c) <= self.synced.newest]

    def recordable(self, chunks: Iterable[Chunk]) -> Mapping[str, int | None]:
        """Counts the rows that only cold has of dropped chunks; None if unknown."""
        of_drops = [c for c in chunks if _base(c) > -1]
        rows = self._rows(_bases(of_drops))
        return {c.name: rows.recordable(c, self.synced.position) for c in of_drops}

    def total(self, names: Iterable[str]) -> Mapping[str, int | None]:
        """Counts all rows in cold of chunks that are about to be dropped."""
        bases = dict.fromkeys(names, self.synced.newest)
        rows = self._rows(bases)
        return {name: rows.total(name) for name in bases}

    def digests(
        self, rows: ChunkRows | None, bases: Mapping[str, int], at_most: int | None = None
    ) -> Mapping[str, ColdDigest]:
        """Digests the rows that only cold has of chunks; chunks with late rows use a separate job.

        A chunk is left out if its late rows share a file with others.

        Args:
            rows: The engine.
            bases: The chunks, each with cold's newest sequence number at its drop.
            at_most: How many chunks; None is all.

        Raises:
            SyncRefused: They cannot be read.
        """
        counted = self._rows(bases)
        files = {n: paths for n in bases if (paths := counted.only_paths(n)) is not None}
        names = sorted(n for n in bases if n in files or counted.is_whole(n))[:at_most]
        apart = [name for name in names if not counted.is_whole(name)]
        paths = [path for name in apart for path in files[name]]
        digests = self._read(rows, {*names} - {*apart}) | self._read(rows, apart, paths)
        columns = present_columns(self.synced.document)
        return {name: ColdDigest.of(digests.get(name), columns) for name in names}

    def _read(
        self,
        rows: ChunkRows | None,
        names: Collection[str],
        only_files: Collection[str] | None = None,
    ) -> dict[str, RowDigest]:
        head = self.synced.state.current_snapshot_id
        if head is None or not names:
            return {}
        assert rows is not None  # a cold tier is configured
        table = self.synced.state.name
        return dict(rows.digests(table, head, self.layout, names, only_files=only_files))

    def by_others(self, since: int | None, chunks: Collection[Chunk]) -> dict[str, Chunk]:
        """Returns dropped chunks with other files than at a snapshot, if others committed after it.

        Chunks without a comparable record are left out.
        """
        unread = set(uncompared(self.synced, chunks))
        digested = {c.name: c for c in self._seen(chunks) if c.name not in unread}
        if not digested or self._is_own_since(since):
            return {}
        before = None if since is None else self.synced.state.snapshots.get(since)
        if before is None:
            return digested
        files = set(self.reader.live(before, self.layout)) ^ set(self.files)
        names = chunks_of(self.layout, files)
        return {name: c for name, c in digested.items() if names is None or name in names}

    def _is_own_since(self, since: int | None) -> bool:
        """Whether all commits since a snapshot are those of replication."""
        head = self.synced.state.current_snapshot_id
        for snapshot in () if head is None else self.synced.state.ancestry(head):
            if snapshot.snapshot_id == since:
                return True
            if SYNC_COMMIT not in snapshot.summary:
                return False
        return False

    def changes(
        self, rows: ChunkRows | None, chunks: Mapping[str, Chunk]
    ) -> tuple[dict[str, str], frozenset[str]]:
        """Returns dropped chunks whose rows in cold differ from the recorded ones, by checksums.

        Returns:
            How they differ, and the chunks that cannot be compared now.
        """
        digests = self.digests(rows, _bases(chunks.values())) if rows and chunks else {}
        changed = dict[str, str]()
        for name, digest in digests.items():
            drop = chunks[name].only_copy
            if drop and drop.digest and not digest.has_same_rows(drop.digest):
                changed[name] = f"{name}: others have changed the values of rows"
        return changed, frozenset(chunks.keys() - digests.keys())


def _base(chunk: Chunk) -> int:
    return -1 if chunk.only_copy_base is None else chunk.only_copy_base


def _bases(chunks: Iterable[Chunk]) -> dict[str, int]:
    return {chunk.name: _base(chunk) for chunk in chunks}


@dataclass(frozen=True)
class Compared:
    """Result of comparing cold's rows of dropped chunks with the recorded ones.

    Attributes:
        upto: The snapshot of cold up to which all were compared.
        counted: Chunks that others have written since, whose rows were only counted.
    """

    upto: int | None
    counted: frozenset[str] = frozenset()

    def after(self, outcome: CopyOutcome | None) -> int | None:
        """The same after a replication commit, which changes no row that only cold has."""
        return self.upto if outcome is None or self.counted else outcome.snapshot_id


def require_recorded_rows(
    context: ReadSources,
    sync: TableSync,
    synced: SyncedTable,
    chunks: Iterable[Chunk],
    rows: ChunkRows | None = None,
) -> Compared:
    """Rejects a cold table whose rows of dropped chunks differ from the recorded ones.

    If cold's newest snapshot is the one that replication left, or that was compared last, the rows
    are unchanged.

    Args:
        context: Where both tables and the ledger are.
        sync: The replication.
        synced: Cold as it is now.
        chunks: All of the table, or its dropped ones.
        rows: The engine; without it rows are only counted.

    Raises:
        SyncRefused: Which chunks, and how they differ.
        MetadataUnreadable: Cold cannot be read.
    """
    dropped = [chunk for chunk in chunks if chunk.was_dropped]
    head = synced.state.current_snapshot_id
    if not dropped or head == sync.cold_compared:
        return Compared(head)
    (tracked,) = context.control.chunks.tracked([sync.table_uuid])
    count = ColdCount.of(context.cold_chunk_files, synced, tracked.layout)
    return compared_rows(sync, count, dropped, rows)


def compared_rows(
    sync: TableSync, count: ColdCount, dropped: Collection[Chunk], rows: ChunkRows | None = None
) -> Compared:
    """Compares rows of dropped chunks: by number, and by checksum if others have written.

    Raises:
        SyncRefused: They differ, or did at the last pass and cold has not changed since.
    """
    counted: frozenset[str] = frozenset()
    if not (changed := count.differences(dropped)):
        by_others = count.by_others(sync.cold_compared, dropped)
        changed, counted = count.changes(rows, by_others)
        if rows is None and sync.reason == COLD_CHANGED:
            changed = {name: f"{name}: as the last pass has found" for name in counted}
    if changed:
        raise cold_changed(sync.table, sync.cold, list(changed.values()))
    upto = sync.cold_compared if counted else count.synced.state.current_snapshot_id
    return Compared(upto, counted)


def record_rows(
    context: ReadContext,
    synced: SyncedTable,
    layout: ChunkLayout,
    chunks: Mapping[str, Chunk],
    rows: ChunkRows | None,
) -> dict[str, Chunk]:
    """Records rows of dropped chunks that lack a record, as after forced drops.

    A few chunks at a time are digested, and again after a change of columns that makes the recorded
    digest incomparable.

    Returns:
        The chunks that it has changed, by name.
    """
    dropped = {n: c.only_copy for n, c in chunks.items() if c.only_copy and _base(c) > -1}
    uncounted = [chunks[n] for n, drop in dropped.items() if drop.rows is None]
    unread = [chunks[name] for name in uncompared(synced, chunks.values()) if name in dropped]
    if not (uncounted or unread):
        return {}
    count = ColdCount.of(context.cold_chunk_files, synced, layout)
    counts = {name: drop.rows for name, drop in dropped.items()}
    counts |= count.recordable(uncounted)
    digests = {name: drop.digest for name, drop in dropped.items()}
    digests |= count.digests(rows, _bases(unread), _RECORDED_AT_ONCE)
    after = {n: chunks[n].with_rows(counts[n], digests[n]) for n in dropped}
    moves = [(chunks[n], chunk) for n, chunk in after.items() if chunk != chunks[n]]
    is_moved = context.control.chunks.move(moves)
    return {new.name: new for (_, new), moved in zip(moves, is_moved, strict=True) if moved}


def uncompared(synced: SyncedTable, chunks: Iterable[Chunk]) -> list[str]:
    """Returns dropped chunks without a comparable checksum."""
    drops = [(chunk.name, chunk.only_copy) for chunk in chunks if chunk.only_copy]
    columns = comparable(synced.document) if drops else ()
    digests = ((name, drop.digest) for name, drop in drops if drop)
    return [n for n, digest in digests if digest is None or digest.columns not in columns]
