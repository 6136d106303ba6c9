"""Commands that drop by age: chunks run, chunks drop, plan drops.

`commands` loads it by name. The steps are in `app/chunks/run`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from meltline.app.catalog.resolve import load_table, parse_table_name
from meltline.app.chunks.lookups import chunked_tables, require_tracked
from meltline.app.chunks.manual_runs import DROPPING
from meltline.app.chunks.plan_drops import Force, PlannedDrops
from meltline.app.chunks.run import ChunkRun
from meltline.app.run.recap import recap
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import CHUNK_STEPS
from meltline.app.run.summary import Summary
from meltline.app.run_history.plan_log import plan_document
from meltline.app.run_request import globs
from meltline.cli.options import (
    AsJson,
    AsOf,
    ConfigPath,
    DryRun,
    Once,
    Reason,
    TableArgument,
    Tables,
    declared,
    ready_wiring,
    request,
)
from meltline.cli.output import console, print_json, print_notes, print_rows
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import unmatched
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_instant, format_size

_SHOWN = 3
WAYS_OUT: Mapping[str, str] = {
    Deferral.NOT_SYNCED: "`meltline chunks sync {table}`",
    Deferral.NOT_STREAMING: "`meltline chunks replicate --tables {table}`",
    Deferral.STALE_HEARTBEAT: "`meltline chunks replicate --tables {table}`",
    Deferral.NO_WRITE_POSITION: "the next run reads its commits again",
    Deferral.BEHIND: "`meltline chunks replicate --tables {table}`",
    Deferral.DIVERGED: "`meltline chunks sync {table}` copies everything anew",
    Deferral.OTHER_GENERATION: "`meltline chunks replicate --tables {table}` ends the new copy",
    Deferral.ROWS_DIFFER: "find out who wrote to cold; `meltline chunks stop-sync {table}`, then "
    "`meltline chunks sync {table}`",
    Deferral.SPANS_CHUNKS: "have the table's engine rewrite these files by its partitions",
    Deferral.ROLLUP_DIRTY: "`meltline rollups refresh`; `meltline rollups list` says what is wrong",
    Deferral.HELD: "`meltline hold list` says who holds it",
    Deferral.LATEST_KEPT: "its policy keeps them",
    Deferral.STRADDLES: "they are not whole past their age; rows without a time stay",
    Deferral.UNKNOWN_DROP: "`meltline chunks settle {table}`",
    Deferral.OVER_SHARE: "each run drops the oldest, within chunks.max-chunks and max-drop-share",
    Deferral.GATE_REFUSED: "`meltline show plan last` says what the gate has found",
    Deferral.CHANGED_MEANWHILE: "the next run proves them anew",
}
"""Next step for an operator, by reason of a deferral."""


def run(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    dry_run: DryRun = False,
    once: Once = "",
) -> int:
    """Run the daily DAG's steps: copy, flag proved chunks, plan drops, gate, drop."""
    wiring, context = ready_wiring(config)
    run_request = request(wiring, tables=tables, as_of=as_of, dry_run=dry_run, once=once)
    names = [table.state.name for table in chunked_tables(context, run_request.tables)]
    services = wiring.services("chunks run", run_request.run_id, judges=not dry_run)
    chunk_run = ChunkRun(services, run_request)
    summary = run_recorded(chunk_run.context, run_request, CHUNK_STEPS, chunk_run)
    summary.notes += [
        f"no table that is cut into chunks matches {glob}"
        for glob in unmatched(run_request.tables, names)
    ]
    _print(chunk_run, as_json=as_json)
    return summary.exit_code


def drop(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    force: Annotated[
        bool, typer.Option("--force", help="drop them unproved: needs --chunks and --reason")
    ] = False,
    chunks: Annotated[str, declared("chunks", metavar="A,B")] = "",
    reason: Reason = "",
    dry_run: DryRun = False,
    once: Once = "",
) -> int:
    """Drop a table's due chunks at once, behind the gate."""
    wiring, context = ready_wiring(config)
    name = parse_table_name(table)
    require_tracked(context, load_table(context, name))
    asked = replace(
        request(wiring, dry_run=dry_run, once=once),
        tables=(str(name),),
        chunks=globs(chunks),
        force=reason if force else "",
    )
    _require_whole(asked.chunks, reason, force=force)
    services = wiring.services("chunks drop", asked.run_id, judges=not dry_run)
    chunk_run = ChunkRun(services, asked, at_once=True)
    summary = run_recorded(chunk_run.context, asked, DROPPING, chunk_run)
    _print(chunk_run, as_json=as_json)
    return 3 if summary.not_armed and not summary.exit_code else summary.exit_code


def _require_whole(chunks: Sequence[str], reason: str, *, force: bool) -> None:
    """Rejects half of a forced drop: the flag without its arguments, or these without the flag."""
    if force:
        Force(tuple(chunks), reason)
    elif chunks or reason:
        raise UsageInvalid(
            "chunks and a reason are for a forced drop only",
            object="--chunks" if chunks else "--reason",
            expected="--force with both, or neither",
            found="no --force",
            next="leave them out: what the policy says is old enough is dropped behind the gate",
        )


