"""Reads and changes rows of a SQL (JDBC) catalog: tables and namespaces, in one transaction.

`sql_catalog` calls it within a transaction that it owns, and rolls back on an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, MetaData, Table, delete, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError

from meltline.adapters.catalogs.table_commits import not_as_expected
from meltline.adapters.catalogs.table_renames import (
    MoveStep,
    Namespaces,
    name_taken,
    namespace_taken,
    not_empty,
)
from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.names import TableName, quote_part

EXISTS = "exists"
"""Marker property of a namespace that has no other."""


class Moved(Exception):
    """A row has changed since it was read; the transaction is rolled back."""


class Properties:
    """The properties of one namespace, row by row, inside a transaction."""

    def __init__(
        self, connection: Connection, table: Table, catalog: str, namespace: tuple[str, ...]
    ) -> None:
        self._connection = connection
        self._table = table
        self._key = {"catalog_name": catalog, "namespace": dotted(namespace)}

    def require(self, expected: Mapping[str, str | None]) -> None:
        """Locks the expected properties by rewriting them, so that no other change comes between.

        Raises:
            CommitConflict: A property has another value.
        """
        column = self._table.c.property_value
        for key, text in expected.items():
            where = self._where(key)
            if text is None:  # an insert that follows meets the primary key
                holds = self._connection.execute(select(column).where(*where)).first() is None
            else:
                same = update(self._table).where(*where, column == text)
                holds = self._connection.execute(same.values(property_value=text)).rowcount == 1
            if not holds:
                namespace = self._key["namespace"]
                raise not_as_expected(namespace, key, text, "something else")

    def put(self, key: str, text: str | None) -> None:
        """Sets a property; None removes it."""
        where = self._where(key)
        if text is None:
            self._connection.execute(delete(self._table).where(*where))
            return
        changed = update(self._table).where(*where).values(property_value=text)
        if self._connection.execute(changed).rowcount == 0:
            row = {**self._key, "property_key": key, "property_value": text}
            self._connection.execute(insert(self._table).values(**row))

    def insert(self, texts: Mapping[str, str]) -> None:
        """Writes properties of a namespace that has none; raises IntegrityError if it has some."""
        rows = [{**self._key, "property_key": k, "property_value": v} for k, v in texts.items()]
        self._connection.execute(insert(self._table), rows)

    def clear(self) -> None:
        """Deletes every property, and with the last one the namespace."""
        where = (self._table.c[column] == part for column, part in self._key.items())
        self._connection.execute(delete(self._table).where(*where))

    def _where(self, key: str) -> tuple[Any, ...]:
        row = {**self._key, "property_key": key}
        return tuple(self._table.c[column] == part for column, part in row.items())


def dotted(namespace: tuple[str, ...]) -> str:
    """Formats a namespace as in the catalog's rows.

    Raises:
        CatalogReadOnly: A level has a dot, which in a row looks like two levels.
    """
    for level in namespace:
        if "." in level:
            raise CatalogReadOnly(
                "a SQL catalog cannot hold a namespace level with a dot",
                object=".".join(map(quote_part, namespace)),
                expected="levels without a dot",
                found=quote_part(level),
                next="use a name without a dot",
            )
    return ".".join(namespace)


def is_table(row: Mapping[Any, Any]) -> bool:
    """Returns whether a row is a table, not a view."""
    return row.get("iceberg_type") in (None, "", "TABLE")


def lacks_views(connection: Connection) -> bool:
    """Returns whether the catalog's tables have schema version V0, which has no views."""
    schema = inspect(connection)
    if not schema.has_table("iceberg_tables"):
        return False
    return "iceberg_type" not in {column["name"] for column in schema.get_columns("iceberg_tables")}


def reflect(connection: Connection) -> tuple[Table, Table]:
    """Reflects the catalog's two database tables: tables, and properties of namespaces."""
    metadata = MetaData()
    return (
        Table("iceberg_tables", metadata, autoload_with=connection),
        Table("iceberg_namespace_properties", metadata, autoload_with=connection),
    )


