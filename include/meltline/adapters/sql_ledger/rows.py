"""Converts records to rows and back, and upserts rows; a column has its field's name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Column, Connection, Row, Select, Table, delete
from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
ASKED_AT_ONCE = 500
"""Maximum number of values in one statement, which every database accepts."""
THE_ROW = 1
"""Key of tables with one row."""


def to_row(record: "DataclassInstance") -> dict[str, object]:
    """Returns a record's fields, as values for its table's columns."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def from_row(kind: type[R], row: Row[Any]) -> R:
    """Returns the record of a row; ignores columns that are not its fields."""
    return kind(**{field.name: row._mapping[field.name] for field in fields(kind)})


def rows_in(
    connection: Connection, query: Select[Any], column: Column[Any], values: Iterable[Any]
) -> Iterator[Row[Any]]:
    """Yields a query's rows that have one of the values in a column, in the order of the values."""
    for part in _in_parts(values):
        yield from connection.execute(query.where(column.in_(part)))


def delete_in(
    connection: Connection, column: Column[Any], values: Iterable[Any], *where: Any
) -> None:
    """Deletes the rows that have one of the values in a column and meet the other conditions."""
    for part in _in_parts(values):
        connection.execute(delete(column.table).where(column.in_(part), *where))


def _in_parts(values: Iterable[Any]) -> list[Sequence[Any]]:
    """Splits sorted values into parts that one statement accepts."""
    ordered = sorted(set(values))
    return [ordered[at : at + ASKED_AT_ONCE] for at in range(0, len(ordered), ASKED_AT_ONCE)]


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Inserts rows; rows whose unique key exists already stay unchanged."""
    if rows:
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), rows)


def insert_first(connection: Connection, table: Table, row: Mapping[str, object]) -> bool:
    """Inserts a row; returns False if its key exists already, even from a concurrent writer."""
    key = next(iter(table.primary_key))
    insert = _insert(connection, table).on_conflict_do_nothing().returning(key)
    return connection.execute(insert, row).first() is not None


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Inserts rows or replaces those with the same primary key, in the order of their keys.

    Two writers that lock rows in the same order never deadlock.
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
