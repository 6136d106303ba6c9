"""The commits of expirations: checked together, begun together, made side by side.

By the crash protocol (docs/safety.md) every line may be the last one before a kill: a run that
finds a plan `applying` asks the catalog what became of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.expire.plan_checks import CheckedPlan, Outcome, PlanChecks
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import require_go
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.ports import Committer, Lock, LockTable, SwitchLedger
from meltline.retries import ATTEMPTS, until_done

_COMMITTERS = 4  # groups committed side by side


@dataclass(frozen=True)
class Commits:
    """The commits of one step. What stops one plan stops no other.

    Attributes:
        checks: Tell which plans may be committed.
        epoch: Begins before the first commit.
        pause: Waits so many seconds before a table that moved is tried again.
    """

    checks: PlanChecks
    committer: Committer
    locks: LockTable
    switch: SwitchLedger
    epoch: RunEpoch
    pause: Callable[[float], None]

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
        checked = self._begin(self.checks.passed(plans, outcomes, anew=anew), outcomes)
        done = self._side_by_side(checked)
        outcomes |= {id: outcome for id, outcome in done.items() if outcome is not None}
        return [case.plan for case in checked if done[case.plan.id] is None]

    def _begin(
        self, checked: Sequence[CheckedPlan], outcomes: dict[str, Outcome]
    ) -> list[CheckedPlan]:
        """Begins the run's epoch, then the plans. What stops one is its outcome."""
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
        """Writes the intents before the commits: a run that finds one asks what became of it."""
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
        """Commits groups side by side, a group's plans one after the other; None is a conflict."""
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
