"""The command that reads the past: query."""

from typing import Annotated

import typer

from meltline.app.objects import parse_table_name
from meltline.app.query import Answer, SchemaChoice
from meltline.app.query import query as read_past
from meltline.app.services import Ledgers
from meltline.cli.options import AsJson, ConfigPath, TableArgument, instant, ready_wiring
from meltline.cli.output import console, print_json, print_rows
from meltline.domain.errors import UsageInvalid
from meltline.domain.quantities import format_instant, parse_moment
from meltline.domain.timetravel import (
    Moment,
    Side,
    StatementPoint,
    TagPoint,
    TravelPoint,
    moment_of_offset,
)
from meltline.ports import ReadRows

_SELECTORS = "--timestamp, --offset, --statement or --tag"


def register(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(query)


def query(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    at: Annotated[bool, typer.Option("--at", help="with the change at that point")] = False,
    before: Annotated[bool, typer.Option("--before", help="without it")] = False,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="T", help="ISO 8601 with an offset")
    ] = None,
    offset: Annotated[
        float | None, typer.Option("--offset", metavar="SECONDS", help="from now: -300")
    ] = None,
    statement: Annotated[
        str | None, typer.Option("--statement", metavar="ID", help="a completed statement")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="a tag")] = None,
    schema: Annotated[
        SchemaChoice, typer.Option("--schema", help="the present columns, or the snapshot's own")
    ] = SchemaChoice.CURRENT,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="so many rows")] = None,
) -> int:
    """Read a table's rows as they were at a time, around a statement, or at a tag."""
    wiring, ledgers = ready_wiring(config)
    point = TravelPoint(_side(at, before), _selector(ledgers, timestamp, offset, statement, tag))
    found = read_past(
        ledgers, wiring.snapshot_reader, parse_table_name(table), point, schema=schema, limit=limit
    )
    print_json(_document(found)) if as_json else _print(found)
    return 0


def _side(at: bool, before: bool) -> Side:
    if at is before:
        raise UsageInvalid(
            "either --at or --before",
            object="meltline query",
            expected="one of the two",
            found="both" if at else "neither",
            next="--at includes the change at that point, --before does not",
        )
    return Side.AT if at else Side.BEFORE


def _selector(
    ledgers: Ledgers,
    timestamp: str | None,
    offset: float | None,
    statement: str | None,
    tag: str | None,
) -> Moment | StatementPoint | TagPoint:
    given = [word for word in (timestamp, offset, statement, tag) if word is not None]
    if len(given) != 1:
        raise UsageInvalid(
            "one point is needed",
            object="meltline query",
            expected=f"one of {_SELECTORS}",
            found=f"{len(given)} of them",
            next="say which point of the past is meant",
        )
    if moment := instant(timestamp, "--timestamp", parse_moment):
        return Moment(moment)
    if offset is not None:
        return Moment(moment_of_offset(ledgers.clock.now(), offset))
    return StatementPoint(statement) if statement is not None else TagPoint(tag or "")


def _document(found: Answer) -> dict[str, object]:
    resolved = found.located.resolved
    return {
        "table": found.located.table,
        "resolved": {
            "snapshot_id": resolved.snapshot_id,
            "valid_from": resolved.valid_from,
            "valid_to": resolved.valid_to,
            "tier": found.located.tier,
        },
        **rows_document(found.read),
    }


def rows_document(read: ReadRows) -> dict[str, object]:
    """Columns and rows, as `--json` prints them."""
    return {"columns": read.columns, "rows": read.rows}


def _print(found: Answer) -> None:
    resolved = found.located.resolved
    until = format_instant(resolved.valid_to) if resolved.valid_to else "now"
    what = "no snapshot yet" if resolved.snapshot_id is None else f"snapshot {resolved.snapshot_id}"
    console().print(
        f"{found.located.table}: {what}, current from {format_instant(resolved.valid_from)} "
        f"to {until}",
        markup=False,
    )
    print_read(found.read)


def print_read(read: ReadRows) -> None:
    """Rows for people."""
    rows = [["NULL" if value is None else str(value) for value in row] for row in read.rows]
    print_rows("", [column.name for column in read.columns], rows)
    console().print(f"{len(rows)} rows")
