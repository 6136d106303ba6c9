"""Commands for replication: chunks sync, stop-sync, settle, accept, replicate.

`commands` loads it by name.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.cold_overrides import accept_cold
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.manual_runs import first_copy
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.replication.declare import stop_sync as stop_replication
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.run import ChunkRun
from meltline.app.chunks.settle import DoubtfulChunk, DropAnswer, doubtful_chunks, settle_drops
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import REPLICATE
from meltline.cli.chunks.declared import Column, Pattern, UnitOption, cut
from meltline.cli.options import (
    AsJson,
    ConfigPath,
    Reason,
    TableArgument,
    Tables,
    declared,
    ready,
    ready_wiring,
    request,
)
from meltline.cli.output import (
    answer,
    answer_rows,
    print_json,
    print_notes,
    print_rows,
    shown_instant,
)
from meltline.domain.chunks.sync import Deletes, SyncState, TableSync
from meltline.domain.iceberg.names import TableName, unmatched
from meltline.domain.safe_text import quote
from meltline.domain.units import counted


def sync(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="the table's name in cold")] = "",
    column: Column = "",
    unit: UnitOption = None,
    pattern: Pattern = "",
    later: Annotated[
        bool, typer.Option("--later", help="only declare it: the next replication copies")
    ] = False,
) -> int:
    """Replicate a table to cold; everything is copied and verified before it counts."""
    wiring, context = ready_wiring(config)
    name = parse_table_name(table)
    begun = start_sync(context, name, to, cut(column, unit, pattern))
    if later:
        lines = [f"{name} goes to {begun.cold}: `meltline chunks replicate` copies it."]
        return answer(_document(begun), lines, as_json=as_json)
    done = first_copy(wiring.services, wiring.clock.now(), begun)
    document = {**_document(done.sync), "rows_copied": done.rows, "commits": done.commits}
    lines = [
        f"{name} is {done.sync.state} to {done.sync.cold}: {done.rows} rows copied and verified.",
        "`meltline chunks replicate`, or its DAG, has it follow; ages: `meltline chunks "
        "tier-and-drop`.",
    ]
    return answer(document, lines, as_json=as_json)


def stop_sync(table: TableArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Stop a table's replication: cold keeps what it has, chunks that need it stay in hot."""
    name = parse_table_name(table)
    stopped = stop_replication(ready(config), name)
    lines = [
        f"{name} is not replicated any more; {stopped.cold} keeps what it has.",
        f"Its chunks wait until `meltline chunks sync {quote(name)}` copies it anew.",
    ]
    return answer(_document(stopped), lines, as_json=as_json)


def settle(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    drops: Annotated[
        DropAnswer | None, typer.Option("--drops", help="the answer; without it the evidence shows")
    ] = None,
    chunks: Annotated[
        str, typer.Option("--chunks", metavar="NAMES", help="these alone, by commas; else all")
    ] = "",
    reason: Reason = "",
) -> int:
    """Decide drops with unknown status: they are undone, or in force."""
    name, context = parse_table_name(table), ready(config)
    if drops is None:
        return _show_evidence(name, doubtful_chunks(context, name), as_json=as_json)
    names = settle_drops(context, name, drops, reason, [*filter(None, chunks.split(","))])
    count = counted(len(names), "chunk")
    return answer(
        {"table": str(name), "drops": str(drops), "chunks": names},
        [f"The drops of {count} of {name} are {drops.standing}; replication goes on."],
        as_json=as_json,
    )


def accept(
    table: TableArgument, config: ConfigPath = None, as_json: AsJson = False, reason: Reason = ""
) -> int:
    """Accept changes of others to dropped chunks in cold: they count from now on."""
    name, (wiring, _) = parse_table_name(table), ready_wiring(config)
    changes = accept_cold(wiring.services("chunks accept"), name, reason)
    lines = changes or [f"Cold has of {name} what was recorded."]
    return answer({"table": str(name), "accepted": changes}, lines, as_json=as_json)


def _show_evidence(name: TableName, chunks: Sequence[DoubtfulChunk], *, as_json: bool) -> int:
    code = answer_rows(
        {"table": str(name), "chunks": chunks},
        ("chunk", "dropped", "by plan", "rows dropped", "rows in hot", "rows in cold"),
        [_evidence(chunk) for chunk in chunks],
        as_json=as_json,
        nothing=f"Nothing of {name} waits for an answer.",
    )
    if chunks and not as_json:
        say = f"`meltline chunks settle {quote(name)} --drops"
        print_notes(
            [
                f"{say} undone`: a rollback has brought the rows back, hot has all of them.",
                f"{say} in-force`: hot has late rows, and cold alone what was dropped.",
            ]
        )
    return code


def _evidence(line: DoubtfulChunk) -> list[str]:
    rows = (line.dropped_rows, line.hot_rows, line.cold_rows)
    return [line.chunk, shown_instant(line.dropped_at), line.drop_plan or "-", *map(str, rows)]


def replicate(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    deletes: Annotated[Deletes | None, declared("deletes")] = None,
) -> int:
    """Replicate hot's changes to synced tables in cold; a failure stops only its table."""
    wiring, context = ready_wiring(config)
    run_request = request(wiring, tables=tables, deletes=deletes)
    synced = {sync.table_uuid for sync in context.control.syncs.all()}
    names = [t.state.name for t in chunked_tables(context, run_request.tables, only=synced)]
    services = wiring.services("chunks replicate", run_request.run_id)
    run = ChunkRun(services, run_request, deletes=run_request.deletes)
    summary = run_recorded(services, run_request, (REPLICATE,), run)
    notes = [f"no synced table matches {glob}" for glob in unmatched(run_request.tables, names)]
    if as_json:
        print_json({**summary.as_json(), "syncs": [_pass_document(r) for r in run.replicated]})
    else:
        _print_passes(run.replicated)
        print_notes((*summary.notes, *notes))
    return summary.exit_code or (4 if notes else 0)


def _print_passes(passes: Sequence[Replicated]) -> None:
    if not passes:
        print_notes(["No table is synced: `meltline chunks sync TABLE`."])
        return
    columns = ("table", "cold", "state", "commits", "rows copied", "problem")
    rows = [
        [
            done.table,
            str(done.sync.cold),
            str(done.sync.state),
            str(done.commits),
            str(done.rows),
            done.error.message if done.error else "-",
        ]
        for done in passes
    ]
    print_rows("", columns, rows)
    print_notes([f"{done.table}: next: {done.error.next}" for done in passes if done.error])


def _document(sync: TableSync) -> dict[str, object]:
    is_whole = sync.committed is not None and sync.state is SyncState.STREAMING
    return {
        "table": str(sync.table),
        "cold": str(sync.cold),
        "state": str(sync.state),
        "generation": sync.generation,
        "verified": is_whole,
        "snapshot_id": sync.committed.snapshot_id if sync.committed else None,
        "heartbeat": sync.heartbeat,
        "reason": sync.reason or None,
        "detail": sync.detail or None,
    }


def _pass_document(done: Replicated) -> dict[str, object]:
    return {
        **_document(done.sync),
        "table": done.table,
        "commits": done.commits,
        "rows_copied": done.rows,
        "error": done.error.as_json() if done.error else None,
    }
