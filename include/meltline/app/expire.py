"""Expire: one metadata-only commit per table, exactly the planned ids and refs.

Design section 4 step 5 and the crash protocol. Every line may be the last one before a kill: a
run that finds a plan `applying` asks the catalog what became of it.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.app.gate import require_passed
from meltline.app.listings import Listings
from meltline.app.metadata import at_once, load_state
from meltline.app.observe import Observation, observe, registrations
from meltline.app.permission import require_generation, require_go
from meltline.app.plan_expiration import owner_retentions
from meltline.app.services import Services
from meltline.app.tables import keep_requests, observed_table
from meltline.domain.errors import GateNotPassed, MeltlineError, PlanAltered, PlanStale
from meltline.domain.files import Departure, DepartureState, PlannedFile
from meltline.domain.groups import Groups
from meltline.domain.plan import Plan, PlanState, plan_digest
from meltline.domain.recheck import still_valid
from meltline.domain.table import TableState
from meltline.ports import CatalogListing, Lock

_ATTEMPTS = 5
_COMMITTERS = 4  # groups committed side by side
_LEASE = timedelta(minutes=2)


@dataclass(frozen=True)
class Expired:
    """What applying an expiration plan came to; `error` when it was not, or not to the end."""

    plan: Plan
    snapshots_expired: int = 0
    files_departed: int = 0
    error: MeltlineError | None = None


def stored_files(services: Services, plans: Sequence[Plan]) -> dict[str, Sequence[PlannedFile]]:
    """Plans' items, by plan id."""
    return dict(services.files.items([plan.id for plan in plans]))


def require_unaltered(plan: Plan, files: Sequence[PlannedFile]) -> None:
    """Holds a plan's stored items against its digest.

    Raises:
        PlanAltered: They do not give it.
    """
    digest = plan_digest(plan.table_uuid, plan.snapshots, plan.refs, files)
    if digest != plan.digest:
        raise PlanAltered(
            f"the stored items of plan {plan.id} are not what was planned",
            object=plan.id,
            expected=plan.digest,
            found=digest,
            next="find out who changed the ledger; plan again",
        )


def apply_expirations(
    services: Services, plans: Sequence[Plan], pause: Callable[[float], None] = time.sleep
) -> list[Expired]:
    """Carries out expiration plans; a second time it does nothing.

    Each plan stands alone: what stops one is in its `error` and the others go on. The locks are
    held until the departures are recorded, all in one append.
    """
    if not plans:
        return []
    files = stored_files(services, plans)
    groups = Groups(services.control.sharing())
    results: dict[str, Expired] = {}
    with ExitStack() as locks:
        held: dict[str, Lock] = {}
        work: dict[str, list[Plan]] = {}
        # In the order of the groups' keys, so that two runs never wait for each other in a ring.
        for plan in sorted(plans, key=lambda plan: (groups.key(plan.table_uuid), plan.id)):
            key = groups.key(plan.table_uuid)
            try:
                if key not in held:
                    held[key] = locks.enter_context(group_lock(services, key, plan))
                work.setdefault(key, []).append(plan)
            except MeltlineError as stop:
                results[plan.id] = Expired(services.control.plan(plan.id), error=stop)
        batch = _Batch(services, files, Listings(services), pause)
        threads = _COMMITTERS if len(work) > _COMMITTERS else 1
        done = at_once(lambda key: batch.commit(work[key], held[key]), list(work), threads)
        outcomes = [outcome for of_group in done for outcome in of_group]
        results |= {found.plan.id: found for found in outcomes if isinstance(found, Expired)}
        committed = [found for found in outcomes if isinstance(found, _Committed)]
        departed = _record_departures(services, [found.plan for found in committed], files)
        for found in committed:
            plan = services.control.move_plan(
                found.plan,
                PlanState.APPLIED,
                lock=found.lock,
                committed_base=found.plan.committed_base,
            )
            results[plan.id] = Expired(plan, found.snapshots, departed[plan.id])
    return [results[plan.id] for plan in plans]


@dataclass(frozen=True)
class _Committed:
    """An expiration that was committed, and whose departures are not recorded yet."""

    plan: Plan
    snapshots: int
    lock: Lock


@dataclass(frozen=True)
class _Batch:
    """The commits of one step: groups side by side, the plans of a group one after the other."""

    services: Services
    files: Mapping[str, Sequence[PlannedFile]]
    listings: Listings
    pause: Callable[[float], None]

    def commit(self, plans: Sequence[Plan], lock: Lock) -> list[_Committed | Expired]:
        return [self._one(plan, lock) for plan in plans]

    def _one(self, plan: Plan, lock: Lock) -> _Committed | Expired:
        try:
            stored = self.services.control.plan(plan.id)
            if stored.state is PlanState.APPLIED:
                return Expired(stored)
            require_unaltered(stored, self.files[plan.id])
            expired, begun = _commit(self.services, stored, lock, self.listings, self.pause)
            return _Committed(begun, expired, lock)
        except MeltlineError as stop:
            return Expired(self.services.control.plan(plan.id), error=stop)


def group_lock(services: Services, key: str, plan: Plan) -> AbstractContextManager[Lock]:
    """The lock of a table's group: one lifecycle change at a time (PX-9)."""
    holder = f"{services.who} run {plan.run_id} plan {plan.id}"
    wait = services.config.limits.lock_wait
    return services.control.lock(key, holder, wait=wait, lease=_LEASE)


