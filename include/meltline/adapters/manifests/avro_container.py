"""Reads Avro files block by block within bounds, and rewrites their records without other changes.

The index's reader and the archive's rewriting use it. The header is preserved: schema as spelled,
field ids, codec and sync marker. Values of logical types are never converted to Python's: a decimal
or a timestamp stays the bytes or the number that it was. fastavro decodes records; the container
around them is walked here, because fastavro walks it without bounds (decision 033).
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import fastavro

from meltline.adapters.manifests.avro_codecs import is_known, pack, unpack

_MAGIC = b"Obj\x01"
_SYNC = 16
_BLOCK = 64 * 1024  # bytes of records, before they are compressed
_LONGEST_NUMBER = 10  # bytes

Record = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """A block as stored: the number of its records, and their compressed bytes."""

    records: int
    packed: bytes


@dataclass(frozen=True)
class AvroFile:
    """A parsed Avro file.

    Attributes:
        header: The entries of its header, in the order of the file.
        sync: The marker after each block.
        body: Its blocks.
    """

    header: Mapping[str, bytes]
    sync: bytes
    body: bytes

    @classmethod
    def read(cls, content: bytes) -> "AvroFile":
        """Parses the container of a file.

        Raises:
            ValueError: It is no Avro file, has an unknown codec, or ends too early.
        """
        if not content.startswith(_MAGIC):
            raise ValueError("not an Avro file")
        header, end = _header(content, len(_MAGIC))
        sync, end = _bytes(content, end, _SYNC)
        file = cls(header, sync, content[end:])
        if not is_known(file.codec):
            raise ValueError(f"Avro codec {file.codec} is not known")
        return file

    @property
    def codec(self) -> str:
        """The compression of its blocks."""
        return self.header.get("avro.codec", b"null").decode()

    def blocks(self) -> Iterator[Block]:
        """Yields its blocks in order; checks the container of each when it is reached.

        Raises:
            ValueError: The container is damaged, or the file ends in a block.
        """
        body, at = self.body, 0
        while at < len(body):
            records, start = _number(body, at)
            length, start = _number(body, start)
            at = start + length + _SYNC
            if records < 0 or length < 0 or body[start + length : at] != self.sync:
                raise ValueError("a block does not end where it says")
            yield Block(records, body[start : start + length])

    def records(self) -> Iterator[Record]:
        """Yields its records, with values of logical types as stored.

        Raises:
            ValueError: The header has no schema, or a block does not follow the format.
        """
        return (record for record, _ in self.encoded_records())

    def encoded_records(self) -> Iterator[tuple[Record, bytes]]:
        """Yields its records, each with its encoded bytes."""
        schema = self.schema()
        for block in self.blocks():
            content = unpack(self.codec, block.packed)
            if block.records > len(content):  # records without fields could be endless
                raise ValueError(f"{block.records} records in {len(content)} bytes")
            source, start = io.BytesIO(content), 0
            for _ in range(block.records):
                record = _decoded(source, schema)
                end = source.tell()
                yield record, content[start:end]
                start = end
            if start != len(content):
                raise ValueError("a block does not hold the records it announces")

    def with_records(self, records: Iterable[Record], extra: Mapping[str, bytes]) -> bytes:
        """Returns a file with other records and additional header entries."""
        schema = self.schema()
        return self.with_encoded((_encoded(record, schema) for record in records), extra)

    def with_encoded(self, records: Iterable[bytes], extra: Mapping[str, bytes]) -> bytes:
        """Returns a file with other records, already encoded, and additional header entries."""
        output = io.BytesIO()
        _write_header(output, {**self.header, **extra}, self.sync)
        parts, size = list[bytes](), 0
        for record in records:
            parts.append(record)
            size += len(record)
            if size >= _BLOCK:
                self._write_block(output, len(parts), b"".join(parts))
                parts, size = [], 0
        if parts:
            self._write_block(output, len(parts), b"".join(parts))
        return output.getvalue()

    def _write_block(self, output: BinaryIO, count: int, content: bytes) -> None:
        packed = pack(self.codec, content)
        output.write(as_number(count) + as_number(len(packed)) + packed + self.sync)

    def schema(self) -> Any:
        """Returns the schema of its records, without logical types. Raises ValueError."""
        try:
            return fastavro.parse_schema(plain(json.loads(self.header["avro.schema"])))
        except Exception as noise:  # an invalid schema makes fastavro raise anything
            raise ValueError(f"no schema: {type(noise).__name__}: {noise}") from noise


def _decoded(source: BinaryIO, schema: Any) -> Record:
    try:
        record: Record = fastavro.schemaless_reader(source, schema, None)  # type: ignore[assignment]
    except Exception as noise:  # invalid bytes make fastavro raise anything
        raise ValueError(f"no record: {type(noise).__name__}: {noise}") from noise
    return record


def _encoded(record: Record, schema: Any) -> bytes:
    output = io.BytesIO()
    fastavro.schemaless_writer(output, schema, record)
    return output.getvalue()


def as_number(number: int) -> bytes:
    """Encodes a number as Avro does: zigzag, seven bits a byte."""
    remaining, encoded = (number << 1) ^ (number >> 63), bytearray()
    while remaining > 0x7F:
        encoded.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    return bytes([*encoded, remaining])


def plain(schema: Any) -> Any:
    """Returns an Avro schema without logical types, so that no value is converted."""
    if isinstance(schema, dict):
        return {key: plain(node) for key, node in schema.items() if key != "logicalType"}
    return [plain(kind) for kind in schema] if isinstance(schema, list) else schema


# --- primitives of the container: each returns the value and where it ends ------------------------


def _number(content: bytes, start: int) -> tuple[int, int]:
    shift = number = 0
    for at in range(start, min(start + _LONGEST_NUMBER, len(content))):
        number |= (content[at] & 0x7F) << shift
        if content[at] < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
    raise ValueError("the file ends in a number")


def _bytes(content: bytes, start: int, length: int) -> tuple[bytes, int]:
    if not 0 <= length <= len(content) - start:
        raise ValueError("the file ends too early")
    return content[start : start + length], start + length


def _text(content: bytes, at: int) -> tuple[bytes, int]:
    length, start = _number(content, at)
    return _bytes(content, start, length)


def _header(content: bytes, at: int) -> tuple[Mapping[str, bytes], int]:
    header: dict[str, bytes] = {}
    while True:
        count, at = _number(content, at)
        if count == 0:
            return header, at
        if count < 0:  # then the part's length follows, for readers that skip it
            _, at = _number(content, at)
        for _ in range(abs(count)):
            key, at = _text(content, at)
            header[key.decode()], at = _text(content, at)


def _write_header(output: BinaryIO, header: Mapping[str, bytes], sync: bytes) -> None:
    output.write(_MAGIC + as_number(len(header)))
    for key, text in header.items():
        for part in (key.encode(), text):
            output.write(as_number(len(part)) + part)
    output.write(as_number(0) + sync)
