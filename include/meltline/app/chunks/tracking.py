"""Tracks a table's chunks, and each chunk's last write, from the commits of main.

Runs, policies and the SQL functions call it before they use chunks. The ledger stores its result;
the rules for one commit are in `domain/chunks`. Each commit opens only the manifests that it wrote.
After a rollback or a replaced table the chunks are unknown. They stay unknown until an operator
decides; a table that is not synced is read again completely.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from meltline.app.chunks.lookups import ChunkedTable, HotTable, require_tracked
from meltline.app.observe.drop_evidence import lock_chunks, record_drops
from meltline.app.observe.own_drops import UnrecordedDrops, own_drop
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import (
    Chunk,
    ChunkDrop,
    ChunkStatus,
    DropStatus,
    new_chunk,
    stamped,
)
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.chunks.main_history import (
    MainLine,
    drops_of,
    resettled,
    with_standings,
)
from meltline.domain.chunks.sync import DROP_PLAN, Position, TableSync, TrackedTable
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import ChunkFileReader, Lock, PlanReader


def chunk_lock(context: ReadContext, table_uuid: str) -> AbstractContextManager[Lock]:
    """Serializes stamping, copying, flagging and dropping of a table's chunks. Raises LockHeld."""
    return lock_chunks(context, table_uuid, context.config.limits.lock_wait)


@dataclass(frozen=True)
class Tracking:
    """A table's chunks, stamped up to main's head.

    Attributes:
        hot: The table.
        table: Its current ledger record.
        chunks: All of them, by name.
        changes: Changes of the commits since the last walk.
        diverged: Why they are not stamped up to the head; empty if they are.
    """

    hot: HotTable
    table: TrackedTable
    chunks: Mapping[str, Chunk]
    changes: tuple[SnapshotChange, ...] = ()
    diverged: str = ""

    @property
    def unknown(self) -> list[str]:
        """Chunks for which it is unknown whether hot's rows are those that cold has."""
        return [n for n, chunk in self.chunks.items() if chunk.status is ChunkStatus.UNKNOWN]

    @property
    def head(self) -> Position | None:
        """Main's head, if chunks are stamped up to it."""
        return self.table.walked


def begin_tracking(context: ReadContext, hot: HotTable, layout: ChunkLayout) -> Tracking:
    """Reads all of a table's files once and stamps each chunk with the head (LT-6, LT-7)."""
    chunks = _read_anew(context, hot, layout, (), place=1, generation=0)
    head = _head(hot, place=1, generation=0)
    judged = hot.state.current_snapshot_id
    table = TrackedTable(hot.state.uuid, hot.state.name, layout, head, judged=judged)
    context.control.chunks.advance(None, table, list(chunks.values()), anew=True)
    return Tracking(hot, table, chunks)


def track(
    context: ReadContext,
    hot: HotTable,
    tracked: TrackedTable,
    sync: TableSync | None,
    *,
    dry_run: bool = False,
) -> Tracking:
    """Stamps chunks with the commits since the last walk, and stores them.

    Args:
        context: Where the table and its ledger are.
        hot: The table as it is now.
        tracked: Its ledger record.
        sync: The table's replication.
        dry_run: Nothing is stored.

    Raises:
        MetadataUnreadable: A manifest cannot be read: the table's chunks are then unknown.
        CommitConflict: Another run has stamped them meanwhile.
    """
    ledger, layout = context.control.chunks, tracked.layout
    chunks = ledger.of(tracked.table_uuid)
    walked = tracked.walked
    since = hot.since(walked.snapshot_id if walked else None)
    if since is None:
        assert walked is not None or hot.line
        if sync is not None:
            if dry_run:
                chunks = {**chunks, **_as_main_says(context, hot, tracked, chunks)}
            else:
                tracked, chunks = record_drops(context, tracked, hot.state, chunks)
            return Tracking(hot, tracked, chunks, diverged=_left_the_line(hot, walked))
        return retrack(context, hot, tracked, chunks, generation=0, dry_run=dry_run)
    generation = sync.generation if sync else 0
    table = replace(tracked, table=hot.state.name)
    first = (walked.place if walked else 0) + 1
    after = dict(chunks)
    changes = changes_of(context.chunk_files, layout, since, first)
    for change in changes:
        after = _after(
            context.control.plans, layout, tracked.table_uuid, after, change, generation, hot
        )
    if since:
        head = Position(generation, first + len(since) - 1, since[-1].snapshot_id)
        table = replace(table, walked=head)
    # Recorded drops may belong to another history than the walked one.
    for name, chunk in _as_main_says(context, hot, table, after).items():
        if chunk.drops != after[name].drops or not chunk.is_told:
            after[name] = resettled(chunk)
    table = replace(table, judged=hot.state.current_snapshot_id)
    changed = [chunk for name, chunk in after.items() if chunks.get(name) != chunk]
    if not dry_run and (changed or table != tracked):
        ledger.advance(tracked, table, changed)
    return Tracking(hot, table, after, tuple(changes))


