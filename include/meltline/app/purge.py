"""Purge: what a passed plan names is deleted, batch by batch.

Design section 4 steps 7 and 8. Before each batch its files are proved unreachable once more, from
whatever the catalogs hold at that moment.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import uuid4

from meltline.app.departures import audit_cancelled, moved
from meltline.app.expire import group_lock, require_unaltered, stored_files
from meltline.app.gate import require_passed
from meltline.app.permission import require_clock, require_generation, require_go
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

BATCH = 20_000  # never by configuration: a run that goes on must find the batches as they were
_SECONDS_PER_PROOF = 60
_PROOF_LASTS = timedelta(minutes=5)


@dataclass(frozen=True)
class Purged:
    """What applying a purge plan came to; `error` when it ended early."""

    plan: Plan
    files_purged: int = 0
    bytes_purged: int = 0
    failed: tuple[DeleteOutcome, ...] = ()
    error: MeltlineError | None = None


@dataclass
class _Progress:
    deleted: list[PlannedFile] = field(default_factory=list)
    cancelled: list[PlannedFile] = field(default_factory=list)
    failed: list[DeleteOutcome] = field(default_factory=list)


@dataclass(frozen=True)
class _Left:
    """A plan's files, and which paths still wait in failsafe."""

    files: Sequence[PlannedFile]
    waiting: Collection[str]


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
        waiting = {departure.path: departure for departure in departed}
    except MeltlineError as stop:
        return [replace(results[p.id], error=stop if p in work else None) for p in plans]
    done: dict[str, _Progress] = {plan.id: _Progress() for plan in work}
    groups = Groups(services.control.sharing())
    with ExitStack() as locks:
        held: dict[str, Lock] = {}
        finished: list[tuple[Plan, Lock]] = []
        try:
            for plan in sorted(work, key=lambda p: (groups.key(p.table_uuid), p.id)):
                key = groups.key(plan.table_uuid)
                try:
                    if key not in held:
                        held[key] = locks.enter_context(group_lock(services, key, plan))
                    begun = _begin(services, plan, files[plan.id], held[key])
                    if begun is not None:
                        left = _Left(files[plan.id], waiting)
                        _delete_batches(services, begun, left, reproof, held[key], done[plan.id])
                        finished.append((begun, held[key]))
                except MeltlineError as stop:
                    results[plan.id] = Purged(plan, error=stop)
        finally:
            _record(services, done, waiting)
        for plan, lock in finished:
            to = PlanState.FAILED if done[plan.id].failed else PlanState.APPLIED
            results[plan.id] = Purged(services.control.move_plan(plan, to, lock=lock))
    return [_with_counts(results[plan.id], done.get(plan.id, _Progress())) for plan in plans]


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


def _with_counts(purged: Purged, progress: _Progress) -> Purged:
    return replace(
        purged,
        files_purged=len(progress.deleted),
        bytes_purged=sum(file.bytes for file in progress.deleted),
        failed=tuple(progress.failed),
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


def _delete_batches(
    services: Services,
    plan: Plan,
    left: _Left,
    reproof: Reproof,
    lock: Lock,
    progress: _Progress,
) -> None:
    for number, start in enumerate(range(0, len(left.files), BATCH)):
        services.progress(f"purge: {plan.table}: {start} of {len(left.files)} files")
        require_go(services)
        require_passed(services, plan)
        _require_approval(services, plan)
        services.control.check_lock(lock)
        batch = [f for f in left.files[start : start + BATCH] if f.path in left.waiting]
        if not services.control.claim_batch(plan.id, number, [f.path for f in batch], lock):
            progress.deleted += batch
            continue
        before = len(progress.failed)
        try:
            _delete_batch(services, plan, batch, reproof, lock, progress)
        except MeltlineError:
            services.control.drop_claim(plan.id, number, lock)
            raise
        if len(progress.failed) > before:
            services.control.drop_claim(plan.id, number, lock)
        else:
            services.control.finish_batch(plan.id, number, lock)


def _delete_batch(
    services: Services,
    plan: Plan,
    batch: Sequence[PlannedFile],
    reproof: Reproof,
    lock: Lock,
    progress: _Progress,
) -> None:
    """Deletes a batch, at a slow rate in parts: each is sent within minutes of its proof."""
    at_once = max(1, services.config.limits.delete_keys_per_second * _SECONDS_PER_PROOF)
    for start in range(0, len(batch), at_once):
        if start:
            require_go(services)
        part = batch[start : start + at_once]
        _delete_part(services, plan, part, reproof, lock, progress)


def _delete_part(
    services: Services,
    plan: Plan,
    batch: Sequence[PlannedFile],
    reproof: Reproof,
    lock: Lock,
    progress: _Progress,
) -> None:
    needed = reproof.still_needed([file.path for file in batch])
    reproof.require_no_hold(plan.table_uuid)
    proved_at = services.clock.now()
    progress.cancelled += [file for file in batch if file.path in needed]
    free = {file.path: file for file in batch if file.path not in needed}
    services.control.check_lock(lock)
    if services.clock.now() - proved_at > _PROOF_LASTS:
        raise PlanStale(
            f"the proof for a batch of plan {plan.id} is too old",
            object=plan.id,
            expected="deletes within five minutes of their proof",
            found="a pause in between",
            next="run again: the batch is proved anew",
        )
    rate = services.config.limits.delete_keys_per_second
    for outcome in services.deleter.delete(sorted(free), rate):
        if outcome.error:
            progress.failed.append(outcome)
        else:
            progress.deleted.append(free[outcome.path])


def _record(
    services: Services, done: Mapping[str, _Progress], before: Mapping[str, Departure]
) -> None:
    """One append for all that was done, also when the run ends early.

    What was deleted counts as deleted, whatever others have said of it since it was `before`.
    """
    now = services.clock.now()
    rows = {
        f"{plan_id}-{uuid4()}": [
            *moved(progress.deleted, DepartureState.DELETED, before, now),
            *moved(progress.cancelled, DepartureState.CANCELLED, before, now),
        ]
        for plan_id, progress in done.items()
    }
    services.files.record_departures(rows)
    cancelled = [file.path for progress in done.values() for file in progress.cancelled]
    if cancelled:
        audit_cancelled(services, cancelled, "referred to again")


def approve(services: Ledgers, plans: Sequence[Plan], reason: str) -> None:
    """Records a person's word for exactly these digests."""
    now = services.clock.now()
    for plan in plans:
        services.control.save_approval(Approval(plan.id, plan.digest, services.who, reason, now))
        services.control.add_audit(AuditEntry(now, services.who, "approve", plan.id, reason))
