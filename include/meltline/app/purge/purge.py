"""Purge: deletes the files of passed plans, batch by batch.

Before each batch, its files are proved unreferenced once more, by the state of all catalogs at that
moment. The lifecycle calls it. The plans are made in `plan_purge.py`, which deletes nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from uuid import uuid4

from meltline.app.expire.expire import altered
from meltline.app.ownership.departed_objects import DepartedObjects
from meltline.app.purge.left_objects import left_by_now, note_left
from meltline.app.purge.post_delete_check import LookBack, PurgeIncidents
from meltline.app.purge.purge_batches import (
    BATCH,
    DeleteBatch,
    FilesGone,
    PacedDeleter,
    Waves,
    batches_of,
    in_waves,
    stop_all,
)
from meltline.app.purge.purge_claims import BatchClaims, PurgePermits
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import require_clock, require_generation, require_go
from meltline.app.safety.stored_plans import PlanLocks
from meltline.app.safety.tombstones import (
    audit_cancelled,
    audit_deleted,
    audit_replaced,
    next_departures,
)
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.files import Departure, DepartureState
from meltline.ports import (
    Claim,
    ClaimLedger,
    DeleteOutcome,
    DepartureLog,
    Lock,
    PlanLedger,
    PlanTransition,
)


@dataclass(frozen=True)
class PurgeResult:
    """Result of applying a purge plan; `error` is set if it stopped early.

    Attributes:
        files_gone: How many of the purged files another tool had deleted before.
        replaced: Paths with another object than the departed one, and the reason. That object was
            left alone.
    """

    plan: Plan
    files_purged: int = 0
    bytes_purged: int = 0
    files_gone: int = 0
    failed: tuple[DeleteOutcome, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    error: MeltlineError | None = None

    @property
    def is_left(self) -> bool:
        """Whether it was not begun, and no error prevents it."""
        return self.plan.state is PlanState.PASSED and self.error is None


def apply_purges(
    context: RunContext, plans: Sequence[Plan], is_time: Callable[[], bool] = lambda: True
) -> list[PurgeResult]:
    """Deletes plans' files, batch by batch; a second call does nothing.

    Each plan is independent: an error that stops one is in its `error`. Files that were not deleted
    wait in failsafe for the next run. All results are recorded in one append, also if the run ends
    early.

    Args:
        context: The ports.
        plans: The plans to apply.
        is_time: Called before batches are sent. Once it is false, begun plans continue, and no
            other plan begins.
    """
    stored = context.control.plans.current([plan.id for plan in plans])
    results = {plan.id: PurgeResult(stored[plan.id]) for plan in plans}
    work = [
        result.plan for result in results.values() if result.plan.state is not PlanState.APPLIED
    ]
    if work:
        results |= _purged(context, work, is_time)
    return list(results.values())


def _purged(
    context: RunContext, plans: Sequence[Plan], is_time: Callable[[], bool]
) -> dict[str, PurgeResult]:
    """Purges plans that are not applied yet."""
    departures = context.files.departures
    files = context.files.items.of([plan.id for plan in plans])
    try:
        require_go(context.control.switch)
        require_clock(context)
        listing = context.catalogs[context.config.hot].listing()
        require_generation(context, listing)
        epoch = RunEpoch(context, lambda: listing)
        epoch.require_armed()  # before any plan is begun; each batch asks once more
        paths = [file.path for planned in files.values() for file in planned]
        recheck = PurgeRecheck.of(context, paths)
        # Files that were cancelled meanwhile, or deleted and recorded before a kill, are left out.
        departed = departures.in_states(frozenset({DepartureState.FAILSAFE}), paths=paths)
    except MeltlineError as stop:
        return {plan.id: PurgeResult(plan, error=stop) for plan in plans}
    waiting = {departure.path: departure for departure in departed}
    locks = PlanLocks.of(context)
    jobs = [PlanInHand(plan, files[plan.id], locks.groups.key(plan.table_uuid)) for plan in plans]
    jobs.sort(key=lambda job: (job.group, job.plan.id))
    look_back = LookBack(recheck, PurgeIncidents.of(context))
    with ExitStack() as stack:
        purge = _purge(context, epoch, look_back, waiting, locks, stack)
        batches = chain.from_iterable(map(batches_of, jobs))
        try:
            for wave in in_waves(batches, purge.waves.deleter.at_once):
                purge.delete(wave if is_time() else [b for b in wave if not b.of.is_new])
            look_back.look()
        finally:
            _record(departures, AuditTrail.of(context), context.progress, jobs, waiting)
            if any(job.replaced for job in jobs):
                note_left(context.control, left_by_now(context))
        _finish(context.control.plans, jobs)
    return {job.plan.id: _purge_result(job) for job in jobs}


def _purge(
    context: RunContext,
    epoch: RunEpoch,
    look_back: LookBack,
    waiting: Mapping[str, Departure],
    locks: PlanLocks,
    stack: ExitStack,
) -> "_Purge":
    """Assembles the purge. Only here is the deleter handed out, and only to the waves."""
    control, permits = context.control, PurgePermits.of(context)
    departed = DepartedObjects.of(context, waiting)
    rate = context.config.limits.delete_keys_per_second
    deleter = PacedDeleter(context.deleter, departed, rate)
    return _Purge(
        PlanOpening(control.plans, control.claims, permits, locks, stack),
        BatchClaims(control.claims, permits, control.switch, epoch, waiting),
        Waves(look_back, deleter, control.locks, control.switch, context.clock),
        FilesGone(context.progress, len(waiting)),
    )


def _finish(ledger: PlanLedger, done: Sequence[PlanInHand]) -> None:
    """Moves plans that nothing stopped to their final state; the others continue in a later run."""
    whole = [job for job in done if job.is_open]
    _move(ledger, whole, lambda job: PlanState.FAILED if job.failed else PlanState.APPLIED)


def _move(
    ledger: PlanLedger, in_hand: Sequence[PlanInHand], to: Callable[[PlanInHand], PlanState]
) -> None:
    """Moves plans under their locks; a move that fails becomes the plan's error."""
    moves = [PlanTransition(job.plan, to(job), lock=job.lock) for job in in_hand]
    for job, answer in zip(in_hand, ledger.move_all(moves), strict=True):
        if isinstance(answer, MeltlineError):
            job.error = answer
        else:
            job.plan = answer


