"""Abandon: a person's word that no ref was lost by a commit of which that cannot be told."""

from meltline.app.safety.audit import audit
from meltline.app.safety.stored_plans import PlanLocks
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.ports import PlanTransition


def abandon(context: ReadContext, plan_id: str, reason: str) -> Plan:
    """Ends an expiration that was begun: what it left is planned anew, and departs then.

    Args:
        context: Where the plan is.
        plan_id: The plan.
        reason: Why no branch or tag of its snapshots can have been lost; it is recorded.

    Raises:
        UsageInvalid: It is no expiration that was begun, or there is no reason.
        LockHeld: A run works on its table: it may find out by itself.
    """
    plan = context.control.plans.get(plan_id)
    if plan.kind is not PlanKind.EXPIRE or plan.state is not PlanState.APPLYING:
        raise _not_open(plan, f"{plan.kind}, {plan.state}")
    if not reason.strip():
        raise _not_open(plan, "no reason")
    plan_locks = PlanLocks.of(context)
    with plan_locks.take([plan]) as held:
        lock = held[plan_locks.groups.key(plan.table_uuid)]
        if isinstance(lock, MeltlineError):
            raise lock
        note = f"abandoned by {context.who}: {reason}"
        (ended,) = context.control.plans.move_all(
            [PlanTransition(plan, PlanState.STALE, note=note)]
        )
        if isinstance(ended, MeltlineError):
            raise ended
        audit(context, "abandon", plan.id, reason, f"an expiration of {plan.table}")
        return ended


def _not_open(plan: Plan, state: str) -> UsageInvalid:
    return UsageInvalid(
        f"plan {plan.id} cannot be abandoned",
        object=plan.id,
        expected="an expiration that was begun, and --reason TEXT",
        found=state,
        next="`meltline doctor` names the plans that were begun and not finished",
    )
