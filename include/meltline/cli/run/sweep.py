"""The command that sweeps: what no commit has named begins to wait, too."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import typer

from meltline.app.orphans.sweep import SweepRequest
from meltline.app.orphans.sweep import sweep as sweep_orphans
from meltline.app.run.lifecycle import RunRequest
from meltline.app.run.summary import Summary
from meltline.cli.options import AsJson, ConfigPath, DryRun, Tables, request, wire
from meltline.cli.output import console, print_json, print_rows
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_size, parse_duration
from meltline.ports import Inventory


def register(app: typer.Typer) -> None:
    """Adds this command."""
    app.command()(sweep)


def sweep(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    minimum_age: Annotated[
        str, typer.Option("--minimum-age", help="of what may depart: 3d, at least 24h")
    ] = "",
    inventory: Annotated[
        str, typer.Option("--inventory", help="a Parquet file or folder instead of a listing")
    ] = "",
    inventory_table: Annotated[
        str, typer.Option("--inventory-table", help="an Iceberg table instead of a listing")
    ] = "",
    dry_run: DryRun = False,
) -> int:
    """Find files that no commit has named; old ones that were seen twice begin to wait."""
    wiring = wire(config)
    asked = SweepRequest(
        request(wiring, tables, None, dry_run),
        _age(minimum_age),
        _inventory(inventory, inventory_table),
    )
    summary = Summary(asked.run.run_id, asked.run.as_of)
    services = wiring.services("sweep", asked.run.run_id)
    record = wiring.run_record(asked.run.run_id, asked.run.as_of)
    if not dry_run:
        services.control.start_run(record)
    sweep_orphans(services, asked, summary)
    document = summary.as_json()
    if not dry_run:
        ended = wiring.clock.now()
        services.control.finish_run(replace(record, ended_at=ended, summary=json.dumps(document)))
    print_json(document) if as_json else _print(asked.run, document)
    return summary.exit_code


def _age(text: str) -> timedelta | None:
    try:
        return parse_duration(text) if text else None
    except ValueError as odd:
        raise UsageInvalid(
            f"{text} is not a duration",
            object="--minimum-age",
            expected="such as 3d or 36h",
            found=text,
            next=str(odd),
        ) from odd


def _inventory(path: str, table: str) -> Inventory | None:
    if path and table:
        raise UsageInvalid(
            "there are two inventories",
            object="--inventory",
            expected="one",
            found=f"{path} and {table}",
            next="leave out one of the two",
        )
    return Inventory(path or table, is_table=bool(table)) if path or table else None


def _print(run: RunRequest, document: dict[str, Any]) -> None:
    found = document["sweep"]
    rows = [
        [
            line["table"],
            str(line["departed"]),
            format_size(line["departed_bytes"]),
            str(line["first_seen"]),
            str(line["seen_recently"]),
            str(line["young"]),
        ]
        for line in found["tables"]
    ]
    departs = "would depart" if run.dry_run else "departed"
    columns = ("table", departs, "bytes", "first seen", "seen recently", "young")
    print_rows(f"Listed {found['files']} files at {found['listed_at']}", columns, rows)
    if not rows:
        console().print("Nothing lies about that no commit has named.")
    for path, why in found["odd"].items():
        console().print(f"kept: {path}: {why}")
    if more := found["odd_files"] - len(found["odd"]):
        console().print(f"kept: {more} more")
    for line in document["tables"]:
        if line["skipped"]:
            console().print(f"{line['table']}: {line['skipped']}")
    for note in document["notes"]:
        console().print(note)
