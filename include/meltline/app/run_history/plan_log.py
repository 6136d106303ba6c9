"""Plans that were made, each with what its gate and people said of it."""

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
    """Which plans are asked for; what is empty lets all pass.

    Attributes:
        tables: Globs over the names that their tables have now, or had when they were planned.
        states: Where they stand.
        kind: What they do.
        run_id: The run that made them.
        period: When they were made.
        limit: So many, the newest; None is all.
    """

    tables: tuple[str, ...] = ()
    states: tuple[PlanState, ...] = ()
    kind: PlanKind | None = None
    run_id: str = ""
    period: Period = field(default_factory=Period)
    limit: int | None = None


@dataclass(frozen=True)
class JudgedPlan:
    """A plan, with the newest verdict of its gate and a person's newest word, if any."""

    plan: Plan
    verdict: GateResult | None = None
    approval: Approval | None = None

    @property
    def gate(self) -> str:
        """What the gate said, in one word."""
        if self.verdict is None:
            return "none"
        return "passed" if self.verdict.passed else "refused"

    @property
    def policy(self) -> str:
        """What decided it: the retention as it was applied; of a purge, the wait that is over."""
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
        """A line of `plans --json`."""
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
    """Plans, newest first, and the globs that nothing in the ledger matches."""

    plans: Sequence[JudgedPlan]
    unmatched: Sequence[str] = ()


def judged(control: ControlLedger, plans: Sequence[Plan]) -> list[JudgedPlan]:
    """Plans with what was said of them."""
    verdicts = control.verdicts.newest([plan.id for plan in plans])

    def word(plan: Plan) -> Approval | None:
        is_purge = plan.kind is PlanKind.PURGE  # only those are ever approved
        return control.verdicts.approval(plan.id, plan.digest) if is_purge else None

    return [JudgedPlan(plan, verdicts.get(plan.id), word(plan)) for plan in plans]


def find_plans(control: ControlLedger, request: PlanFilter) -> FoundPlans:
    """The plans that somebody asks for."""
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
    """Of one table, or of all; the newest."""
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
    """A plan as `plan` and `show plan` print it."""
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
    """A verdict, as `gate` prints it."""
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
