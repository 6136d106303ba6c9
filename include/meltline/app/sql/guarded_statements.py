"""Guards writes to tables with dropped chunks: rejects a whole statement if any row is late.

`statements` calls it. The statement runs on a branch of its own, created at main's head. Its
changes are checked before main is set to the branch, if main has not moved; a drop in between moves
main, and everything is retried. On main itself the check would come only when others can already
see the rows. `DELETE FROM t WHERE user = 5` removes the user's rows from hot. It would silently
leave those in cold that were dropped from hot before (LT-30).
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import TypeVar

from meltline.app.catalog.commit import commit, open_table
from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.late_data import (
    Dropped,
    always_others,
    dropped_on,
    earliest_accepted,
    late_files,
    require_accepted,
)
from meltline.app.services import ReadContext
from meltline.app.sql.naming import full_table_name, spoken_name
from meltline.domain.chunks.chunk import WERE_DROPPED
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.ranges import TimeRange, merged
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    LateDataRejected,
    MeltlineError,
    StatementUnsupported,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, SnapshotRef, TableMetadata
from meltline.grammar.bounds import Bound, LiteralKind, bounds_of
from meltline.grammar.tables import Edit, replaced
from meltline.grammar.writes import BEGINNINGS, Write, writes_of

T = TypeVar("T")
_TRIES = 8
_BRANCH_AGE = timedelta(days=1)  # age limit of a killed statement's branch


class _MainMoved(Exception):
    """Main has moved since the branch was created."""


@dataclass(frozen=True)
class GuardedStatement:
    """A statement that writes to a table with dropped chunks.

    Attributes:
        table: The table.
        write: Where the statement names it, and which rows it changes.
        text: The statement as it was written.
        edits: Replacements elsewhere in it, for Spark.
    """

    context: ReadContext
    table: TableName
    write: Write
    text: str
    edits: tuple[Edit, ...]

    def run(self, carry_out: Callable[[str], T]) -> T:
        """Runs the statement, as a whole or not at all.

        Args:
            carry_out: Runs a text in the engine.

        Raises:
            LateDataRejected: It reaches into dropped chunks.
            CommitConflict: Others committed first each time.
            MeltlineError: Whatever the engine raises.
        """
        for _ in range(_TRIES):
            state = open_table(self.context, self.table)
            dropped = dropped_on(self.context, state)
            head = state.current_snapshot_id
            if dropped is None or head is None:
                return carry_out(replaced(self.text, list(self.edits)))
            require_bounded(state, self.write, dropped)
            branch = f"meltline_guarded_{token_hex(6)}"
            try:
                self._open(state, branch, head)
                carry_out(f"REFRESH TABLE {self._name()}")  # a session may cache tables for a while
                done = carry_out(self._on(branch))
                self._publish(state, branch, head, dropped)
                return done
            except _MainMoved:
                continue
            finally:
                self._close(state, branch)
        raise always_others(self.table)

    def _name(self, *further: str) -> str:
        return spoken_name(self.context.config.catalogs, self.table, *further)

    def _on(self, branch: str) -> str:
        edit = self.write.on(self._name(f"branch_{branch}"))
        return replaced(self.text, [*self.edits, edit])

    def _open(self, state: TableMetadata, branch: str, head: int) -> None:
        age = _BRANCH_AGE // timedelta(milliseconds=1)
        ref = SnapshotRef(branch, head, is_branch=True, max_ref_age_ms=age)

        def edit(document: MetadataEditor, now: TableMetadata) -> None:
            if now.current_snapshot_id != head:
                raise _MainMoved
            document.set_ref(ref)

        commit(self.context, state, edit)

    def _publish(self, state: TableMetadata, branch: str, head: int, dropped: Dropped) -> None:
        """Sets main to the branch if main has not moved and no row on the branch is late."""
        written = load_table(self.context, self.table)
        snapshots = _since(written, branch, head)
        for snapshot in snapshots:
            change = self.context.chunk_files.change(snapshot, dropped[0], 0)
            require_accepted(self.context, state, late_files(change, dropped))
        if not snapshots:
            return

        def edit(document: MetadataEditor, now: TableMetadata) -> None:
            if now.current_snapshot_id != head:
                raise _MainMoved
            document.set_ref(replace(now.refs[MAIN], snapshot_id=snapshots[0].snapshot_id))
            document.remove_ref(branch)

        commit(self.context, written, edit)

    def _close(self, state: TableMetadata, branch: str) -> None:
        """Removes the branch if it still exists; else its age limit does."""
        with suppress(MeltlineError):
            if branch in load_table(self.context, self.table).refs:
                commit(self.context, state, lambda document, _: document.remove_ref(branch))


def guarded_statement(
    context: ReadContext, standing: ObjectName, text: str, kind: str, edits: tuple[Edit, ...]
) -> GuardedStatement | None:
    """Returns the statement if it writes to a table with dropped chunks; otherwise None.

    If no table at all has such chunks, that costs one query of the ledger.

    Args:
        context: Where the tables are.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.
        edits: Replacements elsewhere in it, for Spark.

    Raises:
        StatementUnsupported: Its target is unknown, or it writes to several tables.
    """
    if kind not in BEGINNINGS:
        return None
    sums = context.control.chunks.sums()
    uuids = {of_status.table_uuid for of_status in sums if of_status.status in WERE_DROPPED}
    writes = writes_of(text) if uuids else ()
    guarded = []
    for write in writes:
        name = _guarded_name(context, standing, write, uuids)
        if name is not None:
            guarded.append(GuardedStatement(context, name, write, text, edits))
    if guarded and len(writes) > 1:
        raise _unsupported("INSERT into several tables at once", str(guarded[0].table))
    return guarded[0] if guarded else None


def _guarded_name(
    context: ReadContext, standing: ObjectName, write: Write, uuids: set[str]
) -> TableName | None:
    if not write.target:
        raise _unsupported("a target by IDENTIFIER()", "")
    try:
        name = full_table_name(context, standing, write.target)
        state = load_table(context, name)
    except (TableNotFound, UsageInvalid, CatalogReadOnly):
        return None  # a branch, a view, or nothing at all: Spark resolves it
    return name if state.uuid in uuids else None


def _since(state: TableMetadata, branch: str, head: int) -> list[Snapshot]:
    """Returns the branch's snapshots after the one at which it was created, newest first.

    Raises:
        CommitConflict: It no longer exists, or does not descend from that snapshot.
    """
    found: list[Snapshot] = []
    for snapshot in state.ancestry(state.refs[branch].snapshot_id) if branch in state.refs else ():
        if snapshot.snapshot_id == head:
            return found
        found.append(snapshot)
    raise CommitConflict(
        f"the branch on which the statement was carried out has left the line of {state.name}",
        object=str(state.name),
        expected=f"branch {branch}, which comes from snapshot {head}",
        found="another one, or none",
        next="run the statement again: nothing was written to main",
    )


def _unsupported(what: str, table: str) -> StatementUnsupported:
    return StatementUnsupported(
        f"{what} is not supported where chunks of tables were dropped",
        object=table,
        expected="one table, by its name",
        found=what,
        next="name the table, and write to one with each statement",
    )


_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?(Z|[+-]\d\d:\d\d)?"
)
_ZONES = timedelta(hours=18)  # largest offset of the session's zone from UTC
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Span:
    """Range of times that a column may have; both ends are included unless it is open."""

    first: datetime
    last: datetime
    is_open: bool = False

    def meets(self, range: TimeRange) -> bool:
        ends_before = self.last < range.start or (self.is_open and self.last == range.start)
        return not ends_before and self.first < range.end


def require_bounded(table: TableMetadata, write: Write, dropped: Dropped) -> None:
    """Rejects a change of rows that may be in dropped chunks.

    Each of its conditions must exclude all of them on the time column. The comparison with
    constants must be the whole condition, or joined by AND.

    Raises:
        LateDataRejected: A condition does not; names the bound to add.
    """
    layout, names = dropped
    qualifiers = _qualifiers(table, write)
    ranges = merged(times for name in names if (times := layout.range(name)))
    for condition in write.conditions:
        bounds = bounds_of(condition, layout.column.name, qualifiers)
        if not _keeps_out(layout.column, bounds, ranges):
            raise _unbounded(table, write, dropped)


def _qualifiers(table: TableMetadata, write: Write) -> frozenset[str]:
    if write.alias:
        return frozenset({write.alias.lower()})
    full = (table.name.catalog, *table.name.namespace, table.name.name)
    named = {full[-1:], write.target}
    return frozenset(".".join(parts).lower() for parts in named)


def _keeps_out(column: TimeColumn, bounds: Sequence[Bound], ranges: Sequence[TimeRange]) -> bool:
    first, last, is_open = _FIRST, _LAST, False
    for bound in bounds:
        if bound.values is not None:
            spans = [_value(column, literal) for literal in bound.values]
            if all(span and not any(map(span.meets, ranges)) for span in spans):
                return True
            continue
        if bound.low and (low := _value(column, bound.low)):
            first = max(first, low.first)
        if bound.high and (high := _value(column, bound.high)) and high.last < last:
            last, is_open = high.last, bound.is_open and high.first == high.last
    span = _Span(first, last, is_open)
    return not any(map(span.meets, ranges))


def _value(column: TimeColumn, literal: LiteralKind) -> _Span | None:
    """Range of a constant, as Spark compares it with the column; None if uncertain."""
    if column.kind is ColumnKind.INTEGER:
        moment = column.instant(int(literal.text)) if _is_whole(literal) else None
        return _Span(moment, moment) if moment else None
    if literal.is_number:
        return None
    if column.kind is ColumnKind.TEXT:
        moment = None if literal.type else column.instant(literal.text)
        return _Span(moment, moment) if moment else None
    match = _INSTANT.fullmatch(literal.text)
    if not match:
        return None
    try:
        moment = datetime.fromisoformat(literal.text)
    except ValueError:
        return None
    if column.kind is ColumnKind.TIMESTAMPTZ and match[3] and literal.type != "DATE":
        return _Span(moment.astimezone(UTC), moment.astimezone(UTC))
    if match[3]:
        return None
    moment = moment.replace(tzinfo=UTC)
    if column.kind is ColumnKind.DATE and match[2]:
        return None
    if column.kind is ColumnKind.TIMESTAMPTZ or literal.type in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        # Spark reads it in the session's zone, which is unknown here.
        try:
            return _Span(moment - _ZONES, moment + _ZONES)
        except OverflowError:
            return None
    return _Span(moment, moment)


def _is_whole(literal: LiteralKind) -> bool:
    return literal.is_number and literal.text.lstrip("-").isdecimal()


def _unbounded(table: TableMetadata, write: Write, dropped: Dropped) -> LateDataRejected:
    column, since = dropped[0].column, earliest_accepted(dropped)
    assert since is not None  # every dropped chunk has a range
    bound = f"{quote_part(column.name)} >= {_written(column, since)}"
    return LateDataRejected(
        f"{write.verb} on {table.name} may be meant for rows that were dropped from it, and they"
        " would stay in cold: nothing was changed",
        object=str(table.name),
        expected=f"a condition with AND {bound}, or another one that keeps out of what was dropped",
        found="a condition that every row's time can meet",
        next="add it; rows that were dropped can be changed in cold alone",
    )


def _written(column: TimeColumn, moment: datetime) -> str:
    """Writes a constant that is the same instant in every session."""
    value = column.value(moment)
    if column.kind is ColumnKind.TIMESTAMPTZ:
        return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}Z'"
    if column.kind is ColumnKind.TIMESTAMP:
        return f"TIMESTAMP_NTZ '{moment:%Y-%m-%d %H:%M:%S}'"
    if column.kind is ColumnKind.DATE:
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
