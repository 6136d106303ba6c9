"""The report step: records today's storage, and whether purging works in the whole lake.

`Run.report` calls it. The figures are computed in `app/storage` and `app/status`; this module
combines them with the run's earlier steps, which may have run in other processes.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from meltline.app.clone.gc_guard import lift_ended_guards
from meltline.app.clone.shares import update_auto_shares
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.services import RunContext
from meltline.app.status.metrics import write_metrics
from meltline.app.status.purge_status import Reported, purge_status
from meltline.app.storage.report import StorageTotals, StoredBytes, record_storage
from meltline.domain.deletion.plan import PlanState
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import CatalogUnlistable, RunNotFound, StoreRefused
from meltline.domain.purging.purge_status import DueBytes

_AHEAD = timedelta(days=31)  # horizon of the forecast of due bytes


def report_storage(context: RunContext) -> DueBytes | None:
    """Records today's storage, and updates the shares and clone guards that depend on it.

    Returns:
        Bytes by due time; None if the catalogs cannot be listed.
    """
    try:
        history = StoredBytes(context)
    except CatalogUnlistable as unlisted:
        context.progress(f"report: no totals for today: {unlisted.message}")
        return None
    totals = history.at(None, coming=_AHEAD)
    record_storage(context, history, totals)
    lift_ended_guards(context, history, totals)
    update_auto_shares(context)
    withheld = context.control.places.withheld()
    return _due(totals, sum(row.bytes for row in withheld if row.why is Why.OUTSIDE_TABLES))


def _due(totals: StorageTotals, kept_bytes: int) -> DueBytes:
    """Bytes by due time; `kept_bytes` are those that wait for an operator's decision."""
    by_day: dict[date, int] = {}
    for (_, day), size in totals.holdings.due.items():
        by_day[day] = by_day.get(day, 0) + size
    today = totals.at.date()
    overdue = sum(size for day, size in by_day.items() if day < today)
    next_day = min((day for day in by_day if day >= today), default=None)
    return DueBytes(max(overdue - kept_bytes, 0), next_day, by_day[next_day] if next_day else 0)


def report_purging(
    context: RunContext, request: RunRequest, summary: Summary, due: DueBytes | None
) -> None:
    """Adds the purge status to a run's summary, and replaces the metrics file.

    Args:
        context: The ports.
        request: The options of the run; one that selects tables does not count as a good run.
        summary: The result of this process; earlier steps may have run in others.
        due: The result of `report_storage`.
    """
    before = _stored(context, request.run_id)
    blocked = summary.purge_blocked or before.get("purge_blocked", "")
    is_good = not (request.tables or _has_failed(context, summary, before))
    catching_up = len(_tables_with(summary, before, "catching_up"))
    summary.purging = purge_status(context, Reported(is_good, blocked, due, catching_up))
    if file := context.config.metrics_file:
        try:
            write_metrics(file, summary.purging)
        except StoreRefused as refused:
            summary.notes.append(f"{refused.message} ({refused.found}): {refused.next}")


def _stored(context: RunContext, run_id: str) -> Mapping[str, Any]:
    """Document that earlier steps of the run, in other processes, have stored."""
    with suppress(RunNotFound):
        run = context.control.runs.get(run_id)
        if run.id == run_id and run.summary:
            document: Mapping[str, Any] = json.loads(run.summary)
            return document
    return {}


def _has_failed(context: RunContext, summary: Summary, before: Mapping[str, Any]) -> bool:
    """Whether a table of the run failed, by its summaries or its plans."""
    totals = context.control.runs.plan_totals([summary.run_id])[summary.run_id]
    failed = _tables_with(summary, before, "failed")
    return bool(failed) or any(total.state is PlanState.FAILED for total in totals)


def _tables_with(summary: Summary, before: Mapping[str, Any], key: str) -> set[str]:
    """Tables with a value for a key, in this process or in an earlier step of the run."""
    lines = [*(vars(line) for line in summary.tables.values()), *before.get("tables", ())]
    return {str(line["table"]) for line in lines if line.get(key)}
