"""Files as writers leave them, and what disks, networks and other tools may make of them.

Each sample is a metadata file, a manifest list or a manifest of one of the formats 1 to 3; each
damage is one that chance makes of its bytes, or of a JSON document's values.
"""

import gzip
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import fastavro

from meltline.adapters.manifests.avro_container import AvroFile
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes
from tests.lake.lake import Lake, Table

METADATA, MANIFEST_LIST, MANIFEST = "metadata", "manifest list", "manifest"
KINDS = (METADATA, MANIFEST_LIST, MANIFEST)
_CODECS = ("null", "deflate", "bzip2")  # others need libraries that are not here
_OURS = (b"snappy", b"zstandard")


@dataclass(frozen=True)
class Sample:
    """One sound file, and what the file above it says of it.

    Attributes:
        entries: How many entries of each status a manifest's list counts.
    """

    kind: str
    version: int
    path: str
    content: bytes
    entries: tuple[int, int, int] = (0, 0, 0)

    def damaged(self, random: Random) -> "Sample":
        """The same file after accidents, or with another value in its document."""
        if self.kind == METADATA and random.random() < 0.6:
            return replace(self, content=_another_value(self.content, random))
        return self.hurt(random)

    def hurt(self, random: Random) -> "Sample":
        """The same file after one accident to its bytes, or a few."""
        content = self.content
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            content = random.choice(ACCIDENTS)(content, random)
        return replace(self, content=content)


