"""Commands for tags and branches: tag, untag, tags, rollback, branch, diff, publish, resync.

`commands` loads it by name.
"""

from collections.abc import Mapping
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.refs import branches
from meltline.app.refs.branches import MovedBranch
from meltline.app.refs.diff import Amount
from meltline.app.refs.diff import diff as compare
from meltline.app.refs.tags import FOREVER, Tag, add_tag, list_tags, remove_tag
from meltline.cli.options import AsJson, ConfigPath, DryRun, Reason, TableArgument, instant, ready
from meltline.cli.output import answer, answer_rows, shown_instant
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.domain.iceberg.timeline import Point
from meltline.domain.units import format_instant, format_size

RefName = Annotated[str, typer.Argument(metavar="NAME", help="the tag's or branch's name")]
Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="the branch")]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="the snapshot that was current then")
]


def tag(
    table: TableArgument,
    name: RefName,
    retention_days: Annotated[
        str, typer.Option("--retention-days", metavar="N|forever", help="counted from now")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    snapshot: Annotated[int | None, typer.Option("--snapshot", metavar="ID")] = None,
    at: At = None,
    reason: Reason = "",
) -> int:
    """Name a snapshot and keep it for a number of days, or for ever."""
    done = add_tag(
        ready(config),
        parse_table_name(table),
        name,
        _point(snapshot, at),
        _days(retention_days),
        dry_run=dry_run,
        reason=reason,
    )
    return answer({**_document(done), "dry_run": dry_run}, [_line(done)], as_json=as_json)


def untag(
    table: TableArgument,
    name: RefName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    reason: Reason = "",
) -> int:
    """Remove a tag: its snapshot returns to the ordinary rules."""
    context, owner = ready(config), parse_table_name(table)
    removed = remove_tag(context, owner, name, dry_run=dry_run, reason=reason)
    line = f"{removed.table}: {removed.name} no longer keeps snapshot {removed.snapshot_id}."
    return answer({**_document(removed), "dry_run": dry_run}, [line], as_json=as_json)


def tags(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    sizes: Annotated[
        bool, typer.Option("--bytes", help="the bytes that each one alone keeps")
    ] = False,
) -> int:
    """List a table's tags, and until when each one stays."""
    context, name = ready(config), parse_table_name(table)
    refs = list_tags(context, name)
    alone: Mapping[str, int] = {}
    if sizes:
        from meltline.app.storage.tag_bytes import bytes_held_alone  # noqa: PLC0415 - of the index

        alone = bytes_held_alone(context, name)
    rows = [
        [
            tag.name,
            tag.kind,
            str(tag.snapshot_id),
            format_instant(tag.committed_at),
            _until(tag),
            *([format_size(alone[tag.name])] if sizes else []),
        ]
        for tag in refs
    ]
    size_of = {name: {"bytes_held_alone": size} for name, size in alone.items()}
    document = {"tags": [_document(tag) | size_of.get(tag.name, {}) for tag in refs]}
    columns = ("tag", "kind", "snapshot", "committed", "until", *(("held alone",) if sizes else ()))
    return answer_rows(document, columns, rows, as_json=as_json)


def rollback(
    table: TableArgument,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    to: Annotated[int | None, typer.Option("--to", metavar="SNAPSHOT")] = None,
    at: At = None,
) -> int:
    """Point main back at an earlier snapshot: later commits stay readable by snapshot."""
    if (to is None) is (at is None):
        raise UsageInvalid(
            "a rollback needs one point to go to",
            object="meltline rollback",
            expected="--to SNAPSHOT or --at TIME",
            found="neither" if to is None else "both",
            next="`meltline explain TABLE` lists the snapshots",
        )
    name = parse_table_name(table)
    return _print_move(
        branches.rollback(ready(config), name, _point(to, at), dry_run=dry_run), dry_run, as_json
    )


def branch(
    table: TableArgument,
    name: RefName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    at: At = None,
    drop: Annotated[bool, typer.Option("--drop", help="remove the branch instead")] = False,
) -> int:
    """Create a branch at main's head or at an earlier time, or remove one."""
    if drop:
        _require_no_point(at)
        ref = branches.drop_branch(ready(config), parse_table_name(table), name, dry_run=dry_run)
        return _print_dropped(table, ref, dry_run, as_json)
    point = Point(at=instant(at, "--at"))
    done = branches.branch(ready(config), parse_table_name(table), name, point, dry_run=dry_run)
    return _print_move(done, dry_run, as_json)


def _require_no_point(at: str | None) -> None:
    if at is not None:
        raise UsageInvalid(
            "a branch is dropped wherever it stands",
            object="--drop",
            expected="--drop without --at",
            found="both",
            next="leave one out",
        )


def _print_dropped(table: str, ref: SnapshotRef, dry_run: bool, as_json: bool) -> int:
    document = {
        "table": table,
        "branch": ref.name,
        "before": ref.snapshot_id,
        "after": None,
        "commits": 0,
        "changed": True,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    line = f"{table}: branch {ref.name} {verb} dropped (was at snapshot {ref.snapshot_id})"
    return answer(document, [line], as_json=as_json)


def publish(
    table: TableArgument,
    name: Branch,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> int:
    """Fast-forward main to a branch, if main has no commits of its own."""
    done = branches.publish(ready(config), parse_table_name(table), name, dry_run=dry_run)
    return _print_move(done, dry_run, as_json)


def resync(
    table: TableArgument,
    name: Branch,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> int:
    """Fast-forward a branch to main, if the branch has no commits of its own."""
    done = branches.resync(ready(config), parse_table_name(table), name, dry_run=dry_run)
    return _print_move(done, dry_run, as_json)


def diff(
    table: TableArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="a branch, a tag or a snapshot id")],
    b: Annotated[str, typer.Argument(metavar="B", help="the same")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Compare two states of a table: files, rows and bytes added and removed in between."""
    comparison = compare(ready(config), parse_table_name(table), a, b)
    rows = [
        ["added", *_amount(comparison.added)],
        ["removed", *_amount(comparison.removed)],
        ["net", *_amount(comparison.net)],
    ]
    title = f"{comparison.table}: {comparison.a} to {comparison.b}"
    columns = ("", "files", "rows", "bytes")
    return answer_rows(comparison, columns, rows, as_json=as_json, title=title)


def _amount(amount: Amount) -> list[str]:
    numbers = ["-" if n is None else str(n) for n in (amount.files, amount.rows)]
    return [*numbers, "-" if amount.bytes is None else format_size(amount.bytes)]


def _print_move(move: MovedBranch, dry_run: bool, as_json: bool) -> int:
    document = {
        "table": move.table,
        "branch": move.branch,
        "before": move.before,
        "after": move.after,
        "commits": move.commits,
        "changed": move.before != move.after,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    line = f"{move.table}: {move.branch} {verb} at snapshot {move.after}"
    was = "" if move.before is None else f" (was at {move.before})"
    return answer(document, [line + was], as_json=as_json)


def _point(snapshot: int | None, at: str | None) -> Point:
    if snapshot is not None and at is not None:
        raise UsageInvalid(
            "a snapshot or a time, not both",
            object="--at",
            expected="one of the two",
            found=f"{snapshot} and {at}",
            next="leave one out",
        )
    return Point(snapshot, instant(at, "--at"))


def _days(text: str) -> int | None:
    word = text.strip().lower()
    if word == FOREVER:
        return None
    if word.isdecimal():
        return int(word)
    raise UsageInvalid(
        "--retention-days is no number of days",
        object="--retention-days",
        expected=f"a whole number of days, or {FOREVER}",
        found=text,
        next=f"write a number, or {FOREVER}",
    )


def _document(tag: Tag) -> dict[str, object]:
    return {
        "table": tag.table,
        "name": tag.name,
        "kind": tag.kind,
        "snapshot_id": tag.snapshot_id,
        "committed_at": tag.committed_at,
        "expires_at": tag.expires_at,
    }


def _line(tag: Tag) -> str:
    return f"{tag.table}: {tag.name} keeps snapshot {tag.snapshot_id} until {_until(tag)}"


def _until(tag: Tag) -> str:
    return shown_instant(tag.expires_at, "it is removed")
