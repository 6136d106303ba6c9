"""Checks before an expiration is committed: its table, its plan, and the gate's verdict.

`expire.py`, which makes the commits, calls it. By the crash protocol (docs/safety.md) every line
may be the last one before a kill: a run that finds a plan `applying` asks the catalog for the
outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from meltline.app.catalog.current_tables import StandingTables
from meltline.app.catalog.listings import Listings
from meltline.app.gate.gate import not_passed, require_passed
from meltline.config.load import CatalogConfig
from meltline.domain.clock import Clock
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.deletion.recheck import still_valid
from meltline.domain.deletion.short_logs import deletes_soon
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import (
    CatalogListing,
    CommitOutcome,
    Committer,
    Lock,
    PlanLedger,
    PlanTransition,
    VerdictLedger,
)


@dataclass(frozen=True)
class Committed:
    """An expiration that was committed, and whose departures are not recorded yet.

    Attributes:
        plan: The plan, with the metadata file that the commit was based on.
        snapshots: How many it expired.
    """

    plan: Plan
    snapshots: int


Outcome: TypeAlias = Committed | MeltlineError


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that may be committed, and the metadata on which that was checked."""

    plan: Plan
    state: TableMetadata
    listing: CatalogListing
    snapshots: int


@dataclass(frozen=True)
class LockedPlans:
    """The plans of a step, and their moves in the ledger.

    Attributes:
        locks: The lock of each plan's group, by the plan's id.
    """

    ledger: PlanLedger
    locks: Mapping[str, Lock]

    def move_all(
        self, to: PlanState, bases: Sequence[tuple[Plan, str]]
    ) -> Sequence[Plan | MeltlineError]:
        """Moves plans under their locks, each with the metadata file its commit is based on."""
        return self.ledger.move_all(
            [
                PlanTransition(plan, to, lock=self.locks[plan.id], committed_base=base)
                for plan, base in bases
            ]
        )

    def begin(self, plan: Plan) -> Plan:
        """Begins a plan with nothing left to commit. Raises as `PlanLedger.move` does."""
        base, lock = plan.base_location, self.locks[plan.id]
        return self.ledger.move(plan, PlanState.APPLYING, lock=lock, committed_base=base)

    def stale(self, plan: Plan, why: str) -> MeltlineError:
        """Ends a plan that no longer fits; the error says why, or why it could not be ended."""
        if plan.state is not PlanState.STALE:
            move = PlanTransition(plan, PlanState.STALE, note=why)
            (answer,) = self.ledger.move_all([move])
            if isinstance(answer, MeltlineError):
                return answer
        return PlanStale(
            f"plan {plan.id} no longer fits {plan.table}: {why}",
            object=plan.id,
            expected="the table as it was planned, or moved on harmlessly",
            found=why,
            next="plan again; the next run does",
        )


