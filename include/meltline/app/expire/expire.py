"""Expire: one metadata-only commit per table that removes exactly the planned snapshots and refs.

The lifecycle calls it. Departures are recorded after the commit and before the plan is applied. By
the crash protocol (docs/safety.md) every line may be the last one before a kill: a run that finds a
plan `applying` asks the catalog for the outcome. The checks before a commit are in
`plan_checks.py`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from meltline.app.catalog.current_tables import StandingTables
from meltline.app.catalog.listings import Listings
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.expire.plan_checks import CheckedPlan, Committed, LockedPlans, Outcome, PlanChecks
from meltline.app.expire.plan_expiration import owner_retentions
from meltline.app.observe.observe import Observation, observe, registrations
from meltline.app.observe.ref_check import changed_heads
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import (
    present,
    require_clock,
    require_generation,
    require_go,
)
from meltline.app.safety.stored_plans import PlanLocks, PlannedFiles
from meltline.app.services import RunContext
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanAltered, PlanStale
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.retention.policy import Retention
from meltline.ports import Committer, DepartureLog, FileReferences, Lock, LockTable, SwitchLedger
from meltline.retries import ATTEMPTS, until_done

_COMMITTERS = 4  # groups committed in parallel


@dataclass(frozen=True)
class Commits:
    """The commits of one step. An error that stops one plan stops no other.

    Attributes:
        checks: Decides which plans may be committed.
        epoch: Begins before the first commit.
        pause: Waits that many seconds before a table that moved is tried again.
    """

    checks: PlanChecks
    committer: Committer
    locks: LockTable
    switch: SwitchLedger
    epoch: RunEpoch
    pause: Callable[[float], None]

    def make(self, plans: Sequence[Plan]) -> Mapping[str, Outcome]:
        """Commits each plan, or finds that it was committed; returns outcomes by the plan's id."""
        outcomes: dict[str, Outcome] = {}
        waiting, anew = [plans], False

        def attempt() -> bool | None:
            nonlocal waiting, anew
            conflicts = [p for batch in waiting for p in self._attempt(batch, outcomes, anew=anew)]
            # One at a time from now on: while one is committed, another table may move.
            waiting, anew = [[plan] for plan in conflicts], True
            return None if conflicts else True

        until_done(attempt, self.pause)
        return outcomes | {plan.id: _restless(plan) for (plan,) in waiting}

    def _attempt(
        self, plans: Sequence[Plan], outcomes: dict[str, Outcome], *, anew: bool
    ) -> list[Plan]:
        """Commits the permitted plans; returns those whose table has moved since it was checked."""
        checked = self._begin(self.checks.passed(plans, outcomes, anew=anew), outcomes)
        done = self._side_by_side(checked)
        outcomes |= {id: outcome for id, outcome in done.items() if outcome is not None}
        return [case.plan for case in checked if done[case.plan.id] is None]

    def _begin(
        self, checked: Sequence[CheckedPlan], outcomes: dict[str, Outcome]
    ) -> list[CheckedPlan]:
        """Begins the run's epoch, then the plans. An error that stops one is its outcome."""
        if not checked:
            return []
        try:
            self.epoch.require()
        except MeltlineError as stop:
            outcomes |= dict.fromkeys((case.plan.id for case in checked), stop)
            return []
        return self._with_intents(checked, outcomes)

    def _with_intents(
        self, checked: Sequence[CheckedPlan], outcomes: dict[str, Outcome]
    ) -> list[CheckedPlan]:
        """Writes the intents before the commits: a run that finds one asks for its outcome."""
        bases = [
            (case.plan, case.state.metadata_location)
            for case in checked
            if case.plan.state is not PlanState.APPLYING
        ]
        answers = self.checks.plans.move_all(PlanState.APPLYING, bases)
        applying = {answer.id: answer for answer in answers if isinstance(answer, Plan)}
        for (plan, _), answer in zip(bases, answers, strict=True):
            if isinstance(answer, MeltlineError):
                outcomes[plan.id] = answer
        return [
            replace(case, plan=applying.get(case.plan.id, case.plan))
            for case in checked
            if case.plan.id not in outcomes
        ]

    def _side_by_side(self, checked: Sequence[CheckedPlan]) -> Mapping[str, Outcome | None]:
        """Commits groups in parallel, a group's plans one after the other; None is a conflict."""
        by_lock: dict[Lock, list[CheckedPlan]] = {}
        for case in checked:
            by_lock.setdefault(self.checks.plans.locks[case.plan.id], []).append(case)
        threads = _COMMITTERS if len(by_lock) > _COMMITTERS else 1
        done = load_concurrently(
            lambda cases: {case.plan.id: self._commit(case) for case in cases},
            list(by_lock.values()),
            threads,
        )
        return {id: outcome for of_group in done for id, outcome in of_group.items()}

    def _commit(self, case: CheckedPlan) -> Outcome | None:
        plan = case.plan
        try:
            require_go(self.switch)
            self.locks.check(self.checks.plans.locks[plan.id])
            outcome = self.committer.expire(plan, case.state.metadata_location)
            return None if outcome is None else self.checks.concluded(plan, outcome, case.snapshots)
        except MeltlineError as stop:
            return stop


