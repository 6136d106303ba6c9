"""Reads manifest lists and manifests with fastavro, for the manifest index and the planner.

The gate reads the same files with another library (`pyiceberg_reader`), so that one reader's error
cannot confirm itself.
"""

import copy
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import fastavro

from meltline.adapters.manifests.avro_blocks import datums
from meltline.adapters.manifests.avro_container import AvroFile, plain
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestEntry, ManifestFile
from meltline.ports import Prefix

Kinds: TypeAlias = Mapping[str, Sequence[str]]
"""Field names, with the Avro types that each may have."""

_NUMBER, _TEXT, _RECORD = ("int", "long"), ("string",), ("record",)
_LIST_FIELDS = {
    "manifest_path": _TEXT,
    "manifest_length": _NUMBER,
    "content": _NUMBER,
    "sequence_number": _NUMBER,
    "added_snapshot_id": _NUMBER,
    # Format 1 wrote the counts under other names, and may leave them out.
    **{f"{status}_files_count": _NUMBER for status in ("added", "existing", "deleted")},
    **{f"{status}_data_files_count": _NUMBER for status in ("added", "existing", "deleted")},
}
ENTRY_FIELDS: Kinds = {
    "status": _NUMBER,
    "snapshot_id": _NUMBER,
    "sequence_number": _NUMBER,
    "file_sequence_number": _NUMBER,
    "data_file": _RECORD,
}
FILE_FIELDS: Kinds = {
    "content": _NUMBER,
    "file_path": _TEXT,
    "file_format": _TEXT,
    "file_size_in_bytes": _NUMBER,
    "content_offset": _NUMBER,
}

Projected = Callable[[Any], Any]
"""Returns the part of a schema to decode."""


def read_manifest_list(path: str, content: bytes) -> tuple[ManifestFile, ...]:
    """Returns the manifests that a manifest list names.

    Raises:
        MetadataUnreadable: It is not an Avro file that follows the spec.
    """
    try:
        return tuple(_manifest(row) for row in decoded_rows(AvroFile.read(content), _whole))
    except Exception as error:
        raise unreadable(path, "a manifest list", error) from error


def read_manifest(path: str, content: bytes) -> Iterator[ManifestEntry]:
    """Yields the entries of a manifest; decodes only the columns that reachability needs.

    Raises:
        MetadataUnreadable: It is not an Avro file that follows the spec.
    """
    try:
        yield from map(_manifest_entry, decoded_rows(AvroFile.read(content), _projection))
    except Exception as error:
        raise unreadable(path, "a manifest", error) from error


def decoded_rows(file: AvroFile, projected: Projected) -> Iterator[Any]:
    """Yields a file's rows, block by block, so that a caller can stop early.

    Values of logical types stay as stored, because some dates in them exist in no calendar.
    Thousands of small files share a schema, and parsing it costs more than decoding their rows; so
    it is parsed once.
    """
    written, projection = _prepared(file.header["avro.schema"], projected)
    for block in file.blocks():
        for datum in datums(file.codec, [block]):
            source = io.BytesIO(datum.content)
            decoded: Any = fastavro.schemaless_reader(source, written, projection)
            if len(decoded["rows"]) != datum.records or source.read(1):
                raise ValueError("a block does not hold the records it announces")
            yield from decoded["rows"]


@lru_cache(maxsize=256)
def _prepared(schema: bytes, projected: Projected) -> tuple[Any, Any]:
    """Returns the schemas of a block of rows: the writer's, and the reader's."""
    written = plain(json.loads(schema))
    return _block_schema(written), _block_schema(projected(written))


def _block_schema(row: Any) -> Any:
    rows = {"name": "rows", "type": {"type": "array", "items": row}}
    return fastavro.parse_schema({"type": "record", "name": "block", "fields": [rows]})


def _whole(schema: Any) -> Any:
    fields_of(_LIST_FIELDS, schema)
    return schema


def fields_of(kinds: Kinds, record: Any) -> list[Any]:
    """Returns a record's fields with known names. Raises TypeError for a wrong type."""
    fields = [field for field in record["fields"] if field["name"] in kinds]
    for field in fields:
        if (kind := _kind_of(field["type"])) not in kinds[field["name"]]:
            raise TypeError(f"{field['name']} is {kind}")
    return fields


def _kind_of(written: Any) -> Any:
    """Returns the name of an Avro type, without a null branch or an annotation."""
    if isinstance(written, list):
        (written,) = (kind for kind in written if kind != "null")
    return _kind_of(written["type"]) if isinstance(written, dict) else written


class AvroManifests:
    """Implements `ManifestReader`."""

    def read_list(self, path: str, content: bytes) -> tuple[ManifestFile, ...]:
        """Returns the manifests that a manifest list names. Raises MetadataUnreadable."""
        return read_manifest_list(path, content)

    def live_paths(self, manifest: ManifestFile, content: bytes) -> Sequence[str]:
        """Returns a manifest's live files, after comparing its length with its list entry.

        Raises:
            MetadataUnreadable: It does not follow the spec, or contradicts its list.
        """
        entries = checked_entries(manifest, content)
        return [file.path for file in entries if file.status != EntryStatus.DELETED]


def checked_entries(manifest: ManifestFile, content: bytes) -> Sequence[ManifestEntry]:
    """Returns all entries of a manifest, after its length agreed with its list entry.

    Its list may count them wrongly; callers report that for the table. Only if the list has no
    length for the manifest, its counts are checked here, because nothing else reveals a torn file.

    Raises:
        MetadataUnreadable: It does not follow the spec, or contradicts its list.
    """
    require_length(manifest, len(content))
    entries = list(read_manifest(manifest.path, content))
    if not manifest.bytes:
        require_counts(manifest, (file.status for file in entries))
    return entries


