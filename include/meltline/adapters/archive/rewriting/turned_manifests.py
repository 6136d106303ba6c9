"""Rewrites manifests of data files for cold in the same pass that finds the files they need.

If only the path of an entry changes, the entry is not encoded again: its bytes before and after the
path are kept. So statistics are decoded once and never encoded, and stay as the writer wrote them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from meltline.adapters.archive.rewriting.manifests import (
    EntryTotals,
    Need,
    NeededFile,
    entries,
    note_needed,
    refusing,
)
from meltline.adapters.manifests.avro_container import AvroFile, Record, as_number
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.iceberg.files import EntryStatus, ManifestFile

_CONTINUED = bytes(range(0x80, 0x100))  # all bytes of a varint but the last
_NUMBERS = ("int", "long")
_DATA = 0


@dataclass(frozen=True, slots=True)
class Turned:
    """A manifest as it is in cold, with the totals of its live files."""

    content: bytes
    totals: EntryTotals


@dataclass(frozen=True, slots=True)
class Examined:
    """Result of reading a manifest: the files that cold needs, and the copy if it is ready.

    Attributes:
        missing: Its live files that cold is not known to have, each once.
        turned: Its copy, if no file must be rewritten first.
    """

    missing: tuple[NeededFile, ...]
    turned: Turned | None


def examined(
    manifest: ManifestFile,
    content: bytes,
    warehouse: str,
    present: Collection[tuple[str, int]] = frozenset(),
) -> Examined:
    """Reads a manifest once, for its needs and its copy.

    Args:
        manifest: Its entry in its list.
        content: The original.
        warehouse: The folder of the cold catalog.
        present: Files that cold certainly has, by path there, with their lengths.

    Raises:
        MetadataUnreadable: It differs from its list's entry, or has a file that cannot be copied.
    """
    needed: dict[str, NeededFile] = {}
    targets: dict[str, str] = {}
    rows = 0
    turn: _Turn | None = None
    with refusing(manifest):
        file = AvroFile.read(content)
        turn = _Turn.of(file.schema())
    for record, encoded in entries(manifest, content):
        note_needed(needed, manifest, record)
        with refusing(manifest):
            path = record["data_file"]["file_path"]
            target = targets[path] = mirrored(path, warehouse)
            if turn and not turn.take(record, encoded, target):
                turn = None
        if record["status"] != EntryStatus.DELETED:
            rows += record["data_file"]["record_count"] if _is_data(record) else 0
    totals = EntryTotals(len(needed), sum(file.bytes for file in needed.values()), rows)
    turned = Turned(file.with_encoded(turn.records, {}), totals) if turn else None
    missing = (
        file
        for file in needed.values()
        if file.need is not Need.COPY or (targets[file.path], file.bytes) not in present
    )
    return Examined(tuple(missing), turned)


def _is_data(record: Record) -> bool:
    return (record["data_file"].get("content") or _DATA) == _DATA


class _Turn:
    """Collects entries that are rewritten at the byte level.

    Attributes:
        records: The encoded entries so far.
    """

    def __init__(self, plain: int, nullable: list[tuple[bool, str]]) -> None:
        """Sets the layout before a path: the count of numbers, and the nullable ones among them."""
        self._plain = plain
        self._nullable = nullable
        self.records: list[bytes] = []

    @classmethod
    def of(cls, schema: Any) -> "_Turn | None":
        """Builds it for a schema; None if fields other than numbers precede the path."""
        plain, nullable = 0, list[tuple[bool, str]]()
        for is_file, name, kind in _before_path(schema):
            if kind in _NUMBERS:
                plain += 1
            elif isinstance(kind, list) and len(kind) == 2 and "null" in kind:
                if not any(_bare(branch) in _NUMBERS for branch in kind):
                    return None
                nullable.append((is_file, name))
            else:
                return None
        return cls(plain, nullable)

    def take(self, record: Record, encoded: bytes, target: str) -> bool:
        """Adds an entry; returns False if replacing its path alone is not enough.

        Counts the numbers that end before the match, and compares with the schema: so the matched
        bytes are the path itself, and not similar bytes elsewhere.
        """
        file = record["data_file"]
        if not _is_data(record) or file.get("referenced_data_file"):
            return False
        path = file["file_path"].encode()
        sought = as_number(len(path)) + path
        front, found, tail = encoded.partition(sought)
        if not found or len(front.translate(None, _CONTINUED)) != self._numbers(record):
            return False
        if not front or front[-1] >= 0x80:
            return False
        new = target.encode()
        self.records.append(b"".join((front, as_number(len(new)), new, tail)))
        return True

    def _numbers(self, record: Record) -> int:
        """Counts the numbers before a path; a nullable field adds the index of its union branch."""
        file = record["data_file"]
        given = sum(
            (file if is_file else record)[name] is not None for is_file, name in self._nullable
        )
        return self._plain + len(self._nullable) + given


def _before_path(schema: Any) -> list[tuple[bool, str, Any]]:
    """Returns the fields before a path: whether they are the file's, name, and type."""
    before: list[tuple[bool, str, Any]] = []
    for outer in schema["fields"]:
        if outer["name"] != "data_file":
            before.append((False, outer["name"], _bare(outer["type"])))
            continue
        for inner in outer["type"]["fields"]:
            if inner["name"] == "file_path":
                return before
            before.append((True, inner["name"], _bare(inner["type"])))
    raise ValueError("entries without a path")


def _bare(kind: Any) -> Any:
    """Returns a number's type without its annotations."""
    return kind["type"] if isinstance(kind, dict) and kind.get("type") in _NUMBERS else kind
