"""Purge: what a passed plan names is deleted, batch by batch.

Before each batch its files are proved unreachable once more, from
whatever the catalogs hold at that moment.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from uuid import uuid4

from meltline.app.expire.expire import altered, stored_files
from meltline.app.gate.gate import not_passed
from meltline.app.ground.audit_log import audit
from meltline.app.ground.epochs import RunEpoch, raise_epoch
from meltline.app.ground.preconditions import require_clock, require_generation, require_go
from meltline.app.ground.tombstones import audit_cancelled, audit_replaced, next_departures
from meltline.app.purge.look_back import LookBack
from meltline.app.purge.purge_batches import (
    BATCH,
    Batch,
    Waves,
    batches_of,
    claim_of,
    in_waves,
)
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.purge.recheck import Reproof
from meltline.app.safety.departed_objects import DepartedObjects
from meltline.app.safety.plan_locks import PlanLocks
from meltline.app.services import ReadContext, RunContext
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import (
    ApprovalMissing,
    MeltlineError,
    PlanStale,
)
from meltline.domain.iceberg.files import Departure, DepartureState
from meltline.domain.units import format_size
from meltline.ports import Approval, Claim, DeleteOutcome, Lock, PlanTransition


@dataclass(frozen=True)
class PurgeResult:
    """What applying a purge plan came to; `error` when it ended early.

    Attributes:
        replaced: Paths under which something else lies than what departed, with the reason. It was
            left alone.
    """

    plan: Plan
    files_purged: int = 0
    bytes_purged: int = 0
    failed: tuple[DeleteOutcome, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    error: MeltlineError | None = None


def apply_purges(services: RunContext, plans: Sequence[Plan]) -> list[PurgeResult]:
    """Deletes plans' files, batch by batch; a second time it does nothing.

    Each plan stands alone: what stops one is in its `error`. What was not deleted waits in
    failsafe for the next run. All that was done is recorded in one append, also when the run
    ends early.
    """
    stored = services.control.plans.current([plan.id for plan in plans])
    plans = [stored[plan.id] for plan in plans]
    work = [plan for plan in plans if plan.state is not PlanState.APPLIED]
    results = {plan.id: PurgeResult(plan) for plan in plans}
    if not work:
        return list(results.values())
    files = stored_files(services, work)
    try:
        require_go(services.control.switch)
        require_clock(services)
        require_generation(services)
        paths = [file.path for plan in work for file in files[plan.id]]
        reproof = Reproof(services, paths)
        # What was cancelled meanwhile, or deleted and recorded before a kill, is not ours to take.
        departed = services.files.departures.in_states(
            frozenset({DepartureState.FAILSAFE}), paths=paths
        )
    except MeltlineError as stop:
        return [replace(results[p.id], error=stop if p in work else None) for p in plans]
    waiting = {departure.path: departure for departure in departed}
    plan_locks = PlanLocks.of(services)
    groups = plan_locks.groups
    ordered = sorted(work, key=lambda p: (groups.key(p.table_uuid), p.id))
    in_hand = [PlanInHand(plan, files[plan.id], groups.key(plan.table_uuid)) for plan in ordered]
    look_back = LookBack(services, reproof)
    with ExitStack() as locks:
        waves = Waves(services, reproof, look_back, DepartedObjects.of(services, waiting))
        purge = _Purge(services, waiting, waves, plan_locks, locks, RunEpoch(services))
        try:
            for wave in in_waves(services, [b for job in in_hand for b in batches_of(job)]):
                purge.delete(wave)
            look_back.look()
        finally:
            _record(services, in_hand, waiting)
        _finish(services, in_hand)
    return list((results | {job.plan.id: _purge_result(job) for job in in_hand}).values())


def _finish(services: RunContext, done: Sequence[PlanInHand]) -> None:
    """Moves plans that nothing stopped to where they have come; the others go on later."""
    whole = [job for job in done if job.is_open]
    _move(services, whole, lambda job: PlanState.FAILED if job.failed else PlanState.APPLIED)


def _move(
    services: RunContext, in_hand: Sequence[PlanInHand], to: Callable[[PlanInHand], PlanState]
) -> None:
    """Moves plans under their locks; one that cannot be moved has its error."""
    moves = [PlanTransition(job.plan, to(job), lock=job.lock) for job in in_hand]
    for job, answer in zip(in_hand, services.control.plans.move_all(moves), strict=True):
        if isinstance(answer, MeltlineError):
            job.error = answer
        else:
            job.plan = answer


def _purge_result(job: PlanInHand) -> PurgeResult:
    return PurgeResult(
        job.plan,
        files_purged=len(job.deleted),
        bytes_purged=sum(file.bytes for file in job.deleted),
        failed=tuple(job.failed),
        replaced=tuple((file.path, why) for file, why in job.replaced.items()),
        error=job.error,
    )


@dataclass
class _Purge:
    """A purge on its way.

    Attributes:
        waiting: The departures that may be purged, by path.
        epoch: Begins before the first file goes.
        held: The locks of groups, or why one could not be had, by key.
    """

    services: RunContext
    waiting: Mapping[str, Departure]
    waves: Waves
    plan_locks: PlanLocks
    locks: ExitStack
    epoch: RunEpoch
    held: dict[str, Lock | MeltlineError] = field(default_factory=dict)

    def delete(self, wave: Sequence[Batch]) -> None:
        """Deletes some batches together; what stops a plan stops its later batches too."""
        new = {batch.of.plan.id: batch.of for batch in wave if batch.of.is_new}
        try:
            self._begin(list(new.values()))
            claimed = self._claim([batch for batch in wave if batch.of.is_open])
        except MeltlineError as stop:
            for batch in wave:
                batch.of.error = batch.of.error or stop
            return
        if claimed:
            self.waves.delete(claimed)

    def _begin(self, new: Sequence[PlanInHand]) -> None:
        """Takes the locks of plans' groups, and moves the plans to applying where they may be."""
        if not new:
            return
        services = self.services
        unlocked = [job.plan for job in new if job.group not in self.held]
        if unlocked:
            self.held |= self.locks.enter_context(self.plan_locks.take(unlocked))
        ids = [job.plan.id for job in new]
        stored, verdicts = (
            services.control.plans.current(ids),
            services.control.verdicts.newest(ids),
        )
        for job in new:
            job.plan = stored[job.plan.id]
            try:
                self._look(job, verdicts.get(job.plan.id))
            except MeltlineError as stop:
                job.error = stop
        begun_states = (PlanState.APPLYING, PlanState.APPLIED)
        fresh = [job for job in new if job.error is None and job.plan.state not in begun_states]
        _move(services, fresh, lambda _: PlanState.APPLYING)

    def _look(self, job: PlanInHand, verdict: GateResult | None) -> None:
        """Raises what stops a plan that is not applied yet."""
        lock = self.held[job.group]
        if isinstance(lock, MeltlineError):
            raise lock
        job.lock, plan = lock, job.plan
        if plan.state is PlanState.APPLIED:
            return  # another run has finished it
        refused = altered(plan, job.files) or not_passed(plan, verdict, self.services.clock.now())
        if refused and plan.state is PlanState.APPLYING:
            raise _abandon(self.services, plan, len(job.files), lock, refused) from refused
        if refused := refused or _not_approved(self.services, plan):
            raise refused

    def _claim(self, batches: Sequence[Batch]) -> list[Batch]:
        """Those that are ours to delete now: claimed in the control ledger."""
        services = self.services
        if not batches:
            return []
        require_go(services.control.switch)
        verdicts = services.control.verdicts.newest([batch.of.plan.id for batch in batches])
        now = services.clock.now()
        for plan, job in {batch.of.plan.id: batch.of for batch in batches}.items():
            refused = not_passed(job.plan, verdicts.get(plan), now)
            job.error = refused or _not_approved(services, job.plan)
        passed = [batch for batch in batches if batch.of.is_open]
        for batch in passed:
            batch.files = [file for file in batch.files if file.path in self.waiting]
        if any(batch.files for batch in passed):
            self.epoch.require()
        claims = [claim_of(batch, [file.path for file in batch.files]) for batch in passed]
        answers = services.control.claims.take(claims)
        for batch, answer in zip(passed, answers, strict=True):
            if isinstance(answer, MeltlineError):
                batch.of.error = answer
            elif not answer:  # an earlier run has deleted it
                batch.of.deleted += batch.files
        return [batch for batch, answer in zip(passed, answers, strict=True) if answer is True]


