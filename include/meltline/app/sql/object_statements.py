"""Executes statements that need no Spark: on tables, containers, tags, branches and shares.

`statements` calls it for all that is not a query. Each function calls the step that the command
calls, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from meltline.app.catalog.new_names import is_there
from meltline.app.catalog.recovery_hints import archived_copies, is_archived
from meltline.app.catalog.registrations import load_tables
from meltline.app.catalog.resolve import catalog_of, find_object
from meltline.app.catalog.tables import is_ledger
from meltline.app.clone.replace import clone_over
from meltline.app.clone.shares import Shared, create_share, drop_share, update_share
from meltline.app.drop.drop import drop, rename
from meltline.app.drop.history import Listed, history
from meltline.app.drop.undrop import undrop
from meltline.app.refs.branches import branch, drop_branch, publish, resync, rollback
from meltline.app.refs.diff import diff
from meltline.app.refs.tags import add_tag
from meltline.app.retention.containers import create_container
from meltline.app.retention.policies import INHERITED, change_policy
from meltline.app.services import ReadContext
from meltline.app.sql.information_schema import read_view
from meltline.app.sql.naming import container_name, full_name, full_table_name
from meltline.app.sql.statement_results import StatementResult, status
from meltline.app.time_travel.query import locate
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.drop.history import HistoryRow
from meltline.domain.errors import (
    NamespaceNotFound,
    RefNotFound,
    SnapshotNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.iceberg.timeline import Point
from meltline.grammar.points import PointInTime
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


def run_without_spark(
    context: ReadContext, standing: ObjectName, statement: Statement
) -> StatementResult:
    """Executes a statement that Spark does not have.

    Raises:
        MeltlineError: Whatever its step raises.
    """
    return _STEPS[type(statement)](context, standing, statement)


def _undrop(context: ReadContext, standing: ObjectName, statement: UndropObject) -> StatementResult:
    name = full_name(context, standing, statement.kind, statement.name)
    done = undrop(context, str(name), name.kind)
    return status(f"{done.object} is back, with {len(done.tables)} tables")


def _show_history(context: ReadContext, standing: ObjectName, show: ShowHistory) -> StatementResult:
    scope = _scope(context, standing, show)
    within = ".".join(map(quote_part, (scope.catalog, *scope.namespace)))
    rows, unread = history(context, _LISTED[show.kind], like=show.like, within=within)
    columns = tuple(
        ReadColumn(field.name, _HISTORY_TYPES.get(field.name, "string"))
        for field in fields(HistoryRow)
    )
    read = ReadRows(columns, tuple(_history_cells(row) for row in rows))
    return StatementResult(read=read, unreadable=tuple(unread))


def _scope(context: ReadContext, standing: ObjectName, show: ShowHistory) -> ObjectName:
    """Scope of a listing: the one it names, else the session's current one."""
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


def _drop(context: ReadContext, standing: ObjectName, statement: DropObject) -> StatementResult:
    name = full_name(context, standing, statement.kind, statement.name)
    try:
        done = drop(context, str(name), name.kind)
    except (TableNotFound, NamespaceNotFound):
        if not statement.if_exists:
            raise
        return status(f"there is no {name.kind} {name}")
    back = done.ways_back(f"UNDROP {name.kind.upper()}")
    return status(f"{name} is dropped, with {len(done.tables)} tables. {back}")


def _rename(context: ReadContext, standing: ObjectName, statement: RenameObject) -> StatementResult:
    name = full_name(context, standing, statement.kind, statement.name)
    # A bare new name is in the object's own namespace, as in Spark.
    beside = ObjectName(name.catalog, name.namespace if name.table else name.namespace[:-1])
    target = full_name(context, beside, name.kind, statement.target)
    done = rename(context, str(name), str(target), name.kind)
    return status(f"{done.before} is {done.after} now")


def _create_container(
    context: ReadContext, standing: ObjectName, statement: CreateContainer
) -> StatementResult:
    name = full_name(context, standing, statement.kind, statement.name)
    warnings = create_container(
        context, name, statement.policies, if_not_exists=statement.if_not_exists
    )
    if warnings is None:
        return status(f"there is a {name.kind} {name} already")
    return replace(status(f"{name} is made"), warnings=warnings)


