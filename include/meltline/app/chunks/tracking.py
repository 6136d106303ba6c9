"""Which chunks a table has, and when each was written last, by the commits of main's line.

A table's chunks are stamped commit by commit; each commit opens the manifests that it wrote and no
other. Where the line was left, by a rollback or a replaced table, nothing is known any more until a
person says how to go on, or, of a table that is not synced, everything is read anew.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.app.chunks.lookups import ChunkedTable, HotTable, require_tracked
from meltline.app.chunks.replication.refusals import diverged
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import (
    UNKNOWN_DROP,
    Chunk,
    ChunkDrop,
    ChunkStatus,
    new_chunk,
    stamped,
)
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.chunks.sync import DROP_PLAN, Position, TableSync, TrackedTable
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import PlanNotFound, SyncRefused
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import ChunkFileReader, Lock, PlanReader

_LEASE = timedelta(minutes=2)


def chunk_lock(context: ReadContext, table_uuid: str) -> AbstractContextManager[Lock]:
    """Of those who stamp, copy, flag and drop a table's chunks one goes on. Raises LockHeld."""
    wait = context.config.limits.lock_wait
    return context.control.locks.take(f"chunks {table_uuid}", context.who, wait=wait, lease=_LEASE)


@dataclass(frozen=True)
class Tracking:
    """A table's chunks, as they are stamped up to main's head.

    Attributes:
        hot: The table.
        table: As the ledger has it now.
        chunks: All of them, by name.
        changes: What the commits did since the last look.
        diverged: Why they are not stamped up to the head; empty where they are.
    """

    hot: HotTable
    table: TrackedTable
    chunks: Mapping[str, Chunk]
    changes: tuple[SnapshotChange, ...] = ()
    diverged: str = ""

    @property
    def head(self) -> Position | None:
        """Main's head, where chunks are stamped up to it."""
        return self.table.walked


def begin_tracking(context: ReadContext, hot: HotTable, layout: ChunkLayout) -> Tracking:
    """Reads all of a table's files once: each chunk is stamped with the head (LT-6, LT-7)."""
    chunks = _read_anew(context, hot, layout, {}, place=1, generation=0)
    table = TrackedTable(hot.state.uuid, hot.state.name, layout, _head(hot, place=1, generation=0))
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
    """Stamps chunks with the commits since the last look, and stores them.

    Args:
        context: Where the table and its ledger are.
        hot: The table as it is now.
        tracked: As the ledger has it.
        sync: The table's replication.
        dry_run: Nothing is stored.

    Raises:
        MetadataUnreadable: A manifest cannot be read: nothing is known of the table then.
        CommitConflict: Another run has stamped them meanwhile.
    """
    ledger, layout = context.control.chunks, tracked.layout
    chunks = ledger.of(tracked.table_uuid)
    walked = tracked.walked
    since = hot.since(walked.snapshot_id if walked else None)
    if since is None:
        assert walked is not None or hot.line
        if sync is not None:
            return Tracking(hot, tracked, chunks, diverged=_left_the_line(hot, walked))
        return retrack(context, hot, tracked, chunks, generation=0, dry_run=dry_run)
    generation = sync.generation if sync else 0
    renamed = replace(tracked, table=hot.state.name)
    if not since:
        return Tracking(hot, renamed, chunks)
    first = (walked.place if walked else 0) + 1
    after = dict(chunks)
    changes = changes_of(context.chunk_files, layout, since, first)
    for change in changes:
        after = _after(
            context.control.plans, layout, tracked.table_uuid, after, change, generation, hot
        )
    head = Position(generation, first + len(since) - 1, since[-1].snapshot_id)
    table = replace(renamed, walked=head)
    changed = [chunk for name, chunk in after.items() if chunks.get(name) != chunk]
    if not dry_run:
        ledger.advance(tracked, table, changed)
    return Tracking(hot, table, after, tuple(changes))


def tracking_of(context: ReadContext, table: ChunkedTable, *, dry_run: bool = False) -> Tracking:
    """The chunks of a table as it was looked at, by what the ledger has now. Raises as `track`.

    Raises:
        NotChunked: The ledger has nothing of it any more.
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
    """Reads all of a table's files anew: every chunk with rows is stamped with the head.

    A chunk that was dropped and has rows again is reopened, unless a rollback has undone its drops.
    """
    place = (tracked.walked.place if tracked.walked else 0) + 1
    after = _read_anew(context, hot, tracked.layout, chunks, place=place, generation=generation)
    walked = _head(hot, place=place, generation=generation)
    table = replace(tracked, table=hot.state.name, walked=walked)
    if not dry_run:
        context.control.chunks.advance(tracked, table, list(after.values()), anew=True)
    return Tracking(hot, table, after)


def changes_of(
    files: ChunkFileReader, layout: ChunkLayout, snapshots: Sequence[Snapshot], first: int
) -> list[SnapshotChange]:
    """What snapshots did, oldest first; the oldest stands at place `first`."""
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
    """Which of some chunks a commit after a snapshot may have touched; compactions count.

    All of them where main does not come from the snapshot: nobody knows what came after it.
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


