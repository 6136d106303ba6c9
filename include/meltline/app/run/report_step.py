"""The report of a run: today's storage, and whether purging works in the whole lake."""

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

_AHEAD = timedelta(days=31)  # how far it is asked what comes due


def report_storage(context: RunContext) -> DueBytes | None:
    """Records today's storage and updates shares.

    Returns:
        What is due by when; None where the catalogs cannot be listed.
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
    """What is due by when; `kept_bytes` are those that only a person's word lets go."""
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
    """Adds to a run's summary whether purging works, and replaces the metrics file.

    Args:
        context: Where the ledgers are.
        request: What the run was asked for: one over some tables is no good run of the lake.
        summary: What this process did; the run's earlier steps may have been others.
        due: What `report_storage` found.
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
    """What earlier steps of the run, in other processes, have left of its document."""
    with suppress(RunNotFound):
        run = context.control.runs.get(run_id)
        if run.id == run_id and run.summary:
            document: Mapping[str, Any] = json.loads(run.summary)
            return document
    return {}


def _has_failed(context: RunContext, summary: Summary, before: Mapping[str, Any]) -> bool:
    """Whether a table of the run failed, by its summaries and by its plans."""
    totals = context.control.runs.plan_totals([summary.run_id])[summary.run_id]
    failed = _tables_with(summary, before, "failed")
    return bool(failed) or any(total.state is PlanState.FAILED for total in totals)


def _tables_with(summary: Summary, before: Mapping[str, Any], key: str) -> set[str]:
    """Tables of which this process or an earlier step of the run says something."""
    lines = [*(vars(line) for line in summary.tables.values()), *before.get("tables", ())]
    return {str(line["table"]) for line in lines if line.get(key)}
