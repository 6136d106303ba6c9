"""The commits of expirations: checked together, begun together, made side by side.

By the crash protocol (docs/safety.md) every line may be the last one before a kill: a run that
finds a plan `applying` asks the catalog what became of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from meltline.app.catalog.listings import Listings
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.catalog.registrations import load_standing
from meltline.app.catalog.tables import keep_requests, observed_table
from meltline.app.gate.gate import not_passed, require_passed
from meltline.app.ground.epochs import RunEpoch
from meltline.app.ground.preconditions import require_clock, require_generation, require_go
from meltline.app.services import RunContext
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.deletion.recheck import still_valid
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogListing, Lock, PlanTransition
from meltline.retries import ATTEMPTS, until_done

_COMMITTERS = 4  # groups committed side by side


@dataclass(frozen=True)
class Committed:
    """An expiration that was committed, and whose departures are not recorded yet.

    Attributes:
        plan: With the metadata file that the commit was based on.
        snapshots: How many it expired.
    """

    plan: Plan
    snapshots: int


@dataclass(frozen=True)
class _Checked:
    """A plan that may be committed, on the metadata for which that was found."""

    plan: Plan
    state: TableMetadata
    listing: CatalogListing
    snapshots: int


Outcome: TypeAlias = Committed | MeltlineError


@dataclass(frozen=True)
class Commits:
    """The commits of one step. What stops one plan stops no other.

    Attributes:
        locks: The lock of each plan's group, by the plan's id.
        pause: Waits so many seconds before a table that moved is tried again.
        epoch: Begins before the first commit.
    """

    services: RunContext
    locks: Mapping[str, Lock]
    listings: Listings
    pause: Callable[[float], None]
    epoch: RunEpoch

    def make(self, plans: Sequence[Plan]) -> Mapping[str, Outcome]:
        """Commits each plan, or finds out that it was; by the plan's id."""
        outcomes: dict[str, Outcome] = {}
        waiting, anew = [plans], False

        def attempt() -> bool | None:
            nonlocal waiting, anew
            conflicts = [p for batch in waiting for p in self._attempt(batch, outcomes, anew=anew)]
            # Each on its own from now on: while one is committed another one may move on.
            waiting, anew = [[plan] for plan in conflicts], True
            return None if conflicts else True

        until_done(attempt, self.pause)
        return outcomes | {plan.id: _restless(plan) for (plan,) in waiting}

    def _attempt(
        self, plans: Sequence[Plan], outcomes: dict[str, Outcome], *, anew: bool
    ) -> list[Plan]:
        """Commits those that may be; returns those whose table has moved since it was checked."""
        checked = self._check(plans, outcomes, anew=anew)
        done = self._side_by_side(checked)
        outcomes |= {id: outcome for id, outcome in done.items() if outcome is not None}
        return [case.plan for case in checked if done[case.plan.id] is None]

    def _check(
        self, plans: Sequence[Plan], outcomes: dict[str, Outcome], *, anew: bool
    ) -> list[_Checked]:
        """Those that may be committed now, their intents written. The others have an outcome."""
        try:
            require_go(self.services.control.switch)
            require_clock(self.services, CLOCK_TOLERANCE)
            require_generation(self.services, self.listings.of(self.services.config.hot))
        except MeltlineError as stop:
            outcomes |= dict.fromkeys((plan.id for plan in plans), stop)
            return []
        looked = load_concurrently(lambda plan: self._look(plan, anew=anew), plans)
        outcomes |= {
            plan.id: outcome
            for plan, outcome in zip(plans, looked, strict=True)
            if not isinstance(outcome, _Checked)
        }
        checked = [outcome for outcome in looked if isinstance(outcome, _Checked)]
        for refuse in (self._invalid, self._without_gate):
            refused = refuse(checked)
            outcomes |= refused
            checked = [case for case in checked if case.plan.id not in refused]
        return self._begin(checked, outcomes)

    def _look(self, plan: Plan, *, anew: bool) -> _Checked | Outcome:
        """The table as it is now, or what became of the plan."""
        try:
            listing = self.listings.of(plan.table.catalog, anew=anew)
            state = self._load(plan, listing)
            remaining = [sid for sid in plan.snapshots if sid in state.snapshots]
            if not remaining and not any(name in state.refs for name in plan.refs):
                return self._already_gone(plan)
            return _Checked(plan, state, listing, len(remaining))
        except MeltlineError as stop:
            return stop

    def _load(self, plan: Plan, listing: CatalogListing) -> TableMetadata:
        pointer = listing.of(plan.table)
        problem = f"no table {plan.table}" if pointer is None else ""
        if pointer is not None:
            state = load_standing(self.services, pointer.name, pointer.metadata_location)
            if state.uuid == plan.table_uuid:
                return state
            problem = f"another one, of {state.metadata_location}, under that name"
        raise self._stale(plan, f"the planned table is gone: {problem}")

    def _already_gone(self, plan: Plan) -> Committed:
        """The planned ids are gone: committed by us before a kill, by another, or there were none.

        Raises:
            PlanStale: Another run has expired them.
            GateNotPassed: There were none, and the plan may not be applied.
        """
        if plan.state is PlanState.APPLYING:
            return Committed(plan, len(plan.snapshots))
        if plan.snapshots or plan.refs:
            # Whoever expired them records what departed; what that leaves is planned anew.
            raise self._stale(plan, "another run has expired what was planned")
        require_passed(self.services, plan)
        applying = self.services.control.plans.move(
            plan, PlanState.APPLYING, lock=self.locks[plan.id], committed_base=plan.base_location
        )
        return Committed(applying, 0)

    def _invalid(self, checked: Sequence[_Checked]) -> Mapping[str, MeltlineError]:
        """Plans that no longer fit, on any base: leases and holds are not in the metadata."""
        problems = self._problems(checked)
        return {
            case.plan.id: self._stale(case.plan, problem) if isinstance(problem, str) else problem
            for case in checked
            if (problem := problems.get(case.plan.id))
        }

    def _problems(self, checked: Sequence[_Checked]) -> Mapping[str, str | MeltlineError]:
        """Why plans no longer fit, or why that cannot be told of one."""
        try:
            return self._checked_again(checked)
        except MeltlineError as error:
            if len(checked) == 1:
                return {checked[0].plan.id: error}
            return {id: why for case in checked for id, why in self._problems([case]).items()}

    def _checked_again(self, checked: Sequence[_Checked]) -> Mapping[str, str]:
        by_date: dict[datetime, list[_Checked]] = {}
        for case in checked:
            by_date.setdefault(case.plan.as_of, []).append(case)
        problems: dict[str, str] = {}
        for as_of, cases in by_date.items():
            tables = [observed_table(self.services, case.state, case.listing) for case in cases]
            requests = keep_requests(self.services, tables, as_of)
            for case, (request, _, _) in zip(cases, requests, strict=True):
                if problem := still_valid(case.plan, request):
                    problems[case.plan.id] = problem
        return problems

    def _without_gate(self, checked: Sequence[_Checked]) -> Mapping[str, MeltlineError]:
        """Plans without a passed gate. One that was begun and is not committed goes stale."""
        results = self.services.control.verdicts.newest([case.plan.id for case in checked])
        now = self.services.clock.now()
        refused: dict[str, MeltlineError] = {}
        for plan in (case.plan for case in checked):
            if why := not_passed(plan, results.get(plan.id), now):
                is_begun = plan.state is PlanState.APPLYING
                refused[plan.id] = self._stale(plan, why.found) if is_begun else why
        return refused

    def _begin(self, checked: Sequence[_Checked], outcomes: dict[str, Outcome]) -> list[_Checked]:
        """Writes the intents before the commits: a run that finds one asks what became of it."""
        try:
            if checked:
                self.epoch.require()
        except MeltlineError as stop:
            outcomes |= dict.fromkeys((case.plan.id for case in checked), stop)
            return []
        new = [case for case in checked if case.plan.state is not PlanState.APPLYING]
        answers = self.services.control.plans.move_all(
            [
                PlanTransition(
                    case.plan,
                    PlanState.APPLYING,
                    lock=self.locks[case.plan.id],
                    committed_base=case.state.metadata_location,
                )
                for case in new
            ]
        )
        applying = {answer.id: answer for answer in answers if isinstance(answer, Plan)}
        for case, answer in zip(new, answers, strict=True):
            if isinstance(answer, MeltlineError):
                outcomes[case.plan.id] = answer
        return [
            replace(case, plan=applying.get(case.plan.id, case.plan))
            for case in checked
            if case.plan.id not in outcomes
        ]

    def _side_by_side(self, checked: Sequence[_Checked]) -> Mapping[str, Outcome | None]:
        """Commits groups side by side, a group's plans one after the other; None is a conflict."""
        by_lock: dict[Lock, list[_Checked]] = {}
        for case in checked:
            by_lock.setdefault(self.locks[case.plan.id], []).append(case)
        threads = _COMMITTERS if len(by_lock) > _COMMITTERS else 1
        done = load_concurrently(
            lambda cases: {case.plan.id: self._commit(case) for case in cases},
            list(by_lock.values()),
            threads,
        )
        return {id: outcome for of_group in done for id, outcome in of_group.items()}

    def _commit(self, case: _Checked) -> Outcome | None:
        plan = case.plan
        try:
            require_go(self.services.control.switch)
            self.services.control.locks.check(self.locks[plan.id])
            outcome = self.services.committer.expire(
                plan.table, case.state.metadata_location, plan.snapshots, plan.refs
            )
        except MeltlineError as stop:
            return stop
        if outcome is None:
            return None
        return Committed(replace(plan, committed_base=outcome.base_location), case.snapshots)

    def _stale(self, plan: Plan, why: str) -> MeltlineError:
        if plan.state is not PlanState.STALE:
            move = PlanTransition(plan, PlanState.STALE, note=why)
            (answer,) = self.services.control.plans.move_all([move])
            if isinstance(answer, MeltlineError):
                return answer
        return PlanStale(
            f"plan {plan.id} no longer fits {plan.table}: {why}",
            object=plan.id,
            expected="the table as it was planned, or moved on harmlessly",
            found=why,
            next="plan again; the next run does",
        )


def _restless(plan: Plan) -> PlanStale:
    return PlanStale(
        f"{plan.table} changed at each of {ATTEMPTS} attempts to commit",
        object=plan.id,
        expected="a quiet moment",
        found="a conflict each time",
        next="run again; the plan is checked anew",
    )