def _commit(
    services: Services,
    plan: Plan,
    lock: Lock,
    listings: Listings,
    pause: Callable[[float], None],
) -> tuple[int, Plan]:
    """Commits, or finds out that it was committed. Returns how many snapshots that expired."""
    require_go(services)
    require_generation(services, listings.of(services.config.hot))
    for attempt in range(_ATTEMPTS):
        listing = listings.of(plan.table.catalog, anew=attempt > 0)
        state = _load(services, plan, listing)
        left = [sid for sid in plan.snapshots if sid in state.snapshots]
        refs = [name for name in plan.refs if name in state.refs]
        if not left and not refs:
            return _already_gone(services, plan, lock)
        _require_valid(services, plan, state, listing)
        _require_gate(services, plan)
        plan = _intend(services, plan, lock, state.metadata_location)
        require_go(services)
        services.control.check_lock(lock)
        outcome = services.committer.expire(
            plan.table, state.metadata_location, plan.snapshots, plan.refs
        )
        if outcome is not None:
            return len(left), replace(plan, committed_base=outcome.base_location)
        pause(random.uniform(0.05, 0.2) * 2**attempt)
    raise PlanStale(
        f"{plan.table} changed at each of {_ATTEMPTS} attempts to commit",
        object=plan.id,
        expected="a quiet moment",
        found="a conflict each time",
        next="run again; the plan is checked anew",
    )


def _intend(services: Services, plan: Plan, lock: Lock, base: str) -> Plan:
    """Writes the intent before the commit: a run that finds it asks the catalog what happened."""
    if plan.state is PlanState.APPLYING:
        return plan
    return services.control.move_plan(plan, PlanState.APPLYING, lock=lock, committed_base=base)


def _require_gate(services: Services, plan: Plan) -> None:
    """A plan that was begun, is not committed and has no gate any more goes stale: plan anew."""
    try:
        require_passed(services, plan)
    except GateNotPassed as refused:
        if plan.state is PlanState.APPLYING:
            raise _stale(services, plan, refused.found) from refused
        raise


def _already_gone(services: Services, plan: Plan, lock: Lock) -> tuple[int, Plan]:
    """The planned ids are gone: committed by us before a kill, by another, or there were none."""
    if plan.state is PlanState.APPLYING:
        return len(plan.snapshots), plan
    if plan.snapshots or plan.refs:
        # Whoever expired them records what departed; what that leaves is planned anew.
        raise _stale(services, plan, "another run has expired what was planned")
    require_passed(services, plan)
    return 0, _intend(services, plan, lock, plan.base_location)


def _load(services: Services, plan: Plan, listing: CatalogListing) -> TableState:
    entry = listing.of(plan.table)
    found = f"no table {plan.table}" if entry is None else ""
    if entry is not None:
        state = load_state(services.store, entry.name, entry.metadata_location)
        if state.uuid == plan.table_uuid:
            return state
        found = f"another table, {state.uuid}, under that name"
    raise _stale(services, plan, f"the planned table is gone: {found}")


def _stale(services: Services, plan: Plan, why: str) -> PlanStale:
    if plan.state is not PlanState.STALE:
        services.control.move_plan(plan, PlanState.STALE, note=why)
    return PlanStale(
        f"plan {plan.id} no longer fits {plan.table}: {why}",
        object=plan.id,
        expected="the table as it was planned, or moved on harmlessly",
        found=why,
        next="plan again; the next run does",
    )


def _require_valid(
    services: Services, plan: Plan, state: TableState, listing: CatalogListing
) -> None:
    """On any base, the planned one too: leases and namespaces' holds are not in the metadata."""
    table = observed_table(services, state, listing)
    request = next(keep_requests(services, [table], plan.as_of))[0]
    if problem := still_valid(plan, request):
        raise _stale(services, plan, problem)


def _record_departures(
    services: Services, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
) -> dict[str, int]:
    """Records what departed, once per plan: a second recording finds the marker and is not made.

    `due_at` counts from now, the first recording after the commit.
    """
    if not plans:
        return {}
    observation = observe(services)
    retentions = owner_retentions(services, observation)
    now = services.clock.now()
    held = _held_by_neighbours(services, observation, plans, files)
    taken = _recorded_by_others(services, plans, files)
    rows: dict[str, list[Departure]] = {}
    for plan in plans:
        rows[plan.id] = []
        for file in files[plan.id]:
            retention = retentions.get(file.owner, retentions.get(plan.table_uuid))
            if file.path in held or file.path in taken[plan.id] or retention is None:
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
    services.files.record_departures({f"{plan_id}-departed": r for plan_id, r in rows.items()})
    return {plan_id: len(found) for plan_id, found in rows.items()}


def _held_by_neighbours(
    services: Services,
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
    return services.files.referenced_now(shared, observation.dead) if shared else set()


def _recorded_by_others(
    services: Services, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
) -> dict[str, set[str]]:
    """Files that another run has recorded since the plan was made: a stage never moves back."""
    paths = sorted({file.path for plan in plans for file in files[plan.id]})
    found = services.files.departures(
        frozenset({DepartureState.FAILSAFE, DepartureState.DELETED}), paths=paths
    )
    return {
        plan.id: {
            departure.path
            for departure in found
            if departure.plan_id != plan.id and departure.recorded_at >= plan.created_at
        }
        for plan in plans
    }