def _abandon(
    services: RunContext, plan: Plan, files: int, lock: Lock, refused: MeltlineError
) -> PlanStale:
    """A plan that was begun and may not go on: what is left of it is planned anew, and gated."""
    claims = [Claim(plan.id, number, lock) for number in range(-(-files // BATCH))]
    answers = services.control.claims.take(claims)
    ours = [claim for claim, answer in zip(claims, answers, strict=True) if answer is True]
    services.control.claims.drop(ours)
    for stop in answers:
        if isinstance(stop, MeltlineError):
            raise stop
    services.control.plans.move(plan, PlanState.STALE, lock=lock, note=refused.found)
    return PlanStale(
        f"plan {plan.id} was begun and may not go on: {refused.message}",
        object=plan.id,
        expected=refused.expected,
        found=refused.found,
        next="run again: the files it has not deleted are planned anew",
    )


def _not_approved(services: RunContext, plan: Plan) -> ApprovalMissing | None:
    """Why a large plan may not be purged: a person's word is missing. None where it may."""
    limit = services.config.limits.approve_above
    if plan.bytes <= limit:
        return None
    approval = services.control.verdicts.approval(plan.id, plan.digest)
    ttl = services.config.gates.ttl
    now = services.clock.now()
    if approval is not None and approval.at - CLOCK_TOLERANCE <= now < approval.at + ttl:
        return None
    return ApprovalMissing(
        f"plan {plan.id} purges {format_size(plan.bytes)}: a person must approve it",
        object=plan.id,
        expected=f"an approval, or at most {format_size(limit)}",
        found="no approval" if approval is None else "an approval that does not count now",
        next=f"`meltline show plan {plan.id} --items`, then "
        f"`meltline apply {plan.id} --approve REASON`",
    )


def _record(
    services: RunContext, done: Sequence[PlanInHand], before: Mapping[str, Departure]
) -> None:
    """One append for all that was done, also when the run ends early.

    What was deleted counts as deleted, whatever others have said of it since it was `before`.
    """
    now = services.clock.now()
    rows = {
        f"{job.plan.id}-{uuid4()}": [
            *next_departures(job.deleted, DepartureState.DELETED, before, now),
            # What departed is no more. What lies there instead is a file of its own, to be swept.
            *next_departures(job.replaced, DepartureState.DELETED, before, now),
            *next_departures(job.cancelled, DepartureState.CANCELLED, before, now),
        ]
        for job in done
    }
    services.files.departures.record(rows)
    cancelled = [file.path for job in done for file in job.cancelled]
    if cancelled:
        audit_cancelled(services, cancelled, "referred to again")
    audit_replaced(services, {file.path: why for job in done for file, why in job.replaced.items()})


def approve(services: ReadContext, plans: Sequence[Plan], reason: str) -> None:
    """Records a person's word for exactly these digests. Raises as `raise_epoch` does."""
    if not plans:
        return
    raise_epoch(services, "approve")
    now = services.clock.now()
    for plan in plans:
        services.control.verdicts.approve(Approval(plan.id, plan.digest, services.who, reason, now))
        audit(services, "approve", plan.id, reason)
