"""Parsed statements as data. Names are as written, in parts, without quotes.

`parse` returns them, and `app/sql` executes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from meltline.domain.iceberg.objects import ObjectKind
from meltline.grammar.points import PointInTime

Name = tuple[str, ...]


@dataclass(frozen=True)
class TimeClause:
    """A table that is read at an earlier point.

    Attributes:
        table: Its name.
        point: The point of AT or BEFORE.
        name_start: Offset of the name's begin in the statement.
        name_end: Offset of its end.
        clause_start: Offset of the clause's begin.
        end: Offset of the clause's end.
        needs_alias: Whether nothing else names the table in the rest of the statement.
    """

    table: Name
    point: PointInTime
    name_start: int
    name_end: int
    clause_start: int
    end: int
    needs_alias: bool


@dataclass(frozen=True)
class Query:
    """A statement for Spark, which receives all but its time-travel clauses as written.

    Attributes:
        text: The whole statement.
        kind: Its first word.
        clauses: Tables that are read at an earlier point, from left to right.
        views: Views of MD_INFORMATION_SCHEMA that it reads, in lower case.
        calls: Functions of lakets that it calls, in lower case.
    """

    text: str
    kind: str
    clauses: tuple[TimeClause, ...] = ()
    views: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE with a retention, as TRANSIENT, or with types of Snowflake or MotherDuck.

    Attributes:
        text: The statement in Spark's dialect.
        name: The table.
        policies: Its policies: DATA_RETENTION_TIME_IN_DAYS, TRANSIENT.
    """

    text: str
    name: Name
    policies: Mapping[str, str]


@dataclass(frozen=True)
class CreateContainer:
    """CREATE SCHEMA or DATABASE with a retention, or as TRANSIENT."""

    kind: ObjectKind
    name: Name
    policies: Mapping[str, str]
    if_not_exists: bool = False


@dataclass(frozen=True)
class CloneObject:
    """CREATE … CLONE, and CREATE DATABASE … FROM.

    Attributes:
        point: The moment to clone; None is now.
        ignore_insufficient: Leave out tables whose retention does not reach back to it.
        replaces: CREATE OR REPLACE: the object with this name is dropped.
        if_not_exists: Nothing is done if the name is taken.
    """

    kind: ObjectKind
    target: Name
    source: Name
    point: PointInTime | None = None
    ignore_insufficient: bool = False
    replaces: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateShare:
    """CREATE SHARE … FROM."""

    name: str
    source: Name


@dataclass(frozen=True)
class UpdateShare:
    """UPDATE SHARE: moves the share to the current state."""

    name: str


@dataclass(frozen=True)
class DropShare:
    """DROP SHARE."""

    name: str


@dataclass(frozen=True)
class ReadView:
    """SELECT * FROM a view of MD_INFORMATION_SCHEMA, and nothing more.

    Attributes:
        view: Its name, in lower case.
    """

    view: str


@dataclass(frozen=True)
class DropObject:
    """DROP TABLE, SCHEMA or DATABASE: UNDROP can restore it."""

    kind: ObjectKind
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class UndropObject:
    """UNDROP."""

    kind: ObjectKind
    name: Name


@dataclass(frozen=True)
class RenameObject:
    """ALTER … RENAME TO."""

    kind: ObjectKind
    name: Name
    target: Name


@dataclass(frozen=True)
class ShowHistory:
    """SHOW … HISTORY.

    Attributes:
        like: A pattern of LIKE; None is everything.
        within: A catalog, database or schema; None is the session's current one, and empty the
            whole account.
    """

    kind: ObjectKind
    like: str | None = None
    within: Name | None = None


@dataclass(frozen=True)
class ChangePolicy:
    """ALTER … SET or UNSET a retention, or AUTO_MAINTENANCE.

    Attributes:
        name: The object; empty for the account.
        changes: New values by policy; None unsets one.
    """

    kind: ObjectKind
    name: Name
    changes: Mapping[str, str | None]


@dataclass(frozen=True)
class TagSnapshot:
    """TAG SNAPSHOT … AS … WITH RETENTION.

    Attributes:
        table: The snapshot's table; None if only the id is given.
        days: How long the tag stays; None is for ever.
    """

    snapshot_id: int
    tag: str
    days: int | None
    table: Name | None = None


@dataclass(frozen=True)
class CreateBranch:
    """CREATE BRANCH … OF a table.

    Attributes:
        point: The point it begins at; None is main's head.
    """

    name: str
    table: Name
    point: PointInTime | None = None


@dataclass(frozen=True)
class DropBranch:
    """DROP BRANCH … OF a table."""

    name: str
    table: Name
    if_exists: bool = False


@dataclass(frozen=True)
class ForwardBranch:
    """COMMIT BRANCH fast-forwards main to a branch, RESYNC BRANCH a branch to main."""

    name: str
    table: Name
    commits: bool


@dataclass(frozen=True)
class Rollback:
    """ROLLBACK TABLE to a point, or to a snapshot."""

    table: Name
    to: PointInTime | int


@dataclass(frozen=True)
class DiffTable:
    """DIFF TABLE … BETWEEN two branches, tags or snapshots."""

    table: Name
    a: str
    b: str


@dataclass(frozen=True)
class Vacuum:
    """VACUUM a table.

    Attributes:
        hours: The hours of RETAIN; None if it is left out.
        dry_run: DRY RUN: nothing is done.
    """

    table: Name
    hours: int | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class FunctionCall:
    """SELECT lakets.f(…), or SELECT * FROM it, and nothing more (LakeTS).

    Attributes:
        name: The function, in lower case.
        text: The whole statement.
        opened: Offset of its opening parenthesis; `closed` that of the closing one.
        alias: Alias of the result; empty without one.
        columns: Aliases of its columns, as far as given.
    """

    name: str
    text: str
    opened: int
    closed: int
    alias: str = ""
    columns: tuple[str, ...] = ()


Statement = (
    Query
    | CreateTable
    | CreateContainer
    | CloneObject
    | CreateShare
    | UpdateShare
    | DropShare
    | ReadView
    | DropObject
    | UndropObject
    | RenameObject
    | ShowHistory
    | ChangePolicy
    | TagSnapshot
    | CreateBranch
    | DropBranch
    | ForwardBranch
    | Rollback
    | DiffTable
    | Vacuum
    | FunctionCall
)
