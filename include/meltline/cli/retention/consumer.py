"""Commands for consumers: consumer set, remove, list.

`commands` loads it by name.
"""

from datetime import datetime
from typing import Annotated, Any

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.retention.consumers import find_consumers, remove_consumer, set_consumer
from meltline.cli.options import AsJson, ConfigPath, DryRun, TableArgument, duration, ready
from meltline.cli.output import answer, answer_rows, shown_instant
from meltline.cli.retention.hold import state_of
from meltline.domain.retention.consumers import Consumer
from meltline.domain.units import format_duration

Name = Annotated[str, typer.Argument(metavar="NAME", help="the reader's name")]


def consumer_set(
    table: TableArgument,
    name: Name,
    snapshot: Annotated[
        int, typer.Option("--snapshot", metavar="ID", help="the last snapshot that it has read")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    expires_after: Annotated[
        str | None,
        typer.Option("--expires-after", metavar="30d", help="how long it stays after each move"),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="also backwards, or to another line")
    ] = False,
) -> int:
    """Set a reader's position: this snapshot and all later ones are kept."""
    context = ready(config)
    lasting = None if expires_after is None else duration(expires_after, "--expires-after")
    consumer = set_consumer(
        context,
        parse_table_name(table),
        name,
        snapshot,
        expires_after=lasting,
        reset=reset,
        dry_run=dry_run,
    )
    verb = "would keep" if dry_run else "keeps"
    line = (
        f"consumer {name} {verb} snapshot {snapshot} of {consumer.table} and all later ones "
        f"until {_end(consumer)}, unless it moves before."
    )
    document = {**_document(consumer, context.clock.now()), "dry_run": dry_run}
    return answer(document, [line], as_json=as_json)


def consumer_remove(
    table: TableArgument,
    name: Name,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> int:
    """Remove a consumer: its snapshots return to the ordinary rules."""
    context = ready(config)
    consumer = remove_consumer(context, parse_table_name(table), name, dry_run=dry_run)
    verb = "would no longer keep" if dry_run else "no longer keeps"
    document = {**_document(consumer, context.clock.now()), "dry_run": dry_run}
    return answer(
        document, [f"consumer {name} {verb} snapshots of {consumer.table}."], as_json=as_json
    )


def consumer_list(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="else those of every table")
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """List consumers: position, last move, end; marks those that end soon."""
    context = ready(config)
    everywhere = find_consumers(context, None if table is None else parse_table_name(table))
    now = context.clock.now()
    document = {
        "consumers": [_document(consumer, now) for consumer in everywhere.consumers],
        "unreadable": everywhere.unreadable,
    }
    rows = [
        [
            c.table,
            c.name,
            str(c.snapshot_id),
            state_of(c, now),
            _end(c),
            c.who or "-",
            shown_instant(c.moved_at),
        ]
        for c in everywhere.consumers
    ]
    columns = ("table", "name", "snapshot", "state", "until", "who", "last moved")
    return answer_rows(document, columns, rows, as_json=as_json, unreadable=everywhere.unreadable)


def _document(consumer: Consumer, now: datetime) -> dict[str, Any]:
    return {
        "table": consumer.table,
        "name": consumer.name,
        "snapshot_id": consumer.snapshot_id,
        "state": state_of(consumer, now),
        "moved_at": consumer.moved_at,
        "ends_at": consumer.ends_at,
        "expires_after": None if consumer.keep is None else format_duration(consumer.keep),
        "who": consumer.who or None,
    }


def _end(consumer: Consumer) -> str:
    return shown_instant(consumer.ends_at, "it is removed")
