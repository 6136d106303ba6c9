"""Implements each step of a run, as a method of `Run`.

`run/recorded.py` runs all steps in one process; each Spark app runs one. The order of the steps is
in `run/steps.py`, which DAGs import without the code that does the work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from meltline.app.archive.archive_snapshots import (
    PendingHandoff,
    hand_off,
    may_go_on,
    pending_handoffs,
)
from meltline.app.archive.copy_repair import mend_copies
from meltline.app.catalog.dropped import dropped_tables, is_let_go
from meltline.app.catalog.tables import Foreseen, read_tables
from meltline.app.drop.finalize import process_drops
from meltline.app.expire.expire import ExpireResult, apply_expirations, would_depart
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.held_back import contested_notes, kept_back
from meltline.app.observe.losses.torn_heads import note_torn
from meltline.app.observe.observe import Observation, observe
from meltline.app.orphans.sweep import sweep
from meltline.app.purge.approvals import Approvals, approve
from meltline.app.purge.plan_purge import plan_purge, resumable
from meltline.app.purge.purge import PurgeResult, apply_purges
from meltline.app.retention.policies import remember_policies
from meltline.app.run.gate_step import run_gate
from meltline.app.run.gated_plans import judge
from meltline.app.run.not_armed import not_armed
from meltline.app.run.quiet_window import QuietWindow
from meltline.app.run.report_step import report_purging, report_storage
from meltline.app.run.run_plans import RunPlans
from meltline.app.run.steps import STEPS, Role, Step
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.preconditions import require_clock, require_datable
from meltline.app.safety.server_probe import probe_notices, second_check
from meltline.app.safety.stored_plans import PlannedFiles, store_plans, store_previews
from meltline.app.services import RunContext, SweepServices
from meltline.concurrency import use_threads
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import LockHeld, PlanStale
from meltline.domain.iceberg.files import Departure
from meltline.domain.iceberg.names import TableName, selected
from meltline.progress import Counted

_REPLANS = 2
_TENDED = 2  # an external drop may be past its retention when it is first observed: two rounds
_UPKEEP = "the file ledger"
_SETTLED_AFTER = timedelta(days=7)  # longer than any run, which relies on what was open then
_APPLICABLE = (PlanState.PASSED, PlanState.APPLYING)


def run_chain(context: RunContext, request: RunRequest) -> Summary:
    """Runs all steps in one process. Safe to repeat."""
    return Run(context, request).visit(STEPS)


def run_step(
    step: "Step[Run]", context: RunContext, request: RunRequest, batch: int = 0, plan: str = ""
) -> Summary:
    """Runs one step in a process of its own.

    Args:
        step: The step to run.
        context: The ports.
        request: The options of the run.
        batch: Only the plans of this batch, from 1 on; 0 is all of them.
        plan: The id of the only plan to work on, from any run.
    """
    run = Run(context, request, batch, plan)
    summary = run.visit([step])
    if step.role is Role.PLAN and step.kind and not request.dry_run:
        summary.batches = RunPlans.of(context, request.run_id, step.kind).batches(run.planned)
    return summary


@dataclass
class Run:
    """A run in this process, with a method for each step.

    Steps pass results to each other through the ledgers. Steps in one process also share their last
    observation of the catalogs, until a step changes what it describes.

    Attributes:
        batch: The batch of plans to work on, from 1 on; 0 is all of them.
        plan: The only stored plan to work on; empty for the run's own plans.
        planned: The plans that were made last.
    """

    context: RunContext
    request: RunRequest
    batch: int = 0
    plan: str = ""
    planned: Sequence[Plan] = ()
    summary: Summary = field(init=False)
    _observation: Observation | None = field(default=None, init=False)
    _previewed: list[PlannedFiles] | None = field(default=None, init=False)
    _quiet: QuietWindow = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        self.context = replace(self.context, once=request.once)
        self.summary = Summary(
            request.run_id, request.as_of, dry_run=request.dry_run, batch=self.batch
        )
        config, clock = self.context.config, self.context.clock
        self._quiet = QuietWindow(config.io, clock, request.any_hour, self.summary)
        if request.parallelism is not None:
            use_threads(request.parallelism)

    def visit(self, steps: "Sequence[Step[Run]]") -> Summary:
        """Runs steps in their order; a dry run omits those that would change something."""
        if steps[0].dates:
            require_datable(self.context)
        todo = [step for step in steps if step.previews or not self.request.dry_run]
        for number, step in enumerate(todo):
            name = step.name.replace("_", " ")
            say = f"step: {number + 1} of {len(todo)}: {name}"
            if len(todo) > 1:
                self.context.progress(Counted(say, number, len(todo)))
            step.run(self)
        return self.summary

    def look(self) -> Observation:
        """State of the catalogs as this process last observed it."""
        if self._observation is None:
            self._observation = observe(self.context)
        return self._observation

    def look_anew(self) -> Observation:
        """Observes the catalogs again."""
        self._observation = None
        return self.look()

    # --- the steps, in their order ----------------------------------------------------------

    def observe(self) -> None:
        """Observes every catalog, and notes the tables that could not be read."""
        context, request = self.context, self.request
        before = context.control.registrations.all()
        observation = self.look()
        if not request.dry_run:
            if note_torn(context, [table.state for table in observation.tables], before):
                observation = self.look_anew()
            notices = second_check(context, observation.listings)
            if notices is not None:
                self.summary.notices += notices
                observation = self.look_anew()
        self.summary.notices += probe_notices(context, observation.listings)
        if not request.dry_run:
            for _ in range(_TENDED):
                if not process_drops(context, observation, request.as_of, request.tables):
                    break
                observation = self.look_anew()
            remember_policies(context, observation.tables)
        self.summary.observed(observation, request.tables)
        self.summary.not_armed = not_armed(context, observation, request)
        self.summary.sandbox = ArmingCheck.of(context).is_sandbox

    def hand_off_to_cold(self) -> None:
        """Archives the snapshots that policies require; without pending handoffs it does nothing.

        It also repairs copies that were lost or damaged in cold, while their originals are in
        failsafe.
        """
        context, request = self.context, self.request
        go_on = may_go_on(context, any_hour=request.any_hour)
        waiting = self._pending_handoffs()
        if request.dry_run:
            self.summary.would_hand_off(waiting)
        else:
            self.summary.handed_off(hand_off(context, waiting, request.run_id, go_on))
            self.summary.notices += mend_copies(context, request.run_id, go_on)

    def plan_expiration(self) -> list[PlannedFiles]:
        """Plans expirations, after it has resolved those that an earlier run left unfinished."""
        if not self.request.dry_run:
            self._settle()
            return self._note(self._expirations())
        self._previewed = self._expirations()
        return self._note(self._previewed)

    def gate_expiration(self) -> None:
        """Evaluates the expiration plans."""
        self._gate(PlanKind.EXPIRE)

    def expire(self) -> None:
        """Applies passed plans; a stale plan is made and gated again, never forced (AR-40)."""
        context = self.context
        plans = self._plans(PlanKind.EXPIRE, _APPLICABLE)
        if not self._quiet.allows("expired", plans):
            return
        results = apply_expirations(context, plans)
        refused: list[Plan] = []
        for _ in range(_REPLANS):
            stale, done = _stale(results)
            if not stale:
                break
            self.summary.with_plans([context.control.plans.get(plan.id) for plan in stale])
            context.progress(f"expire: planning {len(stale)} tables anew, they have moved")
            anew = self._plan_again([plan.table for plan in stale])
            passed = [plan for plan in anew if plan.state in _APPLICABLE]
            refused += [plan for plan in anew if plan.state not in _APPLICABLE]
            results = [*done, *apply_expirations(context, passed)]
        self.summary.expired(results, refused)

    def plan_purge(self) -> list[PlannedFiles]:
        """Plans files past their failsafe, on a new observation; a dry run uses the one it has."""
        request = self.request
        if not request.dry_run:
            require_clock(self.context)
        planned = plan_purge(
            self.context,
            self.look() if request.dry_run else self.look_anew(),
            run_id=request.run_id,
            as_of=request.as_of,
            tables=request.tables,
            dry_run=request.dry_run,
            departing=self._would_depart() if request.dry_run else (),
            approving=bool(request.approve),
        )
        if not request.dry_run and not request.approve:
            awaited = Approvals.of(self.context).awaited()
            self._ask([p for p in awaited if selected(p.table, request.tables)])
        return self._note(planned)

    def gate_purge(self) -> None:
        """Evaluates the purge plans."""
        self._gate(PlanKind.PURGE)

    def purge(self) -> list[PurgeResult]:
        """Deletes the files of plans that passed, and finalizes dropped tables now empty."""
        context = self.context
        plans = self._plans(PlanKind.PURGE, _APPLICABLE)
        if self.request.approve:
            approve(context, plans, self.request.approve)
        self.summary.notices += kept_back(context)
        self.summary.notes += contested_notes(context)
        results = apply_purges(context, plans, self._quiet.is_open)
        self._quiet.allows("purged", [r.plan for r in results if r.is_left])
        self.summary.purged(results)
        self.summary.stand(context.control.incidents.all())
        self._let_go()
        return results

    def report(self) -> None:
        """Records today's storage, reports whether purging works, and compacts the ledger."""
        context = self.context
        report_purging(context, self.request, self.summary, report_storage(context))
        who, lease = f"{context.who} upkeep", timedelta(minutes=10)
        try:
            with context.control.locks.take(_UPKEEP, who, wait=timedelta(0), lease=lease):
                for done in filter(None, self._upkeep()):
                    context.progress(f"report: ledger upkeep: {done}")
        except LockHeld as busy:
            context.progress(f"report: no ledger upkeep: {busy.found}")

    def sweep(self) -> None:
        """Starts failsafe for files that no commit has ever referenced."""
        assert isinstance(self.context, SweepServices)  # a request to sweep is wired with a sweeper
        if not self.request.dry_run and not self._quiet.allows_sweep():
            return
        self.summary.swept(sweep(self.context, self.request), self.request.tables)

    # --- helpers of the steps -------------------------------------------------------------------

    def _expirations(self) -> list[PlannedFiles]:
        """Plans expirations; a dry run presumes the handoffs that a run would do first."""
        request = self.request
        foreseen: Foreseen = {}
        if request.dry_run and may_go_on(self.context, any_hour=request.any_hour)():
            foreseen = _handed_over(self._pending_handoffs())
        return plan_expiration(
            self.context,
            self.look(),
            run_id=request.run_id,
            as_of=request.as_of,
            tables=request.tables,
            dry_run=request.dry_run,
            foreseen=foreseen,
        )

    def _would_depart(self) -> list[Departure]:
        """Departures that a dry run's expirations would cause; each step may be asked alone."""
        at = max(self.context.clock.now(), self.request.as_of)
        planned = self._expirations() if self._previewed is None else self._previewed
        return would_depart(self.context, self.look(), planned, at)

    def _pending_handoffs(self) -> list[PendingHandoff]:
        """Handoffs of snapshots that policies require in cold and that are only in hot."""
        context, scope = self.context, (self.request.as_of, self.request.tables)
        # On most nights a lake has no pending handoffs; the ledgers show that without a Spark job.
        if self._observation is None and not pending_handoffs(
            context, read_tables(context), *scope
        ):
            return []
        pending = pending_handoffs(context, self.look().tables, *scope)
        return [p for p in pending if p.table.state.uuid not in self.look().blocked]

    def _plans(self, kind: PlanKind, states: Sequence[PlanState]) -> list[Plan]:
        """Plans of this batch, and unfinished plans of other runs that belong to it."""
        if self.plan:
            return RunPlans.alone(self.context.control.plans.get(self.plan), kind).work(states)
        return RunPlans.of(self.context, self.request.run_id, kind).work(states, self.batch)

    def _note(self, planned: list[PlannedFiles]) -> list[PlannedFiles]:
        self.summary.catch_up([planned_files.plan for planned_files in planned])
        if self.request.dry_run:
            planned = store_previews(self.context, planned)
        self.planned = [planned_files.plan for planned_files in planned]
        self.summary.with_plans(self.planned)
        return planned

    def _gate(self, kind: PlanKind) -> None:
        plans = self._plans(kind, (PlanState.PLANNED, PlanState.PASSED))
        if not self._quiet.allows("judged", plans):
            return
        judged = judge(self.context, plans)
        self.summary.gated(judged)
        if self.plan:  # the replacement needs an approval of its own, and no other step asks for it
            others = Approvals.of(self.context).among(p for p in judged if p.id != self.plan)
            self._ask(others, instead_of=self.plan)

    def _ask(self, plans: Sequence[Plan], instead_of: str = "") -> None:
        """Requests approval of plans; not if the catalog is unarmed, as nothing is deleted then."""
        if plans and ArmingCheck.of(self.context).refusal() is None:
            self.summary.await_approval(plans, instead_of)

    def _settle(self) -> None:
        """Resolves expirations that an earlier run began: the catalog shows the outcome of each.

        The departures of committed expirations are recorded under their own plan. The others are
        committed if that is still allowed; otherwise they are stale and planned again.
        """
        unfinished = [
            plan for plan in resumable(self.context.control.plans) if plan.kind is PlanKind.EXPIRE
        ]
        if not unfinished:
            return
        stale, done = _stale(apply_expirations(self.context, unfinished))
        self.summary.with_plans(stale)
        self.summary.expired(done)
        self._observation = None

    def _plan_again(self, tables: Sequence[TableName]) -> list[Plan]:
        """Plans tables again from their current state, and gates the new plans."""
        request = self.request
        planned = plan_expiration(
            self.context,
            self.look_anew(),
            run_id=request.run_id,
            as_of=request.as_of,
            tables=request.tables,
            dry_run=True,
        )
        # Other tables that could be planned now belong to another app, or to the next run.
        stored = store_plans(self.context, [p for p in planned if p.plan.table in tables])
        return [
            plan
            for plan, _ in run_gate(self.context, [planned_files.plan for planned_files in stored])
        ]

    def _let_go(self) -> None:
        """Finalizes dropped tables whose last files this run deleted, so the next has no work."""
        context, request = self.context, self.request
        if not context.control.plans.find(run_id=request.run_id, states=[PlanState.APPLIED]):
            return
        listing = context.catalogs[context.config.hot].listing()
        emptied = [t.state for t in dropped_tables(context, listing)]
        if any(is_let_go(state, request.as_of) for state in emptied):
            process_drops(context, self.look_anew(), request.as_of, request.tables)

    def _upkeep(self) -> Iterator[str]:
        """Compacts the ledger's tables, and yields a message for each change."""
        context, now = self.context, self.context.clock.now()
        yield from context.files.upkeep.maintain()
        unfinished = [plan.id for plan in resumable(context.control.plans)]
        yield context.files.upkeep.settle(now - _SETTLED_AFTER, unfinished)
        yield context.proofs.forget(now - context.config.gates.full_proof_every)


def _handed_over(waiting: Sequence[PendingHandoff]) -> dict[str, frozenset[int]]:
    """Snapshots that are in cold once these handoffs are copied, by table UUID."""
    copied: dict[str, frozenset[int]] = {}
    for pending in waiting:
        uuid = pending.table.state.uuid
        copied[uuid] = copied.get(uuid, frozenset()).union(pending.snapshots)
    return copied


def _stale(results: Sequence[ExpireResult]) -> tuple[list[Plan], list[ExpireResult]]:
    """Plans that no longer match their tables, and the results of all others."""
    done = [result for result in results if not isinstance(result.error, PlanStale)]
    return [result.plan for result in results if isinstance(result.error, PlanStale)], done
