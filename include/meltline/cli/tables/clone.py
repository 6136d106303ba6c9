"""The clone command: a zero-copy clone.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.clone.clone import Cloned, ClonedTable
from meltline.app.clone.replace import clone_over
from meltline.cli.options import AsJson, ConfigPath, DryRun, Kind, ready
from meltline.cli.output import answer, with_tables
from meltline.cli.sql.points import (
    At,
    Before,
    Offset,
    StatementId,
    TagName,
    Timestamp,
    travel_point,
)
from meltline.domain.units import format_instant


def clone(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="what is cloned, in full")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="the new name, in full")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    kind: Kind = None,
    at: At = False,
    before: Before = False,
    timestamp: Timestamp = None,
    offset: Offset = None,
    statement: StatementId = None,
    tag: TagName = None,
    ignore_insufficient: Annotated[
        bool,
        typer.Option(
            "--ignore-insufficient", help="skip tables whose history does not go back that far"
        ),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="drop the object with the new name; it can be restored"),
    ] = False,
) -> int:
    """Clone a table, schema or database, as it is or was: no file is copied."""
    context = ready(config)
    point = travel_point(context.clock.now(), at, before, timestamp, offset, statement, tag)
    done, dropped = clone_over(
        context,
        source,
        target,
        kind,
        replaces=replace,
        point=point,
        ignore_insufficient=ignore_insufficient,
        dry_run=dry_run,
    )
    lines = _lines(done, dry_run)
    if dropped:
        verb = "would be" if dry_run else "is"
        lines.insert(
            1, f"What was {done.target} {verb} dropped. {dropped.ways_back('meltline undrop')}"
        )
    document = _document(done, dry_run) | {"replaced": dropped is not None}
    return answer(document, lines, as_json=as_json)


def _document(done: Cloned, dry_run: bool) -> dict[str, object]:
    return {
        "source": str(done.source),
        "target": str(done.target),
        "kind": done.target.kind,
        "created": done.created,
        "skipped": done.skipped,
        "dry_run": dry_run,
    }


def _lines(done: Cloned, dry_run: bool) -> list[str]:
    verb = "would be" if dry_run else "is"
    tables = "" if done.target.table else with_tables(done.created)
    return [
        f"{done.target} {verb} a clone of {done.source}{tables}.",
        *(f"{table.table}: {_snapshot(table)}" for table in done.created),
        *(f"left out: {table.table}: {table.reason}" for table in done.skipped),
    ]


def _snapshot(table: ClonedTable) -> str:
    if table.snapshot_id is None or table.committed_at is None:
        return "no snapshot yet"
    return f"snapshot {table.snapshot_id} of {format_instant(table.committed_at)}"
