"""Commands that run steps: observe, plan, gate, apply, run.

`commands` loads it by name. The steps are in `app`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from meltline.app.archive.cold_status import remember_copies
from meltline.app.chunks.drop import drop_chunks
from meltline.app.chunks.rounds import gate_drops
from meltline.app.chunks.run import times_of
from meltline.app.drop.finalize import process_drops
from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import Observation
from meltline.app.observe.observe import observe as look_at_everything
from meltline.app.observe.observe import rebuild as rebuild_index
from meltline.app.purge.approvals import approve
from meltline.app.purge.plan_purge import plan_purge
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import GATEABLE, run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.run.recap import recap
from meltline.app.run.recorded import run_recorded
from meltline.app.run.summary import Summary
from meltline.app.run_history.plan_log import gate_document, plan_document
from meltline.app.run_request import RunRequest
from meltline.app.safety.preconditions import require_datable
from meltline.app.services import RunContext
from meltline.cli.options import (
    AsJson,
    AsOf,
    ConfigPath,
    DryRun,
    Once,
    PlanName,
    Tables,
    declared,
    request,
    wire,
)
from meltline.cli.output import (
    answer,
    answer_rows,
    console,
    print_json,
    print_notes,
    print_plans,
    print_rows,
)
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import selected
from meltline.domain.units import format_instant, format_size
from meltline.wiring import Wiring


def observe(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    rebuild: Annotated[
        bool, typer.Option(help="read every manifest again into a new index")
    ] = False,
) -> int:
    """Scan all catalogs and index new snapshots."""
    wiring = wire(config)
    run_request = request(wiring, tables=tables)
    context = wiring.services("observe", run_request.run_id)
    require_datable(context)
    if rebuild:
        rebuild_index(context)
        if context.cold is not None:
            remember_copies(context)
    observation = look_at_everything(context)
    if process_drops(context, observation, run_request.as_of, run_request.tables):
        observation = look_at_everything(context)
    summary = Summary(run_request.run_id, run_request.as_of)
    summary.observed(observation, run_request.tables)
    lines = [line for line in _seen(observation) if selected(line["table"], run_request.tables)]
    document = {
        "run_id": run_request.run_id,
        "observed_at": observation.at,
        "tables": lines,
        "notes": summary.notes,
    }
    rows = [[str(t["table"]), str(t["snapshots"] or "-"), t["skipped"] or "ok"] for t in lines]
    answer_rows(document, ("table", "snapshots", "state"), rows, as_json=as_json)
    print_notes(() if as_json else summary.notes)
    return summary.exit_code


def _seen(observation: Observation) -> Iterator[dict[str, Any]]:
    for table in observation.tables:
        yield {
            "table": table.state.name,
            "snapshots": len(table.state.snapshots),
            "managed": table.managed,
            "skipped": observation.blocked.get(table.state.uuid),
        }
    for name, error in observation.skipped.items():
        yield {"table": name, "snapshots": None, "managed": None, "skipped": error.message}


def plan_expire(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    dry_run: DryRun = False,
) -> int:
    """Plan which snapshots expire and which files become unreferenced."""
    return _plan(wire(config), PlanKind.EXPIRE, tables, as_of, dry_run, as_json)


def plan_purge_command(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    dry_run: DryRun = False,
) -> int:
    """Plan which files past their failsafe are deleted."""
    return _plan(wire(config), PlanKind.PURGE, tables, as_of, dry_run, as_json)


def _plan(
    wiring: Wiring, kind: PlanKind, tables: str, as_of: str | None, dry_run: bool, as_json: bool
) -> int:
    run_request = request(wiring, tables=tables, as_of=as_of, dry_run=dry_run)
    context = wiring.services(f"plan {kind}", run_request.run_id)
    summary = Summary(run_request.run_id, run_request.as_of)
    plans = _make_plans(context, run_request, kind, summary)
    document = {
        "run_id": run_request.run_id,
        "as_of": run_request.as_of,
        "plans": [plan_document(plan) for plan in plans],
        "skipped": [
            {"table": t.table, "reason": t.skipped} for t in summary.tables.values() if t.skipped
        ],
        "notes": summary.notes,
    }
    if as_json:
        print_json(document)
    else:
        print_plans(plans)
        print_notes(summary.notes)
    return summary.exit_code


def _make_plans(
    context: RunContext, run_request: RunRequest, kind: PlanKind, summary: Summary
) -> list[Plan]:
    require_datable(context)
    if kind is PlanKind.PURGE and not run_request.dry_run:
        return [planned.plan for planned in Run(context, run_request).plan_purge()]
    observation = look_at_everything(context)
    summary.observed(observation, run_request.tables)
    make = plan_expiration if kind is PlanKind.EXPIRE else plan_purge
    planned = make(
        context,
        observation,
        run_id=run_request.run_id,
        as_of=run_request.as_of,
        tables=run_request.tables,
        dry_run=run_request.dry_run,
    )
    return [planned_files.plan for planned_files in planned]


def gate(plan: PlanName, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Evaluate a plan with Great Expectations, on newly collected evidence."""
    wiring = wire(config)
    stored = wiring.ledgers().control.plans.get(plan)
    if stored.state not in GATEABLE:
        raise UsageInvalid(
            f"plan {stored.id} is {stored.state}: there is nothing to judge",
            object=stored.id,
            expected="a plan that is planned, passed or refused",
            found=str(stored.state),
            next="plan again",
        )
    context = wiring.services("gate", stored.run_id, judges=True)
    judge = gate_drops if stored.kind is PlanKind.DROP_CHUNKS else run_gate
    judged, verdict = judge(context, [stored])[0]
    lines = [
        f"{judged.id} {judged.table}: {'passed' if verdict.passed else 'refused'}",
        *(f"  {f.expectation}: found {f.observed} ({f.object})" for f in verdict.failed),
        *([f"  {verdict.error}"] if verdict.error else []),
    ]
    answer(gate_document(verdict), lines, as_json=as_json)
    return 0 if verdict.passed else 3


