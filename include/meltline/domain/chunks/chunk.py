"""A chunk as the ledger knows it, and why one is not flagged or dropped yet."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from meltline.domain.chunks.cold.row_digests import ColdDigest
from meltline.domain.chunks.layout import ChunkLayout, SnapshotChange, Times, chunks_of
from meltline.domain.chunks.ranges import UNBOUNDED, TimeRange
from meltline.domain.iceberg.files import FileKind

UNKNOWN_DROP = 0
"""Stands for the commit of a drop that only cold tells of."""


class ChunkStatus(StrEnum):
    """Where a chunk's rows are (LT-2)."""

    ACTIVE = "active"
    """In hot; not, or not any more, proved to be in cold."""
    TIERED = "tiered"
    """In hot, and proved to be in cold."""
    DROPPED = "dropped"
    """In cold alone."""
    REOPENED = "reopened"
    """Dropped, and hot has later rows of it again."""
    UNKNOWN = "unknown"
    """Dropped once; hot and cold have rows, and nobody can tell whether these are the same."""


class DropStatus(StrEnum):
    """Whether main comes from a drop."""

    IN_FORCE = "in force"
    UNDONE = "undone"
    """It does not: main was rolled back. It stays known: main may be set to it again."""
    UNKNOWN = "unknown"
    """The history that showed it has gone before anybody recorded it."""


WERE_DROPPED = frozenset({ChunkStatus.DROPPED, ChunkStatus.REOPENED, ChunkStatus.UNKNOWN})
"""Of such chunks cold alone has rows, or may have."""


class Deferral(StrEnum):
    """Why a chunk is not flagged or dropped; the same words everywhere."""

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
    """One drop of a chunk: a rollback may undo it, and not those before it.

    Attributes:
        snapshot_id: The commit that took its files out of main.
        sequence_number: Of that commit.
        base: Cold's newest sequence number at that time; None where nobody has noted it.
        standing: Whether main came from it when that was recorded last (`TrackedTable.judged`).
        rows: Rows of the chunk in cold at that time, which cold alone has; None where nobody has
            counted them since the base was noted. `digest` adds them up, likewise.
    """

    snapshot_id: int
    sequence_number: int
    base: int | None
    standing: DropStatus = DropStatus.IN_FORCE
    rows: int | None = None
    digest: ColdDigest | None = None

    @property
    def is_undone(self) -> bool:
        """Whether main does not come from it."""
        return self.standing is DropStatus.UNDONE


