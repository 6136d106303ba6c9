"""The sweep commands: find orphan files, and allow or disallow an owner.

`commands` loads it by name.
"""

from dataclasses import replace
from typing import Annotated, Any

import typer

from meltline.app.orphans.allowed_owners import allow, disallow
from meltline.app.run.recap import not_armed_line
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import SWEEP
from meltline.app.run_request import RunRequest
from meltline.cli.options import AsJson, ConfigPath, DryRun, Once, Tables, declared, request, wire
from meltline.cli.output import answer, console, print_json, print_rows
from meltline.domain.deletion.orphans import Inventory
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_size


def sweep(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    minimum_age: Annotated[str, declared("minimum_age")] = "",
    inventory: Annotated[str, declared("inventory")] = "",
    inventory_table: Annotated[
        str, typer.Option("--inventory-table", help="an Iceberg table instead of a listing")
    ] = "",
    dry_run: DryRun = False,
    once: Once = "",
    any_hour: Annotated[bool, declared("any_hour")] = False,
    parallelism: Annotated[str, declared("parallelism")] = "",
) -> int:
    """Find files that no commit has referenced; old ones that were seen twice begin to wait."""
    wiring = wire(config)
    sweep_request = request(
        wiring,
        tables=tables,
        minimum_age=minimum_age,
        inventory=inventory,
        dry_run=dry_run,
        once=once,
        any_hour=any_hour,
        parallelism=parallelism,
    )
    if inventory_table:
        sweep_request = replace(sweep_request, inventory=_only(inventory_table, inventory))
    summary = run_recorded(wiring.services("sweep", sweep_request.run_id), sweep_request, [SWEEP])
    document = summary.as_json()
    print_json(document) if as_json else _print(sweep_request, document)
    return summary.exit_code


def sweep_allow(
    owner: Annotated[
        str, typer.Argument(metavar="ID", help="a UUID, path or folder that `doctor` names")
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="why it needs nothing; it is recorded")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Declare an owner gone: its signs no longer block sweeps and purges."""
    allowed = allow(wire(config).ledgers(), owner, reason)
    line = f"{allowed.id} is allowed; `meltline sweep disallow` takes that back."
    return answer({"allowed": True, "owner": allowed}, [line], as_json=as_json)


def sweep_disallow(
    owner: Annotated[str, typer.Argument(metavar="ID", help="what was allowed")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Revert it: the owner's signs block its folder again."""
    was_allowed = disallow(wire(config).ledgers(), owner)
    line = f"{owner} is {'allowed no more' if was_allowed else 'not allowed; nothing changes'}."
    return answer({"allowed": False, "was_allowed": was_allowed}, [line], as_json=as_json)


def _only(table: str, path: str) -> Inventory:
    if path:
        raise UsageInvalid(
            "there are two inventories",
            object="--inventory",
            expected="one",
            found=f"{path} and {table}",
            next="leave out one of the two",
        )
    return Inventory(table, is_table=True)


def _print(run: RunRequest, document: dict[str, Any]) -> None:
    for notice in document["notices"]:
        console().print(notice, markup=False)
    swept = document["sweep"]
    if not swept:
        return
    if line := not_armed_line(document):
        console().print(line, markup=False, soft_wrap=True)
    rows = [
        [
            line["table"],
            str(line["departed"]),
            format_size(line["departed_bytes"]),
            str(line["first_seen"]),
            str(line["seen_recently"]),
            str(line["young"]),
        ]
        for line in swept["tables"]
    ]
    departs = "would depart" if run.dry_run or document.get("not_armed") else "departed"
    columns = ("table", departs, "bytes", "first seen", "seen recently", "young")
    print_rows(f"Listed {swept['files']} files at {swept['listed_at']}", columns, rows)
    if not rows:
        console().print("Nothing lies about that no commit has named.")
    for path, why in swept["odd"].items():
        console().print(f"kept: {path}: {why}")
    if more := swept["odd_files"] - len(swept["odd"]):
        console().print(f"kept: {more} more")
    for line in document["tables"]:
        if line["skipped"]:
            console().print(f"{line['table']}: {line['skipped']}")
    for note in document["notes"]:
        console().print(note)