def apply_plan(
    plan: PlanName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    approval: Annotated[str, declared("approve", metavar="REASON")] = "",
    once: Once = "",
) -> int:
    """Apply a plan whose gate has passed."""
    wiring = wire(config)
    stored = wiring.ledgers().control.plans.get(plan)
    if dry_run:
        document = {**plan_document(stored), "would": f"{stored.kind} {stored.files} files"}
        print_json(document) if as_json else print_plans([stored])
        return 0
    context = replace(wiring.services("apply", stored.run_id), once=once)
    if approval:
        approve(context, [stored], approval)
    if stored.kind is PlanKind.DROP_CHUNKS:
        return _drop(context, stored, as_json=as_json)
    summary = Summary(stored.run_id, stored.as_of)
    failed: list[dict[str, str]] = []
    if stored.kind is PlanKind.EXPIRE:
        expired = apply_expirations(context, [stored])[0]
        summary.expired([expired])
        error, state = expired.error, expired.plan.state
    else:
        purged = apply_purges(context, [stored])[0]
        summary.purged([purged])
        error, state = purged.error, purged.plan.state
        failed = [{"path": f.path, "error": f.error} for f in purged.failed]
    if error is not None:
        raise error
    line = summary.tables[str(stored.table)]
    document = {
        "plan": stored.id,
        "state": str(state),
        "snapshots_expired": line.snapshots_expired,
        "files_departed": line.files_departed,
        "files_purged": line.files_purged,
        "failed": failed,
    }
    done = f"{line.files_purged} files deleted"
    if stored.kind is PlanKind.EXPIRE:
        done = f"{line.snapshots_expired} snapshots expired, {line.files_departed} files departed"
    lines = [f"{stored.id} of {stored.table} is {state}: {done}."]
    lines += [f"  {file['path']}: {file['error']}" for file in failed]
    answer(document, lines, as_json=as_json)
    return 1 if failed else 0


def _drop(context: RunContext, stored: Plan, *, as_json: bool) -> int:
    """Executes a drop plan of chunks."""
    (dropped,) = drop_chunks(context, [stored])
    if dropped.error is not None:
        raise dropped.error
    document = {
        "plan": stored.id,
        "state": str(dropped.plan.state),
        "chunks_dropped": list(dropped.chunks),
        "out_of_hot": dropped.out_of_hot,
        "out_of_history": dropped.out_of_history,
        "gone": dropped.gone,
        "failed": [],
    }
    line = f"{stored.id} of {stored.table} is {dropped.plan.state}: {times_of(dropped)}."
    return answer(document, [line], as_json=as_json)


def run(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    dry_run: DryRun = False,
    any_hour: Annotated[bool, declared("any_hour")] = False,
    once: Once = "",
    parallelism: Annotated[str, declared("parallelism")] = "",
) -> int:
    """Run the whole chain in one Spark session, without Airflow."""
    wiring = wire(config)
    run_request = request(
        wiring,
        tables=tables,
        as_of=as_of,
        dry_run=dry_run,
        once=once,
        any_hour=any_hour,
        parallelism=parallelism,
    )
    summary = run_recorded(wiring.services("run", run_request.run_id), run_request)
    if as_json:
        print_json(summary.as_json())
    else:
        _print_summary(summary, dry_run)
    return summary.exit_code


def _print_summary(summary: Summary, dry_run: bool) -> None:
    whole, *_ = recap(summary.as_json())
    console().print(f"{whole[0].upper()}{whole[1:]}.", markup=False, soft_wrap=True)
    if dry_run:
        print_plans(list(summary.plans.values()))
        print_notes((*summary.notes, *summary.notices))
        return
    rows = [
        [
            t.table,
            str(t.snapshots_archived),
            str(t.snapshots_expired),
            str(t.files_departed),
            str(t.files_purged),
            format_size(t.bytes_purged),
            t.failed or t.refused or t.skipped or _waits(summary, t.table) or "ok",
        ]
        for _, t in sorted(summary.tables.items())
    ]
    columns = ("table", "archived", "expired", "files departed", "purged", "bytes", "state")
    print_rows(f"Run {summary.run_id}, as of {format_instant(summary.as_of)}", columns, rows)
    print_notes((*summary.notes, *summary.notices))
    for line in summary.approvals.values():
        size = format_size(line["bytes"])
        text = f"{line['table']}: plan {line['plan']} purges {size}: a person must approve it"
        console().print(f"{text}. Next: {line['next']}", markup=False, soft_wrap=True)


def _waits(summary: Summary, table: str) -> str:
    """Status of a table with a purge that waits for approval."""
    waits = any(line["table"] == table for line in summary.approvals.values())
    return "waits for approval" if waits else ""
