"""Maps table names to metastore names: one level of databases, lower case, digits, underscores.

A dropped table has a UUID as its name, and a dropped schema is two levels deep. Both are stored
under names that a metastore accepts, and are read back from them.
"""

import re
from dataclasses import replace

from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE

_PLAIN = re.compile(r"[a-z0-9_]+")
_WITHIN = f"{DROPPED_NAMESPACE}__"
_HYPHEN, _HELD_HYPHEN = "-", "__"


def database_of(catalog: str, levels: tuple[str, ...]) -> str:
    """Returns the database that represents a namespace.

    Raises:
        CatalogReadOnly: A metastore cannot represent such a namespace.
    """
    if len(levels) == 2 and levels[0] == DROPPED_NAMESPACE:
        return _require_plain(catalog, _WITHIN + levels[1].replace(_HYPHEN, _HELD_HYPHEN))
    if len(levels) != 1:
        raise _cannot_hold(catalog, ".".join(levels))
    return _require_plain(catalog, levels[0])


def levels_of(database: str) -> tuple[str, ...]:
    """Returns the namespace that a database represents."""
    if database.startswith(_WITHIN):
        return DROPPED_NAMESPACE, database.removeprefix(_WITHIN).replace(_HELD_HYPHEN, _HYPHEN)
    return (database,)


def held_table(name: TableName) -> str:
    """Returns a table's name in its metastore database.

    Raises:
        CatalogReadOnly: A metastore cannot represent such a name.
    """
    dropped = name.namespace == (DROPPED_NAMESPACE,)
    plain = name.name.replace(_HYPHEN, _HELD_HYPHEN) if dropped else name.name
    return _require_plain(name.catalog, plain)


def table_name(catalog: str, database: str, table: str) -> TableName:
    """Returns the table name of a row."""
    levels = levels_of(database)
    dropped = levels == (DROPPED_NAMESPACE,)
    return TableName(catalog, levels, table.replace(_HELD_HYPHEN, _HYPHEN) if dropped else table)


def as_held(name: TableName) -> TableName:
    """Returns a table's name as engines know it."""
    return replace(
        name, namespace=(database_of(name.catalog, name.namespace),), name=held_table(name)
    )


def _require_plain(catalog: str, word: str) -> str:
    if not _PLAIN.fullmatch(word):
        raise _cannot_hold(catalog, word)
    return word


def _cannot_hold(catalog: str, word: str) -> CatalogReadOnly:
    return CatalogReadOnly(
        f"catalog {catalog} cannot hold the name {word}",
        object=word,
        expected="one level of small letters, digits and underscores",
        found=word,
        next="give it a name that a metastore takes",
    )
