"""Reads manifest lists and manifests with PyIceberg, for the gate's evidence.

It shares no code with the index's reader (`manifests`): where the two disagree, the gate refuses.
Fields are found by id, not by name, and a manifest's rows are counted against its list. Only
where a schema has no ids, its fields are those of the specification's names.

Some services write manifest lists and manifests without ids. The specification gives each field a
name as well as an id, so that a name tells the id where none is written. What is written stays:
a field that has an id is the one of that id, whatever it is called.
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
"""Of the fields that a gate asks for. It does so by the structs above them as well: a partition
field that is called like one of these is another."""
_MADE_UP = 2_000_000_000  # beyond all ids that the specification and tables give


def with_ids(schema: Any) -> Any:
    """The schema with an id for each field, element, key and value; made up where nobody asks.

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
"""Of a manifest: where it is and how long, who added it, how many entries it has of each status."""
_PLACE = (Field((0,)), Field((_FILE, 100), is_text=True), Field((_FILE, 104)))
"""Of an entry: its status, where the file is and how long."""
_WHOLE = (
    *_PLACE,
    Field((_FILE, 134), is_needed=False),
    Field((_FILE, 103), is_needed=False),
    Field((_FILE, 143), is_text=True, is_needed=False),
)
"""And what it holds, how many rows, which data file its deletes are about."""
_SCHEMA = "avro.schema"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest as its list names it; `rows` is None where the list does not count them.

    Attributes:
        added_by: The snapshot that wrote it, where the list says so.
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
        rows: Of a delete file, the deletes.
        refers_to: The data file that a deletion vector, or a position delete file, is about.
    """

    path: str
    bytes: int
    is_delete: bool
    content: int = 0
    rows: int = 0
    refers_to: str | None = None


@dataclass(frozen=True, slots=True)
class LiveColumns:
    """Where the files are that a manifest keeps alive, and how many bytes each has.

    Attributes:
        contradiction: How its list counts other entries than it has; empty where it does not.
    """

    paths: list[str]
    sizes: list[int]
    contradiction: str = ""


def listed_manifests(path: str, content: bytes) -> tuple[ListedManifest, ...]:
    """The manifests of a manifest list.

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
    """The live files of a manifest, after its length agreed with the list.

    Raises:
        MetadataUnreadable: It does not follow the spec, or is not as long as its list says.
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
    """The same, without what only a few ask for: several times as fast.

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
    """What was read of a manifest that is as long as listed, and how its list counts it wrongly.

    Where the list does not say how long it is, its number of entries has to be as listed.
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
    """These fields of a file's records. PyIceberg alone would believe any length in a record."""
    blocks = framed_blocks(content)
    header = _header_reader().read(new_decoder(content))
    fields, codec = _fields(header.meta[_SCHEMA], columns), header.compression_codec()
    yield from fields.of((n, codec.decompress(block) if codec else block) for n, block in blocks)


@lru_cache(maxsize=256)
def _fields(written: str, columns: tuple[Field, ...]) -> Fields:
    """Thousands of files have one schema: what it takes to read them is worked out once."""
    schema = AvroSchemaConversion().avro_to_iceberg(with_ids(json.loads(written)))
    return Fields(resolve_reader(schema, schema), columns)


@lru_cache(maxsize=1)
def _header_reader() -> Reader:
    """What PyIceberg makes anew for the header of each file."""
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
