"""Status of chunks and their replication, from the ledgers alone and without a JVM.

`chunks status` and `chunks list` call it. A drop only removes files from main: history, clones and
failsafe keep them, and only the file ledger records which of them a purge has deleted since
(LT-16).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.chunks.lookups import HotTable, require_tracked
from meltline.app.chunks.rollups.waits import dirty_chunks
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.durability import (
    Deferred,
    DurabilityBacklog,
    backlog,
    is_gated,
    not_durable,
)
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.sync import SyncState, TableSync, TrackedTable
from meltline.domain.errors import MeltlineError
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata
from meltline.domain.units import format_instant
from meltline.ports import ChunkSum, DropSum, LedgerReader


@dataclass(frozen=True)
class DroppedBytes:
    """Bytes of a table's dropped chunks.

    Attributes:
        freed: Bytes whose files were deleted.
        on_disk: All others, which may still be on disk.
        due: When the last such file may be deleted; None if one is still referenced, or nothing is
            on disk.
    """

    freed: int = 0
    on_disk: int = 0
    due: datetime | None = None


def dropped_bytes(reader: LedgerReader, drops: Sequence[DropSum]) -> Mapping[str, DroppedBytes]:
    """Sums freed and remaining bytes by table, from the files that its drops removed from main.

    If the file ledger cannot be read, or lacks a drop's files, all bytes count as on disk.
    """
    items: Mapping[str, Sequence[PlannedFile]] = {}
    departures: Iterable[Departure] = ()
    plans = sorted({drop.plan for drop in drops if drop.plan})
    with suppress(MeltlineError):
        items = reader.items(*plans) if plans else {}
        paths = [file.path for files in items.values() for file in files]
        departures = reader.departures((), *paths) if paths else ()
    departed = {location_key(departure.path): departure for departure in departures}
    by_table: dict[str, DroppedBytes] = {}
    for drop in drops:
        of_drop = _of_drop(drop.bytes, items.get(drop.plan, ()), departed)
        by_table[drop.table_uuid] = _added(by_table.get(drop.table_uuid, DroppedBytes()), of_drop)
    return by_table


def _of_drop(
    size: int, files: Sequence[PlannedFile], departed: Mapping[str, Departure]
) -> DroppedBytes:
    """Sums one drop. A plan may name files of chunks that a rollback restored: they are on disk."""
    states = [(file, departed.get(location_key(file.path))) for file in files]
    undeleted = [
        (file, departure)
        for file, departure in states
        if departure is None or departure.state is not DepartureState.DELETED
    ]
    planned = sum(file.bytes for file in files)
    freed = max(0, min(size, planned) - sum(file.bytes for file, _ in undeleted))
    due = [d.due_at for _, d in undeleted if d and d.state is DepartureState.FAILSAFE]
    is_waiting = bool(undeleted) and len(due) == len(undeleted)
    return DroppedBytes(freed, size - freed, max(due) if is_waiting and freed < size else None)


def _added(former: DroppedBytes, more: DroppedBytes) -> DroppedBytes:
    due = None
    with_bytes = [part for part in (former, more) if part.on_disk]
    if all(part.due for part in with_bytes):
        due = max((part.due for part in with_bytes if part.due), default=None)
    return DroppedBytes(former.freed + more.freed, former.on_disk + more.on_disk, due)


NOT_SYNCED = "NONE"


@dataclass(frozen=True)
class TieringStatus:
    """Status of one table, in LakeTS's columns (LT-34) and some of Meltline's.

    Attributes:
        after: The ages of its policies.
        unknown_chunks: Chunks for which it is unknown whether their last drop is in force.
        pending_chunks: Chunks past the age of a policy that are neither flagged nor dropped yet.
        pending_bytes: Bytes of the pending chunks.
        pending_since: When the oldest pending chunk reached that age; None if none is pending.
        pending_lag_seconds: How long ago that was.
        reclaimable_bytes: Bytes of chunks that are tiered now: hot does not need them (H7).
        reclaimed_bytes: Bytes of dropped chunks whose files a purge has deleted.
        on_disk_bytes: Bytes of dropped chunks whose files may still be on disk.
        on_disk_until: When the last such file may be deleted; None if history still has some.
        cdf_status: STREAMING, LAGGING, COPYING, FAILED or STOPPED; NONE if nothing is synced.
        lag: How many of hot's commits cold lacks, up to where chunks are stamped; None before the
            first copy, or after main was rolled back or replaced.
        caught_up: Whether cold has every resident chunk up to its last write, as far as stamped.
        problem: Why replication has failed; empty if it has not.
    """

    schema_name: str
    table_name: str
    table: str
    after: str
    active_chunks: int
    tiered_chunks: int
    dropped_chunks: int
    reopened_chunks: int
    unknown_chunks: int
    pending_chunks: int
    pending_bytes: int
    pending_since: datetime | None
    pending_lag_seconds: int
    reclaimable_bytes: int
    reclaimed_bytes: int
    on_disk_bytes: int
    on_disk_until: datetime | None
    cdf_status: str
    lag: int | None
    caught_up: bool
    last_run_at: datetime | None
    last_run: str
    heartbeat: datetime | None
    problem: str = ""


@dataclass(frozen=True)
class _Table:
    """The ledgers' records of one table that is split into chunks.

    Attributes:
        is_late: Whether the replication's heartbeat is overdue.
        pending: Chunks that its policies are due to flag or drop; `dropped` those already dropped.
    """

    tracked: TrackedTable
    sums: Sequence[ChunkSum]
    sync: TableSync | None
    policies: Sequence[ChunkPolicy]
    is_late: bool
    pending: DurabilityBacklog
    dropped: DroppedBytes


def tiering_status(context: ReadContext, globs: tuple[str, ...] = ()) -> list[TieringStatus]:
    """Returns every table that is split into chunks, by name; globs over names, none is all."""
    control = context.control
    sums = grouped(control.chunks.sums(), lambda row: row.table_uuid)
    syncs = {sync.table_uuid: sync for sync in control.syncs.all()}
    policies = grouped(control.chunk_policies.all(), lambda policy: policy.table_uuid)
    now, oldest = context.clock.now(), context.config.chunks.heartbeat
    tables = [table for table in control.chunks.tracked() if selected(table.table, globs)]
    uuids = {table.table_uuid for table in tables}
    drops = [drop for drop in control.chunks.drop_sums() if drop.table_uuid in uuids]
    dropped = dropped_bytes(context.reader, drops)
    lines = []
    for table in tables:
        uuid = table.table_uuid
        sync, ages = syncs.get(uuid), policies.get(uuid, ())
        is_late = sync is not None and (sync.heartbeat is None or now - sync.heartbeat > oldest)
        resident = control.chunks.of(uuid, resident=True) if ages else {}
        pending, freed = backlog(resident, ages, now), dropped.get(uuid, DroppedBytes())
        facts = _Table(table, sums.get(uuid, ()), sync, ages, is_late, pending, freed)
        lines.append(_line(facts, now))
    return sorted(lines, key=lambda line: line.table)


def _line(of: _Table, now: datetime) -> TieringStatus:
    by_status = {row.status: row for row in of.sums}

    def number(status: ChunkStatus) -> int:
        return by_status[status].chunks if status in by_status else 0

    tracked, sync, pending = of.tracked, of.sync, of.pending
    tiered = by_status.get(ChunkStatus.TIERED)
    resident = [row for row in of.sums if row.status is not ChunkStatus.DROPPED]
    state = _state(sync, of.is_late)
    lag = now - pending.since if pending.since else timedelta(0)
    return TieringStatus(
        schema_name=".".join(tracked.table.namespace),
        table_name=tracked.table.name,
        table=str(tracked.table),
        after="; ".join(policy.sentence for policy in of.policies),
        active_chunks=number(ChunkStatus.ACTIVE),
        tiered_chunks=number(ChunkStatus.TIERED),
        dropped_chunks=number(ChunkStatus.DROPPED),
        reopened_chunks=number(ChunkStatus.REOPENED),
        unknown_chunks=number(ChunkStatus.UNKNOWN),
        pending_chunks=pending.chunks,
        pending_bytes=pending.bytes,
        pending_since=pending.since,
        pending_lag_seconds=int(lag.total_seconds()),
        reclaimable_bytes=tiered.bytes if tiered and state == SyncState.STREAMING else 0,
        reclaimed_bytes=of.dropped.freed,
        on_disk_bytes=of.dropped.on_disk,
        on_disk_until=of.dropped.due,
        cdf_status=state,
        lag=_lag(tracked, sync),
        caught_up=_is_caught_up(tracked, resident, sync, of.is_late),
        last_run_at=tracked.last_run_at,
        last_run=tracked.last_run,
        heartbeat=sync.heartbeat if sync else None,
        problem=f"{sync.reason}: {sync.detail}" if sync and sync.reason else "",
    )


def _state(sync: TableSync | None, is_late: bool) -> str:
    if sync is None:
        return NOT_SYNCED
    is_lagging = sync.state is SyncState.STREAMING and is_late
    return str(SyncState.LAGGING if is_lagging else sync.state)


def _lag(table: TrackedTable, sync: TableSync | None) -> int | None:
    """Offsets of two generations cannot be compared."""
    if sync is None or sync.committed is None or table.walked is None:
        return None
    is_comparable = table.walked.generation == sync.committed.generation
    commits = table.walked.place - sync.committed.place
    is_known = is_comparable and commits >= 0 and sync.reason != Deferral.DIVERGED
    return commits if is_known else None


def _is_caught_up(
    table: TrackedTable, resident: Sequence[ChunkSum], sync: TableSync | None, is_late: bool
) -> bool:
    """False if any chunk has no position, or is ahead of cold (LT-16)."""
    if sync is None or sync.committed is None or sync.state is not SyncState.STREAMING or is_late:
        return False
    if table.walked is None or table.walked.generation != sync.committed.generation:
        return False
    place = sync.committed.place
    return all(row.newest_write is not None and row.newest_write <= place for row in resident)


@dataclass(frozen=True)
class ChunkLine:
    """A chunk, and why it is not flagged or dropped yet.

    Attributes:
        waits: The reason; None if none is known.
        kept_by: For a dropped chunk, the tags and branches of hot that still reference its bytes,
            each with its end.
    """

    chunk: Chunk
    waits: Deferred | None
    kept_by: tuple[str, ...] = ()


def list_chunks(context: ReadContext, name: TableName) -> list[ChunkLine]:
    """Returns all chunks of a table, oldest first, with each one's deferral, by the ledger.

    Raises:
        NotChunked: It is not split into chunks.
    """
    hot = HotTable.load(context, name)
    tracked = require_tracked(context, hot.state)
    uuid = hot.state.uuid
    sync = next(iter(context.control.syncs.all([uuid])), None)
    policies = context.control.chunk_policies.all([uuid])
    chunks = context.control.chunks.of(uuid)
    now, oldest = context.clock.now(), context.config.chunks.heartbeat
    is_behind = hot.since(tracked.walked.snapshot_id if tracked.walked else None) is None
    resident = [chunk for chunk in chunks.values() if chunk.is_resident]
    dirty = dirty_chunks(context, hot, chunks, resident, cutoff=None)
    lines = []
    for chunk in sorted(chunks.values(), key=lambda c: c.name):
        waits = dirty.get(chunk.name)
        if chunk.is_resident and _must_be_durable(sync, policies):
            waits = not_durable(chunk, sync, now, oldest) or waits
            if is_behind:
                detail = "main was rolled back or replaced"
                waits = Deferred(chunk.name, Deferral.DIVERGED, detail)
        if chunk.spans:
            spans = f"{chunk.spans} data files reach into other chunks"
            waits = Deferred(chunk.name, Deferral.SPANS_CHUNKS, spans)
        lines.append(ChunkLine(chunk, waits, _kept_by(hot.state, chunk)))
    return lines


def _kept_by(state: TableMetadata, chunk: Chunk) -> tuple[str, ...]:
    """Returns the refs beside main from before a chunk's last drop: they still reference it."""
    drops = [drop for drop in chunk.drops if not drop.is_undone]
    if not (chunk.was_dropped and drops):
        return ()
    kept = []
    for ref in sorted(state.refs.values(), key=lambda ref: ref.name):
        snapshot = state.snapshots.get(ref.snapshot_id)
        if ref.name != MAIN and snapshot and snapshot.sequence_number < drops[-1].sequence_number:
            end = snapshot.instant_of_age(ref.max_ref_age_ms)
            until = f"until {format_instant(end)}" if end else "for ever"
            kept.append(f"{'branch' if ref.is_branch else 'tag'} {ref.name} {until}")
    return tuple(kept)


def _must_be_durable(sync: TableSync | None, policies: Sequence[ChunkPolicy]) -> bool:
    types = [policy.type for policy in policies] or [PolicyType.RETENTION]
    return any(is_gated(sync, type) for type in types)
