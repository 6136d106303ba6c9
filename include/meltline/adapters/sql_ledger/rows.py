"""Records to rows and back, and how rows are stored: a column bears its field's name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Column, Connection, Row, Select, Table, delete
from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
ASKED_AT_ONCE = 500
"""So many values one statement names: every database takes as many."""
THE_ROW = 1
"""The key of tables that hold one row."""


def to_row(record: "DataclassInstance") -> dict[str, object]:
    """A record's fields, as values for its table's columns."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def from_row(kind: type[R], row: Row[Any]) -> R:
    """The record that a row stores; columns that are no fields of it are passed over."""
    return kind(**{field.name: row._mapping[field.name] for field in fields(kind)})


def rows_in(
    connection: Connection, query: Select[Any], column: Column[Any], values: Iterable[Any]
) -> Iterator[Row[Any]]:
    """A query's rows that have one of these values in a column, asked for in their order."""
    for part in _in_parts(values):
        yield from connection.execute(query.where(column.in_(part)))


def delete_in(
    connection: Connection, column: Column[Any], values: Iterable[Any], *where: Any
) -> None:
    """Deletes the rows that have one of these values in a column, as far as the rest holds."""
    for part in _in_parts(values):
        connection.execute(delete(column.table).where(column.in_(part), *where))


def _in_parts(values: Iterable[Any]) -> list[Sequence[Any]]:
    """The values in their order, as many at a time as one statement may name."""
    ordered = sorted(set(values))
    return [ordered[at : at + ASKED_AT_ONCE] for at in range(0, len(ordered), ASKED_AT_ONCE)]


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Inserts rows; those whose unique key is there already stay as they are."""
    if rows:
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), rows)


def insert_first(connection: Connection, table: Table, row: Mapping[str, object]) -> bool:
    """Inserts a row; False where its key is there already, whoever wrote it first."""
    key = next(iter(table.primary_key))
    insert = _insert(connection, table).on_conflict_do_nothing().returning(key)
    return connection.execute(insert, row).first() is not None


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Inserts rows, or replaces those of the same primary key, in the order of their keys.

    Two writers that take rows in the same order never wait for each other in a circle.
    """
    keys = [column.name for column in table.primary_key]
    newest = {tuple(row[key] for key in keys): row for row in rows}
    if not newest:
        return
    insert = _insert(connection, table)
    values = {c.name: c for c in insert.excluded if c.name not in keys}
    statement = insert.on_conflict_do_update(index_elements=keys, set_=values)
    connection.execute(statement, [newest[key] for key in sorted(newest)])


def _insert(connection: Connection, table: Table) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)
