"""Records which drops of chunks are in force, while main's history still shows it."""

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
    """Of those who stamp, copy, flag and drop a table's chunks one goes on. Raises LockHeld."""
    return context.control.locks.take(f"chunks {table_uuid}", context.who, wait=wait, lease=_LEASE)


def record_drops_of_tables(context: RunContext, states: Sequence[TableMetadata]) -> None:
    """Records of tables that are cut into chunks how their drops stand by main's history now.

    Where another run works on a table's chunks, or stamps them meanwhile, that run records it; the
    gate of an expiration sees to it that nothing expires before (`drop_evidence_lost`). So it is
    where the manifests of a drop cannot be read: that stops no other table.
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
    """The table among those that bear its id; None where nobody can tell which of them it is."""
    named = [state for state in same if state.name == tracked.table] or same
    return named[0] if len(named) == 1 else None


def record_drops(
    context: ReadContext,
    tracked: TrackedTable,
    state: TableMetadata,
    chunks: Mapping[str, Chunk],
) -> tuple[TrackedTable, Mapping[str, Chunk]]:
    """Records how a table's drops stand by main's history now. Its chunks are locked.

    Returns:
        The table and its chunks as the ledger has them then.

    Raises:
        CommitConflict: They were stamped meanwhile.
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
