"""Column types that store the domain's own values, the same way in SQLite and Postgres."""

import json
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from meltline.domain.iceberg.names import TableName
from meltline.domain.units import from_millis, to_millis

T = TypeVar("T")


class Instant(TypeDecorator[datetime]):
    """An instant in whole milliseconds since 1970 in UTC, exact in both; Iceberg's precision."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, instant: datetime | None, dialect: Dialect) -> int | None:
        """Refuses (TypeError) a time without offset."""
        return None if instant is None else to_millis(instant)

    def process_result_value(self, millis: int | None, dialect: Dialect) -> datetime | None:
        """Returns the instant, in UTC."""
        return None if millis is None else from_millis(millis)


class Name(TypeDecorator[TableName]):
    """A table's name as Spark SQL writes it, so that names with special characters survive."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, name: TableName | None, dialect: Dialect) -> str | None:
        """Writes `catalog.namespace.table`."""
        return None if name is None else str(name)

    def process_result_value(self, text: str | None, dialect: Dialect) -> TableName | None:
        """Parses it."""
        return None if text is None else TableName.parse(text)


class Prose(TypeDecorator[str]):
    """Free text. An error may quote a corrupt file's bytes, which Postgres would refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, text: str | None, dialect: Dialect) -> str | None:
        """Escapes NUL and lone surrogates."""
        if text is None:
            return None
        return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


class Choice(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its value."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, member: StrEnum | None, dialect: Dialect) -> str | None:
        """Refuses (ValueError) a value that is no member."""
        return None if member is None else self.words(member).value

    def process_result_value(self, text: str | None, dialect: Dialect) -> StrEnum | None:
        """Returns the member."""
        return None if text is None else self.words(text)


class Json(TypeDecorator[T]):
    """A small structure, as JSON text: whole numbers keep all their digits."""

    impl = Text
    cache_ok = True

    def __init__(self, dump: Callable[[T], object], load: Callable[[Any], T]) -> None:
        super().__init__()
        self.dump = dump
        self.load = load

    def process_bind_param(self, document: T | None, dialect: Dialect) -> str | None:
        """Writes the text."""
        return None if document is None else json.dumps(self.dump(document))

    def process_result_value(self, text: str | None, dialect: Dialect) -> T | None:
        """Parses it."""
        return None if text is None else self.load(json.loads(text))


def sequence() -> "Column[int]":
    """Creates the key column of rows that are numbered in the order of their insertion."""
    # SQLite numbers rows only if the key's type is spelled INTEGER.
    return Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def plain(name: str, **options: Any) -> "Column[str]":
    """Creates a text column without nulls."""
    return Column(name, Text, nullable=False, **options)


def prose(name: str) -> "Column[str]":
    """Creates a text column for characters that a database might refuse."""
    return Column(name, Prose, nullable=False)


def count(name: str, **options: Any) -> "Column[int]":
    """Creates a column of whole numbers without nulls."""
    return Column(name, BigInteger, nullable=False, **options)


def instant(name: str, *, nullable: bool = False) -> "Column[Any]":
    """Creates a column of times."""
    return Column(name, Instant, nullable=nullable)
