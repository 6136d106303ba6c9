"""Commands for retention policies: policy set, unset, show.

`commands` loads it by name. Policies of chunks are in `cli/chunks/policies`.
"""

from typing import Annotated, Any

import typer

from meltline.app.catalog.resolve import find_object
from meltline.app.retention.policies import PolicyChange, change_policy, show_policies
from meltline.app.services import ReadContext
from meltline.cli.options import AsJson, ConfigPath, DryRun, Kind, Reason, ready
from meltline.cli.output import answer, console, print_json, print_rows
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.retention.policy import (
    COLD,
    COLD_RETENTION,
    CONSUMER_KEEP,
    DEEP,
    FAILSAFE,
    MIN_RETENTION,
    RETENTION,
    TRANSIENT,
    WRITER_KEEP,
)

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="catalog.database[.schema][.table]")
]
Account = Annotated[bool, typer.Option("--account", help="the whole account")]


def policy_set(
    name: Name = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    account: Account = False,
    kind: Kind = None,
    retention_days: Annotated[
        str | None, typer.Option("--retention-days", metavar="N|infinite")
    ] = None,
    failsafe_days: Annotated[str | None, typer.Option("--failsafe-days", metavar="N")] = None,
    min_retention_days: Annotated[
        str | None, typer.Option("--min-retention-days", metavar="N", help="of the account")
    ] = None,
    transient: Annotated[
        bool, typer.Option("--transient", help="while it is new: the transient limits")
    ] = False,
    cold: Annotated[
        str | None, typer.Option("--cold", metavar="none|all|daily|weekly|monthly")
    ] = None,
    cold_retention_days: Annotated[
        str | None, typer.Option("--cold-retention-days", metavar="N", help="kept in cold so long")
    ] = None,
    deep: Annotated[
        str | None, typer.Option("--deep", metavar="true|false", help="permanent copies as well")
    ] = None,
    writer_keep: Annotated[
        str | None,
        typer.Option("--writer-keep", metavar="30d", help="a silent writer's mark counts so long"),
    ] = None,
    consumer_keep: Annotated[
        str | None,
        typer.Option("--consumer-keep", metavar="30d", help="consumers stay so long unmoved"),
    ] = None,
    reason: Reason = "",
) -> int:
    """Set policies on a table, schema, database or the account."""
    options = {
        RETENTION: retention_days,
        FAILSAFE: failsafe_days,
        MIN_RETENTION: min_retention_days,
        TRANSIENT: "true" if transient else None,
        COLD: cold,
        COLD_RETENTION: cold_retention_days,
        DEEP: deep,
        WRITER_KEEP: writer_keep,
        CONSUMER_KEEP: consumer_keep,
    }
    changes = {k: v.strip().lower() for k, v in options.items() if v is not None}
    return _change(ready(config), name, account, kind, changes, dry_run, as_json, reason)


def policy_unset(
    name: Name = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    account: Account = False,
    kind: Kind = None,
    retention_days: Annotated[bool, typer.Option("--retention-days")] = False,
    failsafe_days: Annotated[bool, typer.Option("--failsafe-days")] = False,
    min_retention_days: Annotated[bool, typer.Option("--min-retention-days")] = False,
    transient: Annotated[bool, typer.Option("--transient")] = False,
    cold: Annotated[bool, typer.Option("--cold")] = False,
    cold_retention_days: Annotated[bool, typer.Option("--cold-retention-days")] = False,
    deep: Annotated[bool, typer.Option("--deep")] = False,
    writer_keep: Annotated[bool, typer.Option("--writer-keep")] = False,
    consumer_keep: Annotated[bool, typer.Option("--consumer-keep")] = False,
    reason: Reason = "",
) -> int:
    """Remove policies: the object inherits from its container or the profile again."""
    options = {
        RETENTION: retention_days,
        FAILSAFE: failsafe_days,
        MIN_RETENTION: min_retention_days,
        TRANSIENT: transient,
        COLD: cold,
        COLD_RETENTION: cold_retention_days,
        DEEP: deep,
        WRITER_KEEP: writer_keep,
        CONSUMER_KEEP: consumer_keep,
    }
    changes = {key: None for key, is_given in options.items() if is_given}
    return _change(ready(config), name, account, kind, changes, dry_run, as_json, reason)


def _change(
    context: ReadContext,
    name: str | None,
    account: bool,
    kind: ObjectKind | None,
    changes: dict[str, Any],
    dry_run: bool,
    as_json: bool,
    reason: str,
) -> int:
    if not changes:
        raise UsageInvalid(
            "nothing to change",
            object="meltline policy",
            expected="at least one of --retention-days, --failsafe-days, --min-retention-days, "
            "--transient, --cold, --cold-retention-days, --deep, --writer-keep, "
            "--consumer-keep",
            found="none of them",
            next="name what to set or to unset",
        )
    object = _object(context, name, account, kind)
    done = change_policy(context, object, changes, dry_run=dry_run, reason=reason)
    document = {
        "object": str(object),
        "kind": object.kind,
        "policies": [
            {"key": key, "before": done.before[key], "after": done.after[key]} for key in changes
        ],
        "warnings": done.warnings,
        "effect": done.effect,
        "dry_run": dry_run,
    }
    return answer(document, _lines(done, dry_run), as_json=as_json)


def _lines(done: PolicyChange, dry_run: bool) -> list[str]:
    verb = "would be" if dry_run else "is"
    lines = [
        f"{done.object}: {key} {verb} {after if after is not None else 'inherited'}"
        f" (was {done.before[key] if done.before[key] is not None else 'inherited'})"
        for key, after in done.after.items()
    ]
    lines += [f"warning: {warning}" for warning in done.warnings]
    lines += [
        f"{line.table}: the next run expires {line.expiring_after} snapshots,"
        f" {line.expiring_before} before"
        for line in done.effect
    ]
    return lines if done.effect else [*lines, "The next run expires no more and no fewer."]


def policy_show(
    name: Name = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
    account: Account = False,
    kind: Kind = None,
) -> int:
    """Show each policy: the object's own setting, the effective value, and its source."""
    context = ready(config)
    object = _object(context, name, account, kind)
    lines = show_policies(context, object)
    if as_json:
        print_json({"object": str(object), "kind": object.kind, "policies": lines})
        return 0
    rows = [
        [line.key, "-" if line.raw is None else line.raw, str(line.effective).lower(), line.source]
        for line in lines
    ]
    print_rows(f"{object}", ("policy", "own", "effective", "source"), rows)
    for line in lines:
        if line.applied is not None:
            console().print(f"Until the next run the past is readable for {line.applied} days.")
    return 0


def _object(
    context: ReadContext, name: str | None, account: bool, kind: ObjectKind | None
) -> ObjectName:
    if account is (name is not None):
        raise UsageInvalid(
            "one object is needed",
            object="meltline policy",
            expected="a NAME, or --account",
            found="both" if account else "neither",
            next="give one of the two",
        )
    return ObjectName(context.config.hot) if name is None else find_object(context, name, kind)
