"""Replicates synced tables to cold, one pass each; a failed table does not stop the others.

Chunk runs and `chunks replicate` call it. The pass itself is in `one_pass` (LT-1, H1).
"""

from collections.abc import Sequence
from dataclasses import replace

from meltline.app.chunks.lookups import ChunkedTable, HotTable
from meltline.app.chunks.replication.one_pass import Pass, Replicated
from meltline.app.chunks.replication.refusals import standing, waits_for_a_person
from meltline.app.chunks.tracking import chunk_lock
from meltline.app.safety.preconditions import require_go
from meltline.app.services import RunContext
from meltline.domain.chunks.sync import Deletes, SyncState, TableSync
from meltline.domain.errors import CommitConflict, LockHeld, MeltlineError, Stopped, SyncRefused


def replicate(
    context: RunContext, tables: Sequence[ChunkedTable], deletes: Deletes | None = None
) -> list[Replicated]:
    """Runs one pass over each synced table.

    Args:
        context: The ports.
        tables: The tables; those that are not synced are skipped.
        deletes: The operator's decision about large deletes by others that are waiting.
    """
    synced = [t for t in tables if t.sync and t.sync.state is not SyncState.STOPPED]
    if synced and context.prepare_cold is not None:
        context.prepare_cold()
    passes = []
    for number, table in enumerate(synced, 1):
        context.progress(f"replicate: {number} of {len(synced)}: {table.state.name}")
        passes.append(_replicated(context, table, deletes))
    return passes


def _replicated(context: RunContext, table: ChunkedTable, deletes: Deletes | None) -> Replicated:
    sync, name = table.sync, str(table.state.name)
    assert sync is not None  # filtered by the caller
    try:
        require_go(context.control.switch)  # mirrored deletes leave cold
        with chunk_lock(context, table.state.uuid):
            (sync,) = context.control.syncs.all([table.state.uuid])
            if waits_for_a_person(sync, deletes_decided=deletes is not None):
                return Replicated(name, sync, error=standing(sync))
            hot = HotTable.load(context, table.state.name)
            return Pass(context, hot, table, sync, deletes).run()
    except (LockHeld, Stopped) as waiting:  # nothing is wrong with the copy
        return Replicated(name, sync, error=waiting)
    except MeltlineError as error:
        return Replicated(name, _failed(context, sync, error), error=error)


def _failed(context: RunContext, before: TableSync, error: MeltlineError) -> TableSync:
    """Records the failure in the ledger; concurrent changes by others are kept."""
    (now,) = context.control.syncs.all([before.table_uuid])
    reason = error.reason if isinstance(error, SyncRefused) else ""
    after = replace(now, state=SyncState.FAILED, reason=reason or error.type, detail=error.message)
    if isinstance(error, CommitConflict):  # another process continues it
        after = replace(now, state=SyncState.LAGGING, reason="", detail=error.message)
    if now.state is SyncState.STOPPED:
        return now
    try:
        context.control.syncs.save(now, after)
    except CommitConflict:
        return now
    return after
