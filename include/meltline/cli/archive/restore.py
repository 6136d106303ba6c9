"""The restore command: copies archived history back into the hot warehouse.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.restore.restore import Restored, take_in
from meltline.app.restore.restore import restore as bring_back
from meltline.cli.options import AsJson, ConfigPath, DryRun, Reason, instant, ready_wiring
from meltline.cli.output import answer, shown_instant
from meltline.domain.json_values import plain
from meltline.domain.units import format_instant, format_size, parse_moment


def restore(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="the new table, in full")],
    from_cold: Annotated[
        str, typer.Option("--from-cold", metavar="TABLE", help="the table with history in cold")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", metavar="ID", help="an archived snapshot")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="or what was current then")
    ] = None,
    reason: Reason = "",
) -> int:
    """Copy an archived snapshot back into the hot warehouse, as a new table."""
    wiring, context = ready_wiring(config)
    done = bring_back(
        context,
        wiring.retrieval,
        target,
        parse_table_name(from_cold),
        snapshot_id=snapshot,
        at=instant(at, "--at", parse_moment),
        dry_run=dry_run,
        reason=reason,
    )
    lines, refused = _lines(done, dry_run), ""
    if not dry_run and (refused := take_in(wiring.services("restore"), done.table)):
        lines.append(f"Its bytes are told from the next observation on: {refused}.")
    document = {**plain(done), "dry_run": dry_run, "observed": not (dry_run or refused)}
    return answer(document, lines, as_json=as_json)


def _lines(done: Restored, dry_run: bool) -> list[str]:
    verb = "would be" if dry_run else "is"
    lines = [
        f"{done.table} {verb} snapshot {done.snapshot_id} of {done.cold}, committed at "
        f"{format_instant(done.committed_at)}, current from {format_instant(done.valid_from)} "
        f"to {shown_instant(done.valid_to, 'now')}."
    ]
    if not dry_run:
        lines.append(f"{done.files} files, {format_size(done.bytes)}, {done.rows} rows.")
    return lines
