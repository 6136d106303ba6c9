"""VACUUM: the chain of a run over one table, at once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.catalog.tables import observed_table, retention_of
from meltline.app.chunks.manual_runs import request_by_hand
from meltline.app.run.recap import recap
from meltline.app.run.recorded import run_recorded
from meltline.app.run.run_document import TableResult
from meltline.app.run.summary import Summary
from meltline.app.services import OpenServices, ReadContext
from meltline.app.sql.statement_results import Outcome
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.retention.longer_window import LongerWindow
from meltline.domain.retention.policy import Retention
from meltline.ports import CatalogListing, ReadColumn, ReadRows

_HOUR = timedelta(hours=1)
_COUNTS = (
    "snapshots_archived",
    "snapshots_expired",
    "files_departed",
    "bytes_departed",
    "files_purged",
    "bytes_purged",
)
_TYPES: Mapping[str, str] = {
    "table": "string",
    "retained_hours": "bigint",
    **dict.fromkeys(_COUNTS, "bigint"),
    "state": "string",
    "summary": "string",
}
_NOT_MANAGED = "not managed"


def vacuum(
    context: ReadContext,
    services: OpenServices,
    table: TableName,
    hours: int | None,
    *,
    dry_run: bool,
) -> Outcome:
    """Runs the chain over one table, as `meltline run --tables` does.

    Args:
        context: Where the table is.
        services: Called once it is known that there is something that may be done.
        table: The table.
        hours: How long what was superseded is kept this time; None is as its policy says.
        dry_run: Only say what would happen.

    Raises:
        RetentionOutOfRange: The hours are fewer than the policy's.
        UsageInvalid: A run cannot be asked for this table alone.
        CatalogReadOnly: Nobody may change it here.
        MeltlineError: What kept the run from beginning, or the table from being read.
    """
    name = ObjectName(table.catalog, table.namespace, table.name)
    listing = require_changeable(context, name).listing()
    observed = observed_table(context, load_table(context, table), listing)
    _require_alone(table, listing)
    policies = context.control.policies.all()
    retention = retention_of(context.config.account, observed, policies)
    longer = None if hours is None else LongerWindow.of_hours(table, hours, retention)
    effective = retention if longer is None else longer.over(table, retention)

    request = replace(request_by_hand(context.clock.now(), table), dry_run=dry_run)
    opened = services("vacuum", request.run_id, judges=not dry_run)
    summary = run_recorded(replace(opened, longer_window=longer), request)
    outcome = summary.tables.get(str(table), TableResult(str(table)))
    state = _state(summary, outcome) if observed.managed else _NOT_MANAGED
    return Outcome(
        read=_rows(effective, outcome, state, "; ".join(recap(summary.as_json()))),
        warnings=(*summary.notes, *summary.notices, *filter(None, [outcome.next])),
        exit_code=summary.exit_code,
    )


def _require_alone(table: TableName, listing: CatalogListing) -> None:
    """Refuses a name that picks other tables, too: a run is asked for tables by globs."""
    names = [entry.name for entry in listing.entries]
    matches = [name for name in names if name != table and selected(name, (str(table),))]
    if matches:
        raise UsageInvalid(
            f"a run over {table} would be one over other tables, too",
            object=str(table),
            expected="a name that no other table matches",
            found=", ".join(map(str, matches[:3])),
            next="`meltline run --tables` is for all of them, by their policies",
        )


def _state(summary: Summary, outcome: TableResult) -> str:
    if problem := outcome.failed or outcome.refused or outcome.skipped:
        return problem
    if summary.dry_run:
        return "dry run"
    if summary.not_armed is not None:
        return "not armed"
    return "waits for approval" if summary.approvals else "ok"


def _rows(retention: Retention, outcome: TableResult, state: str, words: str) -> ReadRows:
    hours = None if retention.window is None else retention.window // _HOUR
    counts = (getattr(outcome, key) for key in _COUNTS)
    columns = tuple(ReadColumn(name, type) for name, type in _TYPES.items())
    return ReadRows(columns, ((outcome.table, hours, *counts, state, words),))
