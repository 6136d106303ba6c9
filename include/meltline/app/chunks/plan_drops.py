"""Plans the drop of a table's due chunks, with the exact data files.

Chunk runs and `rounds` call it. The gate checks the plan by other ways, and `drop` executes it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from meltline.app.chunks.lookups import ChunkedTable
from meltline.app.chunks.proofs import positions, unproved
from meltline.app.chunks.rollups.waits import dirty_chunks
from meltline.app.chunks.tracking import Tracking
from meltline.app.observe.own_drops import planned
from meltline.app.safety.stored_plans import PlannedFiles, store_plans, store_previews
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Chunk, Deferral
from meltline.domain.chunks.durability import (
    UNKNOWN_WORDS,
    Deferred,
    due_to_drop,
    first_portion,
    is_gated,
)
from meltline.domain.chunks.layout import ChunkFile, inside
from meltline.domain.clock import Clock
from meltline.domain.deletion.plan import Plan, PlanKind, plan_digest, plan_id
from meltline.domain.errors import ChunkNotFound, UsageInvalid
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant


@dataclass(frozen=True)
class Force:
    """Operator override: drops named chunks although nothing proves that cold has them (LT-22).

    Attributes:
        chunks: The only chunks that it covers, by name.
        reason: Why; it is recorded in the audit log.
    """

    chunks: tuple[str, ...]
    reason: str

    def __post_init__(self) -> None:
        if not (self.reason.strip() and self.chunks):
            raise UsageInvalid(
                "a forced drop needs the chunks by name, and a reason",
                object="--force",
                expected="--chunks A,B and --reason TEXT",
                found=f"chunks {', '.join(self.chunks) or 'none'}; reason {self.reason!r}",
                next="say both: what goes may be in hot alone",
            )


@dataclass(frozen=True)
class PlannedDrops:
    """Planned drop of one table, with the chunks that stay.

    Attributes:
        plan: The plan; None if nothing is dropped.
        rows: Rows of the chunks to be dropped.
        unproved: Chunks among them that are unproved, and why: an operator's override drops them.
        at_risk: Rows of the unproved chunks; `bytes_at_risk` their bytes.
    """

    table: str
    plan: PlannedFiles | None
    deferred: Sequence[Deferred]
    rows: int = 0
    unproved: Sequence[Deferred] = ()
    at_risk: int = 0
    bytes_at_risk: int = 0


def plan_drops(
    context: RunContext,
    table: ChunkedTable,
    tracking: Tracking,
    *,
    run_id: str,
    as_of: datetime,
    force: Force | None = None,
    only: Collection[str] | None = None,
    dry_run: bool = False,
) -> PlannedDrops:
    """Plans the drop of a table's due chunks.

    Args:
        context: The ports.
        table: The table.
        tracking: Its chunks, stamped up to main's head.
        run_id: The run that plans.
        as_of: The logical date; with `force` age does not count.
        force: An operator's override; it skips the proof and nothing else.
        only: Restricts the plan to these chunks.
        dry_run: The plan is stored as a preview only.

    Raises:
        ChunkNotFound: A named chunk is not in hot.
        MetadataUnreadable: A manifest cannot be read.
    """
    chunks, deferred = _ready(context, table, tracking, as_of, force, only)
    files, spanning = _files(context, tracking, chunks)
    deferred += spanning.values()
    chunks = [chunk for chunk in chunks if chunk.name not in spanning]
    if not chunks or tracking.head is None:
        return PlannedDrops(str(table.state.name), None, deferred)
    plan = _plan(context.clock, table, tracking, chunks, files, run_id=run_id, as_of=as_of)
    store = store_previews if dry_run else store_plans
    (stored,) = store(context, [plan])
    why = {} if force is None else unproved(context, table, tracking, chunks)
    risky = [chunk for chunk in chunks if chunk.name in why]
    return PlannedDrops(
        str(table.state.name),
        stored,
        deferred,
        sum(chunk.rows for chunk in chunks),
        list(why.values()),
        sum(chunk.rows for chunk in risky),
        sum(chunk.bytes for chunk in risky),
    )


def _ready(
    context: RunContext,
    table: ChunkedTable,
    tracking: Tracking,
    as_of: datetime,
    force: Force | None,
    only: Collection[str] | None,
) -> tuple[list[Chunk], list[Deferred]]:
    """Returns the chunks that one plan may drop, oldest first, and the deferred ones."""
    due, deferred = _due(context, table, tracking, as_of, force)
    if only is not None:
        due = [chunk for chunk in due if chunk.name in only]
    waits = _waits(context, table, tracking, due, force)
    cutoff = _cutoff(table, as_of, force)
    waits = dirty_chunks(context, tracking.hot, tracking.chunks, due, cutoff) | waits
    ready = [chunk for chunk in due if chunk.name not in waits]
    most = context.config.chunks.max_chunks
    deferred = [*deferred, *islice(waits.values(), most)]  # a backlog may be very long
    if force is not None:
        return ready, deferred
    resident_bytes = sum(chunk.bytes for chunk in tracking.chunks.values())
    portion = first_portion(ready, resident_bytes, context.config.chunks.max_drop_share, most)
    later = ready[len(portion.chunks) :][:most]
    waiting = [Deferred(chunk.name, Deferral.OVER_SHARE, portion.sentence) for chunk in later]
    return list(portion.chunks), [*deferred, *waiting]


def _due(
    context: RunContext,
    table: ChunkedTable,
    tracking: Tracking,
    as_of: datetime,
    force: Force | None,
) -> tuple[list[Chunk], list[Deferred]]:
    if force is not None:
        return [_named(table, tracking, name) for name in force.chunks], []
    policy = table.drop_policy
    if policy is None:
        return [], []
    due = due_to_drop(tracking.chunks, policy, as_of)
    return list(due.due), list(due.deferred)


def _cutoff(table: ChunkedTable, as_of: datetime, force: Force | None) -> datetime | None:
    """Latest end of a chunk that is old enough; None for chunks that an operator names."""
    policy = table.drop_policy
    return policy.drop_after.before(as_of) if policy and policy.drop_after and not force else None


def _named(table: ChunkedTable, tracking: Tracking, name: str) -> Chunk:
    chunk = tracking.chunks.get(name)
    if chunk is None or not chunk.is_resident or not chunk.files or chunk.end is None:
        known = sorted(c.name for c in tracking.chunks.values() if c.is_resident and c.end)
        raise ChunkNotFound(
            f"{table.state.name} has no chunk {name} in hot",
            object=f"{table.state.name}@{name}",
            expected=", ".join(known[:8]) or "a chunk with rows; it has none",
            found="none" if chunk is None else str(chunk.status),
            next=f"`meltline chunks list {quote(table.state.name)}`",
        )
    return chunk


def _waits(
    context: RunContext,
    table: ChunkedTable,
    tracking: Tracking,
    chunks: Sequence[Chunk],
    force: Force | None,
) -> dict[str, Deferred]:
    """Returns the chunks deferred by a hold, by an open question, or by their position in cold."""
    if unknown := {*tracking.unknown}.intersection(chunk.name for chunk in chunks):
        return {name: Deferred(name, Deferral.UNKNOWN_DROP, UNKNOWN_WORDS) for name in unknown}
    if table.observed.held:
        return {c.name: Deferred(c.name, Deferral.HELD, "a hold is in force") for c in chunks}
    if tracking.diverged:
        return positions(context, table.sync, tracking, chunks)
    policy = table.drop_policy
    if force is not None or (policy is not None and not is_gated(table.sync, policy.type)):
        return {}
    return positions(context, table.sync, tracking, chunks)


def _files(
    context: RunContext, tracking: Tracking, chunks: Sequence[Chunk]
) -> tuple[list[ChunkFile], dict[str, Deferred]]:
    """Returns the chunks' live data files at main's head, and chunks that share files."""
    head = tracking.hot.state.current_snapshot
    if not chunks or head is None:
        return [], {}
    layout, names = tracking.table.layout, {chunk.name for chunk in chunks}
    files: list[ChunkFile] = []
    spanning: dict[str, Deferred] = {}
    for file in context.chunk_files.live(head, layout):
        of_file = layout.names(file.times)
        touched = names if of_file is None else names.intersection(of_file)
        if file.kind is not FileKind.DATA or not touched:
            continue
        if inside(layout, file, names):
            files.append(file)
        else:
            reason = f"{file.path} has rows of other chunks"
            spanning |= {n: Deferred(n, Deferral.SPANS_CHUNKS, reason) for n in touched}
    kept = [f for f in files if not spanning.keys() & set(layout.names(f.times) or ())]
    return kept, spanning


def _plan(
    clock: Clock,
    table: ChunkedTable,
    tracking: Tracking,
    chunks: Sequence[Chunk],
    files: Sequence[ChunkFile],
    *,
    run_id: str,
    as_of: datetime,
) -> PlannedFiles:
    state, head = table.state, tracking.head
    assert head is not None  # a table with chunks has a head
    items = tuple(sorted((planned(f, state.uuid) for f in files), key=lambda item: item.path))
    names = tuple(sorted(chunk.name for chunk in chunks))
    digest = plan_digest(state.uuid, (), (), items, names, head.snapshot_id)
    plan = Plan(
        id=plan_id(run_id, PlanKind.DROP_CHUNKS, state.name, digest),
        run_id=run_id,
        kind=PlanKind.DROP_CHUNKS,
        table=state.name,
        table_uuid=state.uuid,
        digest=digest,
        as_of=as_of,
        created_at=clock.now(),
        base_location=state.metadata_location,
        heads={MAIN: head.snapshot_id},
        files=len(items),
        bytes=sum(item.bytes for item in items),
        chunks=names,
        note=f"drops what ended by {format_instant(as_of)}",
    )
    return PlannedFiles(plan, items)