def plan_drops(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    dry_run: DryRun = False,
) -> int:
    """Plan which chunks are dropped from hot, with their files."""
    wiring, _ = ready_wiring(config)
    run_request = request(wiring, tables=tables, as_of=as_of, dry_run=dry_run)
    services = wiring.services("plan drops", run_request.run_id)
    chunk_run = ChunkRun(services, run_request, at_once=True)
    summary = chunk_run.visit(DROPPING[:1])
    document = {
        "run_id": run_request.run_id,
        "as_of": run_request.as_of,
        "plans": [plan_document(plan) for plan in chunk_run.planned],
        "deferred": summary.deferred,
        "skipped": [
            {"table": t.table, "reason": t.skipped} for t in summary.tables.values() if t.skipped
        ],
        "notes": summary.notes,
    }
    if as_json:
        print_json(document)
    else:
        _print_planned(chunk_run.planned)
        print_notes((*_deferred(summary), *summary.notes, *summary.notices))
    return summary.exit_code


# --- output --------------------------------------------------------------------------------------


def _print(chunk_run: ChunkRun, *, as_json: bool) -> None:
    summary = chunk_run.summary
    if as_json:
        print_json({**summary.as_json(), "drops": _drops(chunk_run), "at_risk": _risks(chunk_run)})
        return
    told = recap(summary.as_json())
    for line in told[:2] if summary.not_armed else told[:1]:
        console().print(f"{line[0].upper()}{line[1:]}.", soft_wrap=True)
    if summary.dry_run:
        _print_planned(list(summary.plans.values()))
        print_notes([*_risk_sentences(chunk_run.planned_drops)])
    else:
        _print_tables(summary)
    print_notes((*_deferred(summary), *summary.notes, *summary.notices))


def _print_planned(plans: Sequence[Plan]) -> None:
    """Prints drop plans, with the chunks by name."""
    if not plans:
        console().print("Nothing to drop.")
        return
    rows = [
        [
            plan.id,
            str(plan.table),
            str(len(plan.chunks)),
            f"{plan.chunks[0]} to {plan.chunks[-1]}",
            str(plan.files),
            format_size(plan.bytes),
            str(plan.state),
        ]
        for plan in plans
    ]
    print_rows("", ("plan", "table", "chunks", "which", "files", "bytes", "state"), rows)


def _print_tables(summary: Summary) -> None:
    rows = [
        [
            t.table,
            str(t.chunks_tiered),
            str(t.chunks_dropped),
            format_size(t.bytes_dropped),
            t.failed or t.refused or t.skipped or "ok",
        ]
        for _, t in sorted(summary.tables.items())
    ]
    title = f"Run {summary.run_id}, as of {format_instant(summary.as_of)}"
    if rows:
        print_rows(title, ("table", "tiered", "dropped", "bytes", "state"), rows)
    nexts = [f"{t.table}: next: {t.next}" for t in summary.tables.values() if t.next]
    print_notes(nexts)


def _deferred(summary: Summary) -> Iterator[str]:
    """Formats deferred chunks by table and reason, with the next step."""
    by_reason: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in summary.deferred:
        by_reason[line["table"], line["reason"]].append(line)
    for (table, reason), lines in by_reason.items():
        chunks = ", ".join(line["chunk"] for line in lines[:_SHOWN])
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        detail = f": {lines[0]['detail']}" if lines[0]["detail"] else ""
        verb = "waits" if len(lines) == 1 else "wait"
        way = WAYS_OUT[reason].format(table=quote(table))
        count = counted(len(lines), "chunk")
        yield f"{table}: {count} {verb}, {reason}{detail} ({chunks}{more}). Next: {way}"


def _drops(chunk_run: ChunkRun) -> list[dict[str, Any]]:
    """Builds a document of each drop with its three times."""
    return [
        {
            "table": str(dropped.plan.table),
            "plan": dropped.plan.id,
            "chunks": list(dropped.chunks),
            "files": dropped.plan.files,
            "bytes": dropped.plan.bytes,
            "out_of_hot": dropped.out_of_hot,
            "out_of_history": dropped.out_of_history,
            "gone": dropped.gone,
            "error": dropped.error.as_json() if dropped.error else None,
        }
        for dropped in chunk_run.results
    ]


def _risks(chunk_run: ChunkRun) -> list[dict[str, Any]]:
    """Builds a document of the rows that a forced drop may lose."""
    return [
        {
            "table": drops.table,
            "chunks": [{"chunk": d.chunk, "reason": d.reason} for d in drops.unproved],
            "rows": drops.at_risk,
            "bytes": drops.bytes_at_risk,
        }
        for drops in chunk_run.planned_drops
        if drops.unproved
    ]


def _risk_sentences(planned: Sequence[PlannedDrops]) -> Iterator[str]:
    for drops in planned:
        if drops.unproved:
            rows = f"{counted(drops.at_risk, 'row')}, {format_size(drops.bytes_at_risk)}"
            chunks = counted(len(drops.unproved), "chunk")
            yield f"{drops.table}: at risk: {rows} of {chunks} that nobody has proved to be in cold"
            for deferred in drops.unproved:
                yield f"  {deferred.chunk}: {deferred.reason} {deferred.detail}".rstrip()