def _flip(content: bytes, random: Random) -> bytes:
    """Some bits of some bytes, the front (schemas, lengths, counts) as often as all the rest."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        if made:
            end = random.choice((len(made), min(len(made), 64)))
            made[random.randrange(end)] ^= 1 << random.randrange(8)
    return bytes(made)


def _behind_the_header(content: bytes, random: Random) -> bytes:
    """One byte of an Avro file's first block, or of whatever else comes late, is another."""
    made = bytearray(content)
    if made:
        at = random.randrange(len(made) // 2, len(made))
        made[at] = random.choice((0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))
    return bytes(made)


def _cut(content: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
    return random.choice((content[:end], content[start:], content[:start] + content[end:]))


def _swap(content: bytes, random: Random) -> bytes:
    """Two stretches of one length change their places."""
    length = random.choice((1, 8, 64, 512))
    if len(content) < 2 * length:
        return content[::-1]
    one = random.randrange(len(content) - 2 * length + 1)
    other = random.randrange(one + length, len(content) - length + 1)
    made = bytearray(content)
    made[one : one + length], made[other : other + length] = (
        content[other : other + length],
        content[one : one + length],
    )
    return bytes(made)


def _grow(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    more = random.choice(
        (
            random.randbytes(random.choice((1, 9, 4096))),
            b"\xff" * 10,  # the longest number that Avro knows, and more
            content[: random.randrange(len(content) + 1)],
            b"[" * 100_000,
            b"9" * 5_000,
        )
    )
    return content[:at] + more + content[at:]


_WORDS = ((b'"long"', b'"null"'), (b'"string"', b'"double"'), (b'"bytes"', b'"float"'))
"""Types of one length in letters, so that nothing else of a header changes."""


def _another_type(content: bytes, random: Random) -> bytes:
    """A field of the schema is of another type; a file without a schema stays as it is."""
    old, new = random.choice((*_WORDS, *(pair[::-1] for pair in _WORDS)))
    places = [match.start() for match in re.finditer(re.escape(old), content)]
    if not places:
        return content
    at = random.choice(places)
    return content[:at] + new + content[at + len(old) :]


ACCIDENTS: Sequence[Callable[[bytes, Random], bytes]] = (
    _flip,
    _behind_the_header,
    _cut,
    _swap,
    _grow,
    _another_type,
)


# --- values of a document -------------------------------------------------------------------------

_VALUES: Sequence[Any] = (
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, 1e308, float("inf"),
    float("nan"), "", "x", "\x00", "\ud800", "a\nb", "s3://", "file:", "../..", [], [None], {},
    {"": None}, "9" * 30, [[[[]]]],
)  # fmt: skip


def _another_value(content: bytes, random: Random) -> bytes:
    """A document in which one value, anywhere, is of another kind, gone, or there twice."""
    document = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    above, key = random.choice(list(_places(document)))
    match random.randrange(3):
        case 0 if isinstance(above, list):
            above.insert(key, above[key])
        case 1:
            del above[key]
        case _:
            above[key] = random.choice(_VALUES)
    made = json.dumps(document).encode()
    return gzip.compress(made, mtime=0) if content[:2] == b"\x1f\x8b" else made


def _places(value: Any) -> Any:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


# --- sound files ----------------------------------------------------------------------------------


@cache
def samples(kind: str) -> tuple[Sample, ...]:
    """Sound files of a kind, of each format, codec and length of block."""
    make = {METADATA: _metadata, MANIFEST_LIST: _manifest_lists, MANIFEST: _manifests}[kind]
    return tuple(sample for version in (1, 2, 3) for sample in make(version))


def _metadata(version: int) -> list[Sample]:
    table = _table(version)
    content, path = table.lake.store.read(table.metadata_location), table.metadata_location
    packed = gzip.compress(content, mtime=0)
    return [Sample(METADATA, version, path, some) for some in (content, content, packed)]


def _table(version: int) -> Table:
    table = Lake().on(0).table("t", version=version)
    for name in "abc":
        table.append(name)
    table.branch("audit", table.head)
    table.tag("kept", table.head)
    table.overwrite("d")
    return table


def _manifest_lists(version: int) -> list[Sample]:
    manifests = [
        Manifest(f"s3://lake/t/metadata/m{n}.avro", 4096 + n, n, n, tuple(_entries()[: n % 5]))
        for n in range(40)
    ]
    content = list_bytes(version, manifests)
    return [
        Sample(MANIFEST_LIST, version, "s3://lake/t/metadata/snap.avro", some)
        for some in _repacked(content)
    ]


def _manifests(version: int) -> list[Sample]:
    entries = _entries()
    counts = [sum(entry.status is status for entry in entries) for status in EntryStatus]
    by_status = dict(zip(EntryStatus, counts, strict=True))
    counted = tuple(
        by_status[status]
        for status in (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)
    )
    assert len(counted) == 3
    content = manifest_bytes(version, entries)
    return [
        Sample(MANIFEST, version, "s3://lake/t/metadata/m.avro", some, counted)
        for some in (*_repacked(content), *_repacked(_with_statistics(content)))
    ]


def _entries() -> list[Entry]:
    return [
        Entry(
            f"s3://lake/t/data/day={n}/{n:08}.parquet", n, FileKind.DATA, EntryStatus(n % 3), n, n
        )
        for n in range(60)
    ]


def _with_statistics(content: bytes) -> bytes:
    """The same manifest with what engines say of each column, most of a real one's bytes."""
    reader = fastavro.reader(io.BytesIO(content))
    schema: Any = json.loads(json.dumps(reader.writer_schema))
    record = next(f for f in schema["fields"] if f["name"] == "data_file")["type"]
    record["fields"] += [
        _map(108, "column_sizes", 117, "long"),
        _map(125, "lower_bounds", 126, "bytes"),
        {
            "field-id": 132,
            "name": "split_offsets",
            "type": ["null", {"type": "array", "items": "long", "element-id": 133}],
            "default": None,
        },
    ]
    rows: list[Any] = list(reader)
    for number, row in enumerate(rows):
        row["data_file"] |= {
            "column_sizes": [{"key": n, "value": 1000 * n} for n in range(1, 9)],
            "lower_bounds": [{"key": n, "value": bytes([n]) * 16} for n in range(1, 9)],
            "split_offsets": [4, 4 + number] if number % 2 else None,
        }
    return _written(schema, rows, dict(reader.metadata), "null", 16_000)


def _map(number: int, name: str, key: int, value: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key},
        {"name": "value", "type": value, "field-id": key + 1},
    ]
    entry = {"type": "record", "name": f"k{key}_v{key + 1}", "fields": fields}
    kind = {"type": "array", "items": entry, "logicalType": "map"}
    return {"field-id": number, "name": name, "type": ["null", kind], "default": None}


def _repacked(content: bytes) -> list[bytes]:
    """The same records by each codec, in blocks of one each, of a few, and in one."""
    reader = fastavro.reader(io.BytesIO(content))
    schema, rows = reader.writer_schema, list(reader)
    metadata = dict(reader.metadata)
    packed = [
        _written(schema, rows, metadata, codec, block)
        for codec in _CODECS
        for block in (1, 400, 16_000)
    ]
    file = AvroFile.read(content)
    for codec in _OURS:
        other = replace(file, header={**file.header, "avro.codec": codec})
        packed.append(other.with_records(file.records(), {}))
    return packed


def _written(schema: Any, rows: Any, metadata: dict[str, str], codec: str, block: int) -> bytes:
    made = io.BytesIO()
    kept = {k: v for k, v in metadata.items() if not k.startswith("avro.")}
    marker = b"0123456789abcdef"
    fastavro.writer(
        made, schema, rows, codec=codec, sync_interval=block, metadata=kept, sync_marker=marker
    )
    return made.getvalue()