def require_length(manifest: ManifestFile, length: int) -> None:
    """Refuses a manifest whose length is not the listed one. Raises MetadataUnreadable."""
    if manifest.bytes and length != manifest.bytes:
        raise _mismatch(manifest, f"{manifest.bytes} bytes", f"{length} bytes")


def require_counts(manifest: ManifestFile, statuses: Iterable[EntryStatus]) -> None:
    """Refuses a manifest whose entries are not as counted. Raises MetadataUnreadable."""
    if contradiction := manifest.contradiction(counts_of(statuses)):
        raise _mismatch(manifest, "entries as its list counts them", contradiction)


def counts_of(statuses: Iterable[EntryStatus]) -> tuple[int, int, int]:
    """Counts the entries that are ADDED, EXISTING and DELETED."""
    counted = Counter(statuses)
    return counted[EntryStatus.ADDED], counted[EntryStatus.EXISTING], counted[EntryStatus.DELETED]


def changed_entries(manifest: ManifestFile, front: Prefix) -> Sequence[ManifestEntry]:
    """Returns the ADDED and DELETED entries, as many as its list counts.

    The other entries are not decoded: a merged manifest has its new entries before thousands of
    others. A list may count too few of them. So its counts are only trusted if the file has as many
    entries as the list counts in total, and reading never ends before an EXISTING entry.

    Raises:
        MetadataUnreadable: It does not follow the spec, or contradicts its list; or the prefix
            that was read does not have all of them.
    """
    require_length(manifest, front.bytes)
    if front.is_whole:
        _require_total(manifest, front.content)
    added, _, deleted = manifest.counts
    missing = Counter({EntryStatus.ADDED: added, EntryStatus.DELETED: deleted})
    entries: list[ManifestEntry] = []
    for file in read_manifest(manifest.path, front.content):
        if file.status != EntryStatus.EXISTING:
            entries.append(file)
            missing[file.status] -= 1
        elif not any(missing.values()):
            break
    for status, count in missing.items():
        if count:
            raise _mismatch(manifest, f"{status.name} entries as counted", f"{-count:+} of them")
    return entries


def _require_total(manifest: ManifestFile, content: bytes) -> None:
    """Refuses a manifest with another total of entries. Raises MetadataUnreadable."""
    try:
        records = sum(block.records for block in AvroFile.read(content).blocks())
    except ValueError as error:
        raise unreadable(manifest.path, "a manifest", error) from error
    if records != manifest.entries:
        raise _mismatch(manifest, f"{manifest.entries} entries", f"{records} entries")


def _mismatch(manifest: ManifestFile, expected: str, actual: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"manifest {manifest.path} is not what its manifest list says",
        object=manifest.path,
        expected=expected,
        found=f"{actual}, where the list says {expected}",
        next="restore the file from a copy, or roll the table back to a readable snapshot",
    )


def unreadable(path: str, kind: str, error: Exception) -> MetadataUnreadable:
    """Builds the error for a file that does not follow the spec."""
    return MetadataUnreadable(
        f"{path} cannot be read as {kind}",
        object=path,
        expected=f"{kind} as the Iceberg spec has it",
        found=f"{type(error).__name__}: {error}",
        next="restore the file from a copy, or roll the table back to a readable snapshot",
    )


def _manifest(row: Any) -> ManifestFile:
    return ManifestFile(
        path=row["manifest_path"],
        bytes=row["manifest_length"],
        added_files=_first(row, "added_files_count", "added_data_files_count"),
        existing_files=_first(row, "existing_files_count", "existing_data_files_count"),
        deleted_files=_first(row, "deleted_files_count", "deleted_data_files_count"),
        added_snapshot_id=row.get("added_snapshot_id"),
        sequence_number=row.get("sequence_number") or 0,
        is_deletes=(row.get("content") or 0) == 1,
    )


def _first(row: Mapping[str, Any], *names: str) -> int | None:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _projection(writer_schema: Any) -> Any:
    schema = copy.deepcopy(writer_schema)
    schema["fields"] = fields_of(ENTRY_FIELDS, schema)
    for entry_field in schema["fields"]:
        if entry_field["name"] == "data_file":
            record = entry_field["type"]
            record["fields"] = fields_of(FILE_FIELDS, record)
    return schema


def _manifest_entry(row: Any) -> ManifestEntry:
    file = row["data_file"]
    return ManifestEntry(
        path=file["file_path"],
        kind=kind_of_file(file.get("content") or 0, file["file_format"]),
        bytes=file["file_size_in_bytes"],
        status=EntryStatus(row["status"]),
        snapshot_id=row.get("snapshot_id"),
        sequence_number=row.get("sequence_number"),
        file_sequence_number=row.get("file_sequence_number"),
        part=file.get("content_offset"),
    )


def kind_of_file(content: int, file_format: str) -> FileKind:
    """Returns the kind of a file. Raises ValueError."""
    if content == 0:
        return FileKind.DATA
    if content == 1:
        puffin = file_format.upper() == "PUFFIN"
        return FileKind.DELETION_VECTOR if puffin else FileKind.POSITION_DELETE
    if content == 2:
        return FileKind.EQUALITY_DELETE
    raise ValueError(f"content {content} is none of 0, 1, 2")
