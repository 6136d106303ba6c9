"""Evaluates drop plans at the gate and carries them out, with retries.

Chunk runs call it. It is apart from `gate`, which only reads, and from `drop`, which executes one
plan. If the gate rejects single chunks, the rest is planned again without them. If a plan is stale,
its chunks are planned again from the table's current state; if that happens twice, chunk by chunk.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meltline.app.chunks.drop import DroppedChunks, drop_chunks
from meltline.app.chunks.gate import DropLook
from meltline.app.chunks.lookups import ChunkedTable, chunked_tables
from meltline.app.chunks.plan_drops import Force, PlannedDrops, plan_drops
from meltline.app.chunks.tracking import Tracking, tracking_of
from meltline.app.gate.gate import reasons
from meltline.app.safety.stored_plans import end_plan
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.durability import Deferred
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.names import TableName
from meltline.ports import PlanTransition

_APPLICABLE = (PlanState.PASSED, PlanState.APPLYING)


@dataclass(frozen=True)
class JudgedDrop:
    """A plan after its gate.

    Attributes:
        apart: Chunks that alone forbid it, and why: the others could be dropped without them.
    """

    plan: Plan
    verdict: GateResult
    apart: Mapping[str, Deferral]


def gate_drops(
    context: RunContext, plans: Sequence[Plan], force: Force | None = None
) -> list[tuple[Plan, GateResult]]:
    """Evaluates drop plans. See `judge_drops`."""
    return [(judged.plan, judged.verdict) for judged in judge_drops(context, plans, force)]


def judge_drops(
    context: RunContext, plans: Sequence[Plan], force: Force | None = None
) -> list[JudgedDrop]:
    """Evaluates drop plans, stores each verdict, and moves each plan to passed or refused.

    Args:
        context: The ports.
        plans: Planned, passed or refused.
        force: An operator's override; it skips the proof that the rows are in cold, and no more.
    """
    if not plans:
        return []
    items, now = context.files.items.of([plan.id for plan in plans]), context.clock.now()
    sources, rows = context.read_only(), context.chunk_rows
    assert rows is not None  # a gate has an engine
    looks = [DropLook(sources, rows, plan, items[plan.id], force) for plan in plans]
    evidence = []
    for look in looks:
        context.progress(f"gate: proving {len(look.plan.chunks)} chunks of {look.plan.table}")
        evidence.append(look.facts())
    verdicts: dict[str, GateResult] = {}
    failure = "the gate gave no verdict"
    try:
        verdicts = {verdict.plan_id: verdict for verdict in context.gate.judge(evidence, now)}
    except Exception as crash:
        failure = f"the gate could not judge: {crash!r}"
    judged = [
        verdicts.get(plan.id)
        or GateResult(plan.id, plan.digest, "none", 0, (), now, now, error=failure)
        for plan in plans
    ]
    context.control.verdicts.save(judged)
    moves = [
        PlanTransition(
            plan,
            PlanState.PASSED if verdict.passed else PlanState.REFUSED,
            note=reasons(verdict),
        )
        for plan, verdict in zip(plans, judged, strict=True)
    ]
    answers = context.control.plans.move_all(moves)
    moved = [
        answer if isinstance(answer, Plan) else replace(plan, note=str(answer))
        for plan, answer in zip(plans, answers, strict=True)
    ]
    return [
        JudgedDrop(plan, verdict, look.apart)
        for plan, verdict, look in zip(moved, judged, looks, strict=True)
    ]


@dataclass
class JudgedPlans:
    """Plans after their gates.

    Attributes:
        deferred: By table, the chunks that stay.
        errors: By table, why no replacement plan was made.
    """

    plans: list[Plan] = field(default_factory=list)
    deferred: list[tuple[TableName, Sequence[Deferred]]] = field(default_factory=list)
    errors: list[tuple[TableName, MeltlineError]] = field(default_factory=list)

    @property
    def passed(self) -> list[Plan]:
        """Plans that may be carried out."""
        return [plan for plan in self.plans if plan.state in _APPLICABLE]


@dataclass
class CarriedOut:
    """Result of carrying out plans.

    Attributes:
        done: Plans that are finished, dropped or failed.
        overtaken: Stale plans that were replaced; `judged` has the replacements.
    """

    done: list[DroppedChunks] = field(default_factory=list)
    overtaken: list[DroppedChunks] = field(default_factory=list)
    judged: JudgedPlans = field(default_factory=JudgedPlans)


@dataclass(frozen=True)
class DropRound:
    """One round of gate and drop; `force` is an operator's override for unproved chunks."""

    context: RunContext
    force: Force | None

    def judge(self, plans: Sequence[Plan]) -> JudgedPlans:
        """Evaluates plans; if single chunks forbid one, its other chunks are evaluated again."""
        judged = JudgedPlans()
        for drop in judge_drops(self.context, plans, self.force):
            rest = set(drop.plan.chunks) - drop.apart.keys()
            if drop.plan.state is not PlanState.REFUSED or not drop.apart or not rest:
                judged.plans.append(drop.plan)
                continue
            found = reasons(drop.verdict)
            judged.plans.append(end_plan(self.context.control.plans, drop.plan, found))
            judged.deferred.append((drop.plan.table, _apart(drop, found)))
            anew = self._planned_anew(drop.plan, [rest], judged)
            judged.plans += [d.plan for d in judge_drops(self.context, anew, self.force)]
        return judged

    def carry_out(self, plans: Sequence[Plan]) -> CarriedOut:
        """Drops what has passed; stale plans are planned and proved again, at most twice."""
        carried = CarriedOut()
        for one_by_one in (False, True):
            results = drop_chunks(self.context, plans, self.force)
            overtaken = [r for r in results if isinstance(r.error, PlanStale)]
            carried.done += [r for r in results if not isinstance(r.error, PlanStale)]
            carried.overtaken += overtaken
            plans = []
            for result in overtaken:
                chunks = result.plan.chunks
                wishes = [{chunk} for chunk in chunks] if one_by_one else [set(chunks)]
                anew = self._planned_anew(result.plan, wishes, carried.judged)
                again = self.judge(anew)
                carried.judged.plans += again.plans
                carried.judged.deferred += again.deferred
                carried.judged.errors += again.errors
                plans = [*plans, *again.passed]
        carried.done += drop_chunks(self.context, plans, self.force)
        return carried

    def _planned_anew(
        self, old: Plan, wishes: Sequence[Collection[str]], judged: JudgedPlans
    ) -> list[Plan]:
        """Plans some chunks of an older plan again, from the current table; deferrals are noted."""
        plans: list[Plan] = []
        try:
            for table in chunked_tables(self.context, only=[old.table_uuid]):
                tracking = tracking_of(self.context, table)
                for wish in wishes:
                    drops = self._plan(old, table, tracking, wish)
                    waiting = [d for d in drops.deferred if d.chunk in old.chunks]
                    judged.deferred.append((table.state.name, waiting))
                    plans += [drops.plan.plan] if drops.plan else []
        except MeltlineError as error:  # stops no other table
            judged.errors.append((old.table, error))
        return plans

    def _plan(
        self, old: Plan, table: ChunkedTable, tracking: Tracking, wish: Collection[str]
    ) -> PlannedDrops:
        return plan_drops(
            self.context,
            table,
            tracking,
            run_id=old.run_id,
            as_of=old.as_of,
            force=self.force,
            only=wish,
        )


def _apart(drop: JudgedDrop, found: str) -> list[Deferred]:
    return [Deferred(name, reason, found) for name, reason in sorted(drop.apart.items())]
