"""Reads manifest lists and manifests with PyIceberg, for the gate's evidence.

It shares no code with the index's reader (`manifests`): where the two disagree, the gate refuses.
Files are read by field id, not by name, and a manifest's rows are counted against its list.
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.io import InputFile, InputStream
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from meltline.adapters.iceberg.evidence_blocks import Fields, framed_blocks
from meltline.domain.errors import MetadataUnreadable

# Field ids of the Iceberg spec: manifest lists, manifest entries, data files.
_MANIFEST_PATH, _MANIFEST_LENGTH, _ADDED_BY, _COUNTS = 500, 501, 503, (504, 505, 506)
_STATUS, _DATA_FILE = 0, 2
_FILE_PATH, _ROWS, _FILE_SIZE, _CONTENT, _REFERRED = 100, 103, 104, 134, 143
_WANTED = ((_STATUS,), (_DATA_FILE, _FILE_PATH), (_DATA_FILE, _FILE_SIZE))
_DELETED = 2
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
    """Where the files are that a manifest keeps alive, and how many bytes each has."""

    paths: list[str]
    sizes: list[int]


def listed_manifests(path: str, content: bytes) -> tuple[ListedManifest, ...]:
    """The manifests of a manifest list.

    Raises:
        MetadataUnreadable: The file does not follow the spec.
    """
    try:
        schema, rows = _read(path, content)
        at = _positions(schema.as_struct())
        return tuple(
            ListedManifest(
                row[at[_MANIFEST_PATH]],
                row[at[_MANIFEST_LENGTH]],
                _total([row[at[count]] if count in at else None for count in _COUNTS]),
                row[at[_ADDED_BY]] if _ADDED_BY in at else None,
            )
            for row in rows
        )
    except Exception as odd:
        raise _refused(path, "a manifest list", f"{type(odd).__name__}: {odd}") from odd


def live_files(manifest: ListedManifest, content: bytes) -> tuple[LiveFile, ...]:
    """The live files of a manifest, after its length and row count agreed with the list.

    Raises:
        MetadataUnreadable: It does not follow the spec, or is not as long as its list says.
    """

    def read() -> tuple[int, tuple[LiveFile, ...]]:
        schema, rows = _read(manifest.path, content)
        return len(rows), tuple(_live(schema, rows))

    return _agreeing(manifest, content, read)


def live_columns(manifest: ListedManifest, content: bytes) -> LiveColumns:
    """The same, without what only a few ask for: several times as fast.

    Raises:
        MetadataUnreadable: As for `live_files`.
    """

    def read() -> tuple[int, LiveColumns]:
        blocks = framed_blocks(content)
        with _Prepared(manifest.path, content) as file:
            codec = file.header.compression_codec()
            fields, live = _where_and_how_long(file.header.meta[_SCHEMA]), LiveColumns([], [])
            for records, packed in blocks:
                block = codec.decompress(packed) if codec else packed
                for status, path, size in fields.of(block, records):
                    if status != _DELETED:
                        live.paths.append(path)
                        live.sizes.append(size)
        return sum(records for records, _ in blocks), live

    return _agreeing(manifest, content, read)


def _agreeing(
    manifest: ListedManifest, content: bytes, read: Callable[[], tuple[int, Found]]
) -> Found:
    """What was read of a manifest, if its length and its number of entries are as listed."""
    if manifest.bytes and len(content) != manifest.bytes:
        raise _refused(
            manifest.path, f"a manifest of {manifest.bytes} bytes", f"{len(content)} bytes"
        )
    try:
        rows, found = read()
    except Exception as odd:
        raise _refused(manifest.path, "a manifest", f"{type(odd).__name__}: {odd}") from odd
    if manifest.rows is not None and rows != manifest.rows:
        raise _refused(manifest.path, f"{manifest.rows} entries", f"{rows} entries")
    return found


def _read(path: str, content: bytes) -> tuple[Schema, list[Any]]:
    records = sum(count for count, _ in framed_blocks(content))
    with _Prepared(path, content) as file:
        rows = list(file)
    if len(rows) != records:
        raise ValueError(f"{len(rows)} records where its blocks announce {records}")
    return file.schema, rows


class _Prepared(AvroFile[Any]):
    """An Avro file. Thousands have one schema: what it takes to read it is worked out once."""

    def __init__(self, path: str, content: bytes) -> None:
        super().__init__(_Content(path, content))

    def __enter__(self) -> AvroFile[Any]:
        with self.input_file.open() as file:
            self.decoder = new_decoder(file.read())
        self.header = _header_reader().read(self.decoder)
        self.schema, self.reader = _prepared(self.header.meta[_SCHEMA])
        return self


@lru_cache(maxsize=256)
def _prepared(written: str) -> tuple[Schema, Reader]:
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(written))
    return schema, resolve_reader(schema, schema)


@lru_cache(maxsize=256)
def _where_and_how_long(written: str) -> Fields:
    return Fields(_prepared(written)[1], _WANTED)


@lru_cache(maxsize=1)
def _header_reader() -> Reader:
    """What PyIceberg makes anew for the header of each file."""
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


def _positions(struct: StructType) -> dict[int, int]:
    return {field.field_id: position for position, field in enumerate(struct.fields)}


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _live(schema: Schema, rows: list[Any]) -> Iterator[LiveFile]:
    entry = _positions(schema.as_struct())
    data_file = schema.find_field(_DATA_FILE).field_type
    if not isinstance(data_file, StructType):
        raise TypeError("data_file is not a struct")
    at = _positions(data_file)
    for row in rows:
        if row[entry[_STATUS]] != _DELETED:
            file = row[entry[_DATA_FILE]]
            content = file[at[_CONTENT]] if _CONTENT in at else 0
            yield LiveFile(
                file[at[_FILE_PATH]],
                file[at[_FILE_SIZE]],
                bool(content),
                content,
                file[at[_ROWS]] if _ROWS in at else 0,
                file[at[_REFERRED]] if _REFERRED in at else None,
            )


def _refused(path: str, expected: str, found: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"the gate cannot read {path}",
        object=path,
        expected=expected,
        found=found,
        next="the plan is refused; restore the file and run again",
    )


class _Content(InputFile):
    """Bytes already read, in the shape PyIceberg's Avro reader wants."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._content)
