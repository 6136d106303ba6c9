"""Rewriting Avro files record by record, with all else kept as it was.

The header, with the schema as its writer spelled it, field ids, codec and sync marker, is carried
over. Values of logical types are never turned into Python's: a decimal or a timestamp leaves as
the bytes or the number that it came as.
"""

import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import fastavro

_MAGIC = b"Obj\x01"
_SYNC = 16
_BLOCK = 64 * 1024  # bytes of records, before they are compressed
_DEFLATE = -15  # neither header nor checksum

Record = dict[str, Any]


@dataclass(frozen=True)
class AvroFile:
    """An Avro file taken apart.

    Attributes:
        header: What its writer put into the header, in the order of the file.
        sync: The marker behind each block.
        body: Its blocks.
    """

    header: Mapping[str, bytes]
    sync: bytes
    body: bytes

    @classmethod
    def read(cls, content: bytes) -> "AvroFile":
        """Takes a file apart.

        Raises:
            ValueError: It is no Avro file, or of a codec that is not known here.
            EOFError: It ends too early.
        """
        source = io.BytesIO(content)
        if source.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("not an Avro file")
        header = dict(_header(source))
        sync = _exactly(source, _SYNC)
        made = cls(header, sync, content[source.tell() :])
        if made.codec not in _CODECS:
            raise ValueError(f"Avro codec {made.codec} is not known")
        return made

    @property
    def codec(self) -> str:
        """How its blocks are compressed."""
        return self.header.get("avro.codec", b"null").decode()

    def records(self) -> Iterator[Record]:
        """Its records, values of logical types left as they are stored.

        Raises:
            ValueError: A block does not follow the format; fastavro may raise others.
            EOFError: It ends too early.
        """
        _, unpack = _CODECS[self.codec]
        schema = self._schema()
        source = io.BytesIO(self.body)
        while count := _next_number(source):
            block = io.BytesIO(unpack(_exactly(source, _number(source))))
            for _ in range(count):
                yield fastavro.schemaless_reader(block, schema, None)  # type: ignore[misc]
            if block.read(1) or _exactly(source, _SYNC) != self.sync:
                raise ValueError("a block does not end where it says")

    def with_records(self, records: Iterable[Record], extra: Mapping[str, bytes]) -> bytes:
        """A file that differs in its records, and in further entries of its header."""
        pack, _ = _CODECS[self.codec]
        schema = self._schema()
        made = io.BytesIO()
        _write_header(made, {**self.header, **extra}, self.sync)
        count, block = 0, io.BytesIO()
        for record in records:
            fastavro.schemaless_writer(block, schema, record)
            count += 1
            if block.tell() >= _BLOCK:
                _write_block(made, count, pack(block.getvalue()), self.sync)
                count, block = 0, io.BytesIO()
        if count:
            _write_block(made, count, pack(block.getvalue()), self.sync)
        return made.getvalue()

    def _schema(self) -> Any:
        return fastavro.parse_schema(_plain(json.loads(self.header["avro.schema"])))


def _plain(schema: Any) -> Any:
    """A schema without logical types: no value is turned into another."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key != "logicalType"}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


# --- the container's own words --------------------------------------------------------------------


def _exactly(source: BinaryIO, length: int) -> bytes:
    found = source.read(length)
    if length < 0 or len(found) < length:
        raise EOFError("the file ends too early")
    return found


def _next_number(source: BinaryIO) -> int | None:
    """The number of the next block's records; None at the end of the file."""
    if not source.read(1):
        return None
    source.seek(-1, io.SEEK_CUR)
    return _number(source)


def _number(source: BinaryIO) -> int:
    shift = value = 0
    while True:
        byte = _exactly(source, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _as_number(number: int) -> bytes:
    left, made = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def _text(source: BinaryIO) -> bytes:
    return _exactly(source, _number(source))


def _header(source: BinaryIO) -> Iterator[tuple[str, bytes]]:
    while count := _number(source):
        if count < 0:  # then the length of the part follows, for those who pass over it
            count = -count
            _number(source)
        for _ in range(count):
            yield _text(source).decode(), _text(source)


def _write_header(made: BinaryIO, header: Mapping[str, bytes], sync: bytes) -> None:
    made.write(_MAGIC + _as_number(len(header)))
    for key, value in header.items():
        for part in (key.encode(), value):
            made.write(_as_number(len(part)) + part)
    made.write(_as_number(0) + sync)


def _write_block(made: BinaryIO, count: int, packed: bytes, sync: bytes) -> None:
    made.write(_as_number(count) + _as_number(len(packed)) + packed + sync)


# --- codecs ---------------------------------------------------------------------------------------


def _deflate(block: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_DEFLATE)
    return packer.compress(block) + packer.flush()


def _inflate(block: bytes) -> bytes:
    return zlib.decompress(block, _DEFLATE)


def _to_snappy(block: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    packed: bytes = pa.compress(block, "snappy", asbytes=True)
    return packed + zlib.crc32(block).to_bytes(4)


def from_snappy(block: bytes, most: int = 1 << 31) -> bytes:
    """A block's bytes. Raises ValueError where they are more than `most`, or are damaged."""
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    length = shift = at = 0
    while True:  # the length leads, seven bits a byte
        length |= (block[at] & 0x7F) << shift
        if block[at] < 0x80:
            break
        at, shift = at + 1, shift + 7
    if length > most:
        raise ValueError(f"a block has more than {most} bytes")
    found: bytes = pa.decompress(block[:-4], length, "snappy", asbytes=True)
    if zlib.crc32(found).to_bytes(4) != block[-4:]:
        raise ValueError("a block's checksum is wrong")
    return found


def _to_zstandard(block: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    packed: bytes = pa.compress(block, "zstd", asbytes=True)
    return packed


def _from_zstandard(block: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    found: bytes = pa.CompressedInputStream(pa.BufferReader(block), "zstd").read()
    return found


_CODECS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "null": (bytes, bytes),
    "deflate": (_deflate, _inflate),
    "snappy": (_to_snappy, from_snappy),
    "zstandard": (_to_zstandard, _from_zstandard),
}
