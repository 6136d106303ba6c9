"""The locks of plans' groups: one lifecycle change at a time (PX-9)."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import MeltlineError
from meltline.ports import Lock, LockTable

_LEASE = timedelta(minutes=2)


@dataclass(frozen=True)
class PlanLocks:
    """Takes the locks of groups in which tables share files.

    Attributes:
        groups: As they were when the step began.
        actor: Under whose name.
        wait: How long for a lock that another has.
    """

    locks: LockTable
    groups: Groups
    actor: str
    wait: timedelta

    @classmethod
    def of(cls, context: ReadContext) -> "PlanLocks":
        """By the groups as they are now."""
        groups = Groups(context.control.registrations.sharing())
        return cls(context.control.locks, groups, context.who, context.config.limits.lock_wait)

    def take(
        self, plans: Sequence[Plan]
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Each group's lock, or why it cannot be had, by the group's key."""
        holders = {
            self.groups.key(plan.table_uuid): f"{self.actor} run {plan.run_id} plan {plan.id}"
            for plan in reversed(plans)
        }
        return self.locks.take_all(holders, wait=self.wait, lease=_LEASE)
