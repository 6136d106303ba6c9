"""Parses BRANCH, COMMIT, RESYNC, DIFF and ROLLBACK: Git's operations on tables.

`parse` dispatches to it by the first word (DS-16).
"""

from meltline.grammar.points import begins_point, begins_tag, point_in_time
from meltline.grammar.statements import (
    CreateBranch,
    DiffTable,
    DropBranch,
    ForwardBranch,
    Name,
    Rollback,
    Statement,
)
from meltline.grammar.tokens import Cursor, Kind


def create_branch(cursor: Cursor) -> Statement:
    """… name OF table [AT | BEFORE (…)], after CREATE BRANCH."""
    name, table = _branch_of(cursor)
    begins = begins_point(cursor) or begins_tag(cursor) or cursor.current.is_word("AT", "BEFORE")
    return CreateBranch(name, table, point_in_time(cursor) if begins else None)


def drop_branch(cursor: Cursor) -> Statement:
    """… [IF EXISTS] name OF table, after DROP BRANCH."""
    if_exists = cursor.take("IF", "EXISTS")
    return DropBranch(*_branch_of(cursor), if_exists)


def commit(cursor: Cursor) -> Statement:
    """COMMIT BRANCH name OF table: fast-forwards main to the branch."""
    cursor.expect("COMMIT", "BRANCH")
    return ForwardBranch(*_branch_of(cursor), commits=True)


def resync(cursor: Cursor) -> Statement:
    """RESYNC BRANCH name OF table: fast-forwards the branch to main."""
    cursor.expect("RESYNC", "BRANCH")
    return ForwardBranch(*_branch_of(cursor), commits=False)


def rollback(cursor: Cursor) -> Statement:
    """ROLLBACK TABLE table AT | BEFORE (…), or TO SNAPSHOT n."""
    cursor.expect("ROLLBACK", "TABLE")
    table = cursor.name()
    if cursor.take("TO"):
        cursor.expect("SNAPSHOT")
        return Rollback(table, cursor.whole("a snapshot's id"))
    return Rollback(table, point_in_time(cursor))


def diff(cursor: Cursor) -> Statement:
    """DIFF TABLE table BETWEEN a AND b: branches, tags or snapshots."""
    cursor.expect("DIFF", "TABLE")
    table = cursor.name()
    cursor.expect("BETWEEN")
    a = _state(cursor)
    cursor.expect("AND")
    return DiffTable(table, a, _state(cursor))


def _branch_of(cursor: Cursor) -> tuple[str, Name]:
    name = _ref(cursor, "a branch's name")
    cursor.expect("OF")
    return name, cursor.name("a table")


def _state(cursor: Cursor) -> str:
    return _ref(cursor, "a branch, a tag or a snapshot's id", Kind.NUMBER)


def _ref(cursor: Cursor, expected: str, *more: Kind) -> str:
    if cursor.current.kind is Kind.STRING:
        return cursor.string(expected)
    if not (cursor.current.is_name or cursor.current.kind in more):
        cursor.fail(expected)
    return cursor.next().text