@dataclass(frozen=True)
class PlanChecks:
    """Decides whether plans may be committed now. It commits nothing, and ends stale plans.

    Attributes:
        require: Raises if all commits are blocked: by a stop, a wrong clock, another ledger.
        plans: Moves a plan that is out of date, or that was committed before a kill.
        committer: Finds the outcome of a commit that was begun; here it commits only changes that
            keep or restore refs.
    """

    require: Callable[[], None]
    tables: StandingTables
    listings: Listings
    verdicts: VerdictLedger
    clock: Clock
    plans: LockedPlans
    committer: Committer
    catalogs: Mapping[str, CatalogConfig]

    def passed(
        self, plans: Sequence[Plan], outcomes: dict[str, Outcome], *, anew: bool
    ) -> list[CheckedPlan]:
        """Returns the plans that may be committed now. The others get an outcome."""
        try:
            self.require()
        except MeltlineError as stop:
            outcomes |= dict.fromkeys((plan.id for plan in plans), stop)
            return []
        looked = self._look(plans, anew=anew)
        outcomes |= {
            plan.id: outcome
            for plan, outcome in zip(plans, looked, strict=True)
            if not isinstance(outcome, CheckedPlan)
        }
        checked = [outcome for outcome in looked if isinstance(outcome, CheckedPlan)]
        for refuse in (self._invalid, self._without_gate):
            refused = refuse(checked)
            outcomes |= refused
            checked = [case for case in checked if case.plan.id not in refused]
        return checked

    def _look(self, plans: Sequence[Plan], *, anew: bool) -> list[CheckedPlan | Outcome]:
        """Reads the tables as they are now; returns the outcome for any other plan."""
        listings = [self._listing(plan, anew=anew) for plan in plans]
        listed = [
            listing.of(plan.table) if isinstance(listing, CatalogListing) else None
            for plan, listing in zip(plans, listings, strict=True)
        ]
        try:
            loaded = self.tables.load(pointer for pointer in listed if pointer is not None)
        except MeltlineError as stop:
            return [stop for _ in plans]
        return [
            listing
            if isinstance(listing, MeltlineError)
            else self._looked_at(
                plan, listing, None if pointer is None else loaded[pointer], anew=anew
            )
            for plan, listing, pointer in zip(plans, listings, listed, strict=True)
        ]

    def _listing(self, plan: Plan, *, anew: bool) -> CatalogListing | MeltlineError:
        try:
            return self.listings.of(plan.table.catalog, anew=anew)
        except MeltlineError as stop:
            return stop

    def _looked_at(
        self,
        plan: Plan,
        listing: CatalogListing,
        standing: TableMetadata | MeltlineError | None,
        *,
        anew: bool,
    ) -> CheckedPlan | Outcome:
        """Checks a plan against the current entry of its table's name; None: no such entry."""
        if isinstance(standing, MeltlineError):
            return standing
        try:
            state = self._planned(plan, listing, standing)
            remaining = [sid for sid in plan.snapshots if sid in state.snapshots]
            if not remaining and not any(name in state.refs for name in plan.refs):
                return self._already_gone(plan)
            if plan.state is PlanState.APPLYING and not anew and self.committer.withdraw(plan):
                raise self.plans.stale(plan, "the run that committed it died, and nothing came")
            return CheckedPlan(plan, state, listing, len(remaining))
        except MeltlineError as stop:
            return stop

    def _planned(
        self, plan: Plan, listing: CatalogListing, standing: TableMetadata | None
    ) -> TableMetadata:
        if standing is not None and standing.uuid == plan.table_uuid:
            return standing
        problem = f"no table {plan.table}"
        if standing is not None:
            problem = f"another one, of {standing.metadata_location}, under that name"
        if plan.state is PlanState.APPLYING:
            begun = self._under_its_name(plan, listing)
            if self.committer.confirm(begun) is None:  # both raise if it is unknown
                self.committer.withdraw(begun)
        raise self.plans.stale(plan, f"the planned table is gone: {problem}")

    def _under_its_name(self, plan: Plan, listing: CatalogListing) -> Plan:
        """Returns the plan with its table's current name: it may have been renamed, or dropped."""
        names = self.tables.names_of(plan.table_uuid)
        entries = [entry for name in names if (entry := listing.of(name)) is not None]
        for entry, state in self.tables.load(entries).items():
            if isinstance(state, TableMetadata) and state.uuid == plan.table_uuid:
                return replace(plan, table=entry.name)
        return plan

    def _already_gone(self, plan: Plan) -> Committed:
        """Concludes a plan whose ids are gone: expired by us before a kill, by others, or none.

        Raises:
            PlanStale: Others have expired them.
            CommitUnproven: The outcome of the commit is not known yet.
            GateNotPassed: There were none, and the plan may not be applied.
        """
        if (
            plan.state is PlanState.APPLYING
            and (outcome := self.committer.confirm(plan)) is not None
        ):
            return self.concluded(plan, outcome, len(plan.snapshots))
        if plan.snapshots or plan.refs:
            # The run that expired them records the departures; the rest is planned again.
            raise self.plans.stale(plan, "another run has expired what was planned")
        require_passed(self.verdicts, plan, self.clock.now())
        return Committed(self.plans.begin(plan), 0)

    def concluded(self, plan: Plan, outcome: CommitOutcome, snapshots: int) -> Committed:
        """Returns the outcome of a commit; the plan has the metadata file that it replaced.

        Raises:
            PlanStale: Some of its snapshots are back, for refs that were added meanwhile.
        """
        if outcome.restored:
            names = ", ".join(outcome.restored)
            raise self.plans.stale(plan, f"refs came while it was committed, and stay: {names}")
        return Committed(replace(plan, committed_base=outcome.base_location), snapshots)

    def _invalid(self, checked: Sequence[CheckedPlan]) -> Mapping[str, MeltlineError]:
        """Ends plans that no longer fit, on any base: leases and holds are not in the metadata."""
        problems = self._problems(checked)
        return {
            case.plan.id: self.plans.stale(case.plan, problem)
            if isinstance(problem, str)
            else problem
            for case in checked
            if (problem := problems.get(case.plan.id))
        }

    def _problems(self, checked: Sequence[CheckedPlan]) -> Mapping[str, str | MeltlineError]:
        """Returns why plans no longer fit, or the error that prevents the check of one."""
        try:
            return self._checked_again(checked)
        except MeltlineError as error:
            if len(checked) == 1:
                return {checked[0].plan.id: error}
            return {id: why for case in checked for id, why in self._problems([case]).items()}

    def _checked_again(self, checked: Sequence[CheckedPlan]) -> Mapping[str, str]:
        by_date: dict[datetime, list[CheckedPlan]] = {}
        for case in checked:
            by_date.setdefault(case.plan.as_of, []).append(case)
        problems: dict[str, str] = {}
        for as_of, cases in by_date.items():
            tables = [self.tables.observed(case.state, case.listing) for case in cases]
            requests = self.tables.keep_requests(tables, as_of)
            for case, (request, _, _) in zip(cases, requests, strict=True):
                if problem := self._unprovable(case) or still_valid(case.plan, request):
                    problems[case.plan.id] = problem
        return problems

    def _unprovable(self, case: CheckedPlan) -> str:
        """Returns why the outcome of its commit might stay unknown, if it must be looked up."""
        is_served = self.catalogs[case.plan.table.catalog].server_commits
        return deletes_soon(case.state.properties) if is_served and case.plan.snapshots else ""

    def _without_gate(self, checked: Sequence[CheckedPlan]) -> Mapping[str, MeltlineError]:
        """Returns plans without a passed gate. A begun plan that is not committed becomes stale."""
        results = self.verdicts.newest([case.plan.id for case in checked])
        now = self.clock.now()
        refused: dict[str, MeltlineError] = {}
        for plan in (case.plan for case in checked):
            if why := not_passed(plan, results.get(plan.id), now):
                is_begun = plan.state is PlanState.APPLYING
                refused[plan.id] = self.plans.stale(plan, why.found) if is_begun else why
        return refused
