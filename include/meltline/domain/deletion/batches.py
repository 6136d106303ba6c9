"""Batches: a run's plans packed by size, so that a large fleet is a bounded number of apps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.domain.deletion.plan import FIRST_BATCH, Plan
from meltline.domain.deletion.sharing_groups import Groups

PLAN_WEIGHT = 1000
"""What a plan weighs beside its files, in files: its lock, its commit, its row of evidence."""


@dataclass(frozen=True)
class BatchSettings:
    """How plans are packed.

    Attributes:
        most_apps: Batches that a run has at most, for each kind of plan.
        files_per_app: What one batch should weigh at most: its files, and `PLAN_WEIGHT` per plan.
    """

    most_apps: int = 8
    files_per_app: int = 1_000_000


@dataclass(frozen=True)
class Batch:
    """One batch of a run, as the task knows it that is mapped over it.

    Attributes:
        number: From 1 to `of`.
        plans: How many it has, those that an earlier run began included.
        files: How many files those name.
    """

    number: int
    of: int
    plans: int
    files: int


def in_batches(
    plans: Sequence[Plan], earlier: Sequence[Plan], groups: Groups, settings: BatchSettings
) -> list[Plan]:
    """Gives each plan its batch; all plans of a group are in one.

    So two apps never wait for the same lock, and a gate sees all that a group is about to lose.
    What a retry plans of a group, or in a stale plan's place, goes where the group is already.

    Args:
        plans: New plans of one run and kind.
        earlier: The plans of that run and kind that are stored.
        groups: Which tables share files.
        settings: How large a batch should be, and how many there may be.
    """
    # By table first: a group may have been two when the earlier plans were packed.
    tables, placed = {plan.table_uuid: plan.batch for plan in earlier}, homes(earlier, groups)
    loads: dict[int, int] = {}
    for plan in earlier:
        loads[plan.batch] = loads.get(plan.batch, 0) + _weight(plan)
    sizes: dict[str, int] = {}
    for plan in plans:
        key = groups.key(plan.table_uuid)
        if key not in placed:
            sizes[key] = sizes.get(key, 0) + _weight(plan)
    placed |= pack(sizes, settings, loads)
    return [
        replace(plan, batch=tables.get(plan.table_uuid, placed[groups.key(plan.table_uuid)]))
        for plan in plans
    ]


def pack(
    sizes: Mapping[str, int], settings: BatchSettings, loads: Mapping[int, int]
) -> dict[str, int]:
    """A batch for each group: the largest first, always into the batch that has least to do.

    The same sizes give the same batches. From empty ones, the fullest gets at most an even share
    and one group.

    Args:
        sizes: What each group weighs, in files; more than nothing.
        settings: How large a batch should be, and how many there may be.
        loads: What batches weigh already.
    """
    total = sum(sizes.values()) + sum(loads.values())
    apps = min(settings.most_apps, -(-total // settings.files_per_app))
    held = {number: loads.get(number, 0) for number in range(FIRST_BATCH, FIRST_BATCH + apps)}
    batches = {}
    for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
        batches[key] = min(held, key=lambda number: (held[number], number))
        held[batches[key]] += sizes[key]
    return batches


def homes(plans: Sequence[Plan], groups: Groups) -> dict[str, int]:
    """Each group's batch; groups that were found to be one meanwhile are in the first of theirs."""
    batches: dict[str, int] = {}
    for plan in plans:
        key = groups.key(plan.table_uuid)
        batches[key] = min(plan.batch, batches.get(key, plan.batch))
    return batches


def listed(work: Mapping[int, Sequence[Plan]]) -> list[Batch]:
    """A run's batches from the first to the last that has work; none where there is no work.

    Without a gap: the task at map index 0 is then always batch 1, whenever the run is planned
    again.
    """
    of = max((number for number, plans in work.items() if plans), default=0)
    batches = []
    for number in range(FIRST_BATCH, FIRST_BATCH + of):
        plans = work.get(number, ())
        batches.append(Batch(number, of, len(plans), sum(plan.files for plan in plans)))
    return batches


def _weight(plan: Plan) -> int:
    return plan.files + PLAN_WEIGHT
