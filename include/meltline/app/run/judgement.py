"""The gate of a run: plans are judged, and what others have overtaken meanwhile is planned anew."""

from collections.abc import Sequence

from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.gate.gate import reasons
from meltline.app.observe.observe import observe
from meltline.app.purge.plan_purge import end_overtaken, plan_purge, take_back_referenced
from meltline.app.run.gate_step import run_gate
from meltline.app.safety.stored_plans import end_plan
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState

_REFERENCED = "planned_referenced"
_OVERTAKEN = (  # facts by which a gate tells that others have acted since the plan was made
    _REFERENCED,
    "planned_heads",
    "planned_ref_targets",
    "planned_young_refs",
    "planned_held",
    "planned_leased",
    "planned_unread",
    "planned_in_window",
    "planned_writer_walks",
    "planned_not_in_metadata",
)


def judge(services: RunContext, plans: Sequence[Plan]) -> list[Plan]:
    """Gates just these plans, each against everything there is."""
    overtaken = end_overtaken(services, plans)
    ended = {plan.id for plan in overtaken}
    judged = run_gate(services, [plan for plan in plans if plan.id not in ended])
    # Another run may have begun to purge while we judged; then its files were found missing here.
    refused = [plan for plan, _ in judged if plan.state is PlanState.REFUSED]
    overtaken += end_overtaken(services, refused)
    ended = {plan.id for plan in overtaken}
    anew = _plan_refused_anew(services, [pair for pair in judged if pair[0].id not in ended])
    remaining = [p for plan, _ in judged if plan.id not in ended for p in anew.get(plan.id, [plan])]
    return [*overtaken, *_plan_what_is_left(services, overtaken), *remaining]


def _plan_what_is_left(services: RunContext, overtaken: Sequence[Plan]) -> list[Plan]:
    """Plans and gates anew what other runs leave of purge plans: it is due today as it was."""
    if not overtaken:
        return []
    services.progress(f"gate: planning {len(overtaken)} purges anew, others purge part of them")
    observation = observe(services)
    anew: list[Plan] = []
    for run_id, as_of in sorted({(plan.run_id, plan.as_of) for plan in overtaken}):
        owners = [plan.table_uuid for plan in overtaken if plan.run_id == run_id]
        planned = plan_purge(services, observation, run_id=run_id, as_of=as_of, only=owners)
        anew += [planned_files.plan for planned_files in planned]
    return [plan for plan, _ in run_gate(services, anew)]


def _plan_refused_anew(
    services: RunContext, judged: Sequence[tuple[Plan, GateResult]]
) -> dict[str, list[Plan]]:
    """Plans and gates anew, once, what was refused for what others did; by the old plan's id.

    A planned snapshot may be gone by now, or somebody may need it: then the plan is out of date.
    Or the gate found a planned file where the planner had not looked, for the gate looks
    everywhere: the history is stranger than it looked, and the planner looks everywhere too.
    """
    refused = [(plan, verdict) for plan, verdict in judged if plan.state is PlanState.REFUSED]
    refused = [pair for pair in refused if any(map(pair[1].failed_on, _OVERTAKEN))]
    if not refused:
        return {}
    services.progress(f"gate: planning {len(refused)} plans anew, as everything is now")
    observation = observe(services)
    replanned: dict[str, list[Plan]] = {}
    for plan, verdict in refused:
        if plan.table_uuid in observation.blocked:
            continue  # its own verdict says why
        if plan.kind is PlanKind.EXPIRE:
            anew = plan_expiration(
                services,
                observation,
                run_id=plan.run_id,
                as_of=plan.as_of,
                only=[plan.table],
                everywhere=verdict.failed_on(_REFERENCED),
            )
            if [planned.plan.id for planned in anew] == [plan.id]:
                continue
            stale = end_plan(services.control.plans, plan, reasons(verdict))
        elif transitioned := take_back_referenced(services, [plan], observation.dead):
            stale = transitioned[0]
            anew = plan_purge(
                services,
                observation,
                run_id=plan.run_id,
                as_of=plan.as_of,
                only=[plan.table_uuid],
            )
        else:
            continue
        replanned[plan.id] = [stale, *(p for p, _ in run_gate(services, [a.plan for a in anew]))]
    return replanned
