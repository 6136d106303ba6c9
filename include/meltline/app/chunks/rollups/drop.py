"""Drops rollups: removes the declaration and the table.

`rollups drop` and SQL call it. It uses the ordinary table drop, so `undrop` restores the table.
"""

from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.replication.declare import stop_sync
from meltline.app.chunks.rollups.refresh import rollup_lock, rollup_of
from meltline.app.drop.drop import drop
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.chunks.sync import SyncState
from meltline.domain.errors import ObjectDropped, RollupInvalid, TableNotFound
from meltline.domain.iceberg.objects import ObjectKind
from meltline.ports import RollupReader


def drop_rollup(context: ReadContext, name: str) -> Rollup:
    """Removes a rollup and drops its table, which `undrop` can restore.

    Raises:
        RollupNotFound: No rollup has this name.
        RollupInvalid: Another one depends on it.
        MeltlineError: Its table cannot be dropped.
    """
    with rollup_lock(context, name):
        rollup = rollup_of(context.control.rollups, name)
        _require_unread(context.control.rollups, name)
        _drop_table(context, rollup)
        context.control.rollups.remove(name)
    audit(context, "drop rollup", name, detail=str(rollup.table))
    return rollup


def _require_unread(rollups: RollupReader, name: str) -> None:
    above = [rollup.name for rollup in rollups.all() if name in rollup.depends_on]
    if above:
        raise RollupInvalid(
            f"other rollups depend on {name}",
            object=name,
            expected="a rollup that no other reads",
            found=", ".join(above),
            next="drop these first",
        )


def _drop_table(context: ReadContext, rollup: Rollup) -> None:
    """Drops the rollup's table if it still exists and is still its own."""
    try:
        state = load_table(context, rollup.table)
    except (TableNotFound, ObjectDropped):
        return
    if state.uuid != rollup.table_uuid:
        return
    for sync in context.control.syncs.all([state.uuid]):
        if sync.state is not SyncState.STOPPED:
            stop_sync(context, rollup.table)
    drop(context, str(rollup.table), ObjectKind.TABLE)
