"""Checksums of dropped chunks' rows in cold, and the rules by which two of them compare.

Replication, drops and doctor use it. A column without a value adds nothing to a row's hash, and a
promoted number keeps its hash. So most changes of columns change no checksum. After other changes
the checksums are not comparable.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from meltline.domain.chunks.sync import RowDigest

Columns = Mapping[str, Any]
"""A schema, a struct, a list or a map in Iceberg's metadata."""


@dataclass(frozen=True)
class ColdDigest:
    """Checksum of a dropped chunk's rows that only cold has.

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
        """Converts an engine's digest; None means no rows."""
        digest = digest or RowDigest(0, 0)
        return cls(digest.rows, digest.checksum, fingerprint(columns))

    def has_same_rows(self, recorded: "ColdDigest") -> bool:
        """Whether these are the recorded rows; both must be comparable."""
        return (self.rows, self.checksum) == (recorded.rows, recorded.checksum)


def fingerprint(columns: Columns) -> str:
    """Short hash of columns and their types, nested ones too, independent of their order."""
    types = sorted((int(field["id"]), _kind(field)) for field in _fields(columns))
    return sha256(json.dumps(types).encode()).hexdigest()[:16]


def present_columns(document: Mapping[str, Any]) -> Columns:
    """The current columns of a table in cold."""
    current = document["current-schema-id"]
    columns: Columns = next(s for s in document["schemas"] if s["schema-id"] == current)
    return columns


def comparable(document: Mapping[str, Any]) -> frozenset[str]:
    """Fingerprints of columns under which equal rows have their current checksum.

    They have another one after a former column was removed, after a date became a time, or after a
    column was added with a value for earlier rows. For columns that the table in cold no longer
    records it is unknown.
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
    """Yields every nested field, parts of lists and maps too."""
    parts = [part for part in ("element", "key", "value") if part in columns]
    within = [{"id": columns[f"{part}-id"], "type": columns[part]} for part in parts]
    for field in (*columns.get("fields", ()), *within):
        yield field
        if not isinstance(field["type"], str):
            yield from _fields(field["type"])
