"""Reads manifest lists and manifests with PyIceberg, for the gate.

It shares no code with the index's reader (`fastavro_reader`): if the two disagree, the gate
refuses. Fields are found by id, not by name, and a manifest's rows are counted against its list.
Only in a schema without ids, fields are found by the names of the specification.

Some services write manifest lists and manifests without ids. The specification gives each field a
name as well as an id, so the name identifies a field that has no id. A field that has an id is the
one with the id, whatever its name.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from meltline.adapters.manifests.pyiceberg_blocks import Field, Fields, framed_blocks
from meltline.domain.errors import MetadataUnreadable

_BY_NAME: Mapping[str, int] = {
    "status": 0,
    "data_file": 2,
    "file_path": 100,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "content": 134,
    "referenced_data_file": 143,
    "manifest_path": 500,
    "manifest_length": 501,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
"""Ids of the fields that a gate requests. They are requested under the structs around them, so a
partition field with the same name is not confused with them."""
_MADE_UP = 2_000_000_000  # beyond all ids of the specification and of tables


def with_ids(schema: Any) -> Any:
    """Adds an id to each field, element, key and value that has none; unused ones are made up.

    Raises:
        KeyError: A field has no name, or no type.
    """
    return _with_ids(schema, count(_MADE_UP))


def _with_ids(schema: Any, fresh: Iterator[int]) -> Any:
    match schema:
        case list():
            return [_with_ids(branch, fresh) for branch in schema]
        case {"type": "record", "fields": fields}:
            return {**schema, "fields": [_identified(field, fresh) for field in fields]}
        case {"type": "array", "items": items}:
            return {"element-id": next(fresh), **schema, "items": _with_ids(items, fresh)}
        case {"type": "map", "values": values}:
            ids = {"key-id": next(fresh), "value-id": next(fresh)}
            return {**ids, **schema, "values": _with_ids(values, fresh)}
        case {"type": dict() | list() as inner}:
            return {**schema, "type": _with_ids(inner, fresh)}
    return schema


def _identified(field: Any, fresh: Iterator[int]) -> Any:
    number = field.get("field-id", _BY_NAME.get(field["name"], next(fresh)))
    return {**field, "field-id": number, "type": _with_ids(field["type"], fresh)}


# Field ids of the Iceberg spec: manifest lists, manifest entries, data files.
_FILE, _DELETED = 2, 2
_LISTED = (
    Field((500,), is_text=True),
    Field((501,)),
    Field((503,), is_needed=False),
    *(Field((number,), is_needed=False) for number in (504, 505, 506)),
)
"""A manifest's fields: path, length, the snapshot that added it, counts of entries by status."""
_PLACE = (Field((0,)), Field((_FILE, 100), is_text=True), Field((_FILE, 104)))
"""An entry's fields: status, path and length of the file."""
_WHOLE = (
    *_PLACE,
    Field((_FILE, 134), is_needed=False),
    Field((_FILE, 103), is_needed=False),
    Field((_FILE, 143), is_text=True, is_needed=False),
)
"""Further fields of an entry: content, rows, the data file to which its deletes apply."""
_SCHEMA = "avro.schema"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest as its list describes it; `rows` is None if the list does not count them.

    Attributes:
        added_by: The snapshot that wrote it; None if the list does not record it.
    """

    path: str
    bytes: int
    rows: int | None
    added_by: int | None = None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a manifest keeps alive (status EXISTING or ADDED).

    Attributes:
        content: 0 data, 1 position deletes or a deletion vector, 2 equality deletes.
        rows: For a delete file, the number of deletes.
        refers_to: The data file to which a deletion vector, or a position delete file, applies.
    """

    path: str
    bytes: int
    is_delete: bool
    content: int = 0
    rows: int = 0
    refers_to: str | None = None


@dataclass(frozen=True, slots=True)
class LiveColumns:
    """The paths and lengths of a manifest's live files.

    Attributes:
        contradiction: How the counts in its list differ from its entries; empty if they agree.
    """

    paths: list[str]
    sizes: list[int]
    contradiction: str = ""


