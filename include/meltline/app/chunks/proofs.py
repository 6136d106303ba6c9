"""Proof that chunks are in cold: by position, and by their rows on both sides.

Chunk runs, the gate and `chunks tier` call it. It reads by other ways than the plan was made,
because the gate relies on it: positions from the ledger and from cold's own properties, rows by the
engine (LT-11, H1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.metadata import load_document
from meltline.app.chunks.lookups import ChunkedTable
from meltline.app.chunks.replication.cold_rows import require_recorded_rows
from meltline.app.chunks.replication.synced_table import SyncedTable, require_own
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import ReadSources, RunContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.cold.sides import Sides
from meltline.domain.chunks.durability import Deferred, not_durable, old_enough
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.sync import RowDigest, TableSync, read_dropped
from meltline.domain.errors import MeltlineError, SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.safe_text import quote
from meltline.ports import ChunkRows


def unproved(
    context: RunContext, table: ChunkedTable, tracking: Tracking, chunks: Sequence[Chunk]
) -> dict[str, Deferred]:
    """Returns why chunks are not proved to be in cold, by name; proved chunks are left out.

    Any error on the way leaves all of them unproved.
    """
    by_position = positions(context, table.sync, tracking, chunks)
    rest = [chunk for chunk in chunks if chunk.name not in by_position]
    if not rest:
        return by_position
    try:
        differing = differing_rows(context, table, tracking, rest)
    except MeltlineError as error:
        differing = {chunk.name: f"{error.message} {error.found}".strip() for chunk in rest}
    return by_position | {
        name: Deferred(name, Deferral.ROWS_DIFFER, detail) for name, detail in differing.items()
    }


def positions(
    context: ReadSources, sync: TableSync | None, tracking: Tracking, chunks: Sequence[Chunk]
) -> dict[str, Deferred]:
    """Returns the chunks that cold lacks by their last writes, with the reason."""
    now, oldest = context.clock.now(), context.config.chunks.heartbeat
    if tracking.diverged:
        reason = Deferral.DIVERGED if sync else Deferral.NO_WRITE_POSITION
        return {c.name: Deferred(c.name, reason, tracking.diverged) for c in chunks}
    reasons = (not_durable(chunk, sync, now, oldest) for chunk in chunks)
    return {deferred.chunk: deferred for deferred in reasons if deferred is not None}


@dataclass(frozen=True)
class ColdSide:
    """The synced table in cold, as a proof reads it.

    Attributes:
        snapshot_id: The current snapshot of cold, from which rows are read.
    """

    table: SyncedTable
    snapshot_id: int

    @classmethod
    def read(cls, context: ReadSources, sync: TableSync, rows: ChunkRows | None) -> "ColdSide":
        """Reads the current state of cold.

        Args:
            context: Where cold and the ledger are.
            sync: The replication.
            rows: The engine that compares rows; without it they are only counted.

        Raises:
            SyncRefused: Its properties contradict the ledger, its list of only copies cannot be
                read, or it has other rows of dropped chunks than were recorded.
            LedgerOutOfStep: Another installation writes it.
            MeltlineError: It cannot be read.
        """
        tier = require_cold(context)
        location = tier.catalog.location(sync.cold)
        table = SyncedTable(*load_document(tier.store, sync.cold, location))
        require_own(context, table)
        chunks = context.control.chunks.of(sync.table_uuid).values()
        require_recorded_rows(context, sync, table, chunks, rows)
        position, head = table.position, table.state.current_snapshot_id
        if position != sync.committed or head is None or not table.goes_on_from(sync.cold_snapshot):
            raise SyncRefused(
                f"{sync.cold} is not what replication left",
                object=str(sync.cold),
                expected=f"{sync.committed} at snapshot {sync.cold_snapshot}, or what follows it",
                found=f"{position} at snapshot {head}",
                next=f"`meltline chunks replicate --tables {quote(sync.table)}` says what is wrong",
            )
        try:
            read_dropped(table.state.properties)  # a drop adds to it
            LateFiles.read(table.state.properties)
        except ValueError as error:
            raise SyncRefused(
                f"{sync.cold} does not say what it alone has",
                object=str(sync.cold),
                expected="a list of chunks",
                found=str(error),
                next="find out who changed its properties",
            ) from error
        return cls(table, head)


def differing_rows(
    context: RunContext, table: ChunkedTable, tracking: Tracking, chunks: Sequence[Chunk]
) -> dict[str, str]:
    """Returns the chunks whose rows in cold are not exactly those in hot, and how they differ.

    For a chunk that was dropped before, only the late rows are compared: hot has no others.

    Raises:
        MeltlineError: A side cannot be read.
    """
    head, sync, layout = tracking.head, table.sync, tracking.table.layout
    assert head is not None and sync is not None  # by position they are in cold
    rows = context.chunk_rows
    cold = ColdSide.read(context, sync, rows)
    names = {chunk.name for chunk in chunks}
    reopened = {chunk.name for chunk in chunks if chunk.status is ChunkStatus.REOPENED}
    assert rows is not None  # a cold tier is configured
    hot_rows = rows.digests(table.state.name, head.snapshot_id, layout, names)
    cold_rows = dict(rows.digests(sync.cold, cold.snapshot_id, layout, names - reopened))
    again = [chunk for chunk in chunks if chunk.name in reopened]
    cold_rows |= late_rows(context, rows, sync, layout, cold, again)
    return {
        name: f"hot has {_words(hot_rows.get(name))}, cold {_words(cold_rows.get(name))}"
        for name in sorted(names)
        if hot_rows.get(name) != cold_rows.get(name)
    }


def late_rows(
    context: ReadSources,
    rows: ChunkRows,
    sync: TableSync,
    layout: ChunkLayout,
    cold: ColdSide,
    chunks: Sequence[Chunk],
) -> Mapping[str, RowDigest]:
    """Digests cold's late rows of reopened chunks, by its record of late files."""
    reader, head = context.cold_chunk_files, cold.table.state.current_snapshot
    assert reader is not None and head is not None
    properties = cold.table.state.properties
    sides = Sides.of(layout, chunks, read_dropped(properties), LateFiles.read(properties))
    live = reader.live(head, layout) if sides.bases else ()
    late = [f.path for f in live if f.kind is FileKind.DATA and sides.late_chunks(f)]
    if not late:
        return {}
    digests: Mapping[str, RowDigest] = rows.digests(
        sync.cold, cold.snapshot_id, layout, sides.bases, only_files=late
    )
    return digests