def _restless(plan: Plan) -> PlanStale:
    return PlanStale(
        f"{plan.table} changed at each of {ATTEMPTS} attempts to commit",
        object=plan.id,
        expected="a quiet moment",
        found="a conflict each time",
        next="run again; the plan is checked anew",
    )


@dataclass(frozen=True)
class ExpireResult:
    """Result of applying an expiration plan; `error` is set if it stopped early.

    Attributes:
        snapshots_gone: How many snapshots another tool had expired whose files departed now.
    """

    plan: Plan
    snapshots_expired: int = 0
    files_departed: int = 0
    bytes_departed: int = 0
    snapshots_gone: int = 0
    error: MeltlineError | None = None


def altered(plan: Plan, files: Sequence[PlannedFile]) -> PlanAltered | None:
    """Compares a plan's stored items with its digest; returns the error if they differ."""
    digest = plan.digest_of(files)
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
    context: RunContext, plans: Sequence[Plan], pause: Callable[[float], None] = time.sleep
) -> list[ExpireResult]:
    """Applies expiration plans; a second call does nothing.

    Each plan is independent: an error that stops one is in its `error`, and the others continue.
    The locks are kept until the departures are recorded, all in one append.
    """
    if not plans:
        return []
    ids = [plan.id for plan in plans]
    files = context.files.items.of(ids)
    plan_locks = PlanLocks.of(context)
    with plan_locks.take(plans) as held:
        stored = context.control.plans.current(ids)
        plans = [stored[id] for id in ids]
        held_by = {plan.id: held[plan_locks.groups.key(plan.table_uuid)] for plan in plans}
        done = _not_begun(plans, held_by, files)
        locks = {id: lock for id, lock in held_by.items() if isinstance(lock, Lock)}
        locked = LockedPlans(context.control.plans, locks)
        open_plans = [plan for plan in plans if plan.id not in done]
        outcomes = _commits(context, locked, pause).make(open_plans)
        done |= _recorded(context, locked, outcomes, files)
    return [done[id] for id in ids]


def _not_begun(
    plans: Sequence[Plan],
    held: Mapping[str, Lock | MeltlineError],
    files: Mapping[str, Sequence[PlannedFile]],
) -> dict[str, ExpireResult]:
    """Returns results of plans that are applied already, or that may not be applied."""
    done: dict[str, ExpireResult] = {}
    for plan in plans:
        lock = held[plan.id]
        if isinstance(lock, MeltlineError):
            done[plan.id] = ExpireResult(plan, error=lock)
        elif plan.state is PlanState.APPLIED:
            done[plan.id] = ExpireResult(plan)
        elif mismatch := altered(plan, files[plan.id]):
            done[plan.id] = ExpireResult(plan, error=mismatch)
    return done


def _commits(context: RunContext, locked: LockedPlans, pause: Callable[[float], None]) -> Commits:
    """Assembles the commits. Only here is the committer handed out."""
    control, listings = context.control, Listings(context.catalogs)

    def require() -> None:
        require_go(control.switch)
        require_clock(context, CLOCK_TOLERANCE)
        require_generation(context, listings.of(context.config.hot))

    tables, clock = StandingTables(context), context.clock
    return Commits(
        PlanChecks(
            require,
            tables,
            listings,
            control.verdicts,
            clock,
            locked,
            context.committer,
            context.config.catalogs,
        ),
        context.committer,
        control.locks,
        control.switch,
        RunEpoch(context, partial(listings.of, context.config.hot)),
        pause,
    )


def _recorded(
    context: RunContext,
    locked: LockedPlans,
    outcomes: Mapping[str, Outcome],
    files: Mapping[str, Sequence[PlannedFile]],
) -> dict[str, ExpireResult]:
    """Records the departures of the commits, except for tables whose refs show another state."""
    committed = [outcome.plan for outcome in outcomes.values() if isinstance(outcome, Committed)]
    changed = changed_heads(context, committed)
    unchanged = [plan for plan in committed if plan.id not in changed]
    return _results(locked, {**outcomes, **changed}, _departed(context, unchanged, files))


