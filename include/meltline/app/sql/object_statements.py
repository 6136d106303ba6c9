"""Statements that need no Spark: about tables, schemas, databases, tags, shares and views."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, fields, replace
from typing import Any

from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.resolve import find_object
from meltline.app.catalog.tables import is_ledger
from meltline.app.catalog.ways_back import archived_copies, is_archived
from meltline.app.drop.drop import drop, rename
from meltline.app.drop.history import Listed, history
from meltline.app.drop.undrop import undrop
from meltline.app.refs.tags import add_tag
from meltline.app.retention.containers import create_container
from meltline.app.retention.policies import INHERITED, change_policy
from meltline.app.services import ReadContext
from meltline.app.sql.branch_statements import run_branch_statement
from meltline.app.sql.copy_statements import end_share, make_clone, make_share, renew_share
from meltline.app.sql.information_schema import read_view
from meltline.app.sql.naming import container_name, full_name, full_table_name
from meltline.app.sql.statement_results import Outcome, status
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.drop.history import HistoryRow
from meltline.domain.errors import (
    NamespaceNotFound,
    SnapshotNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.iceberg.timeline import Point
from meltline.grammar.statements import (
    ChangePolicy,
    CloneObject,
    CreateBranch,
    CreateContainer,
    CreateShare,
    DiffTable,
    DropBranch,
    DropObject,
    DropShare,
    ForwardBranch,
    ReadView,
    RenameObject,
    Rollback,
    ShowHistory,
    Statement,
    TagSnapshot,
    UndropObject,
    UpdateShare,
)
from meltline.ports import ReadColumn, ReadRows

_LISTED = {
    ObjectKind.TABLE: Listed.TABLES,
    ObjectKind.SCHEMA: Listed.SCHEMAS,
    ObjectKind.DATABASE: Listed.DATABASES,
}
_HISTORY_TYPES = {
    "created_on": "timestamp",
    "dropped_on": "timestamp",
    "rows": "bigint",
    "bytes": "bigint",
}


def run_without_spark(context: ReadContext, standing: ObjectName, statement: Statement) -> Outcome:
    """Carries out a statement that Spark does not have.

    Raises:
        MeltlineError: Whatever the step raises that does.
    """
    return _STEPS[type(statement)](context, standing, statement)


def _undrop(context: ReadContext, standing: ObjectName, statement: UndropObject) -> Outcome:
    name = full_name(context, standing, statement.kind, statement.name)
    done = undrop(context, str(name), name.kind)
    return status(f"{done.object} is back, with {len(done.tables)} tables")


def _show_history(context: ReadContext, standing: ObjectName, show: ShowHistory) -> Outcome:
    scope = _scope(context, standing, show)
    within = ".".join(map(quote_part, (scope.catalog, *scope.namespace)))
    rows, unread = history(context, _LISTED[show.kind], like=show.like, within=within)
    columns = tuple(
        ReadColumn(field.name, _HISTORY_TYPES.get(field.name, "string"))
        for field in fields(HistoryRow)
    )
    read = ReadRows(columns, tuple(_history_cells(row) for row in rows))
    return Outcome(read=read, unreadable=tuple(unread))


def _scope(context: ReadContext, standing: ObjectName, show: ShowHistory) -> ObjectName:
    """Where a listing looks: what it says, else where the session stands."""
    if show.within is not None:
        hot = ObjectName(context.config.hot)
        return container_name(context, standing, show.within) if show.within else hot
    depth = {ObjectKind.TABLE: None, ObjectKind.SCHEMA: 1}.get(show.kind, 0)
    return ObjectName(standing.catalog, standing.namespace[:depth])


def _history_cells(row: HistoryRow) -> tuple[object, ...]:
    return tuple(
        str(cell) if field.name == "retention_time" else cell
        for field, cell in zip(fields(HistoryRow), astuple(row), strict=True)
    )


def _drop(context: ReadContext, standing: ObjectName, statement: DropObject) -> Outcome:
    name = full_name(context, standing, statement.kind, statement.name)
    try:
        done = drop(context, str(name), name.kind)
    except (TableNotFound, NamespaceNotFound):
        if not statement.if_exists:
            raise
        return status(f"there is no {name.kind} {name}")
    back = done.ways_back(f"UNDROP {name.kind.upper()}")
    return status(f"{name} is dropped, with {len(done.tables)} tables. {back}")


def _rename(context: ReadContext, standing: ObjectName, statement: RenameObject) -> Outcome:
    name = full_name(context, standing, statement.kind, statement.name)
    # A bare new name stays where the object is, as in Spark.
    beside = ObjectName(name.catalog, name.namespace if name.table else name.namespace[:-1])
    target = full_name(context, beside, name.kind, statement.target)
    done = rename(context, str(name), str(target), name.kind)
    return status(f"{done.before} is {done.after} now")


def _create_container(
    context: ReadContext, standing: ObjectName, statement: CreateContainer
) -> Outcome:
    name = full_name(context, standing, statement.kind, statement.name)
    warnings = create_container(
        context, name, statement.policies, if_not_exists=statement.if_not_exists
    )
    if warnings is None:
        return status(f"there is a {name.kind} {name} already")
    return replace(status(f"{name} is made"), warnings=warnings)


def _change_policy(context: ReadContext, standing: ObjectName, statement: ChangePolicy) -> Outcome:
    name = full_name(context, standing, statement.kind, statement.name)
    if name.kind is not ObjectKind.ACCOUNT:
        name = find_object(context, str(name), name.kind)
    done = change_policy(context, name, statement.changes, dry_run=False)
    lines = tuple(
        (str(name), key, done.before[key] or INHERITED, after or INHERITED)
        for key, after in done.after.items()
    )
    columns = tuple(ReadColumn(c, "string") for c in ("object", "policy", "before", "after"))
    return Outcome(read=ReadRows(columns, lines), warnings=done.warnings)


def _tag(context: ReadContext, standing: ObjectName, statement: TagSnapshot) -> Outcome:
    if statement.table is None:
        table = _table_of_snapshot(context, statement.snapshot_id)
    else:
        table = full_table_name(context, standing, statement.table)
    point = Point(statement.snapshot_id)
    done = add_tag(context, table, statement.tag, point, statement.days, dry_run=False)
    return status(f"{done.table}: {done.name} keeps snapshot {done.snapshot_id}")


def _table_of_snapshot(context: ReadContext, snapshot_id: int) -> TableName:
    """The one table of the hot catalog that has a snapshot of that id.

    Raises:
        SnapshotNotFound: None has.
        UsageInvalid: Several have: one file registered twice, or a copy.
    """
    entries = [
        pointer
        for pointer in context.catalogs[context.config.hot].listing().entries
        if not is_ledger(context, pointer.name) and not is_dropped_name(pointer.name.namespace)
    ]
    states = [s for s in load_tables(context, entries).values() if isinstance(s, TableMetadata)]
    names = sorted(state.name for state in states if snapshot_id in state.snapshots)
    if len(names) == 1:
        return names[0]
    if not names:
        for copy in archived_copies(context.control.archived, snapshot_id):
            raise is_archived(copy)
        raise SnapshotNotFound(
            f"no table of {context.config.hot} has a snapshot {snapshot_id}",
            object=str(snapshot_id),
            expected="a snapshot that is there",
            found="none of that id: never there, or expired",
            next="`meltline explain TABLE` lists a table's snapshots",
        )
    raise UsageInvalid(
        f"several tables have a snapshot {snapshot_id}",
        object=str(snapshot_id),
        expected="a snapshot of one table",
        found=", ".join(map(str, names[:5])),
        next=f"say which: TAG SNAPSHOT {snapshot_id} OF {names[0]} AS …",
    )


_STEPS: Mapping[type[Statement], Callable[[ReadContext, ObjectName, Any], Outcome]] = {
    ShowHistory: _show_history,
    UndropObject: _undrop,
    DropObject: _drop,
    RenameObject: _rename,
    ChangePolicy: _change_policy,
    CreateContainer: _create_container,
    TagSnapshot: _tag,
    CreateBranch: run_branch_statement,
    DropBranch: run_branch_statement,
    ForwardBranch: run_branch_statement,
    Rollback: run_branch_statement,
    DiffTable: run_branch_statement,
    CloneObject: make_clone,
    CreateShare: make_share,
    UpdateShare: renew_share,
    DropShare: end_share,
    ReadView: read_view,
}
