"""Accepts what others have changed of dropped chunks in cold, as a person says."""

from dataclasses import replace

from meltline.app.chunks.flags import chunked_table
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_rows import ColdCount
from meltline.app.chunks.replication.synced_table import read_synced
from meltline.app.chunks.tracking import chunk_lock
from meltline.app.ground.audit_log import audit
from meltline.app.services import RunContext
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote


def accept_cold(context: RunContext, name: TableName, reason: str) -> list[str]:
    """Records what cold has of dropped chunks now, as a person has seen it.

    Args:
        context: Where both tables and the ledger are.
        name: The table.
        reason: Why cold is as it should be, for the audit.

    Returns:
        How the chunks differed.

    Raises:
        UsageInvalid: There is no reason, or rows cannot be counted.
        NotChunked: The table is not cut into chunks.
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
        dropped = {
            n: c for n, c in context.control.chunks.of(hot.state.uuid).items() if c.only_copy
        }
        count = ColdCount.of(context.cold_chunk_files, synced, table.tracked.layout)
        (sync,) = context.control.syncs.all([hot.state.uuid])
        by_others = count.by_others(sync.compared, dropped.values())
        changed, left = count.changes(context.chunk_rows, by_others)
        found = changed | count.differences(dropped.values())
        rows = count.recordable(dropped[n] for n in found)
        if uncounted := [found[n] for n, counted in rows.items() if counted is None]:
            raise _unfit(
                name,
                "rows that can be counted",
                "; ".join(uncounted),
                "compact cold, and try again",
            )
        bases = {n: base for n in found if (base := dropped[n].only_copy_base) is not None}
        digests = count.digests(context.chunk_rows, bases)
        moves = [(dropped[n], dropped[n].with_rows(rows[n], digests.get(n))) for n in found]
        context.control.chunks.move(moves)
        if not left:
            now = replace(sync, cold_compared=synced.state.current_snapshot_id)
            context.control.syncs.save(sync, now)
    audit(context, "chunks accept", str(name), reason.strip(), "; ".join(found.values()))
    return list(found.values())


def _unfit(name: TableName, expected: str, found: str, next: str) -> UsageInvalid:
    return UsageInvalid(
        f"what cold has of {name} cannot be accepted",
        object=str(name),
        expected=expected,
        found=found,
        next=next,
    )
