"""Counts consecutive runs in which a gate refused the same subject.

`doctor` and the purge status read it. A refused plan that is planned again unchanged stays one
plan, with its repeats. If it changed, because of new rows or another due chunk, it is closed and
the next plan replaces it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import NOTHING_LEFT, Plan, PlanKind, PlanState, plan_id
from meltline.domain.grouping import grouped
from meltline.ports import ControlLedger, RunLog

_PLANS = 60  # the newest of a table: some weeks of nights
_RUNS = 100  # the newest, each with its summary


@dataclass(frozen=True)
class Refusal:
    """The same refusal in consecutive runs.

    Attributes:
        plan: The newest refused plan; `verdict` is its verdict.
        runs: Number of consecutive runs with this refusal.
        since: When the first of them planned it; None if that run is no longer recorded.
        chunks: For a plan of drops, the chunks that the newest run left in hot because of it.
    """

    plan: Plan
    verdict: GateResult
    runs: int
    since: datetime | None
    chunks: frozenset[str]

    @property
    def cause(self) -> str:
        """The first failed fact that no other one explains; empty if the gate did not evaluate."""
        after = self.verdict.consequences
        return next((f.fact for f in self.verdict.failed if f not in after), "")


def last_refusal(control: ControlLedger, table_uuid: str, kind: PlanKind) -> Refusal | None:
    """Finds a table's newest refusal that no later run has overcome.

    Runs that did not plan the table, or were killed before the gate, are skipped.
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
    """The chunks of plans with this verdict; for other plans, their table."""
    judged = [plan for plan in plans if plan.id in verdicts]
    return {
        subject
        for plan in judged
        if verdicts[plan.id].passed is passed
        for subject in plan.chunks or (plan.table_uuid,)
    }


def _first_planned(runs: RunLog, plan: Plan) -> datetime | None:
    """When a plan was first made. Its header is its last run's; its id derives from the first."""
    if not plan.repeats:
        return plan.created_at
    for run in runs.newest(_RUNS):
        if plan_id(run.id, plan.kind, plan.table, plan.digest) == plan.id:
            return run.started_at
    return None
