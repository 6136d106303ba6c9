"""The gate's own look at a plan's snapshots: does somebody still need one of them?

Told from the table's metadata alone: neither the planner nor the rules that it plans by are asked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice, pairwise, takewhile, zip_longest

from meltline.app.gate.plan_bases import staying_heads
from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata
from meltline.domain.retention.policy import CONSUMER_TAG

_KAFKA, _SPARK = "kafka.connect.offsets.", "spark.sql.streaming.queryId"
_Sign = tuple[str, ...]


def promised_since(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Snapshots that answered for an instant from `start` on.

    Args:
        state: The table as it is now.
        refs: The refs that would go.
        start: Where the window begins.
    """
    lines = state.snapshot_log
    # By its lines, and by its times: where clocks differ, engines read the log by these.
    promised = {
        log_entry.snapshot_id
        for log in (lines, sorted(lines, key=lambda each: each.at))
        for log_entry, following in zip_longest(log, log[1:])
        if following is None or following.at >= start
    }
    promised |= {sid for sid, snapshot in state.snapshots.items() if snapshot.committed_at >= start}
    return promised | _replaced_late(state, refs, start)


def _replaced_late(state: TableMetadata, refs: Collection[str], start: datetime) -> set[int]:
    """Snapshots of side branches whose successor came inside the window."""
    return {
        parent.snapshot_id
        for name, head in state.heads.items()
        if name != MAIN and name not in refs
        for child, parent in pairwise(state.ancestry(head))
        if child.committed_at >= start
    }


def newest_of_branches(state: TableMetadata, refs: Collection[str], least: int) -> set[int]:
    """So many of the newest snapshots of each branch that stays."""
    return {
        snapshot.snapshot_id
        for name, head in state.heads.items()
        if name not in refs
        for snapshot in islice(state.ancestry(head), least)
    }


def planned_unread(state: TableMetadata, plan: Plan) -> set[int]:
    """Planned snapshots between a consumer that stays and the head of a branch that stays."""
    consumers = [
        snapshot_id
        for name, snapshot_id in state.tags.items()
        if name.startswith(CONSUMER_TAG) and name not in plan.refs
    ]
    later = _descendants(state, consumers) if consumers else set[int]()
    needed = {
        snapshot.snapshot_id
        for head in staying_heads(plan, state.heads)
        for snapshot in takewhile(lambda met: met.snapshot_id in later, state.ancestry(head))
    }
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


def cut_off(
    state: TableMetadata, planned: Collection[int], refs: Collection[str], since: datetime
) -> set[int]:
    """Planned snapshots that a streaming writer would miss on its way from a head to its mark.

    The engines' walks once more, told from what they meet on the way and not from what is kept.

    Args:
        state: The table as it is now.
        planned: The snapshots that would go.
        refs: The refs that would go: nobody walks from them any more.
        since: Writers whose mark is older are silent.
    """
    missed: set[int] = set()
    for branch, head in state.heads.items():
        line = [] if branch in refs else list(state.ancestry(head))
        if any(snapshot.snapshot_id in planned for snapshot in line):
            missed |= _missed_on(line, planned, since)
    return missed


def _missed_on(line: Iterable[Snapshot], planned: Collection[int], since: datetime) -> set[int]:
    """The same for the writers of one branch, walked from its head on."""
    missed: set[int] = set()
    met: set[_Sign] = set()
    gaps: list[int] = []
    for snapshot in line:
        if snapshot.snapshot_id in planned:
            gaps.append(snapshot.snapshot_id)
        signs = _signs(snapshot)
        if gaps and snapshot.committed_at >= since and not all(_ended(s, met) for s in signs):
            missed.update(gaps)
            gaps.clear()
        met |= signs
    return missed


def _ended(sign: _Sign, met: Collection[_Sign]) -> bool:
    """Whether a writer's walk has ended before: at its own sign, or at one of its whole job."""
    return sign in met or sign[:2] in met


def _signs(snapshot: Snapshot) -> set[_Sign]:
    """What writers stop at: the engine, who it is, and of a Flink job which operator, if told."""
    summary: Mapping[str, str] = dict(snapshot.summary)
    signs: set[_Sign] = {("kafka", key) for key in summary if key.startswith(_KAFKA)}
    if _SPARK in summary:
        signs.add(("spark", summary[_SPARK]))
    if "flink.max-committed-checkpoint-id" in summary and "flink.job-id" in summary:
        parts = [summary[key] for key in ("flink.job-id", "flink.operator-id") if key in summary]
        signs.add(("flink", *parts))
    return signs
