"""Purge: what a passed plan names is deleted, batch by batch.

Design section 4 steps 7 and 8. Before each batch its files are proved unreachable once more, from
whatever the catalogs hold at that moment.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from uuid import uuid4

from meltline.app.departures import audit_cancelled, moved
from meltline.app.expire import group_lock, require_unaltered, stored_files
from meltline.app.gate import require_passed
from meltline.app.permission import require_clock, require_generation, require_go
from meltline.app.purge_batches import BATCH, Batch, PlanInHand, Waves, batches_of, in_waves
from meltline.app.reproof import Reproof
from meltline.app.services import Ledgers, Services
from meltline.domain.errors import (
    ApprovalMissing,
    GateNotPassed,
    MeltlineError,
    PlanAltered,
    PlanStale,
)
from meltline.domain.files import Departure, DepartureState, PlannedFile
from meltline.domain.groups import Groups
from meltline.domain.plan import Plan, PlanState
from meltline.domain.quantities import format_size
from meltline.ports import Approval, AuditEntry, DeleteOutcome, Lock


@dataclass(frozen=True)
class Purged:
    """What applying a purge plan came to; `error` when it ended early."""

    plan: Plan
    files_purged: int = 0
    bytes_purged: int = 0
    failed: tuple[DeleteOutcome, ...] = ()
    error: MeltlineError | None = None


def apply_purges(services: Services, plans: Sequence[Plan]) -> list[Purged]:
    """Deletes plans' files, batch by batch; a second time it does nothing.

    Each plan stands alone: what stops one is in its `error`. What was not deleted waits in
    failsafe for the next run. All that was done is recorded in one append, also when the run
    ends early.
    """
    plans = [services.control.plan(plan.id) for plan in plans]
    work = [plan for plan in plans if plan.state is not PlanState.APPLIED]
    results = {plan.id: Purged(plan) for plan in plans}
    if not work:
        return list(results.values())
    files = stored_files(services, work)
    try:
        require_go(services)
        require_clock(services)
        require_generation(services)
        paths = [file.path for plan in work for file in files[plan.id]]
        reproof = Reproof(services, paths)
        # What was cancelled meanwhile, or deleted and recorded before a kill, is not ours to take.
        departed = services.files.departures(frozenset({DepartureState.FAILSAFE}), paths=paths)
    except MeltlineError as stop:
        return [replace(results[p.id], error=stop if p in work else None) for p in plans]
    waiting = {departure.path: departure for departure in departed}
    groups = Groups(services.control.sharing())
    ordered = sorted(work, key=lambda p: (groups.key(p.table_uuid), p.id))
    in_hand = [PlanInHand(plan, files[plan.id], groups.key(plan.table_uuid)) for plan in ordered]
    with ExitStack() as locks:
        purge = _Purge(services, waiting, Waves(services, reproof), locks)
        try:
            for wave in in_waves(services, [b for one in in_hand for b in batches_of(one)]):
                purge.delete(wave)
        finally:
            _record(services, in_hand, waiting)
        results |= {one.plan.id: _result(services, one) for one in in_hand}
    return list(results.values())


def _result(services: Services, one: PlanInHand) -> Purged:
    plan = one.plan
    if one.error is None and one.lock is not None and one.begun is not None:
        to = PlanState.FAILED if one.failed else PlanState.APPLIED
        plan = services.control.move_plan(one.begun, to, lock=one.lock)
    return Purged(
        plan,
        files_purged=len(one.deleted),
        bytes_purged=sum(file.bytes for file in one.deleted),
        failed=tuple(one.failed),
        error=one.error,
    )


@dataclass
class _Purge:
    """A purge on its way.

    Attributes:
        waiting: The departures that may be purged, by path.
        held: The locks of groups, by key.
    """

    services: Services
    waiting: Mapping[str, Departure]
    waves: Waves
    locks: ExitStack
    held: dict[str, Lock] = field(default_factory=dict)

    def delete(self, wave: Sequence[Batch]) -> None:
        """Deletes some batches together; what stops a plan stops its later batches too."""
        claimed = []
        for batch in wave:
            try:
                if batch.of.error is None and self._claim(batch):
                    claimed.append(batch)
            except MeltlineError as stop:
                batch.of.error = stop
        if claimed:
            self.waves.delete(claimed)

    def _claim(self, batch: Batch) -> bool:
        """Whether a batch is ours to delete now: claimed in the control ledger."""
        services, one = self.services, batch.of
        if one.lock is None:
            if one.group not in self.held:
                lock = group_lock(services, one.group, one.plan)
                self.held[one.group] = self.locks.enter_context(lock)
            one.lock = self.held[one.group]
            one.begun = _begin(services, one.plan, one.files, one.lock)
        if one.begun is None:
            return False  # another run has finished it
        require_go(services)
        require_passed(services, one.begun)
        _require_approval(services, one.begun)
        services.control.check_lock(one.lock)
        batch.files = [file for file in batch.files if file.path in self.waiting]
        paths = [file.path for file in batch.files]
        if services.control.claim_batch(one.plan.id, batch.number, paths, one.lock):
            return True
        one.deleted += batch.files
        return False


def _begin(services: Services, plan: Plan, files: Sequence[PlannedFile], lock: Lock) -> Plan | None:
    """Moves a plan to applying, if it may be; None when another run has finished it."""
    plan = services.control.plan(plan.id)
    if plan.state is PlanState.APPLIED:
        return None
    try:
        require_unaltered(plan, files)
        require_passed(services, plan)
    except (PlanAltered, GateNotPassed) as refused:
        if plan.state is PlanState.APPLYING:
            raise _abandon(services, plan, len(files), lock, refused) from refused
        raise
    _require_approval(services, plan)
    if plan.state is PlanState.APPLYING:
        return plan
    return services.control.move_plan(plan, PlanState.APPLYING, lock=lock)


def _abandon(
    services: Services, plan: Plan, files: int, lock: Lock, refused: MeltlineError
) -> PlanStale:
    """A plan that was begun and may not go on: what is left of it is planned anew, and gated."""
    for number in range(-(-files // BATCH)):
        if services.control.claim_batch(plan.id, number, (), lock):
            services.control.drop_claim(plan.id, number, lock)
    services.control.move_plan(plan, PlanState.STALE, lock=lock, note=refused.found)
    return PlanStale(
        f"plan {plan.id} was begun and may not go on: {refused.message}",
        object=plan.id,
        expected=refused.expected,
        found=refused.found,
        next="run again: the files it has not deleted are planned anew",
    )


def _require_approval(services: Services, plan: Plan) -> None:
    limit = services.config.limits.approve_above
    if plan.bytes <= limit:
        return
    approval = services.control.approval(plan.id, plan.digest)
    ttl = services.config.gates.ttl
    if approval is None or services.clock.now() >= approval.at + ttl:
        raise ApprovalMissing(
            f"plan {plan.id} purges {format_size(plan.bytes)}: a person must approve it",
            object=plan.id,
            expected=f"an approval, or at most {format_size(limit)}",
            found="no approval" if approval is None else "an approval that has ended",
            next=f"`meltline show plan {plan.id} --items`, then "
            f"`meltline apply {plan.id} --approve REASON`",
        )


def _record(
    services: Services, done: Sequence[PlanInHand], before: Mapping[str, Departure]
) -> None:
    """One append for all that was done, also when the run ends early.

    What was deleted counts as deleted, whatever others have said of it since it was `before`.
    """
    now = services.clock.now()
    rows = {
        f"{one.plan.id}-{uuid4()}": [
            *moved(one.deleted, DepartureState.DELETED, before, now),
            *moved(one.cancelled, DepartureState.CANCELLED, before, now),
        ]
        for one in done
    }
    services.files.record_departures(rows)
    cancelled = [file.path for one in done for file in one.cancelled]
    if cancelled:
        audit_cancelled(services, cancelled, "referred to again")


def approve(services: Ledgers, plans: Sequence[Plan], reason: str) -> None:
    """Records a person's word for exactly these digests."""
    now = services.clock.now()
    for plan in plans:
        services.control.save_approval(Approval(plan.id, plan.digest, services.who, reason, now))
        services.control.add_audit(AuditEntry(now, services.who, "approve", plan.id, reason))
