"""Replication: a pass over each synced table; what stops one stops no other (LT-1, H1)."""

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
    """One pass over each synced table.

    Args:
        context: The ports.
        tables: Those to be copied; one that is not synced is passed over.
        deletes: What a person says about large deletes by others that are waiting.
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
    assert sync is not None  # only these are asked for
    try:
        require_go(context.control.switch)  # what is mirrored leaves cold
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
    """The replication as the ledger has it from then on; what others changed meanwhile stays."""
    (now,) = context.control.syncs.all([before.table_uuid])
    reason = error.reason if isinstance(error, SyncRefused) else ""
    after = replace(now, state=SyncState.FAILED, reason=reason or error.type, detail=error.message)
    if isinstance(error, CommitConflict):  # somebody else goes on with it
        after = replace(now, state=SyncState.LAGGING, reason="", detail=error.message)
    if now.state is SyncState.STOPPED:
        return now
    try:
        context.control.syncs.save(now, after)
    except CommitConflict:
        return now
    return after
