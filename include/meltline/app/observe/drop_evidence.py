"""Records which drops of chunks are in force, while main's history still shows it.

Observe calls it before snapshots can expire; chunk tracking calls it with its lock held.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import timedelta

from meltline.app.observe.own_drops import UnrecordedDrops
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.main_history import MainLine, drops_of, with_standings
from meltline.domain.chunks.sync import TrackedTable
from meltline.domain.errors import CommitConflict, LockHeld, MetadataUnreadable
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import Lock

_LEASE = timedelta(minutes=2)


def lock_chunks(
    context: ReadContext, table_uuid: str, wait: timedelta
) -> AbstractContextManager[Lock]:
    """Locks a table's chunks for stamps, copies, flags and drops. Raises LockHeld."""
    return context.control.locks.take(f"chunks {table_uuid}", context.who, wait=wait, lease=_LEASE)


def record_drops_of_tables(context: RunContext, states: Sequence[TableMetadata]) -> None:
    """Records the status of the drops of all tables with chunks, by main's current history.

    A run that works on a table's chunks, or stamps them concurrently, records it instead. The gate
    of an expiration ensures that nothing expires before (`drop_evidence_lost`). The same is true if
    the manifests of a drop cannot be read: that does not stop other tables.
    """
    by_uuid = grouped(states, lambda state: state.uuid)
    for tracked in context.control.chunks.tracked(by_uuid):
        state = _where_it_stands(tracked, by_uuid[tracked.table_uuid])
        if state is None or tracked.judged == state.current_snapshot_id:
            continue
        uuid = tracked.table_uuid
        untold = suppress(LockHeld, CommitConflict, MetadataUnreadable)
        with untold, lock_chunks(context, uuid, timedelta(0)):
            record_drops(context, tracked, state, context.control.chunks.of(uuid))


def _where_it_stands(tracked: TrackedTable, same: Sequence[TableMetadata]) -> TableMetadata | None:
    """Returns the table with a registration's id; None if that is ambiguous."""
    named = [state for state in same if state.name == tracked.table] or same
    return named[0] if len(named) == 1 else None


def record_drops(
    context: ReadContext,
    tracked: TrackedTable,
    state: TableMetadata,
    chunks: Mapping[str, Chunk],
) -> tuple[TrackedTable, Mapping[str, Chunk]]:
    """Records the status of a table's drops by main's current history. Its chunks are locked.

    Returns:
        The table and its chunks as the ledger has them afterwards.

    Raises:
        CommitConflict: They were stamped concurrently.
        MetadataUnreadable: The manifests of a drop cannot be read.
    """
    unrecorded = UnrecordedDrops(context.chunk_files, context.control.plans, tracked, chunks)
    every = {**chunks, **unrecorded.beside(state)}
    line = MainLine.of(state, tracked.judged, drops_of(every.values()))
    recorded = {name: with_standings(chunk, line) for name, chunk in every.items()}
    changed = [chunk for name, chunk in recorded.items() if chunk != chunks[name]]
    now = replace(tracked, judged=state.current_snapshot_id)
    if now != tracked:
        context.control.chunks.advance(tracked, now, changed)
    return now, recorded
