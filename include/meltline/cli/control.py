"""Commands that control runs and tables: arm, disarm, stop, go, attach, trust, detach, abandon.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.catalog.management import attach as attach_table
from meltline.app.catalog.management import described
from meltline.app.catalog.management import detach as detach_tables
from meltline.app.catalog.resolve import parse_table_name
from meltline.app.expire.abandon import abandon as abandon_plan
from meltline.app.safety.owner_guards import trust as trust_manifests
from meltline.app.safety.switches import arm as arm_catalog
from meltline.app.safety.switches import disarm as disarm_catalog
from meltline.app.safety.switches import go as let_go_on
from meltline.app.safety.switches import stop as stop_everything
from meltline.cli.options import (
    AsJson,
    ConfigPath,
    DryRun,
    PlanName,
    Reason,
    TableArgument,
    ready,
    wire,
)
from meltline.cli.output import answer
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.safe_text import quote

CatalogArgument = Annotated[str, typer.Argument(metavar="CATALOG", help="the hot catalog")]


def arm(
    catalog: CatalogArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why; it is recorded")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Arm a catalog: runs may expire and delete in it from now on; until then they only report."""
    arming = arm_catalog(ready(config), catalog, reason)
    place = f" with warehouse {arming.warehouse}" if arming.warehouse else ""
    line = f"Catalog {catalog}{place} is armed: runs expire and delete from now on."
    return answer({"armed": True, "arming": arming}, [line], as_json=as_json)


def disarm(
    catalog: CatalogArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why")] = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Disarm a catalog: runs only report again; `meltline stop` also ends running ones."""
    unnoted = disarm_catalog(ready(config), catalog, reason).unnoted
    line = f"Catalog {catalog} is not armed: nothing is expired or deleted."
    if unnoted:
        line += _not_told(unnoted)
    document = {"armed": False, "catalog": catalog, "catalog_error": _as_json(unnoted)}
    return answer(document, [line], as_json=as_json)


def _not_told(unnoted: MeltlineError) -> str:
    return (
        f" But the catalog was not told ({unnoted.message}: {unnoted.found}): an older backup of "
        "the control database would lift it unseen. Run this again later."
    )


def _as_json(error: MeltlineError | None) -> dict[str, str] | None:
    return error.as_json() if error else None


def stop(
    config: ConfigPath = None,
    as_json: AsJson = False,
    reason: Annotated[str, typer.Option("--reason", help="why, for those who find it")] = "",
) -> int:
    """Pause every destructive step on all machines, from the next commit or batch on."""
    done = stop_everything(wire(config).ledgers(), reason)
    switch, unnoted = done.switch, done.unnoted
    line = "Stopped."
    if unnoted:
        line += _not_told(unnoted)
    document: dict[str, object] = {"stopped": True, "who": switch.who, "reason": reason}
    document |= {"at": switch.at, "catalog_error": _as_json(unnoted)}
    return answer(document, [line], as_json=as_json)


def go(config: ConfigPath = None, as_json: AsJson = False, reason: Reason = "") -> int:
    """Resume destructive steps."""
    context = wire(config).ledgers()
    now = context.clock.now()
    let_go_on(context, reason)
    document = {"stopped": False, "who": context.who, "reason": reason, "at": now}
    return answer(document, ["Going on."], as_json=as_json)


def attach(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    despite_guard: Annotated[
        bool,
        typer.Option(
            "--despite-gc-disabled",
            help="delete in spite of gc.enabled=false, which the table's owner has set",
        ),
    ] = False,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="TEXT", help="why no other table needs the files; it is recorded"
        ),
    ] = "",
) -> int:
    """Manage a detached table again."""
    name = parse_table_name(table)
    context = wire(config).ledgers()
    if not dry_run:
        attach_table(context, name, reason, despite_guard=despite_guard)
    document = {"table": name, "managed": True, "dry_run": dry_run}
    return answer(document, [f"{name}: attached."], as_json=as_json)


def trust(
    table: TableArgument,
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="why its rows are right; it is recorded"),
    ],
    manifests: Annotated[
        bool,
        typer.Option("--manifests", help="what is trusted: manifests, not totals"),
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Trust a table's manifests although its snapshots' totals contradict them."""
    name = parse_table_name(table)
    if not manifests:
        raise UsageInvalid(
            "what is trusted has to be said",
            object=str(name),
            expected="--manifests",
            found="nothing",
            next=f"`meltline trust {quote(name)} --manifests --reason TEXT`",
        )
    trust_manifests(wire(config).ledgers(), name, reason)
    document = {"table": name, "trusted": "manifests", "reason": reason}
    lines = [f"{name}: its totals count for nothing from now on; `meltline detach` takes it back."]
    return answer(document, lines, as_json=as_json)


def detach(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="full names")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="why; where one was never read, why it needs no other table's file",
        ),
    ] = "",
) -> int:
    """Stop managing tables: their references still count, nothing of them changes."""
    names = [parse_table_name(table) for table in tables]
    done = detach_tables(wire(config).ledgers(), names, reason, dry_run=dry_run)
    lines = [
        f"{detached.table}: detached."
        + (f" You vouch for {described(detached.vouched)}." if detached.vouched else "")
        for detached in done
    ]
    documents = [{"table": detached.table, "vouched": detached.vouched} for detached in done]
    document = {"tables": documents, "managed": False, "dry_run": dry_run}
    return answer(document, lines, as_json=as_json)


def abandon(
    plan: PlanName,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="why no branch or tag was lost")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Close an expiration whose outcome could not be verified."""
    ended = abandon_plan(ready(config), plan, reason)
    line = f"Plan {ended.id} of {ended.table} is over; what it left is planned by the next run."
    return answer({"plan": ended.id, "state": ended.state}, [line], as_json=as_json)
