"""A manifest's blocks as Avro data that any Avro decoder takes, without decoding them here.

A container's block, once inflated, is a run of records. The number of them before it, and a zero
behind it, make it an Avro array of records. So a file's frame is walked and checked here, and what
decodes arrays fast decodes the entries.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from meltline.adapters.manifests.avro_container import AvroFile, from_snappy

_DATUM = 1024 * 1024  # bytes of records in one datum, about
_LARGEST_BLOCK = 64 * 1024 * 1024  # writers make blocks of 64 KiB; noise may announce anything
_A_PART = 256 * 1024  # bytes of a block that are unpacked at once
_SMALLEST_RECORD = 8  # bytes: an entry has more fields than this, of a byte each at the least
_SYNC = 16
_WANTED = {
    "manifest_entry": frozenset(
        ("status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file")
    ),
    "data_file": frozenset(("content", "file_path", "file_format", "file_size_in_bytes")),
}
_LONG = ["null", "long"]
ENTRIES_READ = json.dumps(
    {
        "type": "array",
        "items": {
            "type": "record",
            "name": "n0",
            "fields": [
                {"name": "status", "type": "int"},
                {"name": "snapshot_id", "type": _LONG, "default": None},
                {"name": "sequence_number", "type": _LONG, "default": None},
                {"name": "file_sequence_number", "type": _LONG, "default": None},
                {
                    "name": "data_file",
                    "type": {
                        "type": "record",
                        "name": "n1",
                        "fields": [
                            {"name": "content", "type": "int", "default": 0},
                            {"name": "file_path", "type": "string"},
                            {"name": "file_format", "type": "string"},
                            {"name": "file_size_in_bytes", "type": "long"},
                        ],
                    },
                },
            ],
        },
    }
)
"""The schema to which a datum is resolved: what reachability needs of an entry."""


@dataclass(frozen=True)
class Block:
    """A block as it lies in the file: how many records, and their bytes, packed."""

    records: int
    packed: bytes


@dataclass(frozen=True)
class Datum:
    """Records as one Avro array."""

    records: int
    content: bytes


@lru_cache(maxsize=1024)
def entries_schema(header: bytes) -> str:
    """The schema of a manifest's data, by the schema in its header.

    Every name that nobody asks for is made up anew, in order: what partitions are called differs
    from table to table, but is read by nobody; so few schemas stand for many tables.

    Raises:
        ValueError: It is not a schema, or none of entries.
    """
    names: dict[str, str] = {}
    items = _renamed(json.loads(header), _WANTED["manifest_entry"], names)
    return json.dumps({"type": "array", "items": items})


def _renamed(schema: Any, wanted: frozenset[str], names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(one, frozenset(), names) for one in schema]
    if isinstance(schema, str):
        return names.get(schema, schema)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "array":
        return {"type": kind, "items": _renamed(schema["items"], frozenset(), names)}
    if kind == "map":
        return {"type": kind, "values": _renamed(schema["values"], frozenset(), names)}
    if kind not in ("record", "fixed"):
        if not isinstance(kind, str | list | dict) or kind == "enum":
            raise ValueError(f"{kind} is no part of a manifest's schema")
        return _renamed(kind, wanted, names)
    name = names[schema["name"]] = f"n{len(names)}"
    if kind == "fixed":
        return {"type": kind, "name": name, "size": schema["size"]}
    fields = [
        {
            "name": field["name"] if field["name"] in wanted else f"f{number}",
            "type": _renamed(field["type"], _WANTED.get(field["name"], frozenset()), names),
        }
        for number, field in enumerate(schema["fields"])
    ]
    return {"type": kind, "name": name, "fields": fields}


def blocks(file: AvroFile) -> Iterator[Block]:
    """A file's blocks in their order, the frame of each checked when it is asked for.

    Raises:
        ValueError: The frame is damaged, or the file ends in a block.
    """
    body, at = file.body, 0
    while at < len(body):
        records, start = _number(body, at)
        length, start = _number(body, start)
        at = start + length + _SYNC
        if records < 0 or length < 0 or body[start + length : at] != file.sync:
            raise ValueError("a block does not end where it says")
        yield Block(records, body[start : start + length])


def datums(codec: str, packed: Iterable[Block]) -> Iterator[Datum]:
    """The records of blocks, in data of about a mebibyte.

    Raises:
        ValueError: A block cannot be unpacked, or is too short for its records.
    """
    unpack, parts, records, length = _UNPACK[codec], [], 0, 0
    for block in packed:
        content = unpack(block.packed)
        # The decoder makes room for as many records as are announced before it reads one.
        if block.records * _SMALLEST_RECORD > len(content):
            raise ValueError(f"{block.records} records in {len(content)} bytes")
        if block.records:  # a zero would end the array
            parts += [_as_number(block.records), content]
            records, length = records + block.records, length + len(content)
        if length >= _DATUM:
            yield Datum(records, b"".join([*parts, b"\0"]))
            parts, records, length = [], 0, 0
    if parts:
        yield Datum(records, b"".join([*parts, b"\0"]))


def _number(content: bytes, start: int) -> tuple[int, int]:
    """A number and where it ends: seven bits a byte, ten bytes at the most."""
    shift = value = 0
    for at in range(start, min(start + 10, len(content))):
        value |= (content[at] & 0x7F) << shift
        if content[at] < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise ValueError("the file ends in a number")


def _as_number(number: int) -> bytes:
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def _bounded(content: bytes) -> bytes:
    if len(content) > _LARGEST_BLOCK:
        raise ValueError(f"a block has more than {_LARGEST_BLOCK} bytes")
    return content


def _inflate(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)  # neither header nor checksum
    try:
        content = unpacker.decompress(packed, _LARGEST_BLOCK)
    except zlib.error as odd:
        raise ValueError(str(odd)) from odd
    if not unpacker.eof:
        raise ValueError("a block's bytes end too early, or are too many")
    return content


def _from_zstandard(packed: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly, and few files are packed so

    parts, length = [], 0
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        # In parts: room is made for all that is asked for, and not given back where noise ends it.
        while length <= _LARGEST_BLOCK and (part := stream.read(_A_PART)):
            parts.append(part)
            length += len(part)
    return _bounded(b"".join(parts))


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "null": _bounded,
    "deflate": _inflate,
    "snappy": lambda packed: from_snappy(packed, _LARGEST_BLOCK),
    "zstandard": _from_zstandard,
}
