"""Chunk records as the ledger stores them: status, drops and the position of the last write.

The steps of `app/chunks` and the ledger use them. The layout that names chunks is in `layout`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from meltline.domain.chunks.cold.row_digests import ColdDigest
from meltline.domain.chunks.layout import ChunkLayout, SnapshotChange, Times, chunks_of
from meltline.domain.chunks.ranges import UNBOUNDED, TimeRange
from meltline.domain.iceberg.files import FileKind

UNKNOWN_DROP = 0
"""Snapshot id of a drop that only cold records."""


class ChunkStatus(StrEnum):
    """The location of a chunk's rows (LT-2)."""

    ACTIVE = "active"
    """In hot; not, or no longer, proved to be in cold."""
    TIERED = "tiered"
    """In hot, and proved to be in cold."""
    DROPPED = "dropped"
    """In cold alone."""
    REOPENED = "reopened"
    """Dropped, and hot has later rows of it again."""
    UNKNOWN = "unknown"
    """Dropped once; hot and cold have rows, and it is unknown whether these are the same."""


class DropStatus(StrEnum):
    """Whether main descends from a drop."""

    IN_FORCE = "in force"
    UNDONE = "undone"
    """It does not: main was rolled back. The drop is kept: main may be set to it again."""
    UNKNOWN = "unknown"
    """The history that showed it has expired before it was recorded."""


WERE_DROPPED = frozenset({ChunkStatus.DROPPED, ChunkStatus.REOPENED, ChunkStatus.UNKNOWN})
"""Cold alone has rows of such chunks, or may have."""


class Deferral(StrEnum):
    """Reason why a chunk is not flagged or dropped; the same value everywhere."""

    NOT_SYNCED = "NOT_SYNCED"
    NOT_STREAMING = "NOT_STREAMING"
    STALE_HEARTBEAT = "STALE_HEARTBEAT"
    NO_WRITE_POSITION = "NO_WRITE_POSITION"
    BEHIND = "BEHIND"
    DIVERGED = "DIVERGED"
    OTHER_GENERATION = "OTHER_GENERATION"
    ROWS_DIFFER = "ROWS_DIFFER"
    SPANS_CHUNKS = "SPANS_CHUNKS"
    ROLLUP_DIRTY = "ROLLUP_DIRTY"
    HELD = "HELD"
    LATEST_KEPT = "LATEST_KEPT"
    STRADDLES = "STRADDLES"
    UNKNOWN_DROP = "UNKNOWN_DROP"
    OVER_SHARE = "OVER_SHARE"
    GATE_REFUSED = "GATE_REFUSED"
    CHANGED_MEANWHILE = "CHANGED_MEANWHILE"


@dataclass(frozen=True)
class ChunkDrop:
    """One drop of a chunk: a rollback may undo it without undoing earlier ones.

    Attributes:
        snapshot_id: The commit that removed its files from main.
        sequence_number: The commit's sequence number.
        base: Cold's newest sequence number at that time; None if not recorded.
        standing: Whether main descended from it when that was recorded last
            (`TrackedTable.judged`).
        rows: Rows of the chunk in cold at that time, which only cold has; None if not counted since
            the base was recorded. `digest` is their checksum, likewise.
    """

    snapshot_id: int
    sequence_number: int
    base: int | None
    standing: DropStatus = DropStatus.IN_FORCE
    rows: int | None = None
    digest: ColdDigest | None = None

    @property
    def is_undone(self) -> bool:
        """Whether main does not descend from it."""
        return self.standing is DropStatus.UNDONE


