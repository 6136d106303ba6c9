"""Runs the steps of chunk management: replicate, refresh, evaluate, plan, gate, drop, report.

DAG tasks, `chunks run` and manual runs call it. The work of each step is in its own module; this
one chains them and fills the run's summary (LT-10, LT-17, LT-21).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from meltline.app.chunks.drop import DroppedChunks, begun_drops, drop_chunks
from meltline.app.chunks.lookups import ChunkedTable, chunked_tables, missing_tables
from meltline.app.chunks.plan_drops import Force, PlannedDrops, plan_drops
from meltline.app.chunks.policies import TIME_TO_REGRET
from meltline.app.chunks.proofs import due_to_tier, tier
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.rollups.refresh import RefreshedRollup, refresh_rollups
from meltline.app.chunks.rounds import DropRound, JudgedPlans
from meltline.app.chunks.tracking import Tracking, chunk_lock, tracking_of
from meltline.app.run.not_armed import NotArmedCounts
from meltline.app.run.run_plans import RunPlans
from meltline.app.run.steps import CHUNK_STEPS, Role, Step
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.arming import ArmingCheck
from meltline.app.safety.preconditions import require_datable
from meltline.app.safety.stored_plans import end_refused, is_over
from meltline.app.services import RunContext
from meltline.domain.chunks.durability import Deferred
from meltline.domain.chunks.rollup import above
from meltline.domain.chunks.sync import Deletes
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import LockHeld, MeltlineError, PlanStale, RunNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import counted, format_instant

_APPLICABLE = (PlanState.PASSED, PlanState.APPLYING)
_SHOWN = 3


def run_chunks(context: RunContext, request: RunRequest, *, at_once: bool = False) -> "ChunkRun":
    """Runs all steps in one process. Safe to repeat."""
    run = ChunkRun(context, request, at_once=at_once)
    run.visit(CHUNK_STEPS)
    return run


def run_chunk_step(
    step: "Step[ChunkRun]", context: RunContext, request: RunRequest, batch: int = 0
) -> Summary:
    """Runs one step in a separate process; `batch` as in `app.run.lifecycle.run_step`."""
    run = ChunkRun(context, request, batch, deletes=request.deletes)
    run.visit([step])
    if step.role is Role.PLAN and not request.dry_run:
        plans = RunPlans.of(context, request.run_id, PlanKind.DROP_CHUNKS)
        run.summary.batches = plans.batches(run.planned)
    return run.summary


@dataclass
class ChunkRun:
    """One run in this process, with a method for each step.

    Attributes:
        batch: The batch of plans to work on, from 1 on; 0 is all of them.
        at_once: Whether a policy added today may act: an operator has requested the run.
        planned: The plans that were made last.
        planned_drops: The same by table, with the deferred chunks.
        results: Results of drops.
        replicated: Results of replication passes; `refreshed` those of rollups.
        deletes: The operator's decision about large deletes by others.
    """

    context: RunContext
    request: RunRequest
    batch: int = 0
    at_once: bool = False
    planned: Sequence[Plan] = ()
    planned_drops: list[PlannedDrops] = field(default_factory=list)
    results: list[DroppedChunks] = field(default_factory=list)
    replicated: list[Replicated] = field(default_factory=list)
    refreshed: list[RefreshedRollup] = field(default_factory=list)
    deletes: Deletes | None = None
    summary: Summary = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        self.context = replace(self.context, once=request.once)
        self.summary = Summary(
            request.run_id, request.as_of, dry_run=request.dry_run, batch=self.batch
        )
        request.require_forcible()

    @property
    def force(self) -> Force | None:
        """The operator's override for unproved chunks."""
        return Force(self.request.chunks, self.request.force) if self.request.force else None

    def visit(self, steps: "Sequence[Step[ChunkRun]]") -> Summary:
        """Runs steps in their order; a dry run skips those that would change something."""
        require_datable(self.context)
        for step in steps:
            if step.previews or not self.request.dry_run:
                self.context.progress(f"step: {step.name.replace('_', ' ')}")
                step.run(self)
        return self.summary

    # --- the steps
    # ---------------------------------------------------------------------------------

    def replicate_to_cold(self) -> None:
        """Brings synced tables up to main."""
        for table in replicate(self.context, self._tables(), self.deletes):
            self.replicated.append(table)
            name = TableName.parse(table.table)
            self.summary.add(name, commits_followed=table.changes, rows_copied=table.rows)
            if table.error is not None:
                self.summary.note_error(name, table.error)

    def refresh_rollups(self) -> None:
        """Refreshes the selected tables' rollups, and the rollups above them, up to main."""
        rollups = self.context.control.rollups.all()
        chosen = above(rollups, {table.state.uuid for table in self._tables()})
        for done in refresh_rollups(self.context, chosen):
            self._note_refreshed(done)

    def evaluate_chunks(self) -> None:
        """Finishes drops of an earlier run, stamps chunks, and flags those that are proved."""
        if not self.request.dry_run:
            results = drop_chunks(self.context, begun_drops(self.context))
            self._note_dropped([r for r in results if not isinstance(r.error, PlanStale)])
        arming = ArmingCheck.of(self.context)
        self.summary.sandbox = arming.is_sandbox
        if refused := arming.refusal():
            self.summary.not_armed = NotArmedCounts(refused.object)
        missing = missing_tables(self.context, self._tables(), self.request.tables)
        self.summary.notices += [
            f"{name}: its chunks are left alone: it is dropped, gone or cannot be read"
            for name in missing
        ]
        self._for_each(self._evaluate)

    def plan_drops(self) -> None:
        """Plans drops of chunks that are due. On a policy's first day it only previews them."""
        planned = self._for_each(self._plan)
        self.summary.with_plans(self.planned)
        if self.request.dry_run or self.force is not None:
            return
        control = self.context.control
        stored = [drops.plan for drops in self.planned_drops if drops.plan]
        is_settled = is_over(control.registrations.all(), planned)
        end_refused(control.plans, PlanKind.DROP_CHUNKS, stored, is_settled)

    def gate_drops(self) -> None:
        """Evaluates plans at the gate: each is passed or refused."""
        plans = self._plans((PlanState.PLANNED, PlanState.PASSED))
        self._note_judged(self._round.judge(plans))

    def drop_chunks(self) -> None:
        """Drops the chunks of passed plans; stale plans are planned and proved again."""
        carried = self._round.carry_out(self._plans(_APPLICABLE))
        self.summary.with_plans([result.plan for result in carried.overtaken])
        self._note_judged(carried.judged)
        self._note_dropped(carried.done)

    def report_chunks(self) -> None:
        """Records each table's result of the run: `chunks status` shows it."""
        context, run_id = self.context, self.request.run_id
        plans = context.control.plans.find(run_id=run_id)
        plans = [plan for plan in plans if plan.kind is PlanKind.DROP_CHUNKS]
        waiting = {(line["table"], line["chunk"]) for line in self._deferred_so_far()}
        for table in self._tables():
            uuid, name = table.state.uuid, str(table.state.name)
            of_table = [plan for plan in plans if plan.table_uuid == uuid]
            dropped = _chunks_in(of_table, PlanState.APPLIED)
            refused = _chunks_in(of_table, PlanState.REFUSED) - dropped
            deferred = {chunk for of, chunk in waiting if of == name} - dropped
            words = f"{len(dropped)} dropped, {len(deferred)} deferred"
            words += f", {len(refused)} refused" if refused else ""
            with suppress(LockHeld), chunk_lock(context, uuid):  # another run's report follows
                (tracked,) = context.control.chunks.tracked([uuid])
                after = replace(tracked, last_run_at=context.clock.now(), last_run=words)
                context.control.chunks.advance(tracked, after, ())

    # --- parts of the steps
    # ------------------------------------------------------------------------

    def _deferred_so_far(self) -> list[Mapping[str, Any]]:
        """The run's deferrals: earlier steps may have run in other processes and left a summary."""
        lines = list(self.summary.deferred)
        with suppress(RunNotFound):
            document = self.context.control.runs.get(self.request.run_id).summary
            lines += json.loads(document).get("deferred", ()) if document else ()
        return lines

    def _tables(self) -> list[ChunkedTable]:
        return chunked_tables(self.context, self.request.tables)

    def _for_each(self, work: Callable[[ChunkedTable, Tracking], None]) -> set[str]:
        """Applies `work` to each table's chunks, stamped up to now; notes errors and continues.

        Returns:
            The ids of the tables without an error.
        """
        done = set[str]()
        for table in self._tables():
            try:
                with chunk_lock(self.context, table.state.uuid):
                    is_dry = self.request.dry_run
                    work(table, tracking_of(self.context, table, dry_run=is_dry))
                done.add(table.state.uuid)
            except MeltlineError as error:
                self.summary.note_error(table.state.name, error)
        return done

    def _evaluate(self, table: ChunkedTable, tracking: Tracking) -> None:
        name = table.state.name
        self.summary.add(name)
        due = due_to_tier(table, tracking, self.request.as_of)
        if not due or self.request.dry_run:
            return
        tiered = tier(self.context, table, tracking, due)
        self.summary.add(name, chunks_tiered=len(tiered.tiered))
        self._defer(name, tiered.deferred)

    def _plan(self, table: ChunkedTable, tracking: Tracking) -> None:
        request, policy = self.request, table.drop_policy
        if policy is None and self.force is None:
            return
        is_new = (
            policy is not None
            and not self.at_once
            and self.force is None
            and self.context.clock.now() < policy.created_at + TIME_TO_REGRET
        )
        drops = plan_drops(
            self.context,
            table,
            tracking,
            run_id=request.run_id,
            as_of=request.as_of,
            force=self.force,
            dry_run=request.dry_run or is_new,
        )
        self.planned_drops.append(drops)
        self._defer(table.state.name, drops.deferred)
        if drops.plan is None:
            return
        if is_new and policy is not None:
            until = format_instant(policy.created_at + TIME_TO_REGRET)
            chunks = counted(len(drops.plan.plan.chunks), "chunk")
            self.summary.notices.append(
                f"{table.state.name}: its policy is new: {chunks} would be dropped, and "
                f"will be by runs after {until}; `meltline chunks drop` does it at once"
            )
            if not request.dry_run:
                return
        if len(drops.plan.plan.chunks) == sum(c.files > 0 for c in tracking.chunks.values()):
            self.summary.notices.append(f"{table.state.name}: this leaves hot empty")
        self.planned = [*self.planned, drops.plan.plan]

    def _plans(self, states: Sequence[PlanState]) -> list[Plan]:
        plans = RunPlans.of(self.context, self.request.run_id, PlanKind.DROP_CHUNKS)
        return plans.work(states, self.batch)

    @property
    def _round(self) -> DropRound:
        return DropRound(self.context, self.force)

    def _note_refreshed(self, done: RefreshedRollup) -> None:
        table = done.rollup.table
        self.refreshed.append(done)
        if done.error is not None:
            self.summary.note_error(table, done.error)
            return
        self.summary.add(table, buckets_refreshed=done.buckets)
        if done.missed:
            self.summary.notices.append(
                f"{table}: rows came for {counted(done.missed, 'bucket')} whose source was dropped:"
                " they keep their values"
            )

    def _note_judged(self, judged: JudgedPlans) -> None:
        self.summary.gated(judged.plans)
        for table, deferred in judged.deferred:
            self._defer(table, deferred)
        for table, error in judged.errors:
            self.summary.note_error(table, error)

    def _note_dropped(self, results: Sequence[DroppedChunks]) -> None:
        self.results += results
        for drop in results:
            plan = drop.plan
            self.summary.with_plans([plan])
            if isinstance(drop.error, PlanStale):  # others write all the time: the next run retries
                self._defer(plan.table, drop.deferred)
                continue
            if drop.error is not None:
                self.summary.note_error(plan.table, drop.error)
                continue
            counts = {"chunks_dropped": len(drop.chunks), "bytes_dropped": plan.bytes}
            self.summary.add(plan.table, **counts)
            self.summary.notices.append(f"{plan.table}: {times_of(drop)}")

    def _defer(self, table: TableName, deferred: Sequence[Deferred]) -> None:
        """Notes deferred chunks; the latest reason wins, as with one process per step."""
        lines = {(line["table"], line["chunk"]): line for line in self.summary.deferred}
        for d in deferred:
            words = {"chunk": d.chunk, "reason": str(d.reason), "detail": d.detail}
            lines[str(table), d.chunk] = {"table": str(table), **words}
        self.summary.deferred = list(lines.values())


def _chunks_in(plans: Sequence[Plan], state: PlanState) -> set[str]:
    return {chunk for plan in plans if plan.state is state for chunk in plan.chunks}


def times_of(result: DroppedChunks) -> str:
    """Renders the three times of a drop as text."""
    history = format_instant(result.out_of_history) if result.out_of_history else "for ever"
    gone = format_instant(result.gone) if result.gone else "never"
    return (
        f"{counted(len(result.chunks), 'chunk')} left hot"
        f"{f' at {format_instant(result.out_of_hot)}' if result.out_of_hot else ''}; "
        f"time travel reads them until {history}; their bytes are deleted after {gone}"
    )
