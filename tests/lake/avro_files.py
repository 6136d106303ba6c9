"""Writes manifest lists and manifests as the Iceberg spec has them, for formats 1, 2 and 3."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.doubles.manifest_files import (
    UNPARTITIONED,
    PartitionSpec,
    list_schema,
    manifest_schema,
    read_avro,
    written_avro,
)


@dataclass(frozen=True)
class FileFacts:
    """What a manifest says of a file of a table that is cut into chunks.

    Attributes:
        spec: How it is partitioned.
        partition: By name of the partition field.
        rows: How many; of a delete file the deletes.
        nulls: By column, where the writer counted them.
        lower: The least value of each column as manifests pack it; `upper` the greatest.
        referenced: The one data file that its deletes are about, where it says so.
    """

    spec: PartitionSpec
    partition: tuple[tuple[str, Any], ...] = ()
    rows: int = 1
    nulls: tuple[tuple[int, int], ...] = ()
    lower: tuple[tuple[int, bytes], ...] = ()
    upper: tuple[tuple[int, bytes], ...] = ()
    referenced: str = ""


@dataclass(frozen=True)
class Entry:
    """One row of a manifest. `facts` are None where all that counts is which files there are."""

    path: str
    bytes: int
    kind: FileKind
    status: EntryStatus
    snapshot_id: int
    sequence: int
    facts: FileFacts | None = None

    def turned(self, status: EntryStatus, snapshot_id: int = 0) -> "Entry":
        return replace(self, status=status, snapshot_id=snapshot_id or self.snapshot_id)

    @property
    def is_live(self) -> bool:
        return self.status is not EntryStatus.DELETED

    @property
    def spec(self) -> PartitionSpec:
        return self.facts.spec if self.facts else UNPARTITIONED

    @property
    def rows(self) -> int:
        return self.facts.rows if self.facts else 1


@dataclass(frozen=True)
class Manifest:
    """One row of a manifest list, with what the manifest holds."""

    path: str
    length: int
    snapshot_id: int
    sequence: int
    entries: tuple[Entry, ...]

    def count(self, status: EntryStatus) -> int:
        return sum(entry.status is status for entry in self.entries)

    def rows(self, status: EntryStatus) -> int:
        return sum(entry.rows for entry in self.entries if entry.status is status)

    @property
    def is_deletes(self) -> bool:
        return any(entry.kind is not FileKind.DATA for entry in self.entries)

    @property
    def live(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.is_live)


def manifest_bytes(version: int, entries: Iterable[Entry]) -> bytes:
    """All entries of one manifest have one partition spec."""
    entries = list(entries)
    spec = entries[0].spec if entries and entries[0].facts else None
    rows = [_entry(version, entry) for entry in entries]
    header = {"format-version": str(version), **(spec.header if spec else {})}
    return written_avro(manifest_schema(version, spec), rows, header)


def list_bytes(version: int, manifests: Sequence[Manifest]) -> bytes:
    rows = [_manifest(manifest) for manifest in manifests]
    return written_avro(list_schema(version), rows, {"format-version": str(version)})


def read_manifests(
    read: Callable[[str], bytes], manifest_list: str, facts: Mapping[str, FileFacts]
) -> tuple[Manifest, ...]:
    """What somebody else has written, as if the lake's engines had."""
    return tuple(
        Manifest(
            row["manifest_path"],
            row["manifest_length"],
            row["added_snapshot_id"],
            row.get("sequence_number") or 0,
            tuple(
                _read_entry(row, entry, facts)
                for entry in read_avro(read(row["manifest_path"])).rows
            ),
        )
        for row in read_avro(read(manifest_list)).rows
    )


def _read_entry(
    manifest: Mapping[str, Any], row: Mapping[str, Any], facts: Mapping[str, FileFacts]
) -> Entry:
    file = row["data_file"]
    content = (file.get("content") or 0, str(file["file_format"]).upper())
    sequence = row.get("sequence_number")
    return Entry(
        file["file_path"],
        file["file_size_in_bytes"],
        next(kind for kind, written in _CONTENT.items() if written == content),
        EntryStatus(row["status"]),
        row["snapshot_id"] or manifest["added_snapshot_id"],
        manifest.get("sequence_number") or 0 if sequence is None else sequence,
        facts.get(file["file_path"]),
    )


_CONTENT = {
    FileKind.DATA: (0, "PARQUET"),
    FileKind.POSITION_DELETE: (1, "PARQUET"),
    FileKind.DELETION_VECTOR: (1, "PUFFIN"),
    FileKind.EQUALITY_DELETE: (2, "PARQUET"),
}


def _entry(version: int, entry: Entry) -> dict[str, Any]:
    content, file_format = _CONTENT[entry.kind]
    added = entry.status is EntryStatus.ADDED and version > 1
    return {
        "status": int(entry.status),
        # Of added entries the writer of the manifest leaves these to be inherited.
        "snapshot_id": None if added else entry.snapshot_id,
        "sequence_number": None if added else entry.sequence,
        "file_sequence_number": None if added else entry.sequence,
        "data_file": {
            "content": content,
            "file_path": entry.path,
            "file_format": file_format,
            "partition": {},
            "record_count": 1,
            "file_size_in_bytes": entry.bytes,
            "block_size_in_bytes": 67108864,
            **(_of_facts(entry.facts) if entry.facts else {}),
        },
    }


def _of_facts(facts: FileFacts) -> dict[str, Any]:
    nulls, counts = facts.nulls, [(column, facts.rows) for column, _ in facts.nulls]
    return {
        "partition": dict(facts.partition),
        "record_count": facts.rows,
        "value_counts": _pairs(counts),
        "null_value_counts": _pairs(nulls),
        "lower_bounds": _pairs(facts.lower),
        "upper_bounds": _pairs(facts.upper),
        "referenced_data_file": facts.referenced or None,
    }


def _pairs(of_columns: Iterable[tuple[int, Any]]) -> list[dict[str, Any]]:
    return [{"key": column, "value": value} for column, value in of_columns]


def _manifest(manifest: Manifest) -> dict[str, Any]:
    kinds = (
        ("added", EntryStatus.ADDED),
        ("existing", EntryStatus.EXISTING),
        ("deleted", EntryStatus.DELETED),
    )
    counts = {f"{name}_files_count": manifest.count(status) for name, status in kinds}
    counts |= {f"{name}_rows_count": manifest.rows(status) for name, status in kinds}
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.entries[0].spec.id if manifest.entries else 0,
        "content": int(manifest.is_deletes),
        "sequence_number": manifest.sequence,
        "min_sequence_number": min((e.sequence for e in manifest.entries), default=0),
        "added_snapshot_id": manifest.snapshot_id,
        **counts,
    }
