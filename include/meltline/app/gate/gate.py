"""The gate: collects evidence, checks expectations, and returns a verdict on each plan.

It has no other effect. Its callers store the verdicts and move the plans (`app.run.gate_step`).
"""

from collections.abc import Sequence
from datetime import datetime

from meltline.app.gate.evidence import collect_evidence
from meltline.app.gate.sources import GateSources
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import GateNotPassed, MeltlineError
from meltline.ports import VerdictReader


def judge(sources: GateSources, plans: Sequence[Plan]) -> list[GateResult]:
    """Returns a verdict on each plan; all are evaluated together.

    Any error on the way is a verdict that has not passed.
    """
    now = sources.clock.now()
    results: dict[str, GateResult] = {}
    failure = "the gate gave no verdict"
    try:
        evidence = collect_evidence(sources, plans)
        sources.progress(f"gate: judging {len(plans)} plans")
        results = {verdict.plan_id: verdict for verdict in sources.engine.judge(evidence, now)}
    except Exception as crash:
        reason = crash.message if isinstance(crash, MeltlineError) else repr(crash)
        failure = f"the gate could not judge: {reason}"
    return [
        results.get(plan.id)
        or GateResult(plan.id, plan.digest, "none", 0, (), now, now, error=failure)
        for plan in plans
    ]


def reasons(verdict: GateResult) -> str:
    """Returns why a gate refused, in one line, causes only; empty if it passed."""
    after = verdict.consequences
    causes = [failed for failed in verdict.failed if failed not in after]
    words = [f"{f.expectation} (found {f.observed}: {f.object})" for f in causes]
    if after:
        words.append(f"and what follows from that: {', '.join(failed.fact for failed in after)}")
    return "; ".join(words) or verdict.error


def require_passed(verdicts: VerdictReader, plan: Plan, now: datetime) -> None:
    """Refuses a plan without a fresh, passed result for exactly its digest.

    Raises:
        GateNotPassed: There is no result, it refused, has another digest, or is too old.
    """
    verdict = verdicts.newest([plan.id]).get(plan.id)
    if refused := not_passed(plan, verdict, now):
        raise refused


def not_passed(plan: Plan, verdict: GateResult | None, now: datetime) -> GateNotPassed | None:
    """Returns why a plan may not be applied on its newest result; None if it may."""
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
