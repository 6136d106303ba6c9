"""Doctor's findings about chunks: causes that keep a policy by age from being applied.

`doctor` calls it. It reads the ledger only: once all tables, and the chunks of tables that drop.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.sync import LARGE_DELETES, SyncState, TableSync, TrackedTable
from meltline.domain.grouping import grouped
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_duration, format_instant
from meltline.ports import ChunkSum

_SHOWN = 3
_TOLD_OF = (ChunkStatus.REOPENED, ChunkStatus.UNKNOWN)


@dataclass(frozen=True)
class _CheckedTable:
    """The ledger's rows of one table with chunks."""

    tracked: TrackedTable
    sync: TableSync | None
    policies: Sequence[ChunkPolicy]
    reopened: ChunkSum | None
    unknown: ChunkSum | None

    @property
    def name(self) -> str:
        return str(self.tracked.table)

    @property
    def is_replicated(self) -> bool:
        return self.sync is not None and self.sync.state is not SyncState.STOPPED


def chunk_findings(context: ReadContext, standing: Collection[str]) -> Iterator[Finding]:
    """Finds failed or silent replication, idle policies, late rows, and files that span chunks.

    Args:
        context: The ports.
        standing: The ids of readable tables: other findings report the unreadable ones.
    """
    for table in _tables(context, standing):
        yield from _of_sync(context, table)
        yield from _idle_policies(table)
        yield from _late_rows(table)
        yield from _unknown_drops(table)
        if any(policy.drop_after for policy in table.policies):
            yield from _spanning(table, context.control.chunks.of(table.tracked.table_uuid))


def _tables(context: ReadContext, standing: Collection[str]) -> Iterator[_CheckedTable]:
    control = context.control
    tracked = [table for table in control.chunks.tracked() if table.table_uuid in standing]
    if not tracked:
        return
    syncs = {sync.table_uuid: sync for sync in control.syncs.all()}
    policies = grouped(control.chunk_policies.all(), lambda policy: policy.table_uuid)
    sums = control.chunks.sums()
    by_status = {(row.table_uuid, row.status): row for row in sums}
    for table in tracked:
        uuid = table.table_uuid
        late, unknown = (by_status.get((uuid, s)) for s in _TOLD_OF)
        yield _CheckedTable(table, syncs.get(uuid), policies.get(uuid, ()), late, unknown)


def _of_sync(context: ReadContext, table: _CheckedTable) -> Iterable[Finding]:
    sync, oldest = table.sync, context.config.chunks.heartbeat
    if sync is None or not table.is_replicated:
        return
    if sync.state is SyncState.FAILED:
        failed = f"replication to {sync.cold} has failed: {sync.reason}: {sync.detail}"
        fix = _way_out(table.name, sync)
        yield Finding("error", "chunks_sync_failed", table.name, failed, fix)
    elif sync.heartbeat is None or context.clock.now() - sync.heartbeat > oldest:
        yield Finding(
            "warning",
            "chunks_sync_silent",
            table.name,
            f"{_silence(sync, oldest)}: no chunk counts as proved",
            f"`meltline chunks replicate --tables {quote(table.name)}`, or unpause its DAG",
        )


def _way_out(table: str, sync: TableSync) -> str:
    ways = {
        str(
            Deferral.DIVERGED
        ): f"`meltline chunks sync {quote(table)}` copies and verifies all anew",
        LARGE_DELETES: (
            f"`meltline chunks replicate --tables {quote(table)} --deletes mirror`, or keep"
        ),
    }
    again = (
        f"`meltline chunks replicate --tables {quote(table)}` tries again, as the next pass does"
    )
    return ways.get(sync.reason, again)


def _silence(sync: TableSync, oldest: timedelta) -> str:
    if sync.heartbeat is None:
        return "its first copy has not ended"
    heard = format_instant(sync.heartbeat)
    return f"replication was heard of last at {heard}, more than {format_duration(oldest)} ago"


def _idle_policies(table: _CheckedTable) -> Iterable[Finding]:
    """Policies without effect, because nothing is copied (LT-9, LT-20)."""
    for policy in table.policies:
        is_gated = policy.type is not PolicyType.RETENTION or table.sync is not None
        if is_gated and not table.is_replicated:
            yield Finding(
                "warning",
                "chunks_policy_idle",
                table.name,
                f"`{policy.sentence}` does nothing: the table is not replicated to cold",
                f"`meltline chunks sync {quote(table.name)}`",
            )


def _late_rows(table: _CheckedTable) -> Iterable[Finding]:
    """Rows that were written after their chunk was dropped, and that cold does not have yet."""
    late, sync = table.reopened, table.sync
    if late is None or not late.chunks:
        return
    committed = sync.committed if sync else None
    if committed and late.newest_write is not None and late.newest_write <= committed.place:
        return
    yield Finding(
        "warning",
        "chunks_late_rows",
        table.name,
        f"{counted(late.chunks, 'dropped chunk')} got {counted(late.rows, 'late row')} by an "
        "engine that does not ask; they are in hot alone",
        f"`meltline chunks replicate --tables {quote(table.name)}`; write with `meltline sql`, "
        "which "
        "refuses them",
    )


def _unknown_drops(table: _CheckedTable) -> Iterable[Finding]:
    """Chunks for which it is unknown whether hot's rows are those that cold has."""
    if table.unknown is not None and table.unknown.chunks:
        yield Finding(
            "error",
            "chunks_unknown_drops",
            table.name,
            f"{counted(table.unknown.chunks, 'chunk')} with {counted(table.unknown.rows, 'row')} "
            "in hot: nobody can tell whether their drop was undone; replication, drops and the "
            "view over hot and cold wait",
            f"`meltline chunks settle {quote(table.name)}` shows the evidence and takes the answer",
        )


def _spanning(table: _CheckedTable, chunks: Mapping[str, Chunk]) -> Iterable[Finding]:
    names = sorted(chunk.name for chunk in chunks.values() if chunk.spans and chunk.is_resident)
    if names:
        yield Finding(
            "warning",
            "chunks_span",
            table.name,
            f"{Deferral.SPANS_CHUNKS}: files reach into several of {counted(len(names), 'chunk')} "
            f"({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}), and none of "
            "these is dropped",
            "have the table's engine rewrite them by its partitions",
        )
