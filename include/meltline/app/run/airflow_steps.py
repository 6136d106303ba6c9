"""The chain cut into the steps that Airflow runs one by one. State between them is the ledgers'."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.catalog.tables import read_tables
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.ground.preconditions import require_datable
from meltline.app.observe.observe import observe
from meltline.app.orphans.sweep import SweepServices, sweep
from meltline.app.purge.plan_purge import plan_purge
from meltline.app.purge.purge import approve
from meltline.app.run.lifecycle import (
    APPLICABLE,
    expire_step,
    hand_off_step,
    judge_step,
    let_go_step,
    mend_step,
    observe_step,
    plan_purge_step,
    purge_step,
    report_step,
    settle_step,
)
from meltline.app.run.run_plans import RunPlans
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.stored_plans import PlannedFiles
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState


@dataclass(frozen=True)
class StepRequest:
    """A run's request, and what one step of it needs beside.

    Attributes:
        batch: Only the plans of this batch, from 1 on; 0 is all of them.
    """

    run: RunRequest
    kind: PlanKind = PlanKind.EXPIRE
    batch: int = 0


Step = Callable[[SweepServices, StepRequest, Summary], None]


def run_step(name: str, services: SweepServices, request: StepRequest) -> Summary:
    """Runs one step of the chain by name, and says what it did."""
    summary = Summary(request.run.run_id, request.run.as_of, batch=request.batch)
    STEPS[name](services, request, summary)
    return summary


def _plans(
    services: RunContext, request: StepRequest, kind: PlanKind, *states: PlanState
) -> list[Plan]:
    """The plans of the request's batch, and of those begun earlier what belongs to it."""
    return RunPlans.of(services, request.run.run_id, kind).work(states, request.batch)


def _planned(
    services: RunContext,
    run: RunRequest,
    plans: Sequence[PlannedFiles],
    kind: PlanKind,
    summary: Summary,
) -> None:
    """Notes what was planned, and the batches of it; a dry run has none, for nothing follows."""
    new_plans = [planned.plan for planned in plans]
    summary.with_plans(new_plans)
    if not run.dry_run:
        summary.batches = RunPlans.of(services, run.run_id, kind).batches(new_plans)


def _observe(services: RunContext, request: StepRequest, summary: Summary) -> None:
    observe_step(services, request.run, summary)


def _hand_off_to_cold(services: RunContext, request: StepRequest, summary: Summary) -> None:
    run = request.run
    require_datable(services)
    # Most nights and lakes have nothing to hand over: that is known without a Spark job.
    if pending_handoffs(services, read_tables(services), run.as_of, run.tables):
        hand_off_step(services, run, observe(services), summary)
    mend_step(services, run, summary)


def _plan_expiration(services: RunContext, request: StepRequest, summary: Summary) -> None:
    run = request.run
    require_datable(services)
    if not run.dry_run:
        settle_step(services, summary)
    planned = plan_expiration(
        services,
        observe(services),
        run_id=run.run_id,
        as_of=run.as_of,
        tables=run.tables,
        dry_run=run.dry_run,
    )
    _planned(services, run, planned, PlanKind.EXPIRE, summary)


def _gate(services: RunContext, request: StepRequest, summary: Summary) -> None:
    gateable = _plans(services, request, request.kind, PlanState.PLANNED, PlanState.PASSED)
    summary.gated(judge_step(services, gateable))


def _expire(services: RunContext, request: StepRequest, summary: Summary) -> None:
    plans = _plans(services, request, PlanKind.EXPIRE, *APPLICABLE)
    expire_step(services, request.run, plans, summary)


def _plan_purge(services: RunContext, request: StepRequest, summary: Summary) -> None:
    run = request.run
    if run.dry_run:
        planned = plan_purge(
            services,
            observe(services),
            run_id=run.run_id,
            as_of=run.as_of,
            tables=run.tables,
            dry_run=True,
        )
    else:
        planned = plan_purge_step(services, run)
    _planned(services, run, planned, PlanKind.PURGE, summary)


def _purge(services: RunContext, request: StepRequest, summary: Summary) -> None:
    plans = _plans(services, request, PlanKind.PURGE, *APPLICABLE)
    if request.run.approve:
        approve(services, plans, request.run.approve)
    purge_step(services, plans, summary)
    let_go_step(services, request.run)


def _report(services: RunContext, _: StepRequest, __: Summary) -> None:
    report_step(services)


def _sweep(services: SweepServices, request: StepRequest, summary: Summary) -> None:
    sweep(services, request.run, summary)


STEPS: Mapping[str, Step] = {
    "observe": _observe,
    "hand_off_to_cold": _hand_off_to_cold,
    "plan_expiration": _plan_expiration,
    "gate": _gate,
    "expire": _expire,
    "plan_purge": _plan_purge,
    "purge": _purge,
    "report": _report,
    "sweep": _sweep,
}
