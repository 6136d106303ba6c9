"""Commands for shares: share create, update, drop, list.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.clone.shares import Shared, create_share, drop_share, list_shares, update_share
from meltline.cli.options import AsJson, ConfigPath, DryRun, ready
from meltline.cli.output import answer, answer_rows, with_tables
from meltline.domain.units import format_instant

Name = Annotated[str, typer.Argument(metavar="NAME", help="the share's name")]


def share_create(
    name: Name,
    source: Annotated[
        str, typer.Option("--from", metavar="NAME", help="a table, schema or database")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    auto: Annotated[bool, typer.Option("--auto", help="every daily run updates it")] = False,
) -> int:
    """Share a table, schema or database as it is now: no file is copied."""
    done = create_share(ready(config), name, source, auto=auto, dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    line = f"{done.share.source} {verb} shared as {done.share.place}{with_tables(done.tables)}."
    return answer(_document(done, dry_run), [line], as_json=as_json)


def share_update(
    name: Name, config: ConfigPath = None, as_json: AsJson = False, dry_run: DryRun = False
) -> int:
    """Update a share to the present state, and release snapshots that only it kept."""
    done = update_share(ready(config), name, dry_run=dry_run)
    verb = "would show" if dry_run else "shows"
    lines = [
        f"{done.share.place} {verb} {done.share.source} as it is now{with_tables(done.tables)}."
    ]
    lines += [f"writes undone: {table.table}" for table in done.tables if table.written]
    lines += [f"taken out: {table}" for table in done.removed]
    lines += [f"not of the share, left alone: {table}" for table in done.foreign]
    return answer(_document(done, dry_run), lines, as_json=as_json)


def share_drop(
    name: Name, config: ConfigPath = None, as_json: AsJson = False, dry_run: DryRun = False
) -> int:
    """Drop a share: the next run expires snapshots that only it kept."""
    done = drop_share(ready(config), name, dry_run=dry_run)
    verb = "would be" if dry_run else "is"
    line = (
        f"{done.share.place} {verb} dropped{with_tables(done.tables)}. It cannot be brought back."
    )
    return answer(_document(done, dry_run), [line], as_json=as_json)


def share_list(
    config: ConfigPath = None,
    as_json: AsJson = False,
    of: Annotated[
        str, typer.Option("--of", metavar="NAME", help="only shares of this, or of a part of it")
    ] = "",
) -> int:
    """List the shares: their contents, since when, and writes to them."""
    shares = list_shares(ready(config), of)
    none = ("-", "-", "no table")
    rows = [
        [
            shared.share.name,
            str(shared.share.source),
            shared.share.mode,
            format_instant(shared.share.at),
            *(
                (str(table.table), str(table.snapshot_id or "-"), table.condition)
                if table
                else none
            ),
        ]
        for shared in shares
        for table in shared.tables or (None,)
    ]
    columns = ("share", "from", "mode", "pinned", "table", "snapshot", "state")
    document = {"shares": [_document(shared) for shared in shares]}
    return answer_rows(document, columns, rows, as_json=as_json)


def _document(done: Shared, dry_run: bool | None = None) -> dict[str, object]:
    share = done.share
    document: dict[str, object] = {
        "share": share.name,
        "source": str(share.source),
        "kind": share.source.kind,
        "place": str(share.place),
        "mode": share.mode,
        "pinned_at": share.at,
        "who": share.who,
        "tables": done.tables,
        "others": done.foreign,
    }
    return document if dry_run is None else document | {"removed": done.removed, "dry_run": dry_run}