def _change_policy(
    context: ReadContext, standing: ObjectName, statement: ChangePolicy
) -> StatementResult:
    name = full_name(context, standing, statement.kind, statement.name)
    if name.kind is not ObjectKind.ACCOUNT:
        name = find_object(context, str(name), name.kind)
    done = change_policy(context, name, statement.changes, dry_run=False)
    lines = tuple(
        (str(name), key, done.before[key] or INHERITED, after or INHERITED)
        for key, after in done.after.items()
    )
    columns = tuple(ReadColumn(c, "string") for c in ("object", "policy", "before", "after"))
    return StatementResult(read=ReadRows(columns, lines), warnings=done.warnings)


def _tag(context: ReadContext, standing: ObjectName, statement: TagSnapshot) -> StatementResult:
    if statement.table is None:
        table = _table_of_snapshot(context, statement.snapshot_id)
    else:
        table = full_table_name(context, standing, statement.table)
    point = Point(statement.snapshot_id)
    done = add_tag(context, table, statement.tag, point, statement.days, dry_run=False)
    return status(f"{done.table}: {done.name} keeps snapshot {done.snapshot_id}")


def _tables_with(context: ReadContext, snapshot_id: int) -> list[TableName]:
    """Returns the tables of the hot catalog that have a given snapshot."""
    entries = [
        pointer
        for pointer in context.catalogs[context.config.hot].listing().entries
        if not is_ledger(context, pointer.name) and not is_dropped_name(pointer.name.namespace)
    ]
    states = [s for s in load_tables(context, entries).values() if isinstance(s, TableMetadata)]
    return sorted(state.name for state in states if snapshot_id in state.snapshots)


def _table_of_snapshot(context: ReadContext, snapshot_id: int) -> TableName:
    """Returns the only table of the hot catalog that has a given snapshot.

    Raises:
        SnapshotNotFound: No table has it.
        UsageInvalid: Several have: one file registered twice, or a copy.
    """
    names = _tables_with(context, snapshot_id)
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


BranchStatement = CreateBranch | DropBranch | ForwardBranch | Rollback | DiffTable


def run_branch_statement(
    context: ReadContext, standing: ObjectName, statement: BranchStatement
) -> StatementResult:
    """Executes a statement on branches. Raises as its step, and as `locate`."""
    return _OnTable(context, full_table_name(context, standing, statement.table)).run(statement)


@dataclass(frozen=True)
class _OnTable:
    """A statement's table, and its ports."""

    context: ReadContext
    table: TableName

    def run(self, statement: BranchStatement) -> StatementResult:
        match statement:
            case CreateBranch():
                return self.create(statement)
            case DropBranch():
                return self.drop(statement)
            case ForwardBranch():
                forward = publish if statement.commits else resync
                done = forward(self.context, self.table, statement.name, dry_run=False)
                return status(f"{done.table}: {done.branch} is at snapshot {done.after}")
            case Rollback():
                return self.roll_back(statement)
            case DiffTable():
                return self.compare(statement)

    def create(self, statement: CreateBranch) -> StatementResult:
        """Creates a branch at main's head, or at a point."""
        point = self.at(statement.point) if statement.point else Point()
        done = branch(self.context, self.table, statement.name, point, dry_run=False)
        return status(f"{done.table}: {done.branch} is at snapshot {done.after}")

    def drop(self, statement: DropBranch) -> StatementResult:
        try:
            ref = drop_branch(self.context, self.table, statement.name, dry_run=False)
        except RefNotFound:
            if not statement.if_exists:
                raise
            return status(f"{self.table}: there is no branch {statement.name}")
        return status(f"{self.table}: branch {ref.name}, at snapshot {ref.snapshot_id}, is dropped")

    def roll_back(self, statement: Rollback) -> StatementResult:
        to = statement.to
        point = Point(to) if isinstance(to, int) else self.at(to)
        done = rollback(self.context, self.table, point, dry_run=False)
        words = f"{done.branch} is at snapshot {done.after}, was at {done.before}"
        return status(f"{done.table}: {words}")

    def compare(self, statement: DiffTable) -> StatementResult:
        """Files, rows and bytes added and removed in between, and the net of both."""
        done = diff(self.context, self.table, statement.a, statement.b)
        amounts = {"added": done.added, "removed": done.removed, "net": done.net}
        columns = (
            ReadColumn("change", "string"),
            *(ReadColumn(name, "bigint") for name in ("files", "rows", "bytes")),
        )
        rows = tuple((change, *astuple(amount)) for change, amount in amounts.items())
        return StatementResult(read=ReadRows(columns, rows))

    def at(self, point: PointInTime) -> Point:
        """The snapshot that main was at."""
        located = locate(self.context, self.table, point.at(self.context.clock.now()))
        if located.resolved.snapshot_id is None:
            raise SnapshotNotFound(
                f"{self.table} had no snapshot yet at that point",
                object=str(self.table),
                expected="a point at which somebody had written to it",
                found="none on main",
                next="choose a later point",
            )
        return Point(located.resolved.snapshot_id)


