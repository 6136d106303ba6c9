"""Whether a plan may still be carried out on a table that has moved since it was planned."""

from collections.abc import Collection

from meltline.domain.plan import Plan
from meltline.domain.table import MAIN, TableState


def still_valid(plan: Plan, state: TableState, leased: Collection[int]) -> str:
    """Checks the planned ids alone against the newest metadata (design section 4 step 5).

    Returns:
        Why not; empty when none of the planned snapshots is reached by a ref that stays, or
        leased, each is still out of its window, and every head is, or descends from, the head it
        was when the plan was made.
    """
    planned = set(plan.snapshots)
    for ref in state.refs.values():
        if ref.name not in plan.refs and ref.snapshot_id in planned:
            return f"{ref.name} refers to planned snapshot {ref.snapshot_id} now"
    if planned & set(leased):
        return f"snapshot {min(planned & set(leased))} is leased now"
    for name, head in plan.heads.items():
        now = state.refs.get(name)
        if name in plan.refs:
            if now is not None and now.snapshot_id != head:
                return f"{name} has moved although its age was up"
            continue
        if now is None or not state.descends_from(now.snapshot_id, head):
            return f"{name} no longer descends from {head}"
    for name in plan.refs:
        leaving = state.refs.get(name)
        if name == MAIN or leaving is None:
            return f"ref {name} cannot go"
        limit = _age_limit(state, leaving.max_ref_age_ms)
        age = plan.as_of - state.snapshots[leaving.snapshot_id].committed_at
        if limit is None or age.total_seconds() * 1000 <= limit:
            return f"ref {name} is not past its age any more"
    return _window_problem(plan, state, planned)


def _age_limit(state: TableState, own: int | None) -> int | None:
    raw = state.properties.get("history.expire.max-ref-age-ms", "")
    if own is not None:
        return own
    return int(raw) if raw.isdecimal() else None


def _window_problem(plan: Plan, state: TableState, planned: set[int]) -> str:
    if planned and plan.window_start is None:
        return "the retention is infinite"
    log = state.snapshot_log
    for position, entry in enumerate(log):
        if entry.snapshot_id not in planned:
            continue
        end = log[position + 1].at if position + 1 < len(log) else None
        if end is None or (plan.window_start is not None and end >= plan.window_start):
            return f"snapshot {entry.snapshot_id} answers for a time inside the window"
    return ""