@dataclass(frozen=True)
class Chunk:
    """One time range of one registration of a table.

    Attributes:
        table_uuid: The registration (`TableMetadata.uuid`).
        name: Its begin in UTC, such as `2026-01-05`; or `unbounded`.
        start: Its begin; None for the unbounded one. Likewise `end`, which is exclusive.
        rows: Rows of its data files, row deletes not subtracted; `bytes` and `files` likewise.
        spans: How many data files reach into it and others, or to an unknown extent. In the chunk
            `unbounded` only the latter are counted.
        last_write: Offset in main's history of the last commit that may have changed its rows; None
            until it is determined.
        last_write_snapshot: That commit.
        generation: The sync generation in which the offset was counted; 0 if nothing is synced.
        tiered_at: When it was proved; None while it is not.
        dropped_at: When it was dropped last; None if never.
        drop_plan: The plan that dropped it last.
        drops: All drops of it, oldest first.
        dropped_rows: How many rows left hot by it; `dropped_bytes` likewise.
        cold_base: Cold's newest sequence number when its latest drop was prepared, committed or
            not: the value that cold then records.
        cold_rows: How many rows of the chunk cold had then; None if they could not be counted.
            `cold_digest` is their checksum, likewise.
    """

    table_uuid: str
    name: str
    start: datetime | None
    end: datetime | None
    status: ChunkStatus = ChunkStatus.ACTIVE
    rows: int = 0
    bytes: int = 0
    files: int = 0
    spans: int = 0
    last_write: int | None = None
    last_write_snapshot: int | None = None
    generation: int = 0
    tiered_at: datetime | None = None
    dropped_at: datetime | None = None
    drop_plan: str = ""
    cold_base: int | None = None
    cold_rows: int | None = None
    cold_digest: ColdDigest | None = None
    dropped_rows: int = 0
    dropped_bytes: int = 0
    drops: tuple[ChunkDrop, ...] = ()

    @property
    def range(self) -> TimeRange | None:
        """The chunk's time range."""
        return TimeRange(self.start, self.end) if self.start and self.end else None

    @property
    def is_resident(self) -> bool:
        """Whether hot has rows of it."""
        return self.status is not ChunkStatus.DROPPED

    @property
    def was_dropped(self) -> bool:
        """Whether cold alone has rows of it, or may have, whatever rows are in hot."""
        return self.status in WERE_DROPPED

    @property
    def last_drop(self) -> ChunkDrop | None:
        """The last drop that was not undone, as far as known; None if there is none."""
        drops = [drop for drop in self.drops if not drop.is_undone]
        return drops[-1] if drops else None

    @property
    def is_told(self) -> bool:
        """Whether it is known which side has the chunk's rows."""
        return self.last_drop is None or self.last_drop.standing is not DropStatus.UNKNOWN

    @property
    def only_copy(self) -> ChunkDrop | None:
        """The drop after which cold alone has rows of it; None if it is in hot."""
        return self.last_drop if self.was_dropped else None

    @property
    def only_copy_base(self) -> int | None:
        """The newest sequence number of cold's files that are the only copy of its dropped rows.

        Later files have late rows, which are in hot as well. None if not recorded.
        """
        return self.only_copy.base if self.only_copy else None

    def dropped_by(self, plan: str, drop: ChunkDrop, at: datetime | None) -> "Chunk":
        """Adds a drop, committed when the chunk had the current counts."""
        return replace(
            self,
            drops=(*self.drops, drop),
            drop_plan=plan,
            dropped_at=at,
            dropped_rows=self.rows,
            dropped_bytes=self.bytes,
        )

    def with_base(self, base: int) -> "Chunk":
        """Records cold's current rows as the only copy, if no base is recorded yet."""
        drop = self._noted(base=base, rows=None, digest=None)
        return replace(drop, cold_base=base, cold_rows=None, cold_digest=None)

    @property
    def without_undone_bases(self) -> "Chunk":
        """The chunk once cold has all of hot's rows: undone drops have no only copy."""
        drops = (replace(d, base=None) if d.is_undone else d for d in self.drops)
        return replace(self, drops=tuple(drops))

    def with_rows(self, rows: int | None, digest: ColdDigest | None = None) -> "Chunk":
        """Records the count and the checksum of the rows that only cold has."""
        return self._noted(rows=rows, digest=digest)

    def _noted(self, **facts: int | ColdDigest | None) -> "Chunk":
        last = self.last_drop
        assert last is not None  # its rows are in cold alone
        noted = replace(last, **facts)  # type: ignore[arg-type]
        drops = tuple(noted if drop == last else drop for drop in self.drops)
        return replace(self, drops=drops)

    def written(self, change: SnapshotChange, generation: int) -> "Chunk":
        """Applies a commit that may have changed its rows: it is no longer proved (H7)."""
        status = ChunkStatus.ACTIVE if self.status is ChunkStatus.TIERED else self.status
        return replace(
            self,
            status=status,
            tiered_at=None if status is ChunkStatus.ACTIVE else self.tiered_at,
            last_write=change.place,
            last_write_snapshot=change.snapshot_id,
            generation=generation,
        )