def make_clone(
    context: ReadContext, standing: ObjectName, statement: CloneObject
) -> StatementResult:
    """CREATE … CLONE, and CREATE DATABASE … FROM. Lists the tables that are left out (TT-37).

    Raises:
        UsageInvalid: A name is incomplete.
        MeltlineError: Whatever `clone_over` raises.
    """
    source = full_name(context, standing, statement.kind, statement.source)
    target = full_name(context, standing, statement.kind, statement.target)
    if statement.if_not_exists and is_there(target, catalog_of(context, target.catalog).listing()):
        return status(f"there is a {target.kind} {target} already")
    done, dropped = clone_over(
        context,
        str(source),
        str(target),
        source.kind,
        replaces=statement.replaces,
        point=statement.point.at(context.clock.now()) if statement.point else None,
        ignore_insufficient=statement.ignore_insufficient,
    )
    return status(
        f"{done.target} is a clone of {done.source}, with {len(done.created)} tables",
        *([f"what was {target} is dropped. {dropped.ways_back('UNDROP')}"] if dropped else ()),
        *(f"left out: {skipped.table}: {skipped.reason}" for skipped in done.skipped),
    )


def make_share(
    context: ReadContext, standing: ObjectName, statement: CreateShare
) -> StatementResult:
    """CREATE SHARE … FROM a database, or a schema or table by its name below the catalog.

    Raises:
        MeltlineError: Whatever `create_share` raises.
    """
    source = container_name(context, standing, statement.source)
    text = ".".join(map(quote_part, (source.catalog, *source.namespace)))
    done = create_share(context, statement.name, text)
    return status(f"{done.share.source} is shared as {done.share.place}{_count(done)}")


def renew_share(
    context: ReadContext, standing: ObjectName, statement: UpdateShare
) -> StatementResult:
    """UPDATE SHARE: reports the writes to it that are undone, and the tables that were removed.

    Raises:
        MeltlineError: Whatever `update_share` raises.
    """
    done = update_share(context, _place(standing, statement.name))
    return status(
        f"{done.share.place} shows {done.share.source} as it is now{_count(done)}",
        *(f"writes undone: {table.table}" for table in done.tables if table.written),
        *(f"taken out: {table}" for table in done.removed),
        *(f"not of the share, left alone: {table}" for table in done.foreign),
    )


def end_share(context: ReadContext, standing: ObjectName, statement: DropShare) -> StatementResult:
    """DROP SHARE.

    Raises:
        MeltlineError: Whatever `drop_share` raises.
    """
    done = drop_share(context, _place(standing, statement.name))
    return status(f"{done.share.place} is dropped{_count(done)}; it cannot be brought back")


def _place(standing: ObjectName, name: str) -> str:
    """Name of a share in the current catalog; so a quoted dot stays in the name."""
    return str(ObjectName(standing.catalog, (name,)))


def _count(done: Shared) -> str:
    return f", with {len(done.tables)} tables"


_STEPS: Mapping[type[Statement], Callable[[ReadContext, ObjectName, Any], StatementResult]] = {
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
