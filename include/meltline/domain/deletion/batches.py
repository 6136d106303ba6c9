"""Packs a run's plans into batches by size, so that a large fleet needs few apps.

The planning steps call it; Airflow then maps gates and destructive steps over the batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.domain.deletion.plan import FIRST_BATCH, Plan
from meltline.domain.deletion.sharing_groups import Groups

PLAN_WEIGHT = 1000
"""The weight of a plan beside its files, in files: its lock, its commit, its gate facts."""


@dataclass(frozen=True)
class BatchSettings:
    """How plans are packed into batches.

    Attributes:
        most_apps: The maximum number of batches of a run, for each kind of plan.
        files_per_app: The target weight of one batch: its files, and `PLAN_WEIGHT` per plan.
    """

    most_apps: int = 8
    files_per_app: int = 1_000_000


@dataclass(frozen=True)
class Batch:
    """One batch of a run, as the mapped task sees it.

    Attributes:
        number: From 1 to `of`.
        plans: The number of its plans, including those that an earlier run began.
        files: The number of files in these plans.
    """

    number: int
    of: int
    plans: int
    files: int


def in_batches(
    plans: Sequence[Plan], earlier: Sequence[Plan], groups: Groups, settings: BatchSettings
) -> list[Plan]:
    """Assigns a batch to each plan; all plans of a sharing group are in one.

    So two apps never wait for the same lock, and a gate sees everything that a group would lose.
    Plans made on a retry, or to replace a stale plan, go into the batch of their group.

    Args:
        plans: New plans of one run and kind.
        earlier: The stored plans for the same run and kind.
        groups: Which tables share files.
        settings: The target size and the maximum number of batches.
    """
    # By table first: a group may have been two groups when the earlier plans were packed.
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
    """Assigns a batch to each group: the largest first, always to the batch with the least weight.

    The same sizes give the same batches. Starting from empty batches, the fullest gets at most an
    even share plus one group.

    Args:
        sizes: The weight of each group, in files; above zero.
        settings: The target size and the maximum number of batches.
        loads: The current weights of batches.
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
    """Returns each group's batch; groups merged since then get the first of their batches."""
    batches: dict[str, int] = {}
    for plan in plans:
        key = groups.key(plan.table_uuid)
        batches[key] = min(plan.batch, batches.get(key, plan.batch))
    return batches


def listed(work: Mapping[int, Sequence[Plan]]) -> list[Batch]:
    """Lists a run's batches from the first to the last with work; none if there is no work.

    There is no gap: the task at map index 0 is always batch 1, even if the run is planned again.
    """
    of = max((number for number, plans in work.items() if plans), default=0)
    batches = []
    for number in range(FIRST_BATCH, FIRST_BATCH + of):
        plans = work.get(number, ())
        batches.append(Batch(number, of, len(plans), sum(plan.files for plan in plans)))
    return batches


def _weight(plan: Plan) -> int:
    return plan.files + PLAN_WEIGHT
