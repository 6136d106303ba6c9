"""Starts and stops the sync of a table, and restarts it in a new generation.

`chunks sync`, `chunks stop-sync`, SQL and the Python API call it. Passes are in `one_pass`.
"""

from dataclasses import dataclass, replace

from meltline.app.catalog.resolve import require_changeable
from meltline.app.chunks.lookups import HotTable, require_tracked
from meltline.app.chunks.replication.synced_table import (
    cold_name,
    other_specs,
    other_types,
    read_synced,
)
from meltline.app.chunks.tracking import begin_tracking, chunk_lock
from meltline.app.retention.consumers import find_consumers, remove_consumer
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.chunks.layout import ChunkLayout, layout_of
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.sync import SyncState, TableSync, TrackedTable
from meltline.domain.errors import NotChunked, UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.safe_text import quote

CONSUMER = "meltline_sync"
"""Consumer that keeps the history that replication has yet to read."""


@dataclass(frozen=True)
class LayoutWish:
    """A user's settings of a table's chunks; empty ones follow from its partitions."""

    column: str = ""
    unit: Unit | None = None
    pattern: str = ""


def declared_layout(hot: HotTable, wish: LayoutWish) -> ChunkLayout:
    """Derives a table's chunk layout.

    Raises:
        NotChunked: It is not partitioned by one column of times, or needs more settings.
    """
    try:
        return layout_of(hot.document, wish.column, wish.unit, wish.pattern)
    except ValueError as error:
        raise NotChunked(
            f"{hot.state.name} cannot be cut into chunks by time",
            object=str(hot.state.name),
            expected="a partition by hour, day, month, year or date, or a declared column and unit",
            found=str(error),
            next="say --column, --unit and, for integers and strings, --pattern",
        ) from error


def tracked_or_new(context: ReadContext, hot: HotTable, wish: LayoutWish) -> TrackedTable:
    """Returns the ledger's record of a table's chunks; reads them if there is none yet.

    Raises:
        NotChunked: As `declared_layout`.
        UsageInvalid: The table is already split in another way.
    """
    for tracked in context.control.chunks.tracked([hot.state.uuid]):
        if wish != LayoutWish() and declared_layout(hot, wish) != tracked.layout:
            have = f"{tracked.layout.column.name} by {tracked.layout.unit}"
            raise UsageInvalid(
                f"{hot.state.name} is cut into chunks already: {have}",
                object=str(hot.state.name),
                expected=have,
                found=f"{wish.column or 'the same column'} by {wish.unit or 'the same unit'}",
                next="leave it out; or forget its policies, stop its sync, and begin anew",
            )
        return tracked
    return begin_tracking(context, hot, declared_layout(hot, wish)).table


def start_sync(
    context: ReadContext, table: TableName, cold: str = "", wish: LayoutWish | None = None
) -> TableSync:
    """Starts replicating a table to cold; its first pass copies everything.

    For a table whose sync has stopped or failed, it begins a new generation: everything in hot is
    copied and verified again, and cold keeps what was dropped from hot (H2).

    Raises:
        NotChunked: The table has no chunks.
        ColdMissing: There is no cold tier.
        CatalogReadOnly: The table is not in a catalog that Meltline may change.
        NameConflict: The name in cold is taken.
        LedgerOutOfStep: Another installation has the table in cold.
    """
    require_changeable(context, ObjectName(table.catalog, table.namespace, table.name))
    hot = HotTable.load(context, table)
    name = cold_name(context, hot, cold)
    with chunk_lock(context, hot.state.uuid):
        before = next(iter(context.control.syncs.all([hot.state.uuid])), None)
        now = context.clock.now()
        first = TableSync(hot.state.uuid, table, name, 1, SyncState.COPYING, now)
        goes_on = before is not None and (not cold or name == before.cold)
        if before is not None and not goes_on:
            _require_replaced(context, hot, before, name)
        read_synced(context, hot, before if before and goes_on else first)
        tracked_or_new(context, hot, wish or LayoutWish())
        if before is None:
            sync = first
            context.control.syncs.save(None, sync)
        elif goes_on and before.state in (SyncState.STREAMING, SyncState.COPYING):
            return before
        elif not goes_on:
            # The ledger's record of dropped chunks belongs to the former table.
            context.control.chunks.forget(hot.state.uuid)
            begin_tracking(context, hot, declared_layout(hot, LayoutWish()))
            sync = _begun_anew(context, before, name)
        else:
            sync = _begun_anew(context, before, before.cold)
    audit(context, "chunks sync", str(table), detail=f"to {sync.cold}, {sync.generation}")
    return sync


def _require_replaced(
    context: ReadContext, hot: HotTable, sync: TableSync, name: TableName
) -> None:
    """Allows another name in cold only for a table replaced by one that cold cannot follow.

    Raises:
        UsageInvalid: It was not replaced: the content under its name in cold belongs to it.
        MeltlineError: Cold cannot be read.
    """
    synced = read_synced(context, hot, sync)
    if synced and (other_types(hot, synced) or other_specs(hot, synced)):
        return
    raise UsageInvalid(
        f"{hot.state.name} is synced to {sync.cold}, which may have the only rows of its chunks",
        object=str(hot.state.name),
        expected=str(sync.cold),
        found=str(name),
        next="leave out --to",
    )


def _begun_anew(context: ReadContext, before: TableSync, cold: TableName) -> TableSync:
    """Saves a new generation of a sync, whose first pass copies everything."""
    sync = replace(
        before,
        cold=cold,
        generation=before.generation + 1,
        state=SyncState.COPYING,
        started_at=context.clock.now(),
        reason="",
        detail="",
        heartbeat=None,
        committed=None,
        cold_snapshot=None,
        cold_compared=before.cold_compared if cold == before.cold else None,
    )
    context.control.syncs.save(before, sync)
    return sync


def stop_sync(context: ReadContext, table: TableName) -> TableSync:
    """Stops replication. Cold keeps its rows; chunks that need it wait (LT-15, LT-26).

    Raises:
        NotChunked: The table is not synced.
    """
    hot = HotTable.load(context, table)
    require_tracked(context, hot.state)
    with chunk_lock(context, hot.state.uuid):
        before = next(iter(context.control.syncs.all([hot.state.uuid])), None)
        if before is None:
            raise NotChunked(
                f"{table} is not synced",
                object=str(table),
                expected="a table that is replicated to cold",
                found="none",
                next=f"`meltline chunks sync {quote(table)}`",
            )
        after = replace(before, state=SyncState.STOPPED, reason="", detail="stopped by a person")
        context.control.syncs.save(before, after)
    if any(c.name == CONSUMER for c in find_consumers(context, table).consumers):
        remove_consumer(context, table, CONSUMER)
    audit(context, "chunks stop-sync", str(table), detail=str(after.cold))
    return after
