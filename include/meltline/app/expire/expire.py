"""Expire: one metadata-only commit per table, exactly the planned ids and refs.

What was committed has its departures recorded before its plan is applied (docs/safety.md, "Crash
protocol").
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.catalog.listings import Listings
from meltline.app.expire.expire_commits import Commits, Committed
from meltline.app.expire.plan_expiration import owner_retentions
from meltline.app.ground.epochs import RunEpoch
from meltline.app.ground.preconditions import present
from meltline.app.observe.observe import Observation, observe, registrations
from meltline.app.observe.ref_check import changed_heads
from meltline.app.safety.plan_locks import PlanLocks
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanState, plan_digest
from meltline.domain.errors import MeltlineError, PlanAltered
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.ports import Lock, PlanTransition


@dataclass(frozen=True)
class ExpireResult:
    """What applying an expiration plan came to; `error` when it was not, or not to the end."""

    plan: Plan
    snapshots_expired: int = 0
    files_departed: int = 0
    error: MeltlineError | None = None


def stored_files(services: RunContext, plans: Sequence[Plan]) -> dict[str, Sequence[PlannedFile]]:
    """Plans' items, by plan id."""
    return dict(services.files.items.of([plan.id for plan in plans]))


def altered(plan: Plan, files: Sequence[PlannedFile]) -> PlanAltered | None:
    """Holds a plan's stored items against its digest: what is wrong where they do not give it."""
    digest = plan_digest(plan.table_uuid, plan.snapshots, plan.refs, files)
    if digest == plan.digest:
        return None
    return PlanAltered(
        f"the stored items of plan {plan.id} are not what was planned",
        object=plan.id,
        expected=plan.digest,
        found=digest,
        next="find out who changed the ledger; plan again",
    )


def apply_expirations(
    services: RunContext, plans: Sequence[Plan], pause: Callable[[float], None] = time.sleep
) -> list[ExpireResult]:
    """Carries out expiration plans; a second time it does nothing.

    Each plan stands alone: what stops one is in its `error` and the others go on. The locks are
    held until the departures are recorded, all in one append.
    """
    if not plans:
        return []
    files = stored_files(services, plans)
    plan_locks = PlanLocks.of(services)
    with plan_locks.take(plans) as held:
        stored = services.control.plans.current([plan.id for plan in plans])
        done: dict[str, ExpireResult] = {}
        locks: dict[str, Lock] = {}
        work = []
        for plan in (stored[plan.id] for plan in plans):
            lock = held[plan_locks.groups.key(plan.table_uuid)]
            if isinstance(lock, MeltlineError):
                done[plan.id] = ExpireResult(plan, error=lock)
            elif plan.state is PlanState.APPLIED:
                done[plan.id] = ExpireResult(plan)
            elif mismatch := altered(plan, files[plan.id]):
                done[plan.id] = ExpireResult(plan, error=mismatch)
            else:
                work.append(plan)
                locks[plan.id] = lock
        commits = Commits(services, locks, Listings(services.catalogs), pause, RunEpoch(services))
        done |= _commit(services, commits, work, files)
    return [done[plan.id] for plan in plans]


def _commit(
    services: RunContext,
    commits: Commits,
    plans: Sequence[Plan],
    files: Mapping[str, Sequence[PlannedFile]],
) -> dict[str, ExpireResult]:
    """Commits plans, records what departed, and only then calls them applied."""
    outcomes = commits.make(plans)
    stopped = {
        id: outcome for id, outcome in outcomes.items() if isinstance(outcome, MeltlineError)
    }
    committed = [outcome for outcome in outcomes.values() if isinstance(outcome, Committed)]
    # Nothing departs of a table of which a ref shows something else than before.
    stopped |= changed_heads(services, [commit.plan for commit in committed])
    committed = [commit for commit in committed if commit.plan.id not in stopped]
    departed = _record_departures(services, [commit.plan for commit in committed], files)
    moves = [
        PlanTransition(
            commit.plan,
            PlanState.APPLIED,
            lock=commits.locks[commit.plan.id],
            committed_base=commit.plan.committed_base,
        )
        for commit in committed
    ]
    done: dict[str, ExpireResult] = {}
    for commit, answer in zip(committed, services.control.plans.move_all(moves), strict=True):
        if isinstance(answer, MeltlineError):
            stopped[commit.plan.id] = answer
        else:
            done[answer.id] = ExpireResult(answer, commit.snapshots, departed[answer.id])
    now = services.control.plans.current(list(stopped))
    return done | {id: ExpireResult(now[id], error=stop) for id, stop in stopped.items()}


def _record_departures(
    services: RunContext, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
) -> dict[str, int]:
    """Records what departed, once per plan: a second recording finds the marker and is not made.

    `due_at` counts from now, the first recording after the commit.
    """
    if not plans:
        return {}
    observation = observe(services)
    retentions = owner_retentions(services, observation)
    now = present(services)
    held = _held_by_neighbours(services, observation, plans, files)
    recorded = _recorded_by_others(services, plans, files)
    rows: dict[str, list[Departure]] = {}
    for plan in plans:
        rows[plan.id] = []
        for file in files[plan.id]:
            retention = retentions.get(file.owner, retentions.get(plan.table_uuid))
            if file.path in held or file.path in recorded[plan.id] or retention is None:
                continue  # needed, on its way already, or its owner's failsafe is unknown
            rows[plan.id].append(
                Departure(
                    path=file.path,
                    kind=file.kind,
                    bytes=file.bytes,
                    owner=file.owner,
                    plan_id=plan.id,
                    departed_at=now,
                    due_at=now + retention.failsafe,
                    state=DepartureState.FAILSAFE,
                    recorded_at=now,
                )
            )
    services.files.departures.record({f"{plan_id}-departed": r for plan_id, r in rows.items()})
    return {plan_id: len(departures) for plan_id, departures in rows.items()}


def _held_by_neighbours(
    services: RunContext,
    observation: Observation,
    plans: Sequence[Plan],
    files: Mapping[str, Sequence[PlannedFile]],
) -> set[str]:
    """Files of groups that something still refers to.

    A group's plans are made together. If a neighbour's was refused, its snapshots remain, and the
    files they share have not departed after all.
    """
    twice = {uuid for uuid, tables in registrations(observation).items() if len(tables) > 1}
    shared = [
        file.path
        for plan in plans
        if plan.table_uuid in twice or len(observation.groups.members(plan.table_uuid)) > 1
        for file in files[plan.id]
    ]
    return services.files.references.among(shared, observation.dead) if shared else set()


def _recorded_by_others(
    services: RunContext, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
) -> dict[str, set[str]]:
    """Files that another run has recorded since the plan was made: a stage never moves back."""
    paths = sorted({file.path for plan in plans for file in files[plan.id]})
    departures = services.files.departures.in_states(
        frozenset({DepartureState.FAILSAFE, DepartureState.DELETED}), paths=paths
    )
    return {
        plan.id: {
            departure.path
            for departure in departures
            if departure.plan_id != plan.id and departure.recorded_at >= plan.created_at
        }
        for plan in plans
    }
