"""Plan purge and purge: what waited long enough, and that nothing refers to, is deleted.

Design section 4 steps 6 to 8. Before each batch its files are proved unreachable once more, from
whatever the catalogs hold at that moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

from meltline.app.expire import group_lock, require_unaltered, stored_files
from meltline.app.gate import require_passed
from meltline.app.observe import Observation
from meltline.app.permission import require_clock, require_generation, require_go
from meltline.app.plan_expiration import Planned, store_plans
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
from meltline.domain.names import selected
from meltline.domain.plan import Plan, PlanKind, PlanState, plan_digest, plan_id
from meltline.domain.quantities import format_size
from meltline.domain.table import TableState
from meltline.ports import Approval, AuditEntry, DeleteOutcome, Lock

BATCH = 1000
_PROOF_LASTS = timedelta(minutes=5)


def plan_purge(
    services: Services,
    observation: Observation,
    *,
    run_id: str,
    as_of: datetime,
    tables: tuple[str, ...] = (),
    dry_run: bool = False,
) -> list[Planned]:
    """Departures past `due_at` that nothing refers to today, one plan per owner table.

    What is referred to again is cancelled, with an audit row: it is an incident, not a deletion.
    """
    if observation.purge_blocked:
        services.progress(f"plan purge: nothing anywhere: {observation.purge_blocked}")
        return []
    # A preview of a day to come asks what will be due by then.
    now = max(services.clock.now(), as_of) if dry_run else services.clock.now()
    due = services.files.departures(frozenset({DepartureState.FAILSAFE}), due_by=now)
    held = services.files.referenced_now([d.path for d in due], observation.dead)
    if held and not dry_run:
        _cancel(services, [d for d in due if d.path in held], "it is referred to again")
    taken = services.control.claimed_paths().keys() | _open_purges(services)
    by_owner: dict[str, list[Departure]] = {}
    for departure in due:
        if departure.path not in held and departure.path not in taken:
            by_owner.setdefault(departure.owner, []).append(departure)
    states = {t.state.uuid: t for t in observation.tables}
    plans = []
    for owner, departures in sorted(by_owner.items()):
        table = states.get(owner)
        if owner in observation.blocked or table is None or not table.managed:
            continue
        if not selected(table.state.name, tables):
            continue
        plans.append(_plan(services, table.state, departures, run_id, as_of))
    return plans if dry_run else store_plans(services, plans)


def _open_purges(services: Services) -> set[str]:
    """Files of purges that were begun and not finished: those are resumed, not planned again."""
    plans = [plan.id for plan in resumable(services) if plan.kind is PlanKind.PURGE]
    return {file.path for files in services.files.items(plans).values() for file in files}


def _plan(
    services: Services,
    state: TableState,
    departures: Sequence[Departure],
    run_id: str,
    as_of: datetime,
) -> Planned:
    table, owner, base = state.name, state.uuid, state.metadata_location
    files = tuple(
        PlannedFile(d.path, d.kind, d.bytes, d.owner, d.due_at)
        for d in sorted(departures, key=lambda d: d.path)
    )
    digest = plan_digest(owner, (), (), files)
    plan = Plan(
        id=plan_id(run_id, PlanKind.PURGE, table, digest),
        run_id=run_id,
        kind=PlanKind.PURGE,
        table=table,
        table_uuid=owner,
        digest=digest,
        as_of=as_of,
        created_at=services.clock.now(),
        base_location=base,
        files=len(files),
        bytes=sum(file.bytes for file in files),
    )
    return Planned(plan, files)


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
        reproof = Reproof(services, [file.path for plan in work for file in files[plan.id]])
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
                        _delete_batches(services, begun, files[plan.id], reproof, held[key],
                                        done[plan.id])  # fmt: skip
                        finished.append((begun, held[key]))
                except MeltlineError as stop:
                    results[plan.id] = Purged(plan, error=stop)
        finally:
            _record(services, done)
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
    files: Sequence[PlannedFile],
    reproof: Reproof,
    lock: Lock,
    progress: _Progress,
) -> None:
    waiting = {
        d.path: d
        for d in services.files.departures(
            frozenset({DepartureState.FAILSAFE}), paths=[file.path for file in files]
        )
    }
    for number, start in enumerate(range(0, len(files), BATCH)):
        batch = files[start : start + BATCH]
        services.progress(f"purge: {plan.table}: {start} of {len(files)} files")
        require_go(services)
        require_passed(services, plan)
        _require_approval(services, plan)
        services.control.check_lock(lock)
        # What was cancelled meanwhile, or deleted and recorded before a kill, is not ours to take.
        batch = [file for file in batch if file.path in waiting]
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
    needed = reproof.still_needed([file.path for file in batch])
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


def _record(services: Services, done: Mapping[str, _Progress]) -> None:
    """One append for all that was done, also when the run ends early."""
    now = services.clock.now()
    touched = [f for progress in done.values() for f in (*progress.deleted, *progress.cancelled)]
    before = {
        d.path: d
        for d in services.files.departures(
            frozenset({DepartureState.FAILSAFE}), paths=[file.path for file in touched]
        )
    }
    rows = {
        f"{plan_id}-{uuid4()}": [
            *_moved(progress.deleted, DepartureState.DELETED, before, now),
            *_moved(progress.cancelled, DepartureState.CANCELLED, before, now),
        ]
        for plan_id, progress in done.items()
    }
    services.files.record_departures(rows)
    cancelled = [file.path for progress in done.values() for file in progress.cancelled]
    if cancelled:
        _audit_cancelled(services, cancelled, "referred to again")


def _moved(
    files: Iterable[PlannedFile],
    to: DepartureState,
    before: Mapping[str, Departure],
    now: datetime,
) -> Iterable[Departure]:
    for file in files:
        if departure := before.get(file.path):
            yield replace(departure, state=to, recorded_at=now)


def _cancel(services: Services, departures: Sequence[Departure], why: str) -> None:
    now = services.clock.now()
    rows = [replace(d, state=DepartureState.CANCELLED, recorded_at=now) for d in departures]
    services.files.record_departures({f"cancelled-{uuid4()}": rows})
    _audit_cancelled(services, [d.path for d in departures], why)


def _audit_cancelled(services: Services, paths: Sequence[str], why: str) -> None:
    services.control.add_audit(
        AuditEntry(
            at=services.clock.now(),
            who=services.who,
            action="cancel departure",
            object=paths[0] if len(paths) == 1 else f"{len(paths)} files",
            reason=why,
            detail="\n".join(sorted(paths)[:100]),
        )
    )


def resumable(services: Services) -> list[Plan]:
    """Plans of either kind that were begun and not finished."""
    return list(services.control.plans(states=[PlanState.APPLYING]))


def approve(services: Ledgers, plans: Sequence[Plan], reason: str) -> None:
    """Records a person's word for exactly these digests."""
    now = services.clock.now()
    for plan in plans:
        services.control.save_approval(Approval(plan.id, plan.digest, services.who, reason, now))
        services.control.add_audit(AuditEntry(now, services.who, "approve", plan.id, reason))
