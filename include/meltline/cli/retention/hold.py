"""Commands for holds and the audit log: hold add, remove, list; audit.

`commands` loads it by name.
"""

from datetime import datetime
from typing import Annotated, Any

import typer

from meltline.app.retention.holds import add_hold, find_holds, remove_hold
from meltline.app.safety.audit import decisions
from meltline.cli.options import AsJson, ConfigPath, DryRun, Kind, instant, ready
from meltline.cli.output import answer, answer_rows, shown_instant
from meltline.domain.retention.consumers import Consumer
from meltline.domain.retention.holds import Hold
from meltline.domain.units import format_instant

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for those who find it")]


def hold_add(
    name: Annotated[str, typer.Argument(metavar="NAME[@SNAPSHOT]")],
    reason: Reason,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    kind: Kind = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="when it ends automatically")
    ] = None,
) -> int:
    """Hold a table, a namespace or a snapshot: nothing of it expires or is purged."""
    context = ready(config)
    end = instant(until, "--until")
    hold = add_hold(context, name, reason=reason, until=end, kind=kind, dry_run=dry_run)
    now = context.clock.now()
    document = {**_document(hold, now), "dry_run": dry_run}
    verb = "would be held" if dry_run else f"is held ({hold.id})"
    return answer(document, [f"{hold.subject} {verb}, until {_until(hold)}."], as_json=as_json)


def hold_remove(
    id: Annotated[str, typer.Argument(metavar="ID", help="as `hold list` shows it")],
    reason: Reason,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> int:
    """End a hold: its snapshots return to the ordinary rules."""
    context = ready(config)
    hold = remove_hold(context, id, reason=reason, dry_run=dry_run)
    document = {**_document(hold, context.clock.now()), "dry_run": dry_run}
    verb = "would no longer be" if dry_run else "is no longer"
    return answer(document, [f"{hold.subject} {verb} held by {hold.id}."], as_json=as_json)


def hold_list(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List every hold: who, why, until when; marks those that end soon."""
    context = ready(config)
    everywhere, now = find_holds(context), context.clock.now()
    holds = [held.hold for held in everywhere.holds]
    document = {
        "holds": [_document(hold, now) for hold in holds],
        "unreadable": everywhere.unreadable,
    }
    rows = [
        [hold.id, hold.subject, state_of(hold, now), _until(hold), hold.who or "-", hold.reason]
        for hold in holds
    ]
    columns = ("id", "object", "state", "until", "who", "reason")
    return answer_rows(document, columns, rows, as_json=as_json, unreadable=everywhere.unreadable)


def audit(
    config: ConfigPath = None,
    as_json: AsJson = False,
    of: Annotated[
        str, typer.Option("--of", metavar="NAME", help="a table or namespace with all in it")
    ] = "",
    since: Annotated[str | None, typer.Option("--since", metavar="TIME")] = None,
) -> int:
    """List decisions: who, what, when and why; the oldest first."""
    records = decisions(ready(config), of, instant(since, "--since"))
    rows = [
        [format_instant(e.at), e.who, e.action, e.object, e.reason or "-", e.detail or "-"]
        for e in records
    ]
    columns = ("at", "who", "action", "object", "reason", "detail")
    return answer_rows({"entries": records}, columns, rows, as_json=as_json)


def _document(hold: Hold, now: datetime) -> dict[str, Any]:
    return {
        "id": hold.id,
        "object": hold.object,
        "snapshot_id": hold.snapshot_id,
        "state": state_of(hold, now),
        "reason": hold.reason,
        "who": hold.who or None,
        "since": hold.since,
        "until": hold.until,
    }


def state_of(keeper: Hold | Consumer, now: datetime) -> str:
    """Returns whether a hold or consumer is in force, ends soon, or has ended."""
    if not keeper.is_in_force(now):
        return "ended"
    return "ends soon" if keeper.ends_soon(now) else "in force"


def _until(hold: Hold) -> str:
    return shown_instant(hold.until, "it is removed")
