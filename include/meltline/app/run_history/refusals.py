"""Counts in how many runs in a row a gate has refused the same thing: `doctor` asks.

A refused plan that is planned again unchanged stays one plan, with its repeats. One that changed,
as when rows came or another chunk came of age, is over, and the next took its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import NOTHING_LEFT, Plan, PlanKind, PlanState, plan_id
from meltline.domain.grouping import grouped
from meltline.ports import ControlLedger, RunLog

_PLANS = 60  # of a table, the newest: some weeks of nights
_RUNS = 100  # the newest, each with what it printed


@dataclass(frozen=True)
class Refusal:
    """The same refusal, run after run.

    Attributes:
        plan: Its newest plan, and `verdict` that plan's.
        runs: How many runs in a row were refused it.
        since: When the first of them planned it; None where no record has that run any more.
        chunks: Of a plan of drops, the chunks that the newest of these runs left in hot by it.
    """

    plan: Plan
    verdict: GateResult
    runs: int
    since: datetime | None
    chunks: frozenset[str]

    @property
    def cause(self) -> str:
        """The first fact that no other one explains; empty where the gate could not judge."""
        after = self.verdict.consequences
        return next((f.fact for f in self.verdict.failed if f not in after), "")


def last_refusal(control: ControlLedger, table_uuid: str, kind: PlanKind) -> Refusal | None:
    """The newest thing of a table that gates refused, and that no later run was allowed.

    Runs that did not plan the table, or were killed before the gate, are passed over.
    """
    plans = [p for p in control.plans.find(table_uuid=table_uuid, limit=_PLANS) if p.kind is kind]
    verdicts = control.verdicts.newest([plan.id for plan in plans])
    row: list[Sequence[Plan]] = []
    stuck = frozenset[str]()
    allowed: set[str] = set()
    for of_run in grouped(plans, lambda plan: plan.run_id).values():
        if any(plan.note == NOTHING_LEFT for plan in of_run):
            break
        allowed |= _subjects(of_run, verdicts, passed=True)
        refused = frozenset(_subjects(of_run, verdicts, passed=False) - allowed)
        stuck = stuck or refused
        if stuck & refused:
            row.append([p for p in of_run if p.id in verdicts and not verdicts[p.id].passed])
    if not row:
        return None
    newest = max(row[0], key=lambda plan: plan.state is PlanState.REFUSED)
    runs = sum(1 + max(plan.repeats for plan in of_run) for of_run in row)
    since = _first_planned(control.runs, row[-1][-1])
    return Refusal(newest, verdicts[newest.id], runs, since, stuck)


def _subjects(
    plans: Sequence[Plan], verdicts: Mapping[str, GateResult], *, passed: bool
) -> set[str]:
    """The chunks of plans that passed or were refused; of others their table."""
    judged = [plan for plan in plans if plan.id in verdicts]
    return {
        subject
        for plan in judged
        if verdicts[plan.id].passed is passed
        for subject in plan.chunks or (plan.table_uuid,)
    }


def _first_planned(runs: RunLog, plan: Plan) -> datetime | None:
    """When a plan was made first. Its header is its last run's, its id is made from the first."""
    if not plan.repeats:
        return plan.created_at
    for run in runs.newest(_RUNS):
        if plan_id(run.id, plan.kind, plan.table, plan.digest) == plan.id:
            return run.started_at
    return None
