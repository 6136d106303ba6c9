"""The gate step: evidence, expectations, a stored result per plan and digest."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from meltline.app.gate.gate_facts import collect_evidence
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import GateNotPassed, MeltlineError, PlanStale
from meltline.ports import PlanTransition, VerdictLedger

GATEABLE = (PlanState.PLANNED, PlanState.PASSED, PlanState.REFUSED)


def run_gate(services: RunContext, plans: Sequence[Plan]) -> list[tuple[Plan, GateResult]]:
    """Judges plans together, stores each verdict, and moves each plan to passed or refused.

    Whatever goes wrong on the way is a verdict that has not passed.
    """
    if not plans:
        return []
    now = services.clock.now()
    try:
        evidence = collect_evidence(services, plans)
        services.progress(f"gate: judging {len(plans)} plans")
        results = {verdict.plan_id: verdict for verdict in services.gate.judge(evidence, now)}
    except Exception as crash:
        reason = crash.message if isinstance(crash, MeltlineError) else repr(crash)
        results = {}
        failure = f"the gate could not judge: {reason}"
    else:
        failure = "the gate gave no verdict"
    verdicts = [
        results.get(plan.id)
        or GateResult(plan.id, plan.digest, "none", 0, (), now, now, error=failure)
        for plan in plans
    ]
    services.control.verdicts.save(verdicts)
    return list(zip(_transitioned(services, plans, verdicts), verdicts, strict=True))


def _transitioned(
    services: RunContext, plans: Sequence[Plan], verdicts: Sequence[GateResult]
) -> list[Plan]:
    """The plans as their verdicts leave them; one that was begun stays what it is."""
    moves = [
        PlanTransition(
            plan,
            PlanState.PASSED if verdict.passed else PlanState.REFUSED,
            note=reasons(verdict),
        )
        for plan, verdict in zip(plans, verdicts, strict=True)
        if plan.state in GATEABLE
    ]
    by_id: dict[str, Plan] = {}
    for move, answer in zip(moves, services.control.plans.move_all(moves), strict=True):
        if isinstance(answer, PlanStale):
            by_id[move.plan.id] = replace(move.plan, note="another run moved it meanwhile")
        elif isinstance(answer, MeltlineError):
            raise answer
        else:
            by_id[move.plan.id] = answer
    return [by_id.get(plan.id, plan) for plan in plans]


def reasons(verdict: GateResult) -> str:
    """Why a gate refused, in one line, causes only; empty when it passed."""
    after = verdict.consequences
    causes = [failed for failed in verdict.failed if failed not in after]
    words = [f"{f.expectation} (found {f.observed}: {f.object})" for f in causes]
    if after:
        words.append(f"and what follows from that: {', '.join(failed.fact for failed in after)}")
    return "; ".join(words) or verdict.error


def require_passed(verdicts: VerdictLedger, plan: Plan, now: datetime) -> None:
    """Refuses a plan without a fresh, passed result for exactly its digest.

    Raises:
        GateNotPassed: There is none, it refused, is for another digest, or is too old.
    """
    verdict = verdicts.newest([plan.id]).get(plan.id)
    if refused := not_passed(plan, verdict, now):
        raise refused


def not_passed(plan: Plan, verdict: GateResult | None, now: datetime) -> GateNotPassed | None:
    """Why a plan may not be applied on the newest result there is; None where it may."""
    if verdict is None:
        reason = "no gate result"
    elif verdict.approves(plan.digest, now):
        return None
    elif not verdict.passed:
        reason = reasons(verdict)
    elif verdict.digest != plan.digest:
        reason = f"a result for digest {verdict.digest}"
    else:
        reason = f"a result that ended at {verdict.valid_until.isoformat()}"
    return GateNotPassed(
        f"plan {plan.id} for {plan.table} has no passed gate",
        object=plan.id,
        expected=f"a passed, fresh gate for {plan.digest}",
        found=reason,
        next=f"run `meltline gate {plan.id}` and read what failed",
    )
