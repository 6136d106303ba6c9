"""Commands about the archive: cold status, list, verify; and what a handoff would do."""

from typing import Annotated

import typer

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.archive.cold_status import ColdStatus, cold_list, cold_status
from meltline.app.archive.cold_verify import Verified, cold_verify
from meltline.app.catalog.resolve import parse_table_name
from meltline.app.catalog.tables import read_tables
from meltline.app.run_request import globs
from meltline.cli.options import (
    AsJson,
    AsOf,
    ConfigPath,
    TableArgument,
    Tables,
    instant,
    ready,
    ready_wiring,
)
from meltline.cli.output import console, print_json, print_rows
from meltline.cli.run.lifecycle import plan_app
from meltline.domain.clock import resolve_as_of
from meltline.domain.units import format_instant, format_size

cold_app = typer.Typer(help="What of history is in the archive.", no_args_is_help=True)
Optional = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="catalog.namespace.table; else all")
]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.add_typer(cold_app, name="cold")
    cold_app.command("status")(status)
    cold_app.command("list")(list_copies)
    cold_app.command("verify")(verify)
    plan_app.command("handoff")(plan_handoff)


def status(table: Optional = None, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """How far the archive is: what waits, what is there, what it takes."""
    ledgers = ready(config)
    statuses = cold_status(ledgers, None if table is None else parse_table_name(table))
    if as_json:
        print_json({"cold": ledgers.config.cold or None, "tables": statuses})
        return 0
    columns = ("table", "policy", "waiting", "archived", "bytes", "oldest", "newest")
    title = ledgers.config.cold or "no cold tier is configured"
    print_rows(title, columns, [_line(line) for line in statuses])
    return 0


def _line(status: ColdStatus) -> list[str]:
    times = [format_instant(at) if at else "-" for at in (status.oldest, status.newest)]
    counts = [str(status.waiting), str(status.archived), format_size(status.bytes)]
    return [str(status.table), status.policy or "not in hot", *counts, *times]


def list_copies(table: TableArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """The archived snapshots of a table: id, time, when they were verified, bytes."""
    name = parse_table_name(table)
    copies = cold_list(ready(config), name)
    if as_json:
        print_json({"table": str(name), "snapshots": copies})
        return 0
    rows = [
        [
            str(c.snapshot_id),
            format_instant(c.committed_at),
            format_instant(c.verified_at),
            str(c.rows),
            format_size(c.bytes),
            format_instant(c.keep_until),
        ]
        for c in copies
    ]
    columns = ("snapshot", "committed", "verified", "rows", "bytes", "kept until")
    print_rows(str(name), columns, rows)
    return 0


def verify(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", metavar="ID", help="one of them; else all")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="read every row as well; needs Spark")
    ] = False,
    content: Annotated[
        bool, typer.Option("--content", help="read every file, and compare its digest")
    ] = False,
) -> int:
    """Open every manifest in cold and look for every file; nothing of hot is needed."""
    wiring, ledgers = ready_wiring(config)
    name = parse_table_name(table)
    counting = wiring.services("cold verify").rows if rows else None
    count = counting.count if counting else None
    results = cold_verify(ledgers, name, snapshot, count, content=content)
    broken = any(verified.problems for verified in results)
    if as_json:
        print_json({"table": str(name), "verified": not broken, "snapshots": results})
        return 1 if broken else 0
    lines = [
        [
            str(v.snapshot_id),
            str(v.files),
            str(v.rows if v.rows_read is None else v.rows_read),
            "; ".join(v.problems) or _whole(v),
        ]
        for v in results
    ]
    print_rows(str(name), ("snapshot", "files", "rows", "state"), lines)
    return 1 if broken else 0


def _whole(verified: Verified) -> str:
    """Says what "whole" does not cover."""
    notes = [
        f"{count} {meaning}"
        for count, meaning in (
            (verified.unread, "files have no digest; --content reads them"),
            (verified.alone, "files read without their originals"),
        )
        if count
    ]
    return f"whole ({'; '.join(notes)})" if notes else "whole"


def plan_handoff(
    config: ConfigPath = None, as_json: AsJson = False, tables: Tables = "", as_of: AsOf = None
) -> int:
    """Show which expired snapshots wait for their copy in cold; nothing is stored."""
    ledgers = ready(config)
    moment = resolve_as_of(instant(as_of), ledgers.clock.now(), dry_run=True)
    waiting = pending_handoffs(ledgers, read_tables(ledgers), moment, globs(tables))
    document = [
        {
            "table": str(pending.table.state.name),
            "policy": str(pending.policy.cadence),
            "snapshots": [sid for sid in pending.snapshots if sid not in pending.copies],
        }
        for pending in waiting
        if pending.waiting
    ]
    if as_json:
        print_json({"as_of": moment, "cold": ledgers.config.cold or None, "tables": document})
    elif not document:
        console().print("Nothing to do.")
    else:
        lines = [[str(d["table"]), str(d["policy"]), str(len(d["snapshots"]))] for d in document]
        print_rows("", ("table", "policy", "snapshots"), lines)
    return 0
