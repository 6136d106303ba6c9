"""Large purges that wait for a person's word."""

from collections.abc import Iterator

from meltline.app.purge.approvals import Approvals
from meltline.app.purge.purge_claims import PurgePermits
from meltline.app.safety.findings import Finding
from meltline.domain.units import format_files, format_instant


def approval_findings(approvals: Approvals, permits: PurgePermits) -> Iterator[Finding]:
    """Purges about which a person is asked now, and that nobody has approved."""
    for plan in approvals.awaited():
        if not permits.not_approved(plan):
            continue
        again = f"`meltline gate {plan.id}` where its verdict is over, "
        stale = permits.gate_refusals([plan])
        yield Finding(
            "warning",
            "approval_waiting",
            plan.id,
            f"{format_files(plan.files, plan.bytes)} of {plan.table} wait for a person's "
            f"word since {format_instant(plan.created_at)}",
            f"`meltline approval show {plan.id}`, {again if stale else ''}"
            f"then `meltline apply {plan.id} --approve REASON`",
        )
