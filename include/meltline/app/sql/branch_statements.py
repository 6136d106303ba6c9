"""Statements with the verbs of git: BRANCH, COMMIT, RESYNC, DIFF and ROLLBACK (DS-16)."""

from dataclasses import astuple, dataclass

from meltline.app.refs.branches import branch, drop_branch, publish, resync, rollback
from meltline.app.refs.diff import diff
from meltline.app.services import ReadContext
from meltline.app.sql.naming import full_table_name
from meltline.app.sql.statement_results import Outcome, status
from meltline.app.time_travel.query import locate
from meltline.domain.errors import RefNotFound, SnapshotNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.timeline import Point
from meltline.grammar.points import PointInTime
from meltline.grammar.statements import (
    CreateBranch,
    DiffTable,
    DropBranch,
    ForwardBranch,
    Rollback,
)
from meltline.ports import ReadColumn, ReadRows

Statement = CreateBranch | DropBranch | ForwardBranch | Rollback | DiffTable


def run_branch_statement(
    context: ReadContext, standing: ObjectName, statement: Statement
) -> Outcome:
    """Carries one out. Raises as the step does that does it, and as `locate`."""
    return _OnTable(context, full_table_name(context, standing, statement.table)).run(statement)


@dataclass(frozen=True)
class _OnTable:
    """A statement's table, and where it is."""

    context: ReadContext
    table: TableName

    def run(self, statement: Statement) -> Outcome:
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

    def create(self, statement: CreateBranch) -> Outcome:
        """At main's head, or at a point."""
        point = self.at(statement.point) if statement.point else Point()
        done = branch(self.context, self.table, statement.name, point, dry_run=False)
        return status(f"{done.table}: {done.branch} is at snapshot {done.after}")

    def drop(self, statement: DropBranch) -> Outcome:
        try:
            ref = drop_branch(self.context, self.table, statement.name, dry_run=False)
        except RefNotFound:
            if not statement.if_exists:
                raise
            return status(f"{self.table}: there is no branch {statement.name}")
        return status(f"{self.table}: branch {ref.name}, at snapshot {ref.snapshot_id}, is dropped")

    def roll_back(self, statement: Rollback) -> Outcome:
        to = statement.to
        point = Point(to) if isinstance(to, int) else self.at(to)
        done = rollback(self.context, self.table, point, dry_run=False)
        words = f"{done.branch} is at snapshot {done.after}, was at {done.before}"
        return status(f"{done.table}: {words}")

    def compare(self, statement: DiffTable) -> Outcome:
        """Files, rows and bytes added and removed on the way, and the net of both."""
        done = diff(self.context, self.table, statement.a, statement.b)
        amounts = {"added": done.added, "removed": done.removed, "net": done.net}
        columns = (
            ReadColumn("change", "string"),
            *(ReadColumn(name, "bigint") for name in ("files", "rows", "bytes")),
        )
        rows = tuple((change, *astuple(amount)) for change, amount in amounts.items())
        return Outcome(read=ReadRows(columns, rows))

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
