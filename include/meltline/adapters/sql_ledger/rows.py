"""Records to rows and back: a column bears the name of the field it stores."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


def to_row(record: "DataclassInstance") -> dict[str, object]:
    """A record's fields, as values for its table's columns."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def from_row(kind: type[R], row: Row[Any]) -> R:
    """The record that a row stores; columns that are no fields of it are passed over."""
    return kind(**{field.name: row._mapping[field.name] for field in fields(kind)})
