"""LakeTS functions for replication and chunks.

`dispatch` calls them. Each translates its arguments for a step of `app/chunks` (LT-9, LT-10, LT-16,
LT-18, LT-22).
"""

from collections.abc import Mapping
from typing import Any

from meltline.app.chunks import flags
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.manual_runs import due_chunks, execute_retention, first_copy
from meltline.app.chunks.plan_drops import Force
from meltline.app.chunks.reading.status import NOT_SYNCED, TieringStatus, tiering_status
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.sql.lakets.policy_functions import TABLE
from meltline.app.sql.lakets.session import FunctionAnswer, Session, answer_of, void
from meltline.app.sql.lakets.signatures import (
    Function,
    Parameter,
    Type,
    of_rows,
    of_value,
    required,
)
from meltline.domain.chunks.ranges import chunk_address, parse_chunk_address
from meltline.domain.chunks.sync import SyncState
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName

Values = Mapping[str, Any]
SKIPPED = "SKIPPED"
"""LakeTS's name for a sync that exists and is not streaming."""


def _table(session: Session, values: Values) -> TableName:
    return session.table(values["p_table_name"], values["p_schema_name"])


def _chunk(session: Session, text: str) -> tuple[TableName, str]:
    """Splits a chunk's address into its table and its own name. Raises UsageInvalid."""
    try:
        table, name = parse_chunk_address(text)
    except ValueError as error:
        raise UsageInvalid(
            str(error),
            object=text,
            expected="a table, @ and the chunk's begin in UTC",
            found=text,
            next="`meltline chunks list TABLE` names a table's chunks",
        ) from error
    return session.table(table), name


def _sync_state(session: Session, table: TableName) -> SyncState | None:
    uuid = HotTable.load(session.context, table).state.uuid
    return next((sync.state for sync in session.context.control.syncs.all([uuid])), None)


# --- replication ----------------------------------------------------------------------------------


def _enable_sync(session: Session, values: Values) -> FunctionAnswer:
    table = _table(session, values)
    if _sync_state(session, table) in (SyncState.STREAMING, SyncState.LAGGING):
        return void(f"{table} is synced already")
    begun = start_sync(session.context, table)
    first_copy(session.services, session.context.clock.now(), begun)
    return void()


def _disable_sync(session: Session, values: Values) -> FunctionAnswer:
    table = _table(session, values)
    if _sync_state(session, table) in (None, SyncState.STOPPED):
        return void(f"{table} is not synced")
    stopped = stop_sync(session.context, table)
    return void(f"{stopped.cold} keeps what it has; chunks of {table} wait until it is synced anew")


# --- chunks ---------------------------------------------------------------------------------------


def _tier_chunk(session: Session, values: Values) -> FunctionAnswer:
    table, name = _chunk(session, values["p_chunk_name"])
    flag = flags.tier_chunk(session.services("tier_chunk"), table, name)
    if flag.is_tiered:
        return answer_of(True)
    why = " ".join(filter(None, (flag.reason, flag.why)))
    return answer_of(False, f"{flag.chunk} is not flagged: {why}")


def _untier_chunk(session: Session, values: Values) -> FunctionAnswer:
    table, name = _chunk(session, values["p_chunk_name"])
    flags.untier_chunk(session.context, table, name)
    return void()


def _execute_retention(session: Session, values: Values) -> FunctionAnswer:
    table = _table(session, values)
    force = None
    if values["p_force"]:
        force = _force(session, table, values)
        if force is None:
            return answer_of(0)
    else:
        _require_no_words(values)
    done = execute_retention(session.context, session.services, table, force)
    return answer_of(done.dropped, *done.notices)


def _force(session: Session, table: TableName, values: Values) -> Force | None:
    """Builds the operator's override for unproved chunks; None if no chunk is due.

    LakeTS's own call names no chunks. It then covers exactly those that the policy makes due; a
    force beyond the policy's ages must name them, and give a reason.
    """
    reason = values["p_reason"] or ""
    if values["p_chunks"] is not None:
        return Force(tuple(_own(session, table, text) for text in values["p_chunks"]), reason)
    due = due_chunks(session.context, table)
    by_itself = f"execute_retention(p_force => TRUE) by {session.context.who}"
    return Force(due, reason or by_itself) if due else None


def _own(session: Session, table: TableName, text: str) -> str:
    """Returns a chunk's own name from its full one. Raises UsageInvalid for another table's."""
    if "@" not in text:
        return text
    of, name = _chunk(session, text)
    if of != table:
        raise UsageInvalid(
            f"{text} is no chunk of {table}",
            object=text,
            expected=chunk_address(table, name),
            found=str(of),
            next="a force is about one table: call it for each",
        )
    return name


def _require_no_words(values: Values) -> None:
    """Rejects arguments of a force without p_force."""
    for name in ("p_chunks", "p_reason"):
        if values[name] is not None:
            raise UsageInvalid(
                "chunks and a reason are for a forced drop only",
                object=name,
                expected="p_force => TRUE beside it",
                found="no p_force",
                next="leave it out: what the policy says is old enough is dropped behind the gate",
            )


# --- status ---------------------------------------------------------------------------------------

_STATUS = {
    "schema_name": "string",
    "table_name": "string",
    "after": "string",
    "active_chunks": "int",
    "tiered_chunks": "int",
    "pending_chunks": "int",
    "reclaimable_bytes": "bigint",
    "reclaimed_bytes": "bigint",
    "cdf_status": "string",
    "cdf_lag_bytes": "bigint",
    "caught_up": "boolean",
    "last_run_at": "timestamp",
    "pending_bytes": "bigint",  # this and those below are not in LakeTS
    "pending_since": "timestamp",
    "pending_lag_seconds": "bigint",
    "on_disk_bytes": "bigint",
    "on_disk_until": "timestamp",
}


def _show_tiering_status(session: Session, values: Values) -> FunctionAnswer:
    lines = tiering_status(session.context)
    if values["p_table_name"] is not None:
        name = str(_table(session, values))
        lines = [line for line in lines if line.table == name]
    rows = tuple(tuple(_cell(line, column) for column in _STATUS) for line in lines)
    return FunctionAnswer(
        rows, tuple(f"{line.table}: {line.problem}" for line in lines if line.problem)
    )


def _cell(line: TieringStatus, column: str) -> object:
    if column == "cdf_lag_bytes":
        return None  # cold's lag is counted in commits, not in bytes
    if column == "cdf_status":
        plain = line.cdf_status in (NOT_SYNCED, SyncState.STREAMING)
        return line.cdf_status if plain else SKIPPED
    return getattr(line, column)


_FORCE = (
    Parameter("p_force", Type.BOOLEAN, default=False),
    Parameter("p_chunks", Type.TEXTS),  # this and the next are not in LakeTS
    Parameter("p_reason"),
)
_OPTIONAL_TABLE = (Parameter("p_table_name"), Parameter("p_schema_name"))
FUNCTIONS = (
    Function(of_value("enable_sync", "string", *TABLE), _enable_sync),
    Function(of_value("disable_sync", "string", *TABLE), _disable_sync),
    Function(of_value("tier_chunk", "boolean", required("p_chunk_name")), _tier_chunk),
    Function(of_value("untier_chunk", "string", required("p_chunk_name")), _untier_chunk),
    Function(of_value("execute_retention", "int", *TABLE, *_FORCE), _execute_retention),
    Function(of_rows("show_tiering_status", _STATUS, *_OPTIONAL_TABLE), _show_tiering_status),
)
