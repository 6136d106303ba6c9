"""Large purges that wait for a person's word."""

from collections.abc import Iterator

from meltline.app.ground.findings import Finding
from meltline.app.purge.purge_claims import PurgePermits
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.units import format_instant, format_size
from meltline.ports import PlanReader

_LOOKED_AT = 20  # plans of one table, of which every other one is an expiration


def approval_findings(plans: PlanReader, permits: PurgePermits) -> Iterator[Finding]:
    """Purges that have passed their gate and are larger than may go without a person's word."""
    for plan in plans.find(states=[PlanState.PASSED]):
        if plan.kind is not PlanKind.PURGE or not permits.not_approved(plan):
            continue
        if _newest_purge(plans, plan) != plan.id:
            continue  # a later run has planned it anew
        again = f"`meltline gate {plan.id}` where its verdict is over, "
        stale = permits.gate_refusals([plan])
        yield Finding(
            "warning",
            "approval_waiting",
            plan.id,
            f"{plan.files} files, {format_size(plan.bytes)} of {plan.table} wait for a person's "
            f"word since {format_instant(plan.created_at)}",
            f"`meltline show plan {plan.id} --items`, {again if stale else ''}"
            f"then `meltline apply {plan.id} --approve REASON`",
        )


def _newest_purge(plans: PlanReader, plan: Plan) -> str:
    plans_of_table = plans.find(table_uuid=plan.table_uuid, limit=_LOOKED_AT)
    return next((other.id for other in plans_of_table if other.kind is PlanKind.PURGE), plan.id)
