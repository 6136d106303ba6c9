"""Statements that write to a table of which chunks were dropped: none of it may be late (LT-30).

Such a statement is carried out on a branch of its own, made at main's head. What it added is looked
at before main is set to it, if main is still where it was: a drop that comes between moves main,
and all is done anew. A statement on main itself could be looked at only when others see it already.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from secrets import token_hex
from typing import TypeVar

from meltline.app.catalog.commit import commit, open_table
from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.late_data import (
    Dropped,
    always_others,
    dropped_on,
    late_files,
    require_accepted,
)
from meltline.app.services import ReadContext
from meltline.app.sql.bounded_changes import require_bounded
from meltline.app.sql.naming import full_table_name, spoken_name
from meltline.domain.chunks.chunk import WERE_DROPPED
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    MeltlineError,
    StatementUnsupported,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, SnapshotRef, TableMetadata
from meltline.grammar.tables import Edit, replaced
from meltline.grammar.writes import BEGINNINGS, Write, writes_of

T = TypeVar("T")
_TRIES = 8
_BRANCH_AGE = timedelta(days=1)  # so long stays the branch of a statement that was killed


class _MainMoved(Exception):
    """Somebody has committed to main since the branch was made."""


@dataclass(frozen=True)
class GuardedStatement:
    """A statement that writes to a table of which chunks were dropped.

    Attributes:
        table: The table.
        write: Where the statement names it, and which rows it changes.
        text: The statement as it was written.
        edits: What is put elsewhere in it before Spark reads it.
    """

    context: ReadContext
    table: TableName
    write: Write
    text: str
    edits: tuple[Edit, ...]

    def run(self, carry_out: Callable[[str], T]) -> T:
        """Carries it out, as a whole or not at all.

        Args:
            carry_out: Has the engine carry out a text.

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
                carry_out(f"REFRESH TABLE {self._name()}")  # a session may keep tables for a while
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
        """Sets main to the branch, if nothing on it is late and main is where it was."""
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
        """Takes the branch away where it still is; else its age ends it."""
        with suppress(MeltlineError):
            if branch in load_table(self.context, self.table).refs:
                commit(self.context, state, lambda document, _: document.remove_ref(branch))


def guarded_statement(
    context: ReadContext, standing: ObjectName, text: str, kind: str, edits: tuple[Edit, ...]
) -> GuardedStatement | None:
    """The statement, if it writes to a table of which chunks were dropped; None of all others.

    Where no table at all has such chunks, that costs one query of the ledger.

    Args:
        context: Where the tables are.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.
        edits: What is put elsewhere in it before Spark reads it.

    Raises:
        StatementUnsupported: It cannot be told where it writes, or it writes to several tables.
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
        return None  # a branch, a view, or nothing at all: Spark says what it makes of it
    return name if state.uuid in uuids else None


def _since(state: TableMetadata, branch: str, head: int) -> list[Snapshot]:
    """The branch's snapshots after the one at which it was made, newest first.

    Raises:
        CommitConflict: It is not there any more, or leads elsewhere.
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
