"""Commands for the archive: cold status, list, verify, adopt; plan handoff.

`commands` loads it by name. Commands that remove from cold are in `cold_prune`.
"""

from typing import Annotated

import typer

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.archive.cold_adoption import adopt_cold
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
from meltline.cli.output import answer, answer_rows, print_notes, shown_instant
from meltline.domain.clock import resolve_as_of
from meltline.domain.iceberg.names import unmatched
from meltline.domain.units import format_instant, format_size

Optional = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="catalog.namespace.table; else all")
]


def status(table: Optional = None, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Show the archive's progress: waiting and finished copies, bytes."""
    context = ready(config)
    statuses = cold_status(context, None if table is None else parse_table_name(table))
    columns = ("table", "policy", "waiting", "archived", "bytes", "oldest", "newest")
    return answer_rows(
        {"cold": context.config.cold or None, "tables": statuses},
        columns,
        [_line(line) for line in statuses],
        as_json=as_json,
        title=context.config.cold or "no cold tier is configured",
    )


def _line(status: ColdStatus) -> list[str]:
    return [
        str(status.table),
        status.policy or "not in hot",
        str(status.waiting),
        str(status.archived),
        format_size(status.bytes),
        shown_instant(status.oldest),
        shown_instant(status.newest),
    ]


def list_copies(table: TableArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List the archived snapshots of a table: id, time, time of verification, bytes."""
    name = parse_table_name(table)
    copies = cold_list(ready(config), name)
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
    document = {"table": str(name), "snapshots": copies}
    return answer_rows(document, columns, rows, as_json=as_json, title=str(name))


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
    """Open every manifest in cold and check every file, without the hot lake."""
    wiring, context = ready_wiring(config)
    name = parse_table_name(table)
    counting = wiring.services("cold verify").rows if rows else None
    count = counting.count if counting else None
    results = cold_verify(context, name, snapshot, count, content=content)
    broken = any(verified.problems for verified in results)
    document = {"table": str(name), "verified": not broken, "snapshots": results}
    lines = [
        [
            str(v.snapshot_id),
            str(v.files),
            str(v.rows if v.rows_read is None else v.rows_read),
            "; ".join(v.problems) or _whole(v),
        ]
        for v in results
    ]
    columns = ("snapshot", "files", "rows", "state")
    answer_rows(document, columns, lines, as_json=as_json, title=str(name))
    return 1 if broken else 0


def adopt(
    installation: Annotated[
        str, typer.Option("--installation", metavar="ID", help="the one that has ended for good")
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why; it is recorded")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Take over the cold tables of an ended installation; it is refused there afterwards."""
    names = [str(name) for name in adopt_cold(ready(config), installation, reason)]
    lines = [f"{name} belongs to this installation now." for name in names]
    return answer({"tables": names}, lines, as_json=as_json)


def _whole(verified: Verified) -> str:
    """Describes a verified copy, with the checks that "whole" does not cover."""
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
    """Show which expired snapshots wait for their copy in cold; stores nothing."""
    context = ready(config)
    moment = resolve_as_of(instant(as_of), context.clock.now(), dry_run=True)
    observed, wanted = read_tables(context), globs(tables)
    lost = unmatched(wanted, [table.state.name for table in observed])
    waiting = pending_handoffs(context, observed, moment, wanted)
    tables_waiting = [
        {
            "table": str(pending.table.state.name),
            "policy": str(pending.policy.cadence),
            "snapshots": [sid for sid in pending.snapshots if sid not in pending.copies],
        }
        for pending in waiting
        if pending.waiting
    ]
    notes = [f"no table matches {glob}" for glob in lost]
    cold = context.config.cold or None
    answer_rows(
        {"as_of": moment, "cold": cold, "tables": tables_waiting, "notes": notes},
        ("table", "policy", "snapshots"),
        [[str(t["table"]), str(t["policy"]), str(len(t["snapshots"]))] for t in tables_waiting],
        as_json=as_json,
        nothing="Nothing to do.",
    )
    print_notes(() if as_json else notes)
    return 4 if lost else 0