@dataclass(frozen=True)
class Chunk:
    """One time range of one registration of a table.

    Attributes:
        table_uuid: The registration (`TableMetadata.uuid`).
        name: Of its begin in UTC, such as `2026-01-05`; or `unbounded`.
        start: When it begins; None of the unbounded one. Likewise `end`, which is not part of it.
        rows: Of its data files, row deletes not taken off; `bytes` and `files` likewise.
        spans: How many data files reach into it and others, or nobody knows how far. In the chunk
            `unbounded` only the latter are counted.
        last_write: The place on main's line of the last commit that may have changed its rows;
            None while nobody has looked.
        last_write_snapshot: That commit.
        generation: Of the sync in which the place was counted; 0 where nothing is synced.
        tiered_at: When it was proved; None while it is not.
        dropped_at: When it was dropped last; None if never.
        drop_plan: The plan that dropped it last.
        drops: All drops of it, oldest first.
        dropped_rows: How many rows left hot by it; `dropped_bytes` likewise.
        cold_base: The newest sequence number in cold when a drop of it was prepared last, made or
            not: what cold says of itself by then.
        cold_rows: How many rows of the chunk cold had then; None where nobody could count them.
            `cold_digest` adds them up, likewise.
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
        """Its times."""
        return TimeRange(self.start, self.end) if self.start and self.end else None

    @property
    def is_resident(self) -> bool:
        """Whether hot has rows of it."""
        return self.status is not ChunkStatus.DROPPED

    @property
    def was_dropped(self) -> bool:
        """Whether cold alone has rows of it, or may have, whatever hot has besides."""
        return self.status in WERE_DROPPED

    @property
    def last_drop(self) -> ChunkDrop | None:
        """The last drop that was not undone, as far as anybody can tell; None if there is none."""
        drops = [drop for drop in self.drops if not drop.is_undone]
        return drops[-1] if drops else None

    @property
    def is_told(self) -> bool:
        """Whether it is known on which side the chunk's rows are."""
        return self.last_drop is None or self.last_drop.standing is not DropStatus.UNKNOWN

    @property
    def only_copy(self) -> ChunkDrop | None:
        """The drop after which cold alone has rows of it; None where it is in hot."""
        return self.last_drop if self.was_dropped else None

    @property
    def only_copy_base(self) -> int | None:
        """Cold's files of it up to this sequence number are the only copy of what was dropped.

        Later ones are late rows, which hot has as well. None where nobody has noted it.
        """
        return self.only_copy.base if self.only_copy else None

    def dropped_by(self, plan: str, drop: ChunkDrop, at: datetime | None) -> "Chunk":
        """The chunk with a drop that was made when it had what is counted here."""
        return replace(
            self,
            drops=(*self.drops, drop),
            drop_plan=plan,
            dropped_at=at,
            dropped_rows=self.rows,
            dropped_bytes=self.bytes,
        )

    def with_base(self, base: int) -> "Chunk":
        """The chunk with what cold has by now noted as the only copy, where nobody has yet."""
        drop = self._noted(base=base, rows=None, digest=None)
        return replace(drop, cold_base=base, cold_rows=None, cold_digest=None)

    @property
    def without_undone_bases(self) -> "Chunk":
        """The chunk once cold has all of hot's rows: of undone drops there is no only copy."""
        drops = (replace(d, base=None) if d.is_undone else d for d in self.drops)
        return replace(self, drops=tuple(drops))

    def with_rows(self, rows: int | None, digest: ColdDigest | None = None) -> "Chunk":
        """The chunk with the rows that cold alone has of it, counted and added up."""
        return self._noted(rows=rows, digest=digest)

    def _noted(self, **facts: int | ColdDigest | None) -> "Chunk":
        last = self.last_drop
        assert last is not None  # its rows are in cold alone
        noted = replace(last, **facts)  # type: ignore[arg-type]
        drops = tuple(noted if drop == last else drop for drop in self.drops)
        return replace(self, drops=drops)

    def written(self, change: SnapshotChange, generation: int) -> "Chunk":
        """The chunk after a commit that may have changed its rows: it is proved no more (H7)."""
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
    """A chunk that nothing is known of yet. Raises ValueError for what is no chunk's name."""
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
    """The chunks after some commits, oldest first: counted, and those stamped that they touched.

    Both sides of a row that moves are stamped, since what leaves a chunk has its entry too (H3,
    LT-14). A commit of which nobody can tell what it touched stamps all.

    Args:
        layout: What the table's chunks are.
        table_uuid: The registration.
        chunks: As they were, by name.
        changes: What the commits did.
        generation: Of the sync.
        own_drops: The commits among them that are drops of ours: no chunk is stamped for these.

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

    A file of which nobody knows how far it reaches may have rows of these as well: such files are
    counted in the chunk `unbounded`, from which a new one takes over how many they are and when
    rows were last written without a time.
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
    """Adds and takes off what a commit did to data files, those of the same times together."""
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
    """Notes the commit in the chunks whose rows it may have changed; dropped ones open again."""
    touched = change.touched(layout)
    added = chunks_of(layout, (file for file in change.added if file.kind is FileKind.DATA))
    for name in sorted(after if touched is None else touched):
        chunk = after[name].written(change, generation)
        if chunk.status is ChunkStatus.DROPPED and (added is None or name in added):
            chunk = replace(chunk, status=ChunkStatus.REOPENED)
        elif chunk.status is ChunkStatus.REOPENED and not (chunk.files or chunk.spans):
            chunk = replace(chunk, status=ChunkStatus.DROPPED)
        after[name] = chunk
