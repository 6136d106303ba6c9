"""Runs that an operator starts by a function: a first copy, and an immediate drop.

The commands, the LakeTS functions and the Python API call it. Scheduled runs are in `run`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex

from meltline.app.chunks.flags import chunked_table
from meltline.app.chunks.lookups import HotTable, require_tracked
from meltline.app.chunks.plan_drops import Force
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.run import ChunkRun
from meltline.app.chunks.tracking import chunk_lock, tracking_of
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import CHUNK_STEPS, REPLICATE, step_of
from meltline.app.run_request import RunRequest
from meltline.app.services import OpenServices, ReadContext
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.durability import due_to_drop
from meltline.domain.chunks.sync import TableSync
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import counted, format_size

DROPPING = CHUNK_STEPS[CHUNK_STEPS.index(step_of("plan_drops")) :]
"""The steps of a manual drop; it neither copies nor flags anything."""


def request_by_hand(now: datetime, table: TableName) -> RunRequest:
    """Creates a separate run for one table, dated now."""
    return RunRequest(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{token_hex(3)}", as_of=now, tables=(str(table),)
    )


def first_copy(open_services: OpenServices, now: datetime, begun: TableSync) -> Replicated:
    """Copies and verifies a table at once, before its regular sync.

    Raises:
        MeltlineError: Whatever stopped the copy.
    """
    request = request_by_hand(now, begun.table)
    services = open_services("enable_sync", request.run_id)
    run = ChunkRun(services, request)
    run_recorded(services, request, (REPLICATE,), run)
    (done,) = [one for one in run.replicated if one.sync.table_uuid == begun.table_uuid]
    if done.error is not None:
        raise done.error
    return done


@dataclass(frozen=True)
class RetentionDone:
    """Result of an immediate drop.

    Attributes:
        dropped: How many chunks it dropped.
        notices: Unproved chunks among them, refused plans, and deferred chunks.
    """

    dropped: int
    notices: tuple[str, ...] = ()


def due_chunks(context: ReadContext, name: TableName) -> tuple[str, ...]:
    """Returns the names of the chunks that a table's policy drops now; none without such a policy.

    Raises:
        TableNotFound: There is no such table.
    """
    uuid = HotTable.load(context, name).state.uuid
    if not any(policy.drop_after for policy in context.control.chunk_policies.all([uuid])):
        return ()
    table = chunked_table(context, name)
    if table.drop_policy is None:  # removed meanwhile
        return ()
    with chunk_lock(context, table.state.uuid):
        tracking = tracking_of(context, table)
    now, most = context.clock.now(), context.config.chunks.max_chunks
    due = due_to_drop(tracking.chunks, table.drop_policy, now, most).due
    return tuple(chunk.name for chunk in due)


def execute_retention(
    context: ReadContext,
    open_services: OpenServices,
    table: TableName,
    force: Force | None = None,
    once: str = "",
) -> RetentionDone:
    """Drops the chunks that a table's policy makes due at once, behind the gate.

    Args:
        context: Where the table is.
        open_services: Called only if there is a policy or a force.
        table: The table.
        force: An operator's override for unproved chunks; the run then covers these alone.
        once: Why this may be done in a catalog that is not armed.

    Raises:
        NotChunked: It is not split into chunks.
        MeltlineError: The error that stopped it, if nothing was dropped.
    """
    state = HotTable.load(context, table).state
    policies = context.control.chunk_policies.all([state.uuid])
    if force is None and not any(policy.drop_after for policy in policies):
        return RetentionDone(0)
    require_tracked(context, state)
    request = replace(request_by_hand(context.clock.now(), table), once=once)
    if force is not None:
        request = replace(request, chunks=force.chunks, force=force.reason)
    services = open_services("execute_retention", request.run_id, judges=True)
    run = ChunkRun(services, request, at_once=True)
    run_recorded(run.context, request, DROPPING, run)
    dropped = [name for result in run.results for name in result.chunks]
    errors = [result.error for result in run.results if result.error is not None]
    if errors and not dropped:
        raise errors[0]
    return RetentionDone(len(dropped), (*_risked(table, run, dropped), *_told(table, run)))


def _risked(table: TableName, run: ChunkRun, dropped: list[str]) -> Iterator[str]:
    """Reports the chunks that were dropped by force, one by one."""
    if run.force is None or not dropped:
        return
    yield f"{table}: dropped by force: {', '.join(dropped)}"
    for drops in run.planned_drops:
        if unproved := [d for d in drops.unproved if d.chunk in dropped]:
            names = ", ".join(f"{d.chunk} ({d.reason})" for d in unproved)
            size = f"{counted(drops.at_risk, 'row')}, {format_size(drops.bytes_at_risk)}"
            yield f"{table}: nobody has proved that cold has {names}: {size} at risk"


def _told(table: TableName, run: ChunkRun) -> Iterator[str]:
    """Reports refused plans and deferred chunks."""
    for line in run.summary.tables.values():
        if problem := line.failed or line.refused or line.skipped:
            yield f"{table}: {problem}"
    for waits in run.summary.deferred:
        if waits["reason"] != Deferral.STRADDLES:
            yield f"{table}: {waits['chunk']} waits: {waits['reason']} {waits['detail']}".rstrip()
