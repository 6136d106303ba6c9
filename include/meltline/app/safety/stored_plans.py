"""Stores plans: one for each content, however often it is refused (I-7).

Planners and steps call it. If a later run makes a refused plan again with the same content, it is
the same plan: it is evaluated again for that run, and counted. If the table was planned since
without it, the refused plan is closed: its cause is fixed, or another plan replaced it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.app.services import ReadContext, RunContext
from meltline.domain.deletion.batches import in_batches
from meltline.domain.deletion.plan import NOTHING_LEFT, Plan, PlanKind, PlanState, plan_id
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import (
    KnownTable,
    Lock,
    LockTable,
    PlanLedger,
    PlannedItems,
    PlanReader,
    PlanTransition,
)

PREVIEW = "of a dry run: nothing of it is carried out"
"""The note of a plan that is for preview only."""
_Content = tuple[str, str, str, str]


@dataclass(frozen=True)
class PlannedFiles:
    """A plan and its action on each file."""

    plan: Plan
    files: tuple[PlannedFile, ...]


def store_plans(context: RunContext, plans: Sequence[PlannedFiles]) -> list[PlannedFiles]:
    """Stores the items first, then the headers (the crash protocol); a retry finds both.

    The header has the plan's batch in the run, so that a task finds its own plans again.

    Args:
        context: Has the ledgers and the batch limits.
        plans: New plans, all of one run and kind.
    """
    if not plans:
        return []
    ledger, items = context.control.plans, context.files.items
    run = ledger.find(run_id=plans[0].plan.run_id)
    own = {_content(plan): plan for plan in run}
    refused = _refused(ledger, items, {_content(planned.plan) for planned in plans} - own.keys())
    before = {**refused, **own}
    identified = [_as_stored(before, planned.plan) for planned in plans]
    placed = _placed(context, identified, run)
    files = [planned.files for planned in plans]
    items.store(dict(zip((plan.id for plan in identified), files, strict=True)))
    ledger.repeat([plan for plan in placed if _content(plan) in refused])
    return list(map(PlannedFiles, ledger.add(placed), files))


def store_previews(context: RunContext, plans: Sequence[PlannedFiles]) -> list[PlannedFiles]:
    """Stores plans of a dry run for inspection: they are closed from the beginning.

    Their run id differs from their own run's, or a run with that id would apply them.
    """
    previews = [PlannedFiles(_preview(planned.plan), planned.files) for planned in plans]
    if previews:
        context.files.items.store({p.plan.id: p.files for p in previews})
        over = [replace(p.plan, state=PlanState.STALE, note=PREVIEW) for p in previews]
        context.control.plans.add(over)
    return previews


def _preview(plan: Plan) -> Plan:
    run_id = f"{plan.run_id} (dry run)"
    return replace(plan, id=plan_id(run_id, plan.kind, plan.table, plan.digest), run_id=run_id)


def _placed(context: RunContext, plans: Sequence[Plan], run: Sequence[Plan]) -> list[Plan]:
    """Assigns new plans of a run to batches, beside the run's existing ones of their kind."""
    groups = Groups(context.control.registrations.sharing())
    earlier = [plan for plan in run if plan.kind is plans[0].kind]
    return in_batches(plans, earlier, groups, context.config.batches)


def _content(plan: Plan) -> _Content:
    return (plan.kind, str(plan.table), plan.table_uuid, plan.digest)


def _as_stored(before: Mapping[_Content, Plan], plan: Plan) -> Plan:
    return replace(plan, id=before.get(_content(plan), plan).id)


def _refused(
    ledger: PlanReader, items: PlannedItems, contents: Collection[_Content]
) -> Mapping[_Content, Plan]:
    """Returns refused plans of earlier runs with such content, whose stored items are valid."""
    stored = ledger.find(states=[PlanState.REFUSED]) if contents else []
    by_content = {_content(plan): plan for plan in reversed(stored) if _content(plan) in contents}
    files = items.of([plan.id for plan in by_content.values()]) if by_content else {}
    return {
        content: plan
        for content, plan in by_content.items()
        if plan.digest_of(files[plan.id]) == plan.digest
    }


def end_refused(
    ledger: PlanLedger,
    kind: PlanKind,
    planned: Sequence[PlannedFiles],
    is_settled: Callable[[Plan], bool],
) -> None:
    """Closes refused plans of tables that have been planned since, without them.

    Args:
        ledger: Has the plans.
        kind: The kind that was planned.
        planned: All plans of the kind in this run.
        is_settled: Whether a plan's table was planned, or is not registered any more.
    """
    ids: Collection[str] = {planned_files.plan.id for planned_files in planned}
    tables = {planned_files.plan.table_uuid for planned_files in planned}
    moves = [
        PlanTransition(plan, PlanState.STALE, note=_OVER[plan.table_uuid in tables])
        for plan in ledger.find(states=[PlanState.REFUSED])
        if plan.kind is kind and plan.id not in ids and is_settled(plan)
    ]
    ledger.move_all(moves)  # a plan that another run makes again concurrently stays open


def is_over(rows: Sequence[KnownTable], planned: Collection[str]) -> Callable[[Plan], bool]:
    """Builds a test whether a plan's table was planned by a run, or is not registered any more."""
    standing = {row.uuid for row in rows if not row.is_ended}
    return lambda plan: plan.table_uuid in planned or plan.table_uuid not in standing


_OVER = {True: "a later plan took its place", False: NOTHING_LEFT}


def end_plan(ledger: PlanLedger, plan: Plan, note: str) -> Plan:
    """Closes a plan that was not begun; one that another run took over counts as closed."""
    (answer,) = ledger.move_all([PlanTransition(plan, PlanState.STALE, note=note)])
    if isinstance(answer, Plan):
        return answer
    if isinstance(answer, PlanStale):
        return replace(plan, state=PlanState.STALE, note="another run has planned it again")
    raise answer


_LEASE = timedelta(minutes=2)


@dataclass(frozen=True)
class PlanLocks:
    """Takes the locks of sharing groups.

    Attributes:
        groups: The groups at the beginning of the step.
        actor: The holder's name.
        wait: How long to wait for a lock that is taken.
    """

    locks: LockTable
    groups: Groups
    actor: str
    wait: timedelta

    @classmethod
    def of(cls, context: ReadContext) -> "PlanLocks":
        """Builds it with the current groups."""
        groups = Groups(context.control.registrations.sharing())
        return cls(context.control.locks, groups, context.who, context.config.limits.lock_wait)

    def take(
        self, plans: Sequence[Plan]
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Takes each group's lock; returns locks and errors by the group's key."""
        holders = {
            self.groups.key(plan.table_uuid): f"{self.actor} run {plan.run_id} plan {plan.id}"
            for plan in reversed(plans)
        }
        return self.locks.take_all(holders, wait=self.wait, lease=_LEASE)