def tracking_of(context: ReadContext, table: ChunkedTable, *, dry_run: bool = False) -> Tracking:
    """Returns the chunks of a loaded table by the current ledger. Raises as `track`.

    Raises:
        NotChunked: The ledger has no record of it any more.
    """
    hot, tracked = HotTable(table.state, context.store), require_tracked(context, table.state)
    return track(context, hot, tracked, table.sync, dry_run=dry_run)


def retrack(
    context: ReadContext,
    hot: HotTable,
    tracked: TrackedTable,
    chunks: Mapping[str, Chunk],
    *,
    generation: int,
    dry_run: bool = False,
) -> Tracking:
    """Reads all of a table's files again: every chunk with rows is stamped with the head.

    A chunk that was dropped and has rows again is reopened, unless a rollback has undone its drops.
    """
    place = (tracked.walked.place if tracked.walked else 0) + 1
    said = _as_main_says(context, hot, tracked, chunks)
    dropped = [_without_undone_counts(chunk) for chunk in said.values()]
    after = _read_anew(context, hot, tracked.layout, dropped, place=place, generation=generation)
    walked = _head(hot, place=place, generation=generation)
    judged = hot.state.current_snapshot_id
    table = replace(tracked, table=hot.state.name, walked=walked, judged=judged)
    if not dry_run:
        context.control.chunks.advance(tracked, table, list(after.values()), anew=True)
    return Tracking(hot, table, after)


def changes_of(
    files: ChunkFileReader, layout: ChunkLayout, snapshots: Sequence[Snapshot], first: int
) -> list[SnapshotChange]:
    """Returns the changes of snapshots, oldest first; `first` is the offset of the oldest."""
    return [
        files.change(snapshot, layout, place) for place, snapshot in enumerate(snapshots, first)
    ]


def written_since(
    files: ChunkFileReader,
    hot: HotTable,
    layout: ChunkLayout,
    base: int | None,
    chunks: Collection[str],
) -> list[str]:
    """Returns the chunks that a commit after a snapshot may have touched; compactions count.

    All of them if main does not descend from the snapshot: later commits are unknown then.
    """
    since = None if base is None else hot.since(base)
    if since is None:
        return sorted(chunks)
    touched: set[str] = set()
    for change in changes_of(files, layout, since, 0):
        times_of_files = {file.times for file in (*change.added, *change.removed)}
        for names in map(layout.names, times_of_files):
            touched |= set(chunks) if names is None else set(chunks).intersection(names)
    return sorted(touched)


@dataclass(frozen=True)
class OwnDrops:
    """The drops of one table, by their plans."""

    plans: PlanReader
    table_uuid: str

    def chunks(self, changes: Sequence[SnapshotChange]) -> frozenset[str]:
        """Returns the chunks dropped by commits of Meltline."""
        plans = [own_drop(self.plans, change, self.table_uuid) for change in changes]
        return frozenset(name for plan in plans if plan for name in plan.chunks)

    def others(self, changes: Sequence[SnapshotChange]) -> list[SnapshotChange]:
        """Returns the commits that are not drops of Meltline."""
        return [c for c in changes if own_drop(self.plans, c, self.table_uuid) is None]

    def unknown(self, changes: Sequence[SnapshotChange]) -> list[SnapshotChange]:
        """Returns commits that claim to be drops: of an old ledger backup, or of a copied table."""
        return [change for change in self.others(changes) if change.summary.get(DROP_PLAN)]


