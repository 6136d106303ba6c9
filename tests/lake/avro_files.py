"""Writes manifest lists and manifests as the Iceberg spec has them, for formats 1, 2 and 3."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import fastavro

from meltline.domain.iceberg.files import EntryStatus, FileKind


@dataclass(frozen=True)
class Entry:
    """One row of a manifest."""

    path: str
    bytes: int
    kind: FileKind
    status: EntryStatus
    snapshot_id: int
    sequence: int

    def turned(self, status: EntryStatus, snapshot_id: int = 0) -> "Entry":
        return replace(self, status=status, snapshot_id=snapshot_id or self.snapshot_id)

    @property
    def is_live(self) -> bool:
        return self.status is not EntryStatus.DELETED


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

    @property
    def is_deletes(self) -> bool:
        return any(entry.kind is not FileKind.DATA for entry in self.entries)

    @property
    def live(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.is_live)


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"field-id": number, "name": name, "type": ["null", kind], "default": None}
    return {"field-id": number, "name": name, "type": kind}


@cache
def _manifest_schema(version: int) -> Any:
    file = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
    ]
    if version == 1:
        file = [*file[1:], _field(105, "block_size_in_bytes", "long")]
    if version == 3:
        file += [
            _field(142, "first_row_id", "long", optional=True),
            _field(143, "referenced_data_file", "string", optional=True),
            _field(144, "content_offset", "long", optional=True),
            _field(145, "content_size_in_bytes", "long", optional=True),
        ]
    entry = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=version > 1),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": file}),
    ]
    if version > 1:
        entry[2:2] = [
            _field(3, "sequence_number", "long", optional=True),
            _field(4, "file_sequence_number", "long", optional=True),
        ]
    return fastavro.parse_schema({"type": "record", "name": "manifest_entry", "fields": entry})


@cache
def _list_schema(version: int) -> Any:
    optional = version == 1
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int", optional=optional),
        _field(505, "existing_files_count", "int", optional=optional),
        _field(506, "deleted_files_count", "int", optional=optional),
        _field(512, "added_rows_count", "long", optional=optional),
        _field(513, "existing_rows_count", "long", optional=optional),
        _field(514, "deleted_rows_count", "long", optional=optional),
    ]
    if version > 1:
        fields[3:3] = [
            _field(517, "content", "int"),
            _field(515, "sequence_number", "long"),
            _field(516, "min_sequence_number", "long"),
        ]
    if version == 3:
        fields.append(_field(520, "first_row_id", "long", optional=True))
    return fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})


def manifest_bytes(version: int, entries: Iterable[Entry]) -> bytes:
    return _avro(_manifest_schema(version), [_entry(version, entry) for entry in entries], version)


def list_bytes(version: int, manifests: Sequence[Manifest]) -> bytes:
    return _avro(_list_schema(version), [_manifest(manifest) for manifest in manifests], version)


def _avro(schema: Any, rows: Sequence[dict[str, Any]], version: int) -> bytes:
    body = io.BytesIO()
    # A fixed marker, so that the same history makes the same bytes.
    marker = b"0123456789abcdef"
    metadata = {"format-version": str(version)}
    fastavro.writer(body, schema, rows, metadata=metadata, sync_marker=marker)
    return body.getvalue()


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
        },
    }


def _manifest(manifest: Manifest) -> dict[str, Any]:
    counts = {
        name: manifest.count(status)
        for name, status in (
            ("added", EntryStatus.ADDED),
            ("existing", EntryStatus.EXISTING),
            ("deleted", EntryStatus.DELETED),
        )
    }
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": 0,
        "content": int(manifest.is_deletes),
        "sequence_number": manifest.sequence,
        "min_sequence_number": min((e.sequence for e in manifest.entries), default=0),
        "added_snapshot_id": manifest.snapshot_id,
        **{f"{name}_files_count": count for name, count in counts.items()},
        **{f"{name}_rows_count": count for name, count in counts.items()},
    }