def _purge_result(job: PlanInHand) -> PurgeResult:
    return PurgeResult(
        job.plan,
        files_purged=len(job.deleted),
        bytes_purged=sum(file.bytes for file in job.deleted),
        files_gone=len(job.gone),
        failed=tuple(job.failed),
        replaced=tuple((file.path, why) for file, why in job.replaced.items()),
        error=job.error,
    )


@dataclass(frozen=True)
class PlanOpening:
    """Takes the locks of plans' groups, and moves permitted plans to applying.

    Attributes:
        stack: Keeps the locks until the purge is over.
        held: The locks of groups, or why one could not be had, by key.
    """

    plans: PlanLedger
    claims: ClaimLedger
    permits: PurgePermits
    locks: PlanLocks
    stack: ExitStack
    held: dict[str, Lock | MeltlineError] = field(default_factory=dict)

    def open(self, new: Collection[PlanInHand]) -> None:
        """Begins plans; an error that stops one is stored in it."""
        if unlocked := [job.plan for job in new if job.group not in self.held]:
            self.held.update(self.stack.enter_context(self.locks.take(unlocked)))
        stored = self.plans.current([job.plan.id for job in new])
        refusals = self.permits.gate_refusals(list(stored.values()))
        for job in new:
            job.plan = stored[job.plan.id]
            try:
                self._look(job, refusals.get(job.plan.id))
            except MeltlineError as stop:
                job.error = stop
        begun_states = (PlanState.APPLYING, PlanState.APPLIED)
        fresh = [job for job in new if job.error is None and job.plan.state not in begun_states]
        _move(self.plans, fresh, lambda _: PlanState.APPLYING)

    def _look(self, job: PlanInHand, not_passed: MeltlineError | None) -> None:
        """Raises the error that stops a plan which is not applied yet."""
        lock = self.held[job.group]
        if isinstance(lock, MeltlineError):
            raise lock
        job.lock, plan = lock, job.plan
        job.is_resumed = plan.state is PlanState.APPLYING
        if plan.state is PlanState.APPLIED:
            return  # another run has finished it
        refused = altered(plan, job.files) or not_passed
        if refused and plan.state is PlanState.APPLYING:
            raise self._abandoned(plan, len(job.files), lock, refused) from refused
        if refused := refused or self.permits.not_approved(plan):
            raise refused

    def _abandoned(self, plan: Plan, files: int, lock: Lock, refused: MeltlineError) -> PlanStale:
        """Ends a begun plan that may not continue: the files left are planned and gated again."""
        claims = [Claim(plan.id, number, lock) for number in range(-(-files // BATCH))]
        answers = self.claims.take(claims)
        ours = [claim for claim, answer in zip(claims, answers, strict=True) if answer is True]
        self.claims.drop(ours)
        for stop in answers:
            if isinstance(stop, MeltlineError):
                raise stop
        self.plans.move(plan, PlanState.STALE, lock=lock, note=refused.found)
        return PlanStale(
            f"plan {plan.id} was begun and may not go on: {refused.message}",
            object=plan.id,
            expected=refused.expected,
            found=refused.found,
            next="run again: the files it has not deleted are planned anew",
        )


@dataclass(frozen=True)
class _Purge:
    """A purge in progress."""

    opening: PlanOpening
    claims: BatchClaims
    waves: Waves
    files_gone: FilesGone

    def delete(self, wave: Sequence[DeleteBatch]) -> None:
        """Deletes some batches together; an error that stops a plan stops its later batches too."""
        try:
            if new := dict.fromkeys(batch.of for batch in wave if batch.of.is_new):
                self.opening.open(new)
            claimed = self.claims.take([batch for batch in wave if batch.of.is_open])
        except MeltlineError as stop:
            stop_all(wave, stop)
            return
        if claimed:
            self.files_gone.next(claimed)
            self.claims.settle(self.waves.delete(claimed), claimed)


def _record(
    departures: DepartureLog,
    trail: AuditTrail,
    progress: Callable[[str], None],
    done: Sequence[PlanInHand],
    before: Mapping[str, Departure],
) -> None:
    """Records all results in one append, also if the run ends early.

    A deleted file counts as deleted, whatever other processes have recorded about it since
    `before`.
    """
    now = trail.clock.now()
    rows = {
        f"{job.plan.id}-{uuid4()}": [
            *next_departures(job.deleted, DepartureState.DELETED, before, now),
            # It waits until that object is gone, or a sweep takes it as a file of its own.
            *next_departures(job.replaced, DepartureState.FAILSAFE, before, now),
            *next_departures(job.cancelled, DepartureState.CANCELLED, before, now),
        ]
        for job in done
    }
    departures.record(rows)
    audit_deleted(trail, [(job.plan, job.deleted) for job in done if job.deleted])
    cancelled = [file.path for job in done for file in job.cancelled]
    if cancelled:
        audit_cancelled(trail, cancelled, "referred to again")
    replaced = {file.path: why for job in done for file, why in job.replaced.items()}
    audit_replaced(trail, progress, replaced)
