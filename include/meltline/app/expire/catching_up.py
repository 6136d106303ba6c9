"""Shrinks expirations of tables that were never maintained, so that their gate lets them pass.

`plan_expiration` calls it. Only snapshots that were due by the table's last expiration count as a
backlog, and all of them on a first night. So a policy that suddenly expires most of a table is
still refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.catalog.tables import TableRetention
from meltline.app.observe.observe import Observation
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.backlog import Backlog, longest_prefixes
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.ports import FileLedger, PlanReader, SnapshotKey

_MOST_PLANS = 200  # newest ones, searched for a table's last expiration

Planned = Mapping[TableName, int]
"""Bytes that depart by each table's plan."""


@dataclass(frozen=True)
class Portions:
    """The tables whose plans are made smaller.

    Attributes:
        counts: How many of the oldest snapshots of a backlog expire tonight, by table.
        sentences: The note of each table's plan.
    """

    backlogs: Mapping[TableName, Backlog]
    counts: Mapping[TableName, int]
    sentences: Mapping[TableName, str]

    def of(self, retentions: Sequence[TableRetention]) -> list[TableRetention]:
        """Returns the retentions, where each table with a backlog expires only its portion."""
        return smaller(retentions, self.backlogs, self.counts)


def first_portions(
    context: RunContext,
    observation: Observation,
    targets: Sequence[TableRetention],
    plans: Sequence[Plan],
    bytes_of: Callable[[Callable[[Sequence[TableRetention]], list[TableRetention]]], Planned],
) -> Portions:
    """Finds tables whose plans their gate would refuse by size, and how much of them may expire.

    Args:
        context: Where the ledgers are.
        observation: The current observation.
        targets: The tables that were planned.
        plans: Their complete plans.
        bytes_of: Plans with other retentions, and returns the bytes of each plan.
    """
    limit = context.config.limits.max_delete_ratio
    by_name = {plan.table: plan for plan in plans}
    backlogs = {
        target.state.name: backlog
        for target in targets
        if (plan := by_name.get(target.state.name))
        and (backlog := _backlog(context, observation, target, plan, limit))
    }
    if not backlogs:
        return Portions({}, {}, {})
    names = list(backlogs)
    sizes: dict[TableName, dict[int, int]] = {name: {} for name in names}

    def fits(lengths: Sequence[int]) -> list[bool]:
        counts = dict(zip(names, lengths, strict=True))
        size = bytes_of(lambda retentions: smaller(retentions, backlogs, counts))
        for name in names:
            sizes[name][counts[name]] = size.get(name, 0)
        return [size.get(name, 0) <= backlogs[name].most_bytes(limit) for name in names]

    # All of a backlog may fit the share although the whole plan does not: so one more.
    lengths = longest_prefixes([len(backlogs[name].snapshots) + 1 for name in names], fits)
    counts = {name: count for name, count in zip(names, lengths, strict=True) if count}
    return Portions(
        backlogs,
        counts,
        {n: backlogs[n].sentence(c, sizes[n][c], limit) for n, c in counts.items()},
    )


def smaller(
    retentions: Sequence[TableRetention],
    backlogs: Mapping[TableName, Backlog],
    counts: Mapping[TableName, int],
) -> list[TableRetention]:
    """Limits tables with a count to that many of the oldest snapshots of their backlogs."""
    return [
        _portion(target, backlogs[target.state.name].snapshots[: counts[target.state.name]])
        if target.state.name in counts
        else target
        for target in retentions
    ]


def _portion(target: TableRetention, oldest: Sequence[int]) -> TableRetention:
    """Limits a table to these expirations; refs past their age are removed all the same."""
    keeps = target.keeps
    later = set(keeps.expired).difference(oldest)
    return replace(
        target,
        keeps=replace(
            keeps,
            expired=tuple(sorted(oldest)),
            reasons={**keeps.reasons, **dict.fromkeys(later, (KeepReason.CATCHING_UP,))},
        ),
    )


def _backlog(
    context: RunContext,
    observation: Observation,
    target: TableRetention,
    plan: Plan,
    limit: float,
) -> Backlog | None:
    """Returns the backlog of a plan that takes too much at once; None for any other plan."""
    if target.table.drop is not None:
        return None  # its gate passes a complete expiration once its retention is over
    metadata = target.state.metadata_bytes
    if not Backlog((), 0, plan.bytes, metadata + _stated_bytes(target)).is_too_much(limit):
        return None  # most nights no further query is needed
    overdue = _overdue(context.control.plans, target)
    if not overdue:
        return None
    remaining = _remaining(context.files, observation, target, plan)
    remains = metadata + max(_head_bytes(context.files, target), remaining)
    backlog = Backlog(overdue, len(plan.snapshots), plan.bytes, remains)
    return backlog if backlog.is_too_much(limit) else None


def _stated_bytes(target: TableRetention) -> int:
    """Bytes of the files of heads, as stated in their summaries."""
    snapshots = target.state.snapshots
    stated = (
        snapshots[head].summary.get("total-files-size", "")
        for head in target.state.heads.values()
        if head in snapshots
    )
    return max((int(size) for size in stated if size.isdecimal()), default=0)


def _head_bytes(files: FileLedger, target: TableRetention) -> int:
    state = target.state
    heads = [SnapshotKey(state.uuid, head) for head in sorted(set(state.heads.values()))]
    return max((size for _, size in files.snapshots.live_totals(heads).values()), default=0)


def _remaining(
    files: FileLedger, observation: Observation, target: TableRetention, plan: Plan
) -> int:
    """Bytes of files that only this table references, and that the complete plan leaves."""
    own = sorted(key for key in observation.indexed if key.table_uuid == target.state.uuid)
    leaving = {*plan.snapshots, *plan.gone_snapshots}
    going = [key for key in own if key.snapshot_id in leaving]
    every, departing = files.references.departing(own), files.references.departing(going)
    return sum(file.bytes for file in every) - sum(file.bytes for file in departing)


def _overdue(plans: PlanReader, target: TableRetention) -> list[int]:
    """Returns snapshots that were due by the table's last expiration, the oldest first.

    Without such an expiration, all are.
    """
    applied = plans.find(
        table_uuid=target.state.uuid, states=[PlanState.APPLIED], limit=_MOST_PLANS
    )
    last = next((p for p in applied if p.kind is PlanKind.EXPIRE), None)
    ends, snapshots = target.keeps.superseded_at, target.state.snapshots

    def left_at(number: int) -> datetime:
        return ends.get(number) or snapshots[number].committed_at

    expired = sorted(target.keeps.expired, key=lambda number: (left_at(number), number))
    if last is None:
        return expired if len(applied) < _MOST_PLANS else []
    since = last.window_start
    return [number for number in expired if since and left_at(number) < since]
