"""Parses statements about tables, schemas, databases, shares and tags that Spark does not have.

`parse` dispatches to it by the first word.
"""

from collections.abc import Mapping
from dataclasses import replace

from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.retention.policy import (
    ENABLED,
    INFINITE,
    MIN_RETENTION,
    RETENTION,
    TRANSIENT,
)
from meltline.grammar.branches import create_branch, drop_branch
from meltline.grammar.points import begins_point, begins_tag, point_in_time
from meltline.grammar.statements import (
    ChangePolicy,
    CloneObject,
    CreateContainer,
    CreateShare,
    DropObject,
    DropShare,
    Name,
    RenameObject,
    ShowHistory,
    Statement,
    TagSnapshot,
    UndropObject,
    UpdateShare,
    Vacuum,
)
from meltline.grammar.tokens import Cursor, Kind

KINDS: Mapping[str, ObjectKind] = {
    "TABLE": ObjectKind.TABLE,
    "SCHEMA": ObjectKind.SCHEMA,
    "DATABASE": ObjectKind.DATABASE,
}
PARAMETERS: Mapping[str, str] = {
    "DATA_RETENTION_TIME_IN_DAYS": RETENTION,
    "SNAPSHOT_RETENTION_DAYS": RETENTION,
    "MIN_DATA_RETENTION_TIME_IN_DAYS": MIN_RETENTION,
    "AUTO_MAINTENANCE": ENABLED,
}


def undrop(cursor: Cursor) -> Statement:
    """UNDROP TABLE | SCHEMA | DATABASE name."""
    cursor.expect("UNDROP")
    return UndropObject(KINDS[cursor.choice(*KINDS)], cursor.name())


def drop(cursor: Cursor) -> Statement | None:
    """DROP TABLE | SCHEMA | DATABASE | SHARE | BRANCH [IF EXISTS] name; None if it is Spark's."""
    cursor.expect("DROP")
    if cursor.take("SHARE"):
        return DropShare(_share(cursor))
    if cursor.take("BRANCH"):
        return drop_branch(cursor)
    if cursor.current.is_word("NAMESPACE"):
        kind = ObjectKind.SCHEMA
    elif cursor.current.is_word(*KINDS):
        kind = KINDS[cursor.current.text.upper()]
    else:
        return None
    cursor.next()
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()
    if cursor.comes("PURGE") or cursor.comes("RESTRICT"):
        cursor.fail("the end: a drop keeps everything for its retention, and takes all in it along")
    cursor.take("CASCADE")
    return DropObject(kind, name, if_exists)


def show(cursor: Cursor) -> Statement | None:
    """SHOW TABLES | SCHEMAS | DATABASES HISTORY [LIKE '…'] [IN …]; None without HISTORY."""
    kinds = {f"{word}S": kind for word, kind in KINDS.items()}
    if not (cursor.ahead(1).is_word(*kinds) and cursor.ahead(2).is_word("HISTORY")):
        return None
    cursor.expect("SHOW")
    kind = kinds[cursor.choice(*kinds)]
    cursor.expect("HISTORY")
    like = cursor.string("a pattern in quotes") if cursor.take("LIKE") else None
    within: Name | None = None
    if cursor.take("IN"):
        if cursor.take("ACCOUNT"):
            within = ()
        else:
            _ = cursor.take("SCHEMA") or cursor.take("DATABASE")
            within = cursor.name("a catalog, database or schema, or ACCOUNT")
    return ShowHistory(kind, like, within)


def alter(cursor: Cursor) -> Statement | None:
    """ALTER … SET | UNSET a policy, and ALTER … RENAME TO; None if it is Spark's."""
    cursor.expect("ALTER")
    name: Name = ()
    if cursor.take("ACCOUNT"):
        kind = ObjectKind.ACCOUNT
    elif cursor.current.is_word(*KINDS):
        kind = KINDS[cursor.next().text.upper()]
        name = cursor.name()
        if cursor.take("RENAME", "TO"):
            return RenameObject(kind, name, cursor.name("the new name"))
        if not (cursor.current.is_word("SET", "UNSET") and cursor.ahead(1).is_word(*PARAMETERS)):
            return None
    else:
        return None
    sets = cursor.choice("SET", "UNSET") == "SET"
    return ChangePolicy(kind, name, _changes(cursor, sets))


def _changes(cursor: Cursor, sets: bool) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    while not changes or cursor.current.is_word(*PARAMETERS):
        key = PARAMETERS[cursor.choice(*PARAMETERS)]
        changes[key] = _setting(cursor, key) if sets else None
        if cursor.take_symbol(",") and not cursor.current.is_word(*PARAMETERS):
            cursor.fail(" or ".join(PARAMETERS))
    return changes


def _setting(cursor: Cursor, key: str) -> str:
    if key != ENABLED:
        return days(cursor)
    cursor.expect_symbol("=")
    return cursor.choice("TRUE", "FALSE").lower()