def _results(
    locked: LockedPlans,
    outcomes: Mapping[str, Outcome],
    departed: Mapping[str, Sequence[Departure]],
) -> dict[str, ExpireResult]:
    """Marks plans as applied once their departures are recorded; the others have their error."""
    stopped = {id: error for id, error in outcomes.items() if isinstance(error, MeltlineError)}
    committed = [commit for commit in outcomes.values() if isinstance(commit, Committed)]
    bases = [(commit.plan, commit.plan.committed_base) for commit in committed]
    answers = locked.move_all(PlanState.APPLIED, bases)
    done: dict[str, ExpireResult] = {}
    for commit, answer in zip(committed, answers, strict=True):
        if isinstance(answer, MeltlineError):
            stopped[commit.plan.id] = answer
        else:
            departures = departed[answer.id]
            departed_bytes = sum(departure.bytes for departure in departures)
            done[answer.id] = ExpireResult(
                answer,
                commit.snapshots,
                len(departures),
                departed_bytes,
                snapshots_gone=len(answer.gone_snapshots),
            )
    now = locked.ledger.current(list(stopped))
    return done | {id: ExpireResult(now[id], error=stop) for id, stop in stopped.items()}


def _departed(
    context: RunContext, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
) -> Mapping[str, Sequence[Departure]]:
    """Observes once more, and records the departures of committed plans."""
    if not plans:
        return {}
    concluded = [plan.id for plan in plans]
    departing = Departing.of(context, observe(context, concluded))
    return departing.record(plans, files, present(context))


def would_depart(
    context: RunContext, observation: Observation, planned: Sequence[PlannedFiles], at: datetime
) -> list[Departure]:
    """Returns the departures that a dry run expects, if its expirations were applied then."""
    plans = [planned_files.plan for planned_files in planned]
    files = {planned_files.plan.id: planned_files.files for planned_files in planned}
    rows = Departing.of(context, observation).rows(plans, files, at)
    return [departure for departures in rows.values() for departure in departures]


@dataclass(frozen=True)
class Departing:
    """Records departures of committed plans, by an observation after the commits."""

    departures: DepartureLog
    references: FileReferences
    observation: Observation
    retentions: Mapping[str, Retention]

    @classmethod
    def of(cls, context: RunContext, observation: Observation) -> "Departing":
        """Reads the failsafe that each owner has today."""
        policies = context.control.policies.all()
        retentions = owner_retentions(context.config.account, policies, observation)
        return cls(context.files.departures, context.files.references, observation, retentions)

    def record(
        self,
        plans: Sequence[Plan],
        files: Mapping[str, Sequence[PlannedFile]],
        now: datetime,
    ) -> dict[str, list[Departure]]:
        """Records the departures once per plan: a second recording finds the marker."""
        rows = self.rows(plans, files, now)
        self.departures.record({f"{plan_id}-departed": r for plan_id, r in rows.items()})
        return rows

    def rows(
        self,
        plans: Sequence[Plan],
        files: Mapping[str, Sequence[PlannedFile]],
        now: datetime,
    ) -> dict[str, list[Departure]]:
        """Returns the departures of each plan.

        `due_at` counts from now, the first recording after the commit.
        """
        held = self._held_by_neighbours(plans, files)
        recorded = self._recorded_by_others(plans, files)
        rows: dict[str, list[Departure]] = {}
        for plan in plans:
            rows[plan.id] = []
            for file in files[plan.id]:
                own = self.retentions.get(plan.table_uuid)
                retention = self.retentions.get(file.owner, own)
                if file.path in held or file.path in recorded[plan.id] or retention is None:
                    continue  # needed, recorded already, or its owner's failsafe is unknown
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
        return rows

    def _held_by_neighbours(
        self, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
    ) -> set[str]:
        """Returns files of groups that are still referenced.

        A group's plans are made together. If a neighbour's was refused, its snapshots remain, and
        the files they share have not departed after all.
        """
        twice = {
            uuid for uuid, tables in registrations(self.observation).items() if len(tables) > 1
        }
        shared = [
            file.path
            for plan in plans
            if plan.table_uuid in twice or len(self.observation.groups.members(plan.table_uuid)) > 1
            for file in files[plan.id]
        ]
        return self.references.among(shared, self.observation.dead) if shared else set()

    def _recorded_by_others(
        self, plans: Sequence[Plan], files: Mapping[str, Sequence[PlannedFile]]
    ) -> dict[str, set[str]]:
        """Files that another run has recorded since the plan was made: a stage never moves back."""
        paths = sorted({file.path for plan in plans for file in files[plan.id]})
        departures = self.departures.in_states(
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