def listed_manifests(path: str, content: bytes) -> tuple[ListedManifest, ...]:
    """Returns the manifests of a manifest list.

    Raises:
        MetadataUnreadable: The file does not follow the spec.
    """
    try:
        return tuple(
            ListedManifest(at, length, _total(counts), added_by)
            for at, length, added_by, *counts in _records(content, _LISTED)
        )
    except Exception as error:
        raise _refused(path, "a manifest list", f"{type(error).__name__}: {error}") from error


def live_files(manifest: ListedManifest, content: bytes) -> tuple[LiveFile, ...]:
    """Returns the live files of a manifest, after its length agreed with the list.

    Raises:
        MetadataUnreadable: It does not follow the spec, or its length is not the listed one.
    """

    def read() -> tuple[int, tuple[LiveFile, ...]]:
        rows = list(_records(content, _WHOLE))
        return len(rows), tuple(
            LiveFile(path, size, bool(kind), kind or 0, count or 0, refers_to)
            for status, path, size, kind, count, refers_to in rows
            if status != _DELETED
        )

    return _agreeing(manifest, content, read)[1]


def live_columns(manifest: ListedManifest, content: bytes) -> LiveColumns:
    """Returns paths and lengths of live files only: several times as fast as `live_files`.

    Raises:
        MetadataUnreadable: As for `live_files`.
    """

    def read() -> tuple[int, LiveColumns]:
        live, rows = LiveColumns([], []), 0
        for status, path, size in _records(content, _PLACE):
            rows += 1
            if status != _DELETED:
                live.paths.append(path)
                live.sizes.append(size)
        return rows, live

    contradiction, live = _agreeing(manifest, content, read)
    return replace(live, contradiction=contradiction)


def _agreeing(
    manifest: ListedManifest, content: bytes, read: Callable[[], tuple[int, Found]]
) -> tuple[str, Found]:
    """Reads a manifest of the listed length; returns how its counts differ, and what was read.

    If the list has no length, the number of entries must be the listed one.
    """
    if manifest.bytes and len(content) != manifest.bytes:
        raise _refused(
            manifest.path, f"a manifest of {manifest.bytes} bytes", f"{len(content)} bytes"
        )
    try:
        rows, answer = read()
    except Exception as error:
        raise _refused(manifest.path, "a manifest", f"{type(error).__name__}: {error}") from error
    if manifest.rows is None or rows == manifest.rows:
        return "", answer
    if not manifest.bytes:
        raise _refused(manifest.path, f"{manifest.rows} entries", f"{rows} entries")
    return f"{manifest.path} has {rows} entries where its list says {manifest.rows}", answer


def _records(content: bytes, columns: tuple[Field, ...]) -> Iterator[tuple[Any, ...]]:
    """Yields fields of a file's records. PyIceberg alone would trust any length in a record."""
    blocks = framed_blocks(content)
    header = _header_reader().read(new_decoder(content))
    fields, codec = _fields(header.meta[_SCHEMA], columns), header.compression_codec()
    yield from fields.of((n, codec.decompress(block) if codec else block) for n, block in blocks)


@lru_cache(maxsize=256)
def _fields(written: str, columns: tuple[Field, ...]) -> Fields:
    """Builds the reader of a schema, cached because thousands of files share one."""
    schema = AvroSchemaConversion().avro_to_iceberg(with_ids(json.loads(written)))
    return Fields(resolve_reader(schema, schema), columns)


@lru_cache(maxsize=1)
def _header_reader() -> Reader:
    """Returns the reader of a header, which PyIceberg would build again for each file."""
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


def _total(counts: Sequence[int | None]) -> int | None:
    counted = [count for count in counts if count is not None]
    return sum(counted) if len(counted) == len(counts) else None


def _refused(path: str, expected: str, actual: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"the gate cannot read {path}",
        object=path,
        expected=expected,
        found=actual,
        next="the plan is refused; restore the file and run again",
    )
