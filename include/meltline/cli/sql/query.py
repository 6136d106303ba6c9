"""The query command: reads a table at an earlier point.

`commands` loads it by name.
"""

from functools import partial
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.restore.tiers import COLD, locate_anywhere
from meltline.app.time_travel.query import Answer, SchemaChoice
from meltline.app.time_travel.query import query as read_past
from meltline.cli.options import AsJson, ConfigPath, TableArgument, ready_wiring
from meltline.cli.output import console, print_json, print_rows, shown_instant
from meltline.cli.sql.points import (
    SELECTORS,
    At,
    Before,
    Offset,
    StatementId,
    TagName,
    Timestamp,
    travel_point,
)
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant
from meltline.ports import ReadRows


def query(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    at: At = False,
    before: Before = False,
    timestamp: Timestamp = None,
    offset: Offset = None,
    statement: StatementId = None,
    tag: TagName = None,
    schema: Annotated[
        SchemaChoice, typer.Option("--schema", help="the present columns, or the snapshot's own")
    ] = SchemaChoice.CURRENT,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="maximum number of rows")
    ] = None,
    allow_cold: Annotated[
        bool, typer.Option("--allow-cold", help="read the archive if hot no longer has the point")
    ] = False,
) -> int:
    """Read a table's rows as they were at a time, around a statement, or at a tag."""
    wiring, context = ready_wiring(config)
    point = travel_point(context.clock.now(), at, before, timestamp, offset, statement, tag)
    if point is None:
        raise UsageInvalid(
            "a point of the past is needed",
            object="meltline query",
            expected=f"--at or --before, with {SELECTORS}",
            found="neither",
            next="--at includes the change at that point, --before does not",
        )
    rows = read_past(
        context,
        wiring.snapshot_reader,
        parse_table_name(table),
        point,
        schema=schema,
        limit=limit,
        find=partial(locate_anywhere, allow_cold=allow_cold),
    )
    print_json(_document(rows)) if as_json else _print(rows)
    return 0


def _document(rows: Answer) -> dict[str, object]:
    resolved = rows.located.resolved
    return {
        "table": rows.located.table,
        "resolved": {
            "snapshot_id": resolved.snapshot_id,
            "valid_from": resolved.valid_from,
            "valid_to": resolved.valid_to,
            "tier": rows.located.tier,
        },
        **rows_document(rows.read),
    }


def rows_document(read: ReadRows) -> dict[str, object]:
    """Returns columns and rows, as `--json` prints them."""
    return {"columns": read.columns, "rows": read.rows}


def _print(rows: Answer) -> None:
    resolved = rows.located.resolved
    snapshot = (
        "no snapshot yet" if resolved.snapshot_id is None else f"snapshot {resolved.snapshot_id}"
    )
    where = f"; from cold: {rows.located.state.name}" if rows.located.tier == COLD else ""
    console().print(
        f"{rows.located.table}: {snapshot}, current from {format_instant(resolved.valid_from)} "
        f"to {shown_instant(resolved.valid_to, 'now')}{where}",
        markup=False,
    )
    print_read(rows.read)


def print_read(read: ReadRows) -> None:
    """Prints rows as a table."""
    rows = [["NULL" if cell is None else str(cell) for cell in row] for row in read.rows]
    print_rows("", [column.name for column in read.columns], rows)
    console().print(f"{len(rows)} rows")