def days(cursor: Cursor) -> str:
    """`= n`, leading zeros removed; NULL for a retention without end (ML-33)."""
    cursor.expect_symbol("=")
    if cursor.take("NULL"):
        return INFINITE
    sign = "-" if cursor.take_symbol("-") else ""
    if cursor.current.kind is not Kind.NUMBER:
        cursor.fail("a number of days, or NULL for ever")
    text = cursor.next().text
    return sign + (text.lstrip("0") or "0" if text.isdecimal() else text)


def tag(cursor: Cursor) -> Statement:
    """TAG SNAPSHOT n [OF table] AS '…' WITH RETENTION FOREVER | n DAYS."""
    cursor.expect("TAG", "SNAPSHOT")
    snapshot_id = cursor.whole("a snapshot's id")
    table = cursor.name() if cursor.take("OF") else None
    cursor.expect("AS")
    name = cursor.string("the tag's name in quotes")
    cursor.expect("WITH", "RETENTION")
    if cursor.take("FOREVER"):
        return TagSnapshot(snapshot_id, name, None, table)
    lasting = cursor.whole("FOREVER, or a number of days")
    cursor.choice("DAYS", "DAY")
    return TagSnapshot(snapshot_id, name, lasting, table)


def vacuum(cursor: Cursor) -> Statement:
    """VACUUM table [RETAIN n HOURS] [DRY RUN]."""
    cursor.expect("VACUUM")
    table, hours = cursor.name("a table"), None
    if cursor.take("RETAIN"):
        hours = cursor.whole("a whole number of hours")
        cursor.choice("HOURS", "HOUR")
    return Vacuum(table, hours, cursor.take("DRY", "RUN"))


def update(cursor: Cursor) -> Statement | None:
    """UPDATE SHARE name; None if SHARE is a table's name."""
    if not cursor.ahead(1).is_word("SHARE") or not cursor.ahead(2).is_name:
        return None
    if cursor.ahead(2).is_word("SET", "AS") or cursor.ahead(3).is_word("SET"):
        return None
    cursor.expect("UPDATE", "SHARE")
    return UpdateShare(_share(cursor))


def create(cursor: Cursor) -> Statement | None:
    """CREATE SHARE or BRANCH, … CLONE, DATABASE … FROM, and containers with policies; else None."""
    cursor.expect("CREATE")
    if cursor.take("SHARE"):
        name = _share(cursor)
        cursor.expect("FROM")
        return CreateShare(name, cursor.name("a database, schema or table"))
    if cursor.take("BRANCH"):
        return create_branch(cursor)
    replaces, transient = cursor.take("OR", "REPLACE"), cursor.take("TRANSIENT")
    if not cursor.current.is_word(*KINDS):
        return None
    kind = KINDS[cursor.next().text.upper()]
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if not cursor.current.is_name:
        return None
    target = cursor.name()
    begins_clone = cursor.current.is_word("CLONE") or (
        kind is ObjectKind.DATABASE and cursor.current.is_word("FROM")
    )
    if begins_clone and transient:
        cursor.fail("the end: a clone is transient where its source is")
    if begins_clone:
        cursor.next()
        made = _clone(cursor, kind, target)
        return replace(made, replaces=replaces, if_not_exists=if_not_exists)
    if kind is ObjectKind.TABLE or not (transient or _names_policy(cursor)):
        return None
    if replaces:
        cursor.fail("CLONE: nothing else replaces a schema or database")
    return _container(cursor, kind, target, transient=transient, if_not_exists=if_not_exists)


def _names_policy(cursor: Cursor) -> bool:
    return any(token.is_word(*PARAMETERS) for token in cursor.tokens[cursor.at :])


def _container(
    cursor: Cursor, kind: ObjectKind, name: Name, *, transient: bool, if_not_exists: bool
) -> CreateContainer:
    """Reads only the policies of a container: a comment is set with ALTER."""
    policies = {TRANSIENT: "true"} if transient else {}
    if not (transient and (cursor.is_at_end or cursor.current.is_symbol(";"))):
        changes = _changes(cursor, sets=True)
        policies |= {key: setting for key, setting in changes.items() if setting is not None}
    return CreateContainer(kind, name, policies, if_not_exists)


def _clone(cursor: Cursor, kind: ObjectKind, target: Name) -> CloneObject:
    source = cursor.name("what is to be cloned")
    point = None
    if begins_point(cursor) or begins_tag(cursor) or cursor.current.is_word("AT", "BEFORE"):
        point = point_in_time(cursor)
    ignore = False
    if cursor.take("IGNORE"):
        cursor.expect("TABLES", "WITH", "INSUFFICIENT", "DATA", "RETENTION")
        ignore = True
    return CloneObject(kind, target, source, point, ignore)


def _share(cursor: Cursor) -> str:
    if not cursor.current.is_name:
        cursor.fail("a share's name")
    return cursor.next().text
