"""The gate step: evidence, expectations, a stored result per plan and digest."""

from collections.abc import Sequence
from dataclasses import replace

from meltline.app.evidence import collect_evidence
from meltline.app.services import Services
from meltline.domain.errors import GateNotPassed, MeltlineError, PlanStale
from meltline.domain.gate import GateResult
from meltline.domain.plan import Plan, PlanState

GATEABLE = (PlanState.PLANNED, PlanState.PASSED, PlanState.REFUSED)


def run_gate(services: Services, plans: Sequence[Plan]) -> list[tuple[Plan, GateResult]]:
    """Judges plans together, stores each verdict, and moves each plan to passed or refused.

    Whatever goes wrong on the way is a verdict that has not passed.
    """
    if not plans:
        return []
    now = services.clock.now()
    try:
        evidence = collect_evidence(services, plans)
        services.progress(f"gate: judging {len(plans)} plans")
        results = {result.plan_id: result for result in services.gate.judge(evidence, now)}
    except Exception as crash:
        found = crash.message if isinstance(crash, MeltlineError) else repr(crash)
        results = {}
        failure = f"the gate could not judge: {found}"
    else:
        failure = "the gate gave no verdict"
    judged = []
    for plan in plans:
        result = results.get(plan.id) or GateResult(
            plan.id, plan.digest, "none", 0, (), now, now, error=failure
        )
        judged.append((_record(services, plan, result), result))
    return judged


def _record(services: Services, plan: Plan, result: GateResult) -> Plan:
    services.control.save_gate_result(result)
    if plan.state not in GATEABLE:
        return plan
    to = PlanState.PASSED if result.passed else PlanState.REFUSED
    try:
        return services.control.move_plan(plan, to, note=reasons(result))
    except PlanStale:
        return replace(plan, note="another run moved it meanwhile")


def reasons(result: GateResult) -> str:
    """Why a gate refused, in one line; empty when it passed."""
    failed = [f"{f.expectation} (found {f.observed}: {f.object})" for f in result.failed]
    return "; ".join(failed) or result.error


def require_passed(services: Services, plan: Plan) -> GateResult:
    """The fresh, passed result for exactly this plan's digest.

    Raises:
        GateNotPassed: There is none, it refused, is for another digest, or is too old.
    """
    result = services.control.gate_result(plan.id)
    if result is not None and result.approves(plan.digest, services.clock.now()):
        return result
    if result is None:
        found = "no gate result"
    elif not result.passed:
        found = reasons(result)
    elif result.digest != plan.digest:
        found = f"a result for digest {result.digest}"
    else:
        found = f"a result that ended at {result.valid_until.isoformat()}"
    raise GateNotPassed(
        f"plan {plan.id} for {plan.table} has no passed gate",
        object=plan.id,
        expected=f"a passed, fresh gate for {plan.digest}",
        found=found,
        next=f"run `meltline gate {plan.id}` and read what failed",
    )
