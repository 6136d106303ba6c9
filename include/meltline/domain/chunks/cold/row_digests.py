"""Checksums of the rows that cold alone has of dropped chunks, and when two of them compare.

A column without a value leaves nothing behind in a row's hash, and a promoted number has the hash
that it had: so most changes of columns change no checksum. Of the others it cannot be told.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from meltline.domain.chunks.sync import RowDigest

Columns = Mapping[str, Any]
"""A schema, a struct, a list or a map, as Iceberg's metadata has it."""


@dataclass(frozen=True)
class ColdDigest:
    """The rows of a dropped chunk that cold alone has, added up.

    Attributes:
        rows: How many, deletes applied.
        checksum: The sum of their hashes.
        columns: The fingerprint of the columns of cold at that time.
    """

    rows: int
    checksum: int
    columns: str

    @classmethod
    def of(cls, digest: RowDigest | None, columns: Columns) -> "ColdDigest":
        """Takes over what an engine has added up; None stands for no rows."""
        digest = digest or RowDigest(0, 0)
        return cls(digest.rows, digest.checksum, fingerprint(columns))

    def has_same_rows(self, recorded: "ColdDigest") -> bool:
        """Whether these are the rows that were recorded, where both compare."""
        return (self.rows, self.checksum) == (recorded.rows, recorded.checksum)


def fingerprint(columns: Columns) -> str:
    """A short name of columns and their types, nested ones too; their order does not count."""
    types = sorted((int(field["id"]), _kind(field)) for field in _fields(columns))
    return sha256(json.dumps(types).encode()).hexdigest()[:16]


def present_columns(document: Mapping[str, Any]) -> Columns:
    """The columns that a table in cold has now."""
    current = document["current-schema-id"]
    columns: Columns = next(s for s in document["schemas"] if s["schema-id"] == current)
    return columns


def comparable(document: Mapping[str, Any]) -> frozenset[str]:
    """Fingerprints of columns under which equal rows had the checksum that they have now.

    They did not where one of the columns of that time is gone, where a date became a time, or where
    a column was added with a value for the rows from before it. Of columns that the table in cold
    has forgotten it cannot be told.
    """
    now = present_columns(document)
    return frozenset(fingerprint(s) for s in document["schemas"] if _hashes_alike(s, now))


def _hashes_alike(former: Columns, present: Columns) -> bool:
    before = {field["id"]: field for field in _fields(former)}
    now = {field["id"]: field for field in _fields(present)}
    added = (field for id, field in now.items() if id not in before)
    return all(id in now and _is_date(f) == _is_date(now[id]) for id, f in before.items()) and all(
        field.get("initial-default") is None for field in added
    )


def _is_date(field: Columns) -> bool:
    return _kind(field) == "date"


def _kind(field: Columns) -> str:
    type = field["type"]
    return type if isinstance(type, str) else str(type["type"])


def _fields(columns: Columns) -> Iterator[Columns]:
    """Every field below, parts of lists and maps too."""
    parts = [part for part in ("element", "key", "value") if part in columns]
    within = [{"id": columns[f"{part}-id"], "type": columns[part]} for part in parts]
    for field in (*columns.get("fields", ()), *within):
        yield field
        if not isinstance(field["type"], str):
            yield from _fields(field["type"])