def own_drop(plans: PlanReader, change: SnapshotChange, table_uuid: str) -> Plan | None:
    """The plan of ours that a commit carried out; None where it is none, or did anything else.

    What the commit says of itself is not enough: it removed exactly what the plan had, for the
    plan's digest says so, and it added no data.
    """
    try:
        id = change.summary.get(DROP_PLAN, "")
        plan = plans.current([id])[id] if id else None
    except PlanNotFound:
        return None
    if plan is None or plan.kind is not PlanKind.DROP_CHUNKS or plan.table_uuid != table_uuid:
        return None
    removed = [planned(f, table_uuid) for f in change.removed if f.kind is FileKind.DATA]
    is_same = not change.added and plan.digest_of(removed) == plan.digest
    return plan if is_same else None


def planned(file: ChunkFile, owner: str) -> PlannedFile:
    """A file of a chunk as an item of a plan."""
    return PlannedFile(file.path, file.kind, file.bytes, owner)


def _after(
    plans: PlanReader,
    layout: ChunkLayout,
    table_uuid: str,
    chunks: Mapping[str, Chunk],
    change: SnapshotChange,
    generation: int,
    hot: HotTable,
) -> dict[str, Chunk]:
    """The chunks after one commit. A drop of ours is told by the table: whoever committed it."""
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
        drop = ChunkDrop(snapshot.snapshot_id, snapshot.sequence_number, after[name].cold_base)
        after[name] = replace(
            after[name],
            status=ChunkStatus.DROPPED,
            dropped_at=snapshot.committed_at,
            drop_plan=plan.id if plan else "",
            dropped_rows=chunks[name].rows,
            dropped_bytes=chunks[name].bytes,
            drops=(*after[name].drops, drop),
        )
    return after


def _read_anew(
    context: ReadContext,
    hot: HotTable,
    layout: ChunkLayout,
    chunks: Mapping[str, Chunk],
    *,
    place: int,
    generation: int,
) -> dict[str, Chunk]:
    """The chunks by all live files; those that were dropped stay known."""
    head = hot.state.current_snapshot
    uuid = hot.state.uuid
    kept = {
        name: replace(chunk, rows=0, bytes=0, files=0, spans=0)
        for name, chunk in chunks.items()
        if chunk.drops
    }
    if head is None:
        return {name: _as_main_says(hot, chunk) for name, chunk in kept.items()}
    live = context.chunk_files.live(head, layout)
    everything = SnapshotChange(head.snapshot_id, "append", place, {}, added=live)
    named = {name: new_chunk(layout, uuid, name) for name in _names(layout, live)}
    whole = {name: replace(chunk, status=ChunkStatus.DROPPED) for name, chunk in kept.items()}
    after = stamped(layout, uuid, {**named, **whole}, [everything], generation=generation)
    return after | {name: _as_main_says(hot, after[name]) for name in kept}


def _names(layout: ChunkLayout, files: Sequence[ChunkFile]) -> set[str]:
    return {name for times in {f.times for f in files} for name in layout.names(times) or ()}


def _as_main_says(hot: HotTable, chunk: Chunk) -> Chunk:
    """A chunk that was dropped once, by those of its drops that main comes from.

    Where there is none, hot has the whole of it. Else cold alone has what it had after the last of
    them, and late rows that came after it are hot's as well. Where main was set to a drop again,
    cold was brought to something else in between, and its base has to be noted anew.
    """
    drops = tuple(_judged(drop, is_in_force=_is_in_force(hot, drop)) for drop in chunk.drops)
    in_force = [drop for drop in drops if not drop.is_undone]
    if not in_force:  # `cold_base` stays: by it cold's own word about the drop is known
        status = ChunkStatus.ACTIVE
    else:
        is_empty = not (chunk.files or chunk.spans)
        status = ChunkStatus.DROPPED if is_empty else ChunkStatus.REOPENED
    tiered_at = chunk.tiered_at if in_force else None
    return replace(chunk, status=status, drops=drops, tiered_at=tiered_at)


def back_whole(hot: HotTable, chunks: Mapping[str, Chunk]) -> frozenset[str]:
    """Dropped chunks that a rollback has brought back as a whole, whether or not a walk noted it.

    Of a table of format 1 nobody can tell: none.
    """
    try:
        return frozenset(
            name
            for name, chunk in chunks.items()
            if chunk.drops and not any(_is_in_force(hot, drop) for drop in chunk.drops)
        )
    except SyncRefused:
        return frozenset()


def _judged(drop: ChunkDrop, *, is_in_force: bool) -> ChunkDrop:
    if is_in_force and drop.is_undone:
        return replace(drop, is_undone=False, base=None)
    return replace(drop, is_undone=not is_in_force)


def _is_in_force(hot: HotTable, drop: ChunkDrop) -> bool:
    """Whether main comes from a drop.

    One that main's line does not show was undone, unless the line begins later by now: numbers
    grow along it.

    Raises:
        SyncRefused: The table is of format 1, which has none.
    """
    if drop.snapshot_id == UNKNOWN_DROP:
        return True
    if any(snapshot.snapshot_id == drop.snapshot_id for snapshot in hot.line):
        return True
    if not drop.sequence_number:
        detail = "nobody can tell which drops a rollback has undone in a table of format 1"
        raise diverged(hot.state.name, detail)
    oldest = hot.line[-1] if hot.line else None
    return oldest is None or oldest.sequence_number > drop.sequence_number


def _head(hot: HotTable, *, place: int, generation: int) -> Position | None:
    head = hot.state.current_snapshot_id
    return None if head is None else Position(generation, place, head)


def _left_the_line(hot: HotTable, walked: Position | None) -> str:
    left = walked.snapshot_id if walked else "the first one"
    head = hot.state.current_snapshot_id or "no snapshot"
    return f"main is at {head} and does not come from {left}: it was rolled back or replaced"
