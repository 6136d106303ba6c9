"""What consumers have still to read, as a gate finds it out: from where they stand, forwards.

The planner goes back from the heads. Nothing of it is used here.
"""

from collections.abc import Sequence

from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import CONSUMER_TAG


def planned_unread(state: TableMetadata | None, plan: Plan) -> set[int]:
    """Planned snapshots between a consumer that stays and the head of a branch that stays."""
    staying = [r for r in state.refs.values() if r.name not in plan.refs] if state else []
    tags = [r for r in staying if r.name.startswith(CONSUMER_TAG) and not r.is_branch]
    if state is None or not tags:
        return set()
    later = _descendants(state, [tag.snapshot_id for tag in tags])
    needed: set[int] = set()
    for ref in staying:
        at: int | None = ref.snapshot_id if ref.is_branch else None
        while at in later and at not in needed:
            needed.add(at)
            at = state.snapshots[at].parent_id
    return needed & set(plan.snapshots)


def _descendants(state: TableMetadata, of: Sequence[int]) -> set[int]:
    """These snapshots and all that were made on top of them."""
    children: dict[int | None, list[int]] = {}
    for snapshot in state.snapshots.values():
        children.setdefault(snapshot.parent_id, []).append(snapshot.snapshot_id)
    descendants: set[int] = set()
    waiting = list(of)
    while waiting:
        snapshot_id = waiting.pop()
        if snapshot_id not in descendants:
            descendants.add(snapshot_id)
            waiting += children.get(snapshot_id, [])
    return descendants
