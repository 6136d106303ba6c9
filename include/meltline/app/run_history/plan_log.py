"""Past plans with their verdicts and approvals, filtered for display.

The commands that list plans, approvals and runs call it, and the pages. The plan ledger itself is
a port, which has neither globs nor verdicts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from meltline.app.run_history.period import Period
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.iceberg.names import TableName, selected, unmatched
from meltline.domain.units import counted, format_duration, format_instant
from meltline.ports import Approval, ControlLedger, KnownTable


@dataclass(frozen=True)
class PlanFilter:
    """Criteria for plans; an empty one matches all.

    Attributes:
        tables: Globs over the tables' names, both current and at the time of the plan.
        states: Their states.
        kind: Their kind.
        run_id: The run that made them.
        period: The time of their creation.
        limit: Maximum number, the newest first; None is all.
    """

    tables: tuple[str, ...] = ()
    states: tuple[PlanState, ...] = ()
    kind: PlanKind | None = None
    run_id: str = ""
    period: Period = field(default_factory=Period)
    limit: int | None = None


@dataclass(frozen=True)
class JudgedPlan:
    """A plan with the newest verdict of its gate and its newest approval, if any."""

    plan: Plan
    verdict: GateResult | None = None
    approval: Approval | None = None

    @property
    def gate(self) -> str:
        """The gate's verdict: `none`, `passed` or `refused`."""
        if self.verdict is None:
            return "none"
        return "passed" if self.verdict.passed else "refused"

    @property
    def policy(self) -> str:
        """The policy that decided it: the applied retention, or for a purge its failsafe."""
        plan = self.plan
        if plan.kind is PlanKind.DROP_CHUNKS:
            chunks = counted(len(plan.chunks), "chunk")
            return f"{chunks} past the drop age, as of {format_instant(plan.as_of)}"
        if plan.kind is not PlanKind.EXPIRE:
            return f"failsafe over at {format_instant(plan.created_at)}"
        if plan.window_start is None:
            return "no window: only what other tools have let go"
        return (
            f"retention of {format_duration(plan.as_of - plan.window_start)}, "
            f"as of {format_instant(plan.as_of)}"
        )

    def as_json(self) -> dict[str, Any]:
        """Formats a line of `plans --json`."""
        plan, verdict, word = self.plan, self.verdict, self.approval
        return {
            "id": plan.id,
            "run_id": plan.run_id,
            "kind": str(plan.kind),
            "table": str(plan.table),
            "table_uuid": plan.table_uuid,
            "digest": plan.digest,
            "snapshots": len(plan.snapshots) + len(plan.gone_snapshots),
            **({"chunks": len(plan.chunks)} if plan.chunks else {}),
            "files": plan.files,
            "bytes": plan.bytes,
            "state": str(plan.state),
            "note": plan.note or None,
            "as_of": format_instant(plan.as_of),
            "created_at": format_instant(plan.created_at),
            "policy": self.policy,
            "gate": self.gate,
            "suite": verdict.suite if verdict else None,
            "judged_at": format_instant(verdict.ran_at) if verdict else None,
            "docs": (verdict.docs or None) if verdict else None,
            "approved_by": word.who if word else None,
            "approval_reason": word.reason if word else None,
        }


@dataclass(frozen=True)
class FoundPlans:
    """Plans, newest first, and the globs that match nothing in the ledger."""

    plans: Sequence[JudgedPlan]
    unmatched: Sequence[str] = ()


def judged(control: ControlLedger, plans: Sequence[Plan]) -> list[JudgedPlan]:
    """Adds verdicts and approvals to plans."""
    verdicts = control.verdicts.newest([plan.id for plan in plans])

    def word(plan: Plan) -> Approval | None:
        is_purge = plan.kind is PlanKind.PURGE  # no other kind is ever approved
        return control.verdicts.approval(plan.id, plan.digest) if is_purge else None

    return [JudgedPlan(plan, verdicts.get(plan.id), word(plan)) for plan in plans]


def find_plans(control: ControlLedger, request: PlanFilter) -> FoundPlans:
    """Finds the plans that match a filter."""
    if not request.tables:
        return FoundPlans(judged(control, _of_table(control, request, "")))
    rows = [row for row in control.registrations.all() if selected(row.name, request.tables)]
    plans = [plan for uuid in _uuids(rows) for plan in _of_table(control, request, uuid)]
    newest = sorted(plans, key=lambda plan: plan.created_at, reverse=True)[: request.limit]
    names: Iterable[TableName] = (row.name for row in rows)
    return FoundPlans(judged(control, newest), unmatched(request.tables, names))


def _uuids(rows: Iterable[KnownTable]) -> list[str]:
    return list(dict.fromkeys(row.uuid for row in rows))


def _of_table(control: ControlLedger, request: PlanFilter, uuid: str) -> Sequence[Plan]:
    """Plans of one table, or of all; the newest."""
    since, until = request.period.since, request.period.until
    plans = control.plans.find(
        run_id=request.run_id,
        states=request.states,
        table_uuid=uuid,
        since=since,
        until=until,
        limit=None if request.kind else request.limit,
    )
    return [plan for plan in plans if request.kind in (None, plan.kind)][: request.limit]


def plan_document(plan: Plan) -> dict[str, Any]:
    """Formats a plan as `plan` and `show plan` print it."""
    return {
        "id": plan.id,
        "kind": str(plan.kind),
        "table": str(plan.table),
        "table_uuid": plan.table_uuid,
        "digest": plan.digest,
        "snapshots": list(plan.snapshots),
        "refs": list(plan.refs),
        **({"chunks": list(plan.chunks), "base_snapshot": plan.base_head} if plan.chunks else {}),
        "files": plan.files,
        "bytes": plan.bytes,
        "state": str(plan.state),
        "as_of": format_instant(plan.as_of),
        "created_at": format_instant(plan.created_at),
        "note": plan.note,
    }


def gate_document(verdict: GateResult) -> dict[str, Any]:
    """Formats a verdict as `gate` prints it."""
    return {
        "plan": verdict.plan_id,
        "digest": verdict.digest,
        "suite": verdict.suite,
        "passed": verdict.passed,
        "evaluated": verdict.evaluated,
        "failed": verdict.failed,
        "held": verdict.held,
        "ran_at": verdict.ran_at,
        "valid_until": verdict.valid_until,
        "error": verdict.error or None,
        "docs": verdict.docs or None,
    }
