"""Gates a run's plans, and plans again, once, the plans that concurrent changes made stale.

`Run` calls it for its two gate steps. `run/gate_step.py` evaluates and records plans only; this
module decides which of the refused plans are worth another try.
"""

from collections.abc import Sequence
from typing import TypeAlias

from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.gate.gate import reasons
from meltline.app.observe.observe import Observation, observe
from meltline.app.purge.plan_purge import end_overtaken, plan_purge, take_back_referenced
from meltline.app.run.gate_step import run_gate
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.stored_plans import PlannedFiles, end_plan
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState

_Replanned: TypeAlias = tuple[
    Plan, Sequence[PlannedFiles]
]  # the stale plan, and the plans that replace it
_REFERENCED = "planned_referenced"
_OVERTAKEN = (  # gate facts that show a concurrent change since the plan was made
    _REFERENCED,
    "planned_heads",
    "planned_ref_targets",
    "planned_young_refs",
    "planned_held",
    "planned_guarded",
    "planned_leased",
    "planned_unread",
    "planned_in_window",
    "planned_writer_walks",
    "drop_evidence_lost",
    "planned_not_in_metadata",
)


def judge(context: RunContext, plans: Sequence[Plan]) -> list[Plan]:
    """Gates these plans only, each compared with every reference in all catalogs."""
    files, control = context.files, context.control
    overtaken = end_overtaken(files, control, plans)
    judged = run_gate(context, [plan for plan in plans if plan.id not in overtaken])
    # Another run may have begun to purge during the gate, which then found its files missing.
    refused = [plan for plan, _ in judged if plan.state is PlanState.REFUSED]
    overtaken |= end_overtaken(files, control, refused)
    ours = [(plan, verdict) for plan, verdict in judged if plan.id not in overtaken]
    anew = _plan_refused_anew(context, ours)
    ended = list(overtaken.values())
    remaining = [planned for plan, _ in ours for planned in anew.get(plan.id, [plan])]
    return [*ended, *_plan_what_is_left(context, ended), *remaining]


def _plan_what_is_left(context: RunContext, overtaken: Sequence[Plan]) -> list[Plan]:
    """Plans and gates again what other runs leave of purge plans; it is still due."""
    if not overtaken:
        return []
    context.progress(f"gate: planning {len(overtaken)} purges anew, others purge part of them")
    observation = observe(context)
    anew: list[Plan] = []
    for run_id, as_of in sorted({(plan.run_id, plan.as_of) for plan in overtaken}):
        owners = [plan.table_uuid for plan in overtaken if plan.run_id == run_id]
        planned = plan_purge(context, observation, run_id=run_id, as_of=as_of, only=owners)
        anew += [planned_files.plan for planned_files in planned]
    return [plan for plan, _ in run_gate(context, anew)]


def _plan_refused_anew(
    context: RunContext, judged: Sequence[tuple[Plan, GateResult]]
) -> dict[str, list[Plan]]:
    """Plans and gates again, once, the plans that a concurrent change refused; by old plan id.

    A planned snapshot may be gone by now, or may be needed again: then the plan is out of date.
    Or the gate found a planned file where the planner had not read, because the gate reads every
    table: the history is less regular than the planner assumed, so now the planner reads every
    table too.
    """
    refused = [pair for pair in judged if _is_overtaken(*pair)]
    if not refused:
        return {}
    context.progress(f"gate: planning {len(refused)} plans anew, as everything is now")
    observation = observe(context)
    replanned: dict[str, list[Plan]] = {}
    for plan, verdict in refused:
        if plan.table_uuid in observation.blocked:
            continue  # its own verdict already has the reason
        plan_anew = _expire_anew if plan.kind is PlanKind.EXPIRE else _purge_anew
        if anew := plan_anew(context, observation, plan, verdict):
            stale, planned = anew
            gated = run_gate(context, [planned_files.plan for planned_files in planned])
            replanned[plan.id] = [stale, *(plan for plan, _ in gated)]
    return replanned


def _is_overtaken(plan: Plan, verdict: GateResult) -> bool:
    """Whether a plan was refused because of a change by others since it was made."""
    return plan.state is PlanState.REFUSED and any(map(verdict.failed_on, _OVERTAKEN))


def _expire_anew(
    context: RunContext, observation: Observation, plan: Plan, verdict: GateResult
) -> _Replanned | None:
    """Plans an expiration from the current state; None if the plan is unchanged."""
    anew = plan_expiration(
        context,
        observation,
        run_id=plan.run_id,
        as_of=plan.as_of,
        only=[plan.table],
        everywhere=verdict.failed_on(_REFERENCED),
    )
    if [planned.plan.id for planned in anew] == [plan.id]:
        return None
    return end_plan(context.control.plans, plan, reasons(verdict)), anew


def _purge_anew(
    context: RunContext, observation: Observation, plan: Plan, _: GateResult
) -> _Replanned | None:
    """Plans a purge without the files that are referenced again; None if there are none."""
    trail, ledger = AuditTrail.of(context), context.control.plans
    stale = take_back_referenced(context.files, ledger, trail, [plan], observation.dead)
    if not stale:
        return None
    run_id, owners = plan.run_id, [plan.table_uuid]
    anew = plan_purge(context, observation, run_id=run_id, as_of=plan.as_of, only=owners)
    return stale[0], anew