def _words(digest: RowDigest | None) -> str:
    return "none" if digest is None else f"{digest.rows} rows ({digest.checksum & 0xFFFFFFFF:08x})"


@dataclass(frozen=True)
class Tiered:
    """Result of offering a table's chunks for proof."""

    table: str
    tiered: Sequence[str]
    deferred: Sequence[Deferred]


def tier(
    context: RunContext, table: ChunkedTable, tracking: Tracking, chunks: Sequence[Chunk]
) -> Tiered:
    """Flags the chunks that are proved; the rest stays as it is (LT-3, LT-10)."""
    offered = [chunk for chunk in chunks if chunk.status is ChunkStatus.ACTIVE]
    reasons = unproved(context, table, tracking, offered)
    now = context.clock.now()
    proved = [chunk for chunk in offered if chunk.name not in reasons]
    moves = [(chunk, replace(chunk, status=ChunkStatus.TIERED, tiered_at=now)) for chunk in proved]
    is_moved = context.control.chunks.move(moves)
    tiered, late = [], []
    for chunk, moved in zip(proved, is_moved, strict=True):
        if moved:
            tiered.append(chunk.name)
        else:
            late.append(Deferred(chunk.name, Deferral.CHANGED_MEANWHILE))
    return Tiered(str(table.state.name), tiered, [*reasons.values(), *late])


def due_to_tier(table: ChunkedTable, tracking: Tracking, as_of: datetime) -> list[Chunk]:
    """Returns the active chunks past their age at a logical date (LT-10)."""
    policy = table.tier_policy
    if policy is None or policy.tier_after is None:
        return []
    cutoff = policy.tier_after.before(as_of)
    return [c for c in old_enough(tracking.chunks, cutoff) if c.status is ChunkStatus.ACTIVE]
