"""Checks whether a plan still applies to a table that has changed since it was planned.

The expiration calls it before its commit.
"""

from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.retained_snapshots import KeepRequest, keep_set


def still_valid(plan: Plan, request: KeepRequest) -> str:
    """Checks the planned ids alone against the newest metadata (docs/decisions/026).

    Args:
        plan: The plan.
        request: The inputs of the retained snapshots, read again: the newest metadata, today's
            policies, leases, holds and observations, and the plan's own `as_of`.

    Returns:
        Why it no longer applies. Empty if each planned snapshot and ref still exists without a
            reason to be kept, and every head is, or descends from, the head at planning.
    """
    state, keeps = request.state, keep_set(request)
    for snapshot_id in plan.snapshots:
        if snapshot_id not in state.snapshots:
            return f"planned snapshot {snapshot_id} is gone"
        if reasons := keeps.reasons.get(snapshot_id):
            return f"planned snapshot {snapshot_id} is kept now: {', '.join(reasons)}"
    for name in plan.refs:
        if name not in keeps.expired_refs:
            return f"ref {name} is not past its age any more"
    return _moved_head(plan, state)


def _moved_head(plan: Plan, state: TableMetadata) -> str:
    for name, head in plan.heads.items():
        now = state.refs.get(name)
        if name in plan.refs:
            if now is not None and now.snapshot_id != head:
                return f"{name} has moved although its age was up"
        elif now is None or not state.descends_from(now.snapshot_id, head):
            return f"{name} no longer descends from {head}"
    return ""
