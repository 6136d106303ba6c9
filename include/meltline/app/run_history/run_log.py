"""Past runs with the results of their plans, filtered for display.

`meltline runs`, `doctor` and the pages call it. The run log itself is a port, which stores the
summaries as text.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from meltline.app.run_history.period import Period
from meltline.app.run_history.plan_log import JudgedPlan, judged
from meltline.domain.deletion.plan import PlanKind, PlanState, PlanTotals
from meltline.domain.iceberg.names import selected
from meltline.domain.units import counted, format_instant
from meltline.ports import ControlLedger, PlanReader, RunLog, RunRecord


class RunOutcome(StrEnum):
    """Result of a run: the first that applies."""

    FAILED = "failed"
    REFUSED = "refused"
    UNFINISHED = "unfinished"
    SKIPPED = "skipped"
    DONE = "done"


@dataclass(frozen=True)
class RunFilter:
    """Criteria for runs; an empty one matches all.

    Attributes:
        tables: Globs over tables that a run made a plan for.
        outcomes: Their results.
        period: The time of their start.
        limit: Maximum number, the newest first.
    """

    tables: tuple[str, ...] = ()
    outcomes: tuple[RunOutcome, ...] = ()
    period: Period = field(default_factory=Period)
    limit: int = 20


@dataclass(frozen=True)
class RunLine:
    """A run with its result, from its plans and its stored summary.

    Attributes:
        totals: Its plans, summed by kind and state.
        notes: Its notes that are not about one table.
        skipped: Reasons for skipped tables, by name; `refused` has those of gates and guards.
        deferred: Its deferred chunks: table, chunk, reason and detail of each.
    """

    run: RunRecord
    totals: Sequence[PlanTotals]
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    deferred: Sequence[Mapping[str, str]] = ()

    @property
    def took(self) -> timedelta | None:
        """Its duration; None if its end was not recorded."""
        return self.run.ended_at - self.run.started_at if self.run.ended_at else None

    def obstacle(self, table: str) -> str:
        """Why a table was not completed; empty if it was."""
        return self.failed.get(table) or self.refused.get(table) or self.skipped.get(table, "")

    @property
    def outcome(self) -> RunOutcome:
        """Its result."""
        states = {total.state for total in self.totals}
        if self.failed or PlanState.FAILED in states:
            return RunOutcome.FAILED
        if self.refused or PlanState.REFUSED in states:
            return RunOutcome.REFUSED
        open_states = {PlanState.PLANNED, PlanState.PASSED, PlanState.APPLYING}
        if self.run.ended_at is None or states & open_states:
            return RunOutcome.UNFINISHED
        is_quiet = PlanState.APPLIED not in states
        return RunOutcome.SKIPPED if is_quiet and (self.skipped or self.notes) else RunOutcome.DONE

    @property
    def outcome_text(self) -> str:
        """Its result and the number of skipped tables, as `done, 1 table left out`."""
        left_out = counted(len(self.skipped), "table")
        return f"{self.outcome}, {left_out} left out" if self.skipped else str(self.outcome)

    def applied(self, kind: PlanKind) -> tuple[int, int]:
        """Files and bytes of its applied plans of a kind."""
        done = [t for t in self.totals if t.kind is kind and t.state is PlanState.APPLIED]
        return sum(total.files for total in done), sum(total.bytes for total in done)

    def as_json(self) -> dict[str, Any]:
        """Formats a line of `runs --json`."""
        departed, purged = self.applied(PlanKind.EXPIRE), self.applied(PlanKind.PURGE)
        states = Counter[str]()
        for total in self.totals:
            states[str(total.state)] += total.plans
        ended_at = self.run.ended_at
        return {
            "id": self.run.id,
            "as_of": format_instant(self.run.as_of),
            "started_at": format_instant(self.run.started_at),
            "ended_at": format_instant(ended_at) if ended_at else None,
            "outcome": str(self.outcome),
            "plan_states": dict(sorted(states.items())),
            "files_departed": departed[0],
            "bytes_departed": departed[1],
            "files_purged": purged[0],
            "bytes_purged": purged[1],
            "skipped": dict(self.skipped),
            "failed": dict(self.failed),
            "refused": dict(self.refused),
            "notes": list(self.notes),
            **({"deferred": list(self.deferred)} if self.deferred else {}),
        }


def find_runs(control: ControlLedger, request: RunFilter) -> list[RunLine]:
    """Finds the runs that match a filter, newest first."""
    period = request.period
    narrow = bool(request.tables or request.outcomes)
    records = control.runs.newest(None if narrow else request.limit, period.since, period.until)
    lines: list[RunLine] = []
    for record in records:
        line = _line(control.runs, record)
        if _is_wanted(control.plans, line, request):
            lines.append(line)
        if len(lines) == request.limit:
            break
    return lines


def _is_wanted(plans: PlanReader, line: RunLine, request: RunFilter) -> bool:
    if request.outcomes and line.outcome not in request.outcomes:
        return False
    if not request.tables:
        return True
    return any(selected(plan.table, request.tables) for plan in plans.find(run_id=line.run.id))


def run_of(control: ControlLedger, id_or_prefix: str) -> tuple[RunLine, list[JudgedPlan]]:
    """Finds a run with all its plans.

    Raises:
        RunNotFound: No run has that id or prefix, or several do.
    """
    line = _line(control.runs, control.runs.get(id_or_prefix))
    return line, judged(control, control.plans.find(run_id=line.run.id))


def _line(runs: RunLog, record: RunRecord) -> RunLine:
    summary = json.loads(record.summary) if record.summary else {}
    tables = summary.get("tables", ())
    return RunLine(
        record,
        runs.plan_totals([record.id])[record.id],
        {table["table"]: table["skipped"] for table in tables if table.get("skipped")},
        {table["table"]: table["failed"] for table in tables if table.get("failed")},
        tuple(summary.get("notes", ())),
        {table["table"]: table["refused"] for table in tables if table.get("refused")},
        tuple(summary.get("deferred", ())),
    )
