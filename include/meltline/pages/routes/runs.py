"""Routes of runs: the list by day, and one run with its gates' findings and skipped tables."""

from fastapi import APIRouter, Request, Response

from meltline.app.run_history.period import Period
from meltline.app.run_history.run_log import RunFilter, find_runs, run_of
from meltline.app.run_request import INSTANT
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.grouping import grouped
from meltline.pages.gate_checks import checks_of, refused_first
from meltline.pages.routes.answers import Ledgers, Limit, document, page
from meltline.pages.storage_picture import RunFacts

router = APIRouter()
_RUNS = 20
_MOST_PLANS = 500


@router.get("/")
def index(request: Request, context: Ledgers, before: str = "") -> Response:
    """Shows the newest runs by the day of their start; with `before`, an instant, older ones."""
    until = INSTANT.read(before, "before") if before else None
    wanted = RunFilter(period=Period(until=until), limit=_RUNS)
    lines = find_runs(context.control, wanted)
    rows = [(line, RunFacts.of(line.run.as_of, line.totals)) for line in lines]
    return page(
        request,
        "runs.html",
        days=grouped(rows, lambda row: row[0].run.started_at.date()),
        older=lines[-1].run.started_at if len(lines) == _RUNS else None,
    )


@router.get("/runs/{run_id:path}")
def run(
    request: Request,
    context: Ledgers,
    run_id: str,
    kind: PlanKind | None = None,
    batch: int = 0,
) -> Response:
    """Shows one run's results, refusals and skipped tables; optionally of one kind or batch."""
    line, plans = run_of(context.control, run_id)
    chosen = [
        judged
        for judged in refused_first(plans)
        if kind in (None, judged.plan.kind) and batch in (0, judged.plan.batch)
    ]
    return page(
        request,
        "run.html",
        line=line,
        facts=RunFacts.of(line.run.as_of, line.totals),
        judged=[(each, checks_of(each.verdict)) for each in chosen[:_MOST_PLANS]],
        unshown=max(0, len(chosen) - _MOST_PLANS),
        kind=kind,
        batch=batch,
    )


@router.get("/api/runs")
def runs_figures(context: Ledgers, limit: Limit = _RUNS) -> Response:
    """Returns the document of `runs --json`."""
    lines = find_runs(context.control, RunFilter(limit=limit))
    return document({"runs": [line.as_json() for line in lines]})


@router.get("/api/runs/{run_id:path}")
def run_figures(context: Ledgers, run_id: str) -> Response:
    """Returns the document of `show run --json`."""
    line, plans = run_of(context.control, run_id)
    return document({**line.as_json(), "plans": [judged.as_json() for judged in plans]})
