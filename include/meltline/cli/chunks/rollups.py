"""Commands for rollups: rollups list, refresh, drop. They are declared by SQL.

`commands` loads it by name.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from meltline.app.chunks.rollups.drop import drop_rollup
from meltline.app.chunks.rollups.refresh import RefreshedRollup, refresh_rollups, rollup_of
from meltline.app.chunks.rollups.status import RollupLine, rollup_lines
from meltline.cli.options import AsJson, ConfigPath, ready, ready_wiring
from meltline.cli.output import answer, answer_rows, print_notes, shown_instant
from meltline.domain.chunks.rollup import with_dependencies
from meltline.domain.units import counted, format_instant

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="the rollup's name")]
MaybeName = Annotated[
    str, typer.Argument(metavar="[NAME]", help="a rollup and those that it depends on; else all")
]


def list_rollups(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List rollups: watermark, and stale, frozen and missed buckets."""
    lines = rollup_lines(ready(config))
    columns = ("rollup", "table", "source", "bucket", "up to", "lag", "dirty", "frozen", "missed")
    code = answer_rows(
        {"rollups": [_document(line) for line in lines]},
        (*columns, "last refresh"),
        [_row(line) for line in lines],
        as_json=as_json,
        nothing='There is no rollup: `meltline sql "SELECT lakets.create_rollup(…)"` makes one.',
    )
    if not as_json:
        print_notes([f"{line.rollup.name}: {line.problem}" for line in lines if line.problem])
    return code


def refresh(name: MaybeName = "", config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Aggregate the changed buckets again, each rollup after those it reads."""
    wiring, context = ready_wiring(config)
    rollups = context.control.rollups.all()
    if name:
        rollups = with_dependencies(rollups, rollup_of(context.control.rollups, name).name)
    services = wiring.services("rollups refresh") if rollups else None
    refreshed = [] if services is None else refresh_rollups(services, rollups)
    rows = [[r.rollup.name, _what(r), str(r.rows), f"{r.seconds:.1f} s"] for r in refreshed]
    code = answer_rows(
        {"rollups": [_refreshed(done) for done in refreshed]},
        ("rollup", "what was done", "rows", "time"),
        rows,
        as_json=as_json,
        nothing="There is no rollup.",
    )
    failed = [done for done in refreshed if done.error is not None]
    if not as_json:
        print_notes(
            [f"{done.rollup.name}: next: {done.error.next}" for done in failed if done.error]
        )
    return 4 if failed else code


def drop(name: NameArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Forget a rollup and drop its table, which `meltline undrop` can restore."""
    dropped = drop_rollup(ready(config), name)
    lines = [f"Rollup {name} is forgotten; its table {dropped.table} is dropped."]
    if dropped.realtime_view:
        lines.append(f"Its view stays, and can be read no more: DROP VIEW {dropped.realtime_view}")
    return answer({"name": name, "table": str(dropped.table)}, lines, as_json=as_json)


def _what(done: RefreshedRollup) -> str:
    if done.error is not None:
        return f"failed: {done.error.message}"
    if not done.is_refreshed:
        return "nothing was new"
    whole = " of all that are not frozen" if done.everything else ""
    missed = f"; rows came for {done.missed} frozen ones" if done.missed else ""
    return f"{counted(done.buckets, 'bucket')}{whole} written{missed}"


def _refreshed(done: RefreshedRollup) -> Mapping[str, Any]:
    return {
        "name": done.rollup.name,
        "refreshed": done.is_refreshed,
        "buckets": done.buckets,
        "rows": done.rows,
        "everything": done.everything,
        "missed": done.missed,
        "seconds": round(done.seconds, 3),
        "error": done.error.as_json() if done.error else None,
    }


def _document(line: RollupLine) -> Mapping[str, Any]:
    rollup = line.rollup
    return {
        "name": rollup.name,
        "table": str(rollup.table),
        "source": str(rollup.source),
        "bucket": rollup.width,
        "depends_on": rollup.depends_on,
        "order": line.order,
        "watermark": line.watermark,
        "lag": line.lag,
        "dirty": line.dirty,
        "frozen": [(times.start, times.end) for times in line.frozen],
        "missed": line.missed,
        "last_refreshed_at": rollup.last_refreshed_at,
        "problem": line.problem or None,
    }


def _row(line: RollupLine) -> list[str]:
    rollup = line.rollup
    return [
        rollup.name,
        str(rollup.table),
        str(rollup.source),
        rollup.width,
        shown_instant(line.watermark, "-"),
        "?" if line.lag is None else str(line.lag),
        "all" if line.dirty is None else str(line.dirty),
        ", ".join(f"until {format_instant(times.end)}" for times in line.frozen[-1:]) or "-",
        str(line.missed),
        shown_instant(rollup.last_refreshed_at, "never"),
    ]
