"""Resolves names in statements by the session's catalog and namespace, as Spark does.

All statements use it, and `statements` to write names for Spark.
"""

from collections.abc import Mapping

from meltline.app.services import ReadContext
from meltline.config.load import CatalogConfig
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName, quote_part, quoted, split_name
from meltline.domain.iceberg.objects import ObjectKind, ObjectName

Parts = tuple[str, ...]


def standing_at(context: ReadContext, text: str | None) -> ObjectName:
    """Parses the session's current catalog or namespace; None is the hot catalog.

    Raises:
        UsageInvalid: It is not a valid name.
    """
    hot = ObjectName(context.config.hot)
    if text is None:
        return hot
    try:
        parts = split_name(text)
    except ValueError as error:
        raise _incomplete((text,), "a catalog, database or schema", str(error)) from error
    return container_name(context, hot, parts)


def spoken_name(catalogs: Mapping[str, CatalogConfig], table: TableName, *further: str) -> str:
    """Formats a table's name for Spark; there a JDBC catalog has the name of its rows.

    Args:
        catalogs: The configured catalogs.
        table: The table.
        further: Parts after its name, such as a branch.
    """
    catalog = catalogs[table.catalog]
    spoken = catalog.catalog_name if catalog.type == "sql" else catalog.name
    return ".".join(map(quoted, (spoken, *table.namespace, table.name, *further)))


def full_table_name(context: ReadContext, standing: ObjectName, parts: Parts) -> TableName:
    """Resolves a table's name. Raises UsageInvalid if it is incomplete."""
    return full_name(context, standing, ObjectKind.TABLE, parts).table_name


def full_name(
    context: ReadContext, standing: ObjectName, kind: ObjectKind, parts: Parts
) -> ObjectName:
    """Resolves a name in a statement.

    A first part that is a catalog's name is the catalog, as in Spark. A table alone belongs to the
    current namespace, a schema alone to the current database. Without a current one it is a
    namespace, because in Spark schema and database are the same.

    Raises:
        UsageInvalid: The name is incomplete.
    """
    if kind is ObjectKind.ACCOUNT:
        return ObjectName(context.config.hot)
    container = container_name(context, standing, parts)
    levels = container.namespace
    if container.catalog == standing.catalog and len(levels) == len(parts) == 1:
        depth = {ObjectKind.TABLE: None, ObjectKind.SCHEMA: 1}.get(kind, 0)
        levels = (*standing.namespace[:depth], *levels)
    if kind is ObjectKind.TABLE:
        if len(levels) < 2:
            raise _incomplete(parts, "namespace.table, or a current namespace", str(standing))
        return ObjectName(container.catalog, levels[:-1], levels[-1])
    if not levels or (kind is ObjectKind.DATABASE and len(levels) != 1):
        expected = "a database's name, of one part" if levels else f"a {kind}'s name"
        raise _incomplete(parts, expected, f"{len(levels)} parts below the catalog")
    return ObjectName(container.catalog, levels)


def container_name(context: ReadContext, standing: ObjectName, parts: Parts) -> ObjectName:
    """Resolves a catalog or namespace, in the catalog it begins with or the current one."""
    spoken = {name: name for name in context.catalogs}
    for name, catalog in context.config.catalogs.items():
        spoken.setdefault(catalog.catalog_name, name)  # the name in Spark
    if parts[0] in spoken:
        return ObjectName(spoken[parts[0]], parts[1:])
    return ObjectName(standing.catalog, parts)


def _incomplete(parts: Parts, expected: str, problem: str) -> UsageInvalid:
    name = ".".join(map(quote_part, parts))
    return UsageInvalid(
        f"{name} is not a complete name",
        object=name,
        expected=expected,
        found=problem,
        next="write catalog.namespace.table in full, or say where: --in, or USE in Spark",
    )
