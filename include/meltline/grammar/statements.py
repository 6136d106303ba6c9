"""What a statement says. Names are as they were written, in parts, without quotes."""

from collections.abc import Mapping
from dataclasses import dataclass

from meltline.domain.iceberg.objects import ObjectKind
from meltline.grammar.points import PointInTime

Name = tuple[str, ...]


@dataclass(frozen=True)
class TimeClause:
    """A table that is to be read as it was.

    Attributes:
        table: Its name.
        point: AT or BEFORE what.
        name_start: Where the name begins in the statement.
        name_end: Where it ends.
        clause_start: Where the clause begins.
        end: Where the clause ends.
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
    """Anything that Spark carries out: all but its time-travel clauses reaches Spark as written.

    Attributes:
        text: The whole statement.
        kind: Its first word.
        clauses: Tables that are read as they were, from left to right.
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
    """CREATE TABLE with a retention, as TRANSIENT, or with types of the sources.

    Attributes:
        text: The statement in Spark's words.
        name: The table.
        policies: What it says of them: DATA_RETENTION_TIME_IN_DAYS, TRANSIENT.
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
        point: Of which moment; None is now.
        ignore_insufficient: Leave out tables whose retention does not reach back to it.
        replaces: CREATE OR REPLACE: what has the name is dropped.
        if_not_exists: Nothing is done where something has the name.
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
    """UPDATE SHARE: it shows the present from now on."""

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
    """DROP TABLE, SCHEMA or DATABASE: it can be brought back."""

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
        within: A catalog, database or schema; None is where the session stands, and empty the
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
        table: Whose snapshot it is; None where the id alone says it.
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
        point: As of when; None is main's head.
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
    """COMMIT BRANCH: main comes to a branch. RESYNC BRANCH: a branch comes to main."""

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
        hours: What RETAIN says; None where it is left out.
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
        opened: Where its parenthesis stands; `closed` where that is closed.
        alias: What the answer is called; empty where nothing says it.
        columns: What its columns are called, as far as that is said.
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
