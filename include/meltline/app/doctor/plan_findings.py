"""Doctor's findings about plans: those that a gate refused, and those left unfinished.

`doctor` calls it. An event in one run is information, or the next run resolves it; the same event
in two runs in a row needs an operator.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from meltline.app.run_history.refusals import Refusal, last_refusal
from meltline.app.run_history.run_log import RunFilter, RunLine, find_runs
from meltline.app.safety.findings import Finding
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.durability import due_to_drop
from meltline.domain.chunks.policies import ChunkPolicy
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_instant, format_size
from meltline.ports import ChunkReader, ControlLedger

_MOST = 20
_A_WEEK = timedelta(days=7)
_RUNS = 30  # the newest ones, each with its messages about tables
_NEXT_RUN = "the next run finishes it"
_WAYS_OUT = {
    "share_allowed": "`meltline chunks run --dry-run --tables {table}` shows what would go; if it "
    "is right, raise `chunks.max-drop-share`",
    "rows_differ": "find out who wrote to cold; `meltline chunks stop-sync {table}`, then "
    "`meltline chunks sync {table}`",
    "cold_unreadable": "`meltline chunks replicate --tables {table}` says what is wrong with cold",
    "not_durable": "`meltline chunks replicate --tables {table}`",
    "rollups_behind": "`meltline rollups refresh`; `meltline rollups list` says what is wrong",
    "drops_unknown": "`meltline chunks settle {table}` shows the evidence and takes the answer",
    "planned_held": "`meltline hold list` says who holds it",
}
"""The fix for a refused drop, by the fact that refused it."""


def unfinished_findings(control: ControlLedger) -> Iterator[Finding]:
    """Yields plans that were begun and not finished, with the obstacle of each run since."""
    begun = control.plans.find(states=[PlanState.APPLYING])
    runs = find_runs(control, RunFilter(limit=_RUNS)) if begun else []
    for plan in begun:
        times, obstacle = _met(runs, plan.table)
        is_stuck = times > 1
        parts, fix = [f"the {plan.kind} of {plan.table} was begun and not finished"], _NEXT_RUN
        if is_stuck:
            parts.append(f"{times} runs in a row were stopped by the same: {obstacle}")
            fix = "mend what stopped them; each run tries again"
        yield Finding(
            "error" if is_stuck else "warning",
            "plan_unfinished",
            plan.id,
            "; ".join(parts),
            fix,
        )


def expirer_findings(control: ControlLedger, now: datetime) -> Iterator[Finding]:
    """Yields tables whose snapshots another tool has expired within a week."""
    applied = control.plans.find(states=[PlanState.APPLIED], since=now - _A_WEEK)
    lost = Counter[TableName]()
    for plan in applied:
        lost[plan.table] += len(plan.gone_snapshots)
    for table, snapshots in sorted((+lost).items()):
        yield Finding(
            "info",
            "second_expirer",
            str(table),
            f"another tool expired {counted(snapshots, 'snapshot')} within a week; the files that "
            "it left wait in failsafe, and those that it deleted are gone",
            "one of the two is enough: only snapshots that Meltline expires keep their failsafe",
        )


def _met(runs: Sequence[RunLine], table: TableName) -> tuple[int, str]:
    """Number of latest runs in a row with the same message about a table, and the message.

    Only the last run may have the plan itself: its gate's result expires within a night.
    """
    told = [run.obstacle(str(table)) for run in runs]
    newest = told[0] if told else ""
    same = list(takewhile(newest.__eq__, told))
    return (len(same), newest) if newest else (0, "")


def refused_findings(control: ControlLedger, now: datetime) -> Iterator[Finding]:
    """The last refusal for each table, and chunks that it defers in run after run."""
    refused = control.plans.find(states=[PlanState.REFUSED], limit=_MOST)
    policies = {p.table_uuid: p for p in control.chunk_policies.all() if p.drop_after}
    dropping = [(uuid, PlanKind.DROP_CHUNKS) for uuid in policies]
    for uuid, kind in dict.fromkeys([*((p.table_uuid, p.kind) for p in refused), *dropping]):
        refusal = last_refusal(control, uuid, kind)
        if refusal is None:
            continue
        held_back = _held_back(control.chunks, policies.get(uuid), refusal, now)
        if refusal.plan.state is PlanState.REFUSED or (held_back and refusal.runs > 1):
            yield _finding(refusal, held_back)


def _held_back(
    ledger: ChunkReader, policy: ChunkPolicy | None, refusal: Refusal, now: datetime
) -> list[Chunk]:
    """Chunks that are still in hot because of a refusal, and that the policy still drops."""
    if policy is None or refusal.plan.kind is not PlanKind.DROP_CHUNKS:
        return []
    due = due_to_drop(ledger.of(policy.table_uuid, resident=True), policy, now).due
    return [chunk for chunk in due if chunk.name in refusal.chunks]


def _finding(refusal: Refusal, held_back: Sequence[Chunk]) -> Finding:
    plan, runs = refusal.plan, refusal.runs
    parts = [f"{plan.table}: {plan.note}"]
    if held_back:
        size = format_size(sum(chunk.bytes for chunk in held_back))
        parts.append(f"{counted(len(held_back), 'chunk')}, {size}, stay in hot")
    if runs > 1:
        since = f" since {format_instant(refusal.since)}" if refusal.since else ""
        parts.append(f"by {runs} runs{since}")
    again = f"`meltline gate {plan.id}` judges it again"
    way = _WAYS_OUT.get(refusal.cause, again) if held_back else again
    return Finding(
        "warning" if runs > 1 else "info",
        "plan_refused",
        plan.id,
        ", ".join(parts),
        way.format(table=quote(plan.table)),
    )
