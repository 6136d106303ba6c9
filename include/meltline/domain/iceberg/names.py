"""Table names as Spark SQL writes them: `catalog.namespace.table`, with backticks as needed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_SNAPSHOT = re.compile(r"(.+)@(-?\d+)$")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quote_part(part: str) -> str:
    """Quotes a part with backticks if Spark SQL needs them."""
    return part if _PLAIN.fullmatch(part) else quoted(part)


def quoted(part: str) -> str:
    """Quotes a part with backticks in any case."""
    return "`" + part.replace("`", "``") + "`"


def split_name(text: str) -> tuple[str, ...]:
    """Splits a dotted name into parts, honouring backticks.

    Raises:
        ValueError: The text is empty, has an empty part or a stray backtick.
    """
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is not a dotted name")
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            raise ValueError(f"{text!r} is not a dotted name")
        at += 1


def split_snapshot(text: str) -> tuple[str, int | None]:
    """Splits `NAME@SNAPSHOT` into its two parts; without a snapshot it is all name."""
    match = _WITH_SNAPSHOT.match(text)
    return (match[1], int(match[2])) if match else (text, None)


class ShortName(ValueError):
    """A name without its catalog or its namespace."""


@dataclass(frozen=True, order=True)
class TableName:
    """The full name of a table: catalog, namespace levels, name."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Parses `lake.air.flights` or ``lake.air.`t[1]` ``.

        Raises:
            ShortName: It has fewer than three parts.
            ValueError: It is no dotted name.
        """
        parts = split_name(text)
        if len(parts) < 3:
            raise ShortName(f"{text!r} is not catalog.namespace.table")
        return cls(parts[0], parts[1:-1], parts[-1])

    def __str__(self) -> str:
        return ".".join(quote_part(part) for part in (self.catalog, *self.namespace, self.name))

    @property
    def plain(self) -> str:
        """The dotted name without quoting: globs are matched against it."""
        return ".".join((self.catalog, *self.namespace, self.name))


def selected(name: TableName, globs: tuple[str, ...]) -> bool:
    """Whether `--tables` selects this table; no globs select all. `[` is a literal, not a class."""
    if not globs:
        return True
    return any(
        fnmatchcase(form, glob.replace("[", "[[]"))
        for glob in globs
        for form in {name.plain, str(name)}
    )


def unmatched(globs: tuple[str, ...], names: Iterable[TableName]) -> list[str]:
    """Returns the globs that match none of the names: probably a typo."""
    listed = list(names)
    return [glob for glob in globs if not any(selected(name, (glob,)) for name in listed)]
