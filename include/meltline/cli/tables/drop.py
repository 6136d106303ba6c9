"""Commands for the lifecycle of objects: drop, undrop, rename, history, recover.

`commands` loads it by name.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from meltline.app.drop import drop as dropping
from meltline.app.drop import undrop as undropping
from meltline.app.drop.history import Listed
from meltline.app.drop.history import history as list_history
from meltline.app.drop.recover import recover as bring_back
from meltline.cli.options import AsJson, ConfigPath, DryRun, Kind, ready
from meltline.cli.output import answer, answer_rows, with_tables
from meltline.domain.drop.history import HistoryRow
from meltline.domain.iceberg.names import split_snapshot
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.units import format_instant, format_size

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="catalog.database[.schema][.table], special parts in ``"),
]


def drop(
    name: Name,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    kind: Kind = None,
) -> int:
    """Drop a table, schema or database; it can be restored during its retention."""
    done = dropping.drop(ready(config), name, kind, dry_run=dry_run)
    fact = done.drop
    restorable = fact.is_restorable(fact.at)
    document = {
        "object": str(fact.object),
        "kind": fact.object.kind,
        "dropped_on": fact.at,
        "retention_days": fact.retention_days,
        "restorable_until": fact.ends_at,
        "restorable": restorable,
        "recoverable_until": None if restorable else done.recoverable_until,
        "batch": fact.batch,
        "tables": done.tables,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    line = f"{fact.object} {verb} dropped{_table_count(fact.object, done.tables)}."
    return answer(document, [line, done.ways_back("meltline undrop")], as_json=as_json)


def _table_count(name: ObjectName, tables: Sequence[object]) -> str:
    return "" if name.table else with_tables(tables)


def undrop(
    name: Name,
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    kind: Kind = None,
) -> int:
    """Restore the last dropped object of a name, with its history, branches and tags."""
    done = undropping.undrop(ready(config), name, kind, dry_run=dry_run)
    document = {
        "object": str(done.object),
        "kind": done.object.kind,
        "dropped_on": done.drop.at,
        "batch": done.drop.batch,
        "tables": done.tables,
        "missing": [path for table in done.tables for path in table.missing],
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    lines = [f"{done.object} {verb} back{_table_count(done.object, done.tables)}."]
    for table in done.tables:
        at = f"snapshot {table.snapshot_id}" if table.snapshot_id is not None else "no snapshot"
        when = f" of {format_instant(table.committed_at)}" if table.committed_at else ""
        lines.append(f"{table.table} at {at}{when}")
        lines += [f"  already deleted: {path}" for path in table.missing]
    return answer(document, lines, as_json=as_json)


def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="its name now")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="its new name, in full")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    kind: Kind = None,
) -> int:
    """Rename a table, schema or database."""
    done = dropping.rename(ready(config), old, new, kind, dry_run=dry_run)
    document = {
        "before": str(done.before),
        "after": str(done.after),
        "kind": done.before.kind,
        "tables": done.tables,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    return answer(document, [f"{done.before} {verb} {done.after} now."], as_json=as_json)


def history(
    listed: Annotated[Listed, typer.Argument(metavar="tables|schemas|databases")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    like: Annotated[
        str | None, typer.Option("--like", metavar="P", help="a pattern of SQL's LIKE")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--in", metavar="NAME", help="a catalog, database or schema")
    ] = None,
) -> int:
    """List live and restorable objects, every version in a row of its own."""
    rows, unread = list_history(ready(config), listed, like=like, within=within)
    columns = list(HistoryRow.__dataclass_fields__)
    cells = [[_cell(key, row) for key in columns] for row in rows]
    document = {"rows": rows, "unreadable": unread}
    return answer_rows(document, columns, cells, as_json=as_json, unreadable=unread)


def _cell(key: str, row: HistoryRow) -> str:
    cell = asdict(row)[key]
    if cell is None or cell == "":
        return "-"
    if key in ("created_on", "dropped_on"):
        return format_instant(cell)
    return format_size(cell) if key == "bytes" else str(cell)


def recover(
    table: Annotated[str, typer.Argument(metavar="TABLE[@SNAPSHOT]", help="the original table")],
    target: Annotated[str, typer.Option("--as", metavar="NEW", help="the new table's name")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> int:
    """Restore files in failsafe as a new table. Best effort; failsafe is not a backup."""
    name, snapshot_id = split_snapshot(table)
    done = bring_back(
        ready(config),
        name,
        target,
        reason=reason,
        snapshot_id=snapshot_id,
        dry_run=dry_run,
    )
    document = {
        "status": "best effort",
        "source": done.source,
        "source_uuid": done.source_uuid,
        "snapshot_id": done.snapshot.snapshot_id,
        "committed_at": done.snapshot.committed_at,
        "table": done.table,
        "found": done.files_found,
        "missing": done.missing,
        "dry_run": dry_run,
    }
    verb = "would be" if dry_run else "is"
    lines = [
        f"Best effort: snapshot {done.snapshot.snapshot_id} of {done.source} {verb} {done.table}.",
        f"{done.files_found} files found, {len(done.missing)} missing.",
        *(f"  missing: {path}" for path in done.missing),
    ]
    return answer(document, lines, as_json=as_json)
