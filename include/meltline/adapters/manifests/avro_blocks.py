"""Repackages a manifest's blocks as Avro arrays, so that any Avro decoder can decode them fast.

Both decoders of the index use it. An inflated block is a run of records. Preceded by their number
and followed by a zero, it is an Avro array of records. So this process only walks and checks the
container, and a decoder of arrays decodes the entries (decision 002). Counts are checked, because a
decoder allocates memory for as many records as a block announces (decision 033).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from meltline.adapters.manifests.avro_codecs import unpack
from meltline.adapters.manifests.avro_container import Block, as_number

_DATUM = 1024 * 1024  # approximate bytes of records in one datum
_SMALLEST_RECORD = 8  # bytes: an entry has more fields, of at least one byte each
_FIELDS = {
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
"""The reader schema of a datum: the fields of an entry that reachability needs."""


@dataclass(frozen=True)
class Datum:
    """Several records as one Avro array."""

    records: int
    content: bytes


@lru_cache(maxsize=1024)
def entries_schema(header: bytes) -> str:
    """Returns the schema of a manifest's data, from the schema in its header.

    Names of unused fields are replaced by numbered ones. Names of partition fields differ from
    table to table, but no decoder reads them; so a few schemas cover many tables.

    Raises:
        ValueError: It is not a schema, or not one of manifest entries.
    """
    names: dict[str, str] = {}
    items = _renamed(json.loads(header), _FIELDS["manifest_entry"], names)
    return json.dumps({"type": "array", "items": items})


def _renamed(schema: Any, kept_names: frozenset[str], names: dict[str, str]) -> Any:
    match schema:
        case str():
            return names.get(schema, schema)
        case list():
            return [_renamed(branch, frozenset(), names) for branch in schema]
        case {"type": "array"}:
            return {"type": "array", "items": _renamed(schema["items"], frozenset(), names)}
        case {"type": "map"}:
            return {"type": "map", "values": _renamed(schema["values"], frozenset(), names)}
        case {"type": "fixed"}:
            return {"type": "fixed", "name": _made_up(schema, names), "size": schema["size"]}
        case {"type": "record"}:
            return _renamed_record(schema, kept_names, names)
        case {"type": str() | list() | dict() as kind} if kind != "enum":
            return _renamed(kind, kept_names, names)
    raise ValueError(f"{schema} is no part of a manifest's schema")


def _made_up(schema: Any, names: dict[str, str]) -> str:
    name = names[schema["name"]] = f"n{len(names)}"
    return name


def _renamed_record(schema: Any, kept_names: frozenset[str], names: dict[str, str]) -> Any:
    name = _made_up(schema, names)
    fields = [
        {
            "name": field["name"] if field["name"] in kept_names else f"f{number}",
            "type": _renamed(field["type"], _FIELDS.get(field["name"], frozenset()), names),
        }
        for number, field in enumerate(schema["fields"])
    ]
    return {"type": "record", "name": name, "fields": fields}


def datums(codec: str, packed: Iterable[Block]) -> Iterator[Datum]:
    """Yields the records of blocks, in data of about a mebibyte.

    Raises:
        ValueError: A block cannot be unpacked, or is too short for its records.
    """
    parts: list[bytes] = []
    records = length = 0
    for block in packed:
        content = unpack(codec, block.packed)
        # The decoder allocates memory for all announced records before it reads one.
        if block.records * _SMALLEST_RECORD > len(content):
            raise ValueError(f"{block.records} records in {len(content)} bytes")
        if block.records:  # a zero would end the array
            parts += [as_number(block.records), content]
            records, length = records + block.records, length + len(content)
        if length >= _DATUM:
            yield Datum(records, b"".join([*parts, b"\0"]))
            parts, records, length = [], 0, 0
    if parts:
        yield Datum(records, b"".join([*parts, b"\0"]))
