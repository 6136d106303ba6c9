"""Records to rows and back: a column bears the name of the field it stores."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
Asked = TypeVar("Asked")
ASKED_AT_ONCE = 500
"""So many values one statement names: every database takes as many."""


def to_row(record: "DataclassInstance") -> dict[str, object]:
    """A record's fields, as values for its table's columns."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def from_row(kind: type[R], row: Row[Any]) -> R:
    """The record that a row stores; columns that are no fields of it are passed over."""
    return kind(**{field.name: row._mapping[field.name] for field in fields(kind)})


def in_parts(asked: Sequence[Asked]) -> list[Sequence[Asked]]:
    """The same values, as many at a time as one statement may name."""
    return [asked[at : at + ASKED_AT_ONCE] for at in range(0, len(asked), ASKED_AT_ONCE)]
