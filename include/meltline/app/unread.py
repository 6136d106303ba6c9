"""What consumers have still to read, as a gate finds it out: from where they stand, forwards.

The planner goes back from the heads. Nothing of it is used here.
"""

from meltline.domain.plan import Plan
from meltline.domain.policy import CONSUMER_TAG
from meltline.domain.table import TableState


def planned_unread(state: TableState | None, plan: Plan) -> set[int]:
    """Planned snapshots between a consumer that stays and the head of a branch that stays."""
    if state is None:
        return set()
    staying = {name: ref for name, ref in state.refs.items() if name not in plan.refs}
    tags = {r.snapshot_id for n, r in staying.items() if n.startswith(CONSUMER_TAG)}
    later = _descendants(state, tags)
    needed: set[int] = set()
    for ref in staying.values():
        at: int | None = ref.snapshot_id if ref.is_branch else None
        while at in later and at not in needed:
            needed.add(at)
            at = state.snapshots[at].parent_id
    return needed & set(plan.snapshots)


def _descendants(state: TableState, of: set[int]) -> set[int]:
    """These snapshots and all that were made on top of them."""
    children: dict[int | None, list[int]] = {}
    for snapshot in state.snapshots.values():
        children.setdefault(snapshot.parent_id, []).append(snapshot.snapshot_id)
    found: set[int] = set()
    waiting = [snapshot_id for snapshot_id in of if snapshot_id in state.snapshots]
    while waiting:
        snapshot_id = waiting.pop()
        if snapshot_id not in found:
            found.add(snapshot_id)
            waiting += children.get(snapshot_id, [])
    return found
