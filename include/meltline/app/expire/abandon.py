"""Operator override that closes an expiration whose commit outcome is unknown.

The CLI calls it. The operator states why the commit removed no branch or tag. It is apart from
`expire.py`, which asks the catalog for the outcome.
"""

from meltline.app.safety.audit import audit
from meltline.app.safety.stored_plans import PlanLocks
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.ports import PlanTransition


def abandon(context: ReadContext, plan_id: str, reason: str) -> Plan:
    """Ends an expiration that was begun: its remaining files are planned again, and depart then.

    Args:
        context: Where the plan is stored.
        plan_id: The plan.
        reason: Why no branch or tag of its snapshots can have been lost; it is recorded.

    Raises:
        UsageInvalid: It is no expiration that was begun, or there is no reason.
        LockHeld: A run works on its table, and may find the outcome.
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
