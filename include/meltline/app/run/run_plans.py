"""Selects the plans that one process works on: all plans of a run, or one batch.

`Run` and the run over chunks ask it in each step. It is apart from them because unfinished plans of
other runs must be assigned to exactly one batch.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from meltline.app.purge.plan_purge import resumable
from meltline.app.services import RunContext
from meltline.domain.deletion.batches import Batch, homes, listed
from meltline.domain.deletion.plan import FIRST_BATCH, Plan, PlanKind, PlanState
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import PlanStale

_OVER = (PlanState.REFUSED, PlanState.STALE)


@dataclass(frozen=True)
class RunPlans:
    """A run's plans of one kind, and unfinished plans of other runs.

    An unfinished plan joins the batch that has its sharing group's plans of this run, otherwise the
    first batch. So exactly one app resumes it, and no two apps of this run wait for the same lock.
    """

    own: Sequence[Plan]
    unfinished: Sequence[Plan]
    groups: Groups

    @classmethod
    def of(cls, context: RunContext, run_id: str, kind: PlanKind) -> "RunPlans":
        """Reads them from the control ledger, which stores each plan's batch."""
        own = [plan for plan in context.control.plans.find(run_id=run_id) if plan.kind is kind]
        unfinished = [
            p for p in resumable(context.control.plans) if p.kind is kind and p.run_id != run_id
        ]
        return cls(own, unfinished, Groups(context.control.registrations.sharing()))

    @classmethod
    def alone(cls, plan: Plan, kind: PlanKind) -> "RunPlans":
        """Selects one stored plan, from any run.

        Raises:
            PlanStale: It is of another kind, or was refused or became stale since.
        """
        if plan.kind is not kind or plan.state in _OVER:
            raise PlanStale(
                f"plan {plan.id} is not there to {kind} any more",
                object=plan.id,
                expected=f"a plan to {kind} that has passed its gate",
                found=f"a plan to {plan.kind}, {plan.state}: {plan.note or 'no reason is known'}",
                next="the next run plans what is left of it anew",
            )
        return cls([plan], [], Groups([]))

    def work(self, states: Collection[PlanState], batch: int = 0) -> list[Plan]:
        """Returns the run's plans in some states, and every plan that is already applying.

        Args:
            states: States of the run's own plans; those that are applying are always included.
            batch: From 1 on; 0 is all of them.
        """
        own = [plan for plan in self.own if plan.state in (PlanState.APPLYING, *states)]
        plans = [*own, *self.unfinished]
        if not batch:
            return plans
        batches = self._batches(plans)
        return [plan for plan in plans if batches[plan.id] == batch]

    def batches(self, planned: Sequence[Plan]) -> list[Batch]:
        """Lists the work by batch: the plans that were just made, and the unfinished ones."""
        plans = list({plan.id: plan for plan in (*planned, *self.work(()))}.values())
        work: dict[int, list[Plan]] = {}
        batches = self._batches(plans)
        for plan in plans:
            work.setdefault(batches[plan.id], []).append(plan)
        return listed(work)

    def _batches(self, plans: Sequence[Plan]) -> dict[str, int]:
        """Maps each plan's id to its batch."""
        placed = homes(self.own, self.groups)
        unfinished_ids = {plan.id for plan in self.unfinished}
        return {
            plan.id: placed.get(self.groups.key(plan.table_uuid), FIRST_BATCH)
            if plan.id in unfinished_ids
            else plan.batch
            for plan in plans
        }
