"""Operator override: accepts changes that others made to dropped chunks in cold.

`chunks accept` calls it. Replication stops at such a change until an operator accepts it, so no run
may call this.
"""

from collections.abc import Mapping
from dataclasses import replace

from meltline.app.chunks.flags import chunked_table
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_rows import ColdCount
from meltline.app.chunks.replication.synced_table import read_synced
from meltline.app.chunks.tracking import chunk_lock
from meltline.app.safety.audit import audit
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.sync import TableSync
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote


def accept_cold(context: RunContext, name: TableName, reason: str) -> list[str]:
    """Records cold's current rows of dropped chunks as an operator's accepted state.

    Args:
        context: Where both tables and the ledger are.
        name: The table.
        reason: Why cold is as it should be, for the audit.

    Returns:
        How the chunks differed.

    Raises:
        UsageInvalid: There is no reason, or rows cannot be counted.
        NotChunked: The table is not split into chunks.
        MeltlineError: Hot, cold or the ledger cannot be read.
    """
    if not reason.strip():
        raise _unfit(name, "a reason", "none", "say --reason TEXT: it is recorded")
    table = chunked_table(context, name)
    with chunk_lock(context, table.state.uuid):
        hot = HotTable(table.state, context.store)
        synced = read_synced(context, hot, table.sync) if table.sync else None
        if synced is None:
            raise _unfit(name, "a synced table", "none", f"`meltline chunks sync {quote(name)}`")
        chunks = context.control.chunks.of(hot.state.uuid)
        dropped = {name: chunk for name, chunk in chunks.items() if chunk.only_copy}
        count = ColdCount.of(context.cold_chunk_files, synced, table.tracked.layout)
        (sync,) = context.control.syncs.all([hot.state.uuid])
        changed = _recorded(context, sync, count, dropped)
    audit(context, "chunks accept", str(name), reason.strip(), "; ".join(changed))
    return changed


def _recorded(
    context: RunContext, sync: TableSync, count: ColdCount, dropped: Mapping[str, Chunk]
) -> list[str]:
    """Records the rows of chunks that others have changed. Returns how they differed."""
    state, engine = count.synced.state, context.chunk_rows
    changed, uncompared = count.changes(
        engine, count.by_others(sync.cold_compared, dropped.values())
    )
    changed |= count.differences(dropped.values())
    rows = count.recordable(dropped[name] for name in changed)
    if uncounted := [changed[name] for name in changed if rows[name] is None]:
        raise _unfit(
            sync.table,
            "rows that can be counted",
            "; ".join(uncounted),
            "compact cold, and try again",
        )
    bases = {n: base for n in changed if (base := dropped[n].only_copy_base) is not None}
    digests = count.digests(engine, bases)
    moves = [(dropped[n], dropped[n].with_rows(rows[n], digests.get(n))) for n in changed]
    context.control.chunks.move(moves)
    if not uncompared:
        compared = replace(sync, cold_compared=state.current_snapshot_id)
        context.control.syncs.save(sync, compared)
    return list(changed.values())


def _unfit(name: TableName, expected: str, found: str, next: str) -> UsageInvalid:
    return UsageInvalid(
        f"what cold has of {name} cannot be accepted",
        object=str(name),
        expected=expected,
        found=found,
        next=next,
    )
