"""Commands for stored plans and runs, without a JVM: plans, runs, show plan, show run.

`commands` loads it by name.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer

from meltline.app.run_history.period import Period
from meltline.app.run_history.plan_items import PlanItem, plan_items
from meltline.app.run_history.plan_log import (
    JudgedPlan,
    PlanFilter,
    find_plans,
    judged,
    plan_document,
)
from meltline.app.run_history.run_log import RunFilter, RunLine, RunOutcome, find_runs, run_of
from meltline.app.run_request import globs
from meltline.cli.options import AsJson, ConfigPath, PlanName, Tables, ready
from meltline.cli.output import (
    answer_rows,
    console,
    print_json,
    print_notes,
    print_plans,
    print_rows,
    shown_instant,
)
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.errors import UsageInvalid
from meltline.domain.json_values import plain
from meltline.domain.units import format_instant, format_size

_SHOWN = 3
Word = TypeVar("Word", bound=StrEnum)
Day = Annotated[str, typer.Option("--day", metavar="YYYY-MM-DD", help="only this day, in UTC")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="maximum number, the newest first")]


def show_plan(
    plan: PlanName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    items: Annotated[
        bool,
        typer.Option("--items", help="every file with its dates, snapshots and reason"),
    ] = False,
) -> int:
    """Show a stored plan with its verdict and decisions, and with --items every file."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    (line,) = judged(context.control, [stored])
    files = plan_items(context.reader, context.control, line) if items else []
    if as_json:
        document: dict[str, Any] = {**line.as_json(), **plan_document(stored)}
        print_json(document | ({"items": [plain(file) for file in files]} if items else {}))
        return 0
    print_plans([stored])
    print_notes(_sentences(line))
    if items:
        columns = ("path", "kind", "bytes", "since", "of snapshots", "due", "why")
        print_rows("", columns, [_item_row(file) for file in files])
    return 0


def _sentences(line: JudgedPlan) -> list[str]:
    """Describes a plan's run, policy, gate and approval."""
    plan, verdict = line.plan, line.verdict
    sentences = [f"run {plan.run_id}, {line.policy}", f"digest {plan.digest}"]
    if verdict:
        docs = f", {verdict.docs}" if verdict.docs else ""
        sentences.append(
            f"gate {verdict.suite}: {line.gate} {format_instant(verdict.ran_at)}{docs}"
        )
    if line.approval:
        sentences.append(f"approved by {line.approval.who}: {line.approval.reason}")
    if plan.chunks:
        sentences.append(f"chunks {', '.join(plan.chunks)}, on snapshot {plan.base_head}")
    return [*sentences, *([plan.note] if plan.note else [])]


def _item_row(file: PlanItem) -> list[str]:
    more = len(file.snapshots) - _SHOWN
    snapshots = ", ".join(file.snapshots[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return [
        file.path,
        str(file.kind),
        format_size(file.bytes),
        shown_instant(file.since),
        snapshots or "-",
        shown_instant(file.due_at),
        file.why,
    ]


def plans(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    state: Annotated[str, typer.Option("--state", help=", ".join(PlanState))] = "",
    kind: Annotated[
        PlanKind | None, typer.Option("--kind", help="expire, purge or drop_chunks")
    ] = None,
    day: Day = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="only this run")] = "",
    limit: Limit = 50,
) -> int:
    """List plans, the newest first, with their content and state."""
    control = ready(config).control
    run_id = control.runs.get(run).id if run else ""
    states = _words(state, "--state", PlanState)
    request = PlanFilter(globs(tables), states, kind, run_id, _period(day), limit)
    listed = find_plans(control, request)
    notes = [f"no table matches {glob}" for glob in listed.unmatched]
    answer_rows(
        {"plans": [line.as_json() for line in listed.plans], "notes": notes},
        ("plan", "kind", "table", "made", "files", "bytes", "gate", "state", "run"),
        [_plan_row(line) for line in listed.plans],
        as_json=as_json,
        nothing="No plan.",
    )
    print_notes(() if as_json else notes)
    return 4 if notes else 0


def _plan_row(line: JudgedPlan) -> list[str]:
    plan = line.plan
    return [
        plan.id,
        str(plan.kind),
        str(plan.table),
        format_instant(plan.created_at),
        str(plan.files),
        format_size(plan.bytes),
        line.gate,
        str(plan.state),
        plan.run_id,
    ]


def runs(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    state: Annotated[str, typer.Option("--state", help=", ".join(RunOutcome))] = "",
    day: Day = "",
    limit: Limit = 20,
) -> int:
    """List past runs, the newest first, with their results."""
    outcomes = _words(state, "--state", RunOutcome)
    request = RunFilter(globs(tables), outcomes, _period(day), limit)
    lines = find_runs(ready(config).control, request)
    return answer_rows(
        {"runs": [line.as_json() for line in lines]},
        ("run", "as of", "started", "took", "departed", "purged", "bytes purged", "state"),
        [_run_row(line) for line in lines],
        as_json=as_json,
        nothing="No run.",
    )


def _run_row(line: RunLine) -> list[str]:
    (departed, _), (purged, size) = line.applied(PlanKind.EXPIRE), line.applied(PlanKind.PURGE)
    return [
        line.run.id,
        format_instant(line.run.as_of),
        format_instant(line.run.started_at),
        str(line.took).partition(".")[0] if line.took is not None else "-",
        str(departed),
        str(purged),
        format_size(size),
        line.outcome_text,
    ]


def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="an id, a prefix of one, or `last`")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Show a run: its plans, skipped tables with reasons, and notices."""
    line, its_plans = run_of(ready(config).control, run)
    if as_json:
        print_json({**line.as_json(), "plans": [plan.as_json() for plan in its_plans]})
        return 0
    print_rows(
        "",
        ("run", "as of", "started", "took", "departed", "purged", "bytes purged", "state"),
        [_run_row(line)],
    )
    _print_plans_of(its_plans)
    told = (("skipped", line.skipped), ("refused", line.refused), ("failed", line.failed))
    for how, tables in told:
        print_notes([f"{table}: {how}: {why}" for table, why in tables.items()])
    print_notes([f"{d['table']}: {d['chunk']} waits: {d['reason']}" for d in line.deferred])
    print_notes(line.notes)
    return 0


def _print_plans_of(its_plans: Sequence[JudgedPlan]) -> None:
    if not its_plans:
        console().print("It planned nothing.")
        return
    columns = ("plan", "kind", "table", "files", "bytes", "gate", "state", "note")
    rows = [
        [
            line.plan.id,
            str(line.plan.kind),
            str(line.plan.table),
            str(line.plan.files),
            format_size(line.plan.bytes),
            line.gate,
            str(line.plan.state),
            line.plan.note or "-",
        ]
        for line in its_plans
    ]
    print_rows("", columns, rows)


def _period(day: str) -> Period:
    try:
        return Period.day(day)
    except ValueError as error:
        raise UsageInvalid(
            "--day is not a day",
            object="--day",
            expected="a day such as 2026-11-21",
            found=day,
            next=str(error),
        ) from error


def _words(text: str, option: str, kind: type[Word]) -> tuple[Word, ...]:
    """Parses a comma-separated list of known values."""
    words = globs(text)
    known = {str(word) for word in kind}
    if unknown := [word for word in words if word not in known]:
        raise UsageInvalid(
            f"{option} {unknown[0]} is not known",
            object=option,
            expected=", ".join(sorted(known)),
            found=unknown[0],
            next="name one of them, or several with commas",
        )
    return tuple(kind(word) for word in words)
