"""The sql command: runs one statement.

`commands` loads it by name.
"""

from functools import partial
from typing import Annotated

import typer

from meltline.app.sql.naming import standing_at
from meltline.app.sql.statement_results import StatementResult
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.app.time_travel.query import SchemaChoice
from meltline.cli.options import AsJson, ConfigPath, ready_wiring
from meltline.cli.output import console, print_json, print_rows
from meltline.cli.sql.query import print_read, rows_document


def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="one statement")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    within: Annotated[
        str | None, typer.Option("--in", metavar="NAME", help="the namespace of short names")
    ] = None,
    schema: Annotated[
        SchemaChoice, typer.Option("--schema", help="the present columns, or the snapshot's own")
    ] = SchemaChoice.CURRENT,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="maximum number of rows")
    ] = None,
    statement_id: Annotated[
        str, typer.Option("--statement-id", metavar="ID", help="an id of your own for it")
    ] = "",
) -> int:
    """Run a statement: Spark's SQL, with AT and BEFORE, UNDROP, SHOW HISTORY and more."""
    wiring, context = ready_wiring(config)
    standing = standing_at(context, within)
    request = StatementRequest(statement, standing, schema, limit, statement_id)
    engine = partial(wiring.sql_engine, standing)
    outcome = run_statement(context, engine, request, wiring.services)
    print_json(_document(outcome)) if as_json else _print(outcome)
    return 4 if outcome.unreadable else outcome.exit_code


def _document(outcome: StatementResult) -> dict[str, object]:
    assert outcome.read is not None  # the command always fetches
    return {
        "statement_id": outcome.statement_id or None,
        **rows_document(outcome.read),
        "unreadable": outcome.unreadable,
        "warnings": outcome.warnings,
    }


def _print(outcome: StatementResult) -> None:
    assert outcome.read is not None
    print_read(outcome.read)
    for warning in outcome.warnings:
        console().print(f"warning: {warning}", markup=False)
    if outcome.unreadable:
        print_rows("", ("not readable",), [[name] for name in outcome.unreadable])