def new_chunk(layout: ChunkLayout, table_uuid: str, name: str) -> Chunk:
    """Creates a chunk without counts. Raises ValueError for an invalid name."""
    times = layout.range(name)
    if times is None:
        return Chunk(table_uuid, UNBOUNDED, None, None)
    return Chunk(table_uuid, name, times.start, times.end)


def stamped(
    layout: ChunkLayout,
    table_uuid: str,
    chunks: Mapping[str, Chunk],
    changes: Iterable[SnapshotChange],
    *,
    generation: int,
    own_drops: Collection[int] = (),
) -> dict[str, Chunk]:
    """Applies commits, oldest first: counts the chunks, and stamps those that they touched.

    Both sides of a row that moves are stamped, since rows that leave a chunk have an entry too (H3,
    LT-14). A commit with unknown effect stamps all chunks.

    Args:
        layout: The table's chunk layout.
        table_uuid: The registration.
        chunks: As they were, by name.
        changes: The changes of the commits.
        generation: The sync's generation.
        own_drops: Commits among them that are own drops: they stamp no chunk.

    Returns:
        Every chunk, by name.
    """
    after = dict(chunks)
    for change in changes:
        _make_room(layout, table_uuid, after, change)
        _count(layout, after, change)
        if change.snapshot_id not in own_drops:
            _stamp(layout, after, change, generation)
    return after


def _make_room(
    layout: ChunkLayout, table_uuid: str, after: dict[str, Chunk], change: SnapshotChange
) -> None:
    """Adds the chunks that a commit is the first to reach into.

    A file of unknown extent may have rows of them as well. Such files are counted in the chunk
    `unbounded`. A new chunk copies from it their number, and the last write of rows without a time.
    """
    kinds = {(f.times, f.kind is FileKind.DATA) for f in (*change.added, *change.removed)}
    names = {name for times, _ in kinds for name in layout.names(times) or ()}
    if any(is_data and layout.names(times) is None for times, is_data in kinds):
        names.add(UNBOUNDED)
    everywhere = after.get(UNBOUNDED)
    for name in sorted(names - after.keys()):
        after[name] = new_chunk(layout, table_uuid, name)
        if everywhere and everywhere.spans:
            after[name] = replace(
                after[name],
                spans=everywhere.spans,
                last_write=everywhere.last_write,
                last_write_snapshot=everywhere.last_write_snapshot,
                generation=everywhere.generation,
            )


def _count(layout: ChunkLayout, after: dict[str, Chunk], change: SnapshotChange) -> None:
    """Adds and subtracts a commit's data files, those of equal times together."""
    sums: dict[Times, tuple[int, int, int]] = {}
    for sign, files in ((1, change.added), (-1, change.removed)):
        for file in files:
            if file.kind is FileKind.DATA:
                rows, size, count = sums.get(file.times, (0, 0, 0))
                sums[file.times] = rows + sign * file.rows, size + sign * file.bytes, count + sign
    for times, (rows, size, count) in sums.items():
        names = layout.names(times)
        is_within = names is not None and len(names) == 1
        for name in after if names is None else names:
            chunk = after[name]
            after[name] = (
                replace(
                    chunk,
                    rows=chunk.rows + rows,
                    bytes=chunk.bytes + size,
                    files=chunk.files + count,
                )
                if is_within
                else replace(chunk, spans=chunk.spans + count)
            )


def _stamp(
    layout: ChunkLayout, after: dict[str, Chunk], change: SnapshotChange, generation: int
) -> None:
    """Records the commit in chunks whose rows it may have changed; reopens dropped ones."""
    touched = change.touched(layout)
    added = chunks_of(layout, (file for file in change.added if file.kind is FileKind.DATA))
    for name in sorted(after if touched is None else touched):
        chunk = after[name].written(change, generation)
        if chunk.status is ChunkStatus.DROPPED and (added is None or name in added):
            chunk = replace(chunk, status=ChunkStatus.REOPENED)
        elif chunk.status is ChunkStatus.REOPENED and not (chunk.files or chunk.spans):
            chunk = replace(chunk, status=ChunkStatus.DROPPED)
        after[name] = chunk
