"""Resolves names from the command line to objects in the catalogs.

All commands call it. It also refuses names of dropped objects, of the archive and of Meltline's own
ledger.
"""

from collections.abc import Iterable

from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.new_names import is_there
from meltline.app.catalog.recovery_hints import refuse_dropped
from meltline.app.catalog.registrations import load_standing
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import (
    CatalogReadOnly,
    NamespaceNotFound,
    ObjectDropped,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import (
    ShortName,
    TableName,
    quote_part,
    split_name,
    split_snapshot,
)
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectKind, ObjectName
from meltline.domain.iceberg.similar_names import similar
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import Catalog


def parse_table_name(text: str) -> TableName:
    """Parses a table name as an operator typed it.

    Raises:
        TableNotFound: It lacks its catalog or its namespace.
        UsageInvalid: It is not a name.
    """
    try:
        return parse_new_name(text)
    except UsageInvalid as error:
        if isinstance(error.__cause__, ShortName):
            raise _short_name(text, "catalog.namespace.table") from error
        raise


def parse_new_name(text: str) -> TableName:
    """Parses the name of a table that is still to be created. Raises UsageInvalid."""
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise _no_name(text, "catalog.namespace.table", error) from error


def find_object(context: ReadContext, text: str, kind: ObjectKind | None = None) -> ObjectName:
    """Resolves a name to a table, schema or database.

    Args:
        context: Has the catalogs.
        text: The name; unusual parts in backticks.
        kind: The expected kind; None if the name is unambiguous.

    Raises:
        UsageInvalid: It is not a name, or is ambiguous and `kind` is missing.
        TableNotFound: No such table, or no object at all has that name: it may be short.
        ObjectDropped: The object was dropped.
        NamespaceNotFound: No such schema or database exists.
    """
    parts = _parts(text)
    listing = catalog_of(context, parts[0], text).listing()
    objects = [name for name in ObjectName.readings(parts) if is_there(name, listing)]
    matching = [name for name in objects if kind in (None, name.kind)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageInvalid(
            f"{text} is a table and a namespace",
            object=text,
            expected="one thing of that name, or --kind",
            found=", ".join(str(name.kind) for name in matching),
            next="say --kind table, --kind schema or --kind database",
        )
    if not objects:
        refuse_dropped(context, listing, *ObjectName.readings(parts), kind=kind)
    raise _not_found(text, kind, objects)


def _parts(text: str) -> tuple[str, ...]:
    expected = "catalog.namespace or catalog.namespace.table"
    try:
        parts = split_name(text)
    except ValueError as error:
        raise _no_name(text, expected, error) from error
    if len(parts) < 2:
        raise _short_name(text, expected)
    return parts


def catalog_of(context: ReadSources, name: str, text: str = "") -> Catalog:
    """Returns a configured catalog.

    Raises:
        TableNotFound: No configured catalog has that name.
        CatalogReadOnly: It is the cold one: users do not work in it (AR-34).
    """
    if name in context.catalogs:
        return context.catalogs[name]
    if name == context.config.cold:
        raise CatalogReadOnly(
            f"{text or name} is in the archive, which only ever grows by what hot lets go",
            object=text or name,
            expected="an object of another catalog",
            found=f"cold: {name}",
            next="`meltline cold list` shows what is in it",
        )
    raise TableNotFound(
        f"{text or name} is in no configured catalog",
        object=text or name,
        expected="a name that begins with " + " or ".join(map(quote_part, context.catalogs)),
        found=name,
        next="names are catalog.namespace.table, as in Spark SQL",
    )


def read_table(context: ReadSources, name: TableName) -> TableMetadata:
    """Reads a table as its catalog has it now, and stores nothing, not even its registration.

    Raises:
        TableNotFound: The catalog has no such table; it may have been dropped.
        MetadataUnreadable: Its metadata cannot be read.
    """
    return load_standing(context, name, catalog_of(context, name.catalog).location(name))


def load_table(context: ReadContext, name: TableName) -> TableMetadata:
    """Loads a table as its catalog has it now, and stores its registration.

    Raises:
        TableNotFound: The catalog has no such table.
        ObjectDropped: It was dropped.
        MetadataUnreadable: Its metadata cannot be read.
    """
    catalog = catalog_of(context, name.catalog)
    try:
        at = catalog.location(name)
    except TableNotFound:
        table = ObjectName(name.catalog, name.namespace, name.name)
        refuse_dropped(context, catalog.listing(), table)
        raise
    return load_standing(context, name, at, open_in=context)


def require_changeable(
    context: ReadContext, name: ObjectName, *, dropped_too: bool = False
) -> Catalog:
    """Returns the catalog through which an object may be changed.

    Raises:
        CatalogReadOnly: It is only observed, or the object is one of the ledger's own.
        ObjectDropped: The object has been dropped.
    """
    catalog = catalog_of(context, name.catalog)
    if catalog.observe_only:
        raise _read_only(
            name, f"catalog {catalog.name} is only observed", "a catalog that is not observe-only"
        )
    if name.namespace[:1] == (DROPPED_NAMESPACE,) and not dropped_too:
        raise ObjectDropped(
            f"{name} has been dropped",
            object=str(name),
            expected="an object that is not dropped",
            found=f"it is in {DROPPED_NAMESPACE}",
            next="undrop it first, by the name that it had: `meltline history` lists it",
        )
    ledger = (context.config.ledger_namespace,)
    if name.catalog == context.config.hot and name.namespace == ledger:
        raise _read_only(name, f"{name} belongs to Meltline's own ledger", "an object of yours")
    return catalog


def with_similar(error: TableNotFound, catalogs: Iterable[Catalog]) -> TableNotFound:
    """Adds similar names to the error of a name that was not found."""
    text, _ = split_snapshot(error.object)
    names = [e.name for e in list_catalogs(catalogs).entries]
    if alike := similar(text, (name for name in names if not is_dropped_name(name.namespace))):
        error.next = f"did you mean {' or '.join(map(str, alike))}? {error.next}".strip()
    return error


def _read_only(name: ObjectName, message: str, expected: str) -> CatalogReadOnly:
    return CatalogReadOnly(
        message,
        object=str(name),
        expected=expected,
        found=str(name),
        next="make the change where that object is looked after; account policies: --account",
    )


def _no_name(text: str, expected: str, error: ValueError) -> UsageInvalid:
    return UsageInvalid(
        f"{text!r} is not a name",
        object=text,
        expected=expected,
        found=text,
        next=f"write it in full, odd parts in backticks ({error})",
    )


def _short_name(text: str, expected: str) -> TableNotFound:
    return TableNotFound(
        f"{text!r} is not a full name",
        object=text,
        expected=expected,
        found=text,
        next="write it in full: `meltline storage` lists the tables",
    )


def _not_found(
    text: str, kind: ObjectKind | None, objects: list[ObjectName]
) -> TableNotFound | NamespaceNotFound:
    description = f"a {objects[0].kind} of that name" if objects else "nothing of that name"
    error = TableNotFound if kind in (None, ObjectKind.TABLE) else NamespaceNotFound
    return error(
        f"there is no {kind or 'table, schema or database'} {text}",
        object=text,
        expected=f"a {kind}" if kind else "a table, schema or database",
        found=description,
        next="`meltline storage` lists the tables",
    )