def _after(
    plans: PlanReader,
    layout: ChunkLayout,
    table_uuid: str,
    chunks: Mapping[str, Chunk],
    change: SnapshotChange,
    generation: int,
    hot: HotTable,
) -> dict[str, Chunk]:
    """Applies one commit to the chunks. An own drop counts by the table, whichever run made it."""
    plan = own_drop(plans, change, table_uuid)
    after = stamped(
        layout,
        table_uuid,
        chunks,
        [change],
        generation=generation,
        own_drops=() if plan is None else (change.snapshot_id,),
    )
    snapshot = hot.state.snapshots[change.snapshot_id]
    for name in plan.chunks if plan else ():
        before = after[name]
        is_noted = any(d.snapshot_id == snapshot.snapshot_id for d in before.drops)
        drop = ChunkDrop(
            snapshot.snapshot_id,
            snapshot.sequence_number,
            before.cold_base,
            rows=before.cold_rows,
            digest=before.cold_digest,
        )
        after[name] = replace(
            after[name],
            status=ChunkStatus.DROPPED,
            dropped_at=snapshot.committed_at,
            drop_plan=plan.id if plan else "",
            dropped_rows=chunks[name].rows,
            dropped_bytes=chunks[name].bytes,
            drops=before.drops if is_noted else (*before.drops, drop),
        )
    return after


def _read_anew(
    context: ReadContext,
    hot: HotTable,
    layout: ChunkLayout,
    dropped: Sequence[Chunk],
    *,
    place: int,
    generation: int,
) -> dict[str, Chunk]:
    """Builds the chunks from all live files; dropped chunks stay known."""
    head = hot.state.current_snapshot
    uuid = hot.state.uuid
    empty = partial(replace, rows=0, bytes=0, files=0, spans=0, generation=generation)
    kept = {chunk.name: empty(chunk) for chunk in dropped}
    if head is None:
        return {name: resettled(chunk) for name, chunk in kept.items()}
    live = context.chunk_files.live(head, layout)
    everything = SnapshotChange(head.snapshot_id, "append", place, {}, added=live)
    named = {name: new_chunk(layout, uuid, name) for name in _names(layout, live)}
    whole = {name: replace(chunk, status=ChunkStatus.DROPPED) for name, chunk in kept.items()}
    after = stamped(layout, uuid, {**named, **whole}, [everything], generation=generation)
    return after | {name: resettled(after[name]) for name in kept}


def _names(layout: ChunkLayout, files: Sequence[ChunkFile]) -> set[str]:
    return {name for times in {f.times for f in files} for name in layout.names(times) or ()}


def _as_main_says(
    context: ReadContext, hot: HotTable, tracked: TrackedTable, chunks: Mapping[str, Chunk]
) -> dict[str, Chunk]:
    """Returns the chunks that were ever dropped, with each drop's status by main's history.

    If main descends from none of the drops, hot has the whole chunk. Otherwise cold alone has the
    rows of the last such drop, and late rows after it are in hot as well.
    """
    unrecorded = UnrecordedDrops(context.chunk_files, context.control.plans, tracked, chunks)
    every = {**chunks, **unrecorded.beside(hot.state)}
    line = MainLine.of(hot.state, tracked.judged, drops_of(every.values()))
    return {name: with_standings(chunk, line) for name, chunk in every.items() if chunk.drops}


def _without_undone_counts(chunk: Chunk) -> Chunk:
    """Removes the row counts of undone drops: cold is brought to what hot has.

    The base stays until that copy is done: before it, main may be set to such a drop again.
    """
    drops = (
        replace(drop, rows=None, digest=None) if drop.is_undone else drop for drop in chunk.drops
    )
    return replace(chunk, drops=tuple(drops))


def back_whole(
    state: TableMetadata, tracked: TrackedTable, chunks: Mapping[str, Chunk]
) -> frozenset[str]:
    """Returns dropped chunks that a rollback has restored completely, recorded or not."""
    line = MainLine.of(state, tracked.judged, drops_of(chunks.values()))
    return frozenset(
        name
        for name, chunk in chunks.items()
        if chunk.drops and all(line.standing(drop) is DropStatus.UNDONE for drop in chunk.drops)
    )


def _head(hot: HotTable, *, place: int, generation: int) -> Position | None:
    head = hot.state.current_snapshot_id
    return None if head is None else Position(generation, place, head)


def _left_the_line(hot: HotTable, walked: Position | None) -> str:
    left = walked.snapshot_id if walked else "the first one"
    head = hot.state.current_snapshot_id or "no snapshot"
    return f"main is at {head} and does not come from {left}: it was rolled back or replaced"