def row_of(tables: Table, catalog: str, name: TableName) -> tuple[Any, Any, Any]:
    """Returns the conditions that select a table's row; `catalog` is the name in the rows."""
    return (
        tables.c.catalog_name == catalog,
        tables.c.table_namespace == dotted(name.namespace),
        tables.c.table_name == name.name,
    )


class Moves:
    """Moves of tables and namespaces, inside a transaction.

    Args:
        connection: The transaction.
        catalog: The name that the rows carry.
        name: The catalog's name in `meltline.yaml`, for messages.
    """

    def __init__(self, connection: Connection, catalog: str, name: str) -> None:
        self._connection = connection
        self._catalog = catalog
        self._name = name
        self._tables, self._properties = reflect(connection)

    def apply(
        self, steps: Sequence[MoveStep], create: Namespaces, remove: Sequence[tuple[str, ...]]
    ) -> None:
        """Applies all moves.

        Raises Moved, NameConflict or NamespaceNotEmpty; the caller rolls back.
        """
        for step in steps:
            self._move_row(step)
        for levels, properties in create.items():
            self._create(levels, properties)
        for levels in {step.target.namespace for step in steps} - create.keys():
            self._rows_of(levels).put(EXISTS, "true")
        for levels in remove:
            self._remove(levels, remove)

    def create(self, at: Mapping[TableName, str], namespaces: Namespaces) -> None:
        """Inserts new tables and namespaces. Raises NameConflict; the caller rolls back."""
        for levels, properties in namespaces.items():
            self._create(levels, properties)
        for name, location in at.items():
            self._insert(name, location)
        for levels in {name.namespace for name in at} - namespaces.keys():
            self._rows_of(levels).put(EXISTS, "true")

    def _insert(self, name: TableName, location: str) -> None:
        row = {
            "catalog_name": self._catalog,
            "table_namespace": dotted(name.namespace),
            "table_name": name.name,
            "metadata_location": location,
        }
        if "iceberg_type" in self._tables.c:
            row["iceberg_type"] = "TABLE"
        try:
            self._connection.execute(insert(self._tables).values(**row))
        except IntegrityError as error:
            raise name_taken(name) from error

    def _rows_of(self, levels: tuple[str, ...]) -> Properties:
        return Properties(self._connection, self._properties, self._catalog, levels)

    def _move_row(self, step: MoveStep) -> None:
        row = {"table_namespace": dotted(step.target.namespace), "table_name": step.target.name}
        if step.new != step.base:
            row |= {"metadata_location": step.new, "previous_metadata_location": step.base}
        tables = self._tables
        where = (
            *row_of(tables, self._catalog, step.source),
            tables.c.metadata_location == step.base,
        )
        try:
            done = self._connection.execute(update(tables).where(*where).values(**row))
        except IntegrityError as error:
            raise name_taken(step.target) from error
        if done.rowcount != 1:
            raise Moved

    def _create(self, levels: tuple[str, ...], properties: Mapping[str, str]) -> None:
        try:
            self._rows_of(levels).insert({EXISTS: "true", **properties})
        except IntegrityError as error:
            raise namespace_taken(self._name, levels) from error

    def _remove(self, levels: tuple[str, ...], together: Sequence[tuple[str, ...]]) -> None:
        """Removes a namespace, unless it still contains a view or a new table."""
        self._rows_of(levels).clear()
        for name, within in (*self._tables_in(levels), *self._spaces_in(levels, together)):
            raise not_empty(self._name, levels, ".".join(map(quote_part, (within, name))))

    def _tables_in(self, levels: tuple[str, ...]) -> Any:
        tables = self._tables
        return self._inside(tables, tables.c.table_namespace, tables.c.table_name, levels)

    def _spaces_in(
        self, levels: tuple[str, ...], together: Sequence[tuple[str, ...]]
    ) -> Sequence[Any]:
        rows = self._properties
        inside = self._inside(rows, rows.c.namespace, rows.c.property_key, levels)
        return [row for row in inside if tuple(row[1].split(".")) not in together]

    def _inside(self, table: Table, within: Any, name: Any, levels: tuple[str, ...]) -> Any:
        at = dotted(levels)
        inside = (within == at) | within.startswith(f"{at}.", autoescape=True)
        query = select(name, within).where(table.c.catalog_name == self._catalog, inside)
        return self._connection.execute(query).all()
