"""A manifest's blocks as Avro arrays: the same records, and nothing of what is damaged."""

import io
import json
import zlib
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.adapters.manifests.avro_blocks import (
    ENTRIES_READ,
    datums,
    entries_schema,
)
from meltline.adapters.manifests.avro_codecs import LARGEST_BLOCK, pack, unpack
from meltline.adapters.manifests.avro_container import AvroFile, Block, as_number
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.lake.avro_files import Entry, manifest_bytes

CODECS = ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"]


def entries(count: int) -> list[Entry]:
    return [
        Entry(
            f"s3://b/t/data/{n}.parquet",
            n,
            FileKind.DATA,
            EntryStatus(n % 3),
            n,
            n,
        )
        for n in range(count)
    ]  # fmt: skip


def with_codec(content: bytes, codec: str) -> bytes:
    file = AvroFile.read(content)
    header = {**file.header, "avro.codec": codec.encode()}
    return AvroFile(header, file.sync, b"").with_records(file.records(), {})


def decoded(content: bytes) -> list[dict[str, Any]]:
    """What a decoder of arrays finds, resolved to what is asked of an entry."""
    file = AvroFile.read(content)
    schema = json.loads(entries_schema(file.header["avro.schema"]))
    found: list[dict[str, Any]] = []
    for datum in datums(file.codec, file.blocks()):
        source = io.BytesIO(datum.content)
        rows: Any = fastavro.schemaless_reader(source, schema, json.loads(ENTRIES_READ))
        assert len(rows) == datum.records
        assert not source.read(1)
        found += rows
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_manifest_s_data_are_its_records_in_their_order(version: int, codec: str) -> None:
    content = with_codec(manifest_bytes(version, entries(3_000)), codec)
    expected: list[Any] = list(fastavro.reader(io.BytesIO(manifest_bytes(version, entries(3_000)))))
    found = decoded(content)
    names = ("file_path", "file_format", "file_size_in_bytes")
    assert [tuple(row["data_file"][name] for name in names) for row in found] == [
        tuple(row["data_file"][name] for name in names) for row in expected
    ]
    for name in ("status", "snapshot_id", "sequence_number", "file_sequence_number"):
        assert [row[name] for row in found] == [row.get(name) for row in expected]


def test_many_blocks_make_few_data_and_large_ones_stay_apart() -> None:
    file = AvroFile.read(manifest_bytes(2, entries(40_000)))
    found = list(datums(file.codec, file.blocks()))
    assert 1 < len(found) < len(list(file.blocks())) / 10
    assert sum(datum.records for datum in found) == 40_000


def schema_with(partition: list[dict[str, Any]]) -> bytes:
    file = {
        "type": "record",
        "name": "r2",
        "fields": [
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "partition", "type": {"type": "record", "name": "r102", "fields": partition}},
            {"name": "file_format", "type": "string"},
            {"name": "file_size_in_bytes", "type": "long"},
        ],
    }
    fields = [{"name": "status", "type": "int"}, {"name": "data_file", "type": file}]
    return json.dumps({"type": "record", "name": "manifest_entry", "fields": fields}).encode()


def test_schemas_that_differ_in_the_partitions_names_only_are_one() -> None:
    day = {"type": "int", "logicalType": "date"}
    one = schema_with([{"name": "day", "type": ["null", day], "field-id": 1000}])
    other = schema_with([{"name": "ts_day", "type": ["null", day], "field-id": 1003}])
    numbered = schema_with([{"name": "day", "type": ["null", "long"]}])
    assert entries_schema(one) == entries_schema(other) != entries_schema(numbered)


def test_a_partition_named_like_what_is_asked_for_is_not_taken_for_it() -> None:
    schema = json.loads(entries_schema(schema_with([{"name": "file_path", "type": "int"}])))
    file = schema["items"]["fields"][1]["type"]["fields"]
    assert [field["name"] for field in file] == [
        "file_path", "f1", "file_format", "file_size_in_bytes",
    ]  # fmt: skip
    assert [field["name"] for field in file[1]["type"]["fields"]] == ["f0"]


def test_a_type_that_is_named_again_keeps_its_meaning() -> None:
    amount = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal"}
    again = [{"name": "a", "type": amount}, {"name": "b", "type": ["null", "decimal_9_2"]}]
    schema = json.loads(entries_schema(schema_with(again)))
    fields = schema["items"]["fields"][1]["type"]["fields"][1]["type"]["fields"]
    assert fields[1]["type"] == ["null", fields[0]["type"]["name"]]
    fastavro.parse_schema(schema)


@pytest.mark.parametrize("schema", [b"{}", b"3", b'{"type": "enum", "name": "e", "symbols": []}'])
def test_what_is_no_schema_of_entries_is_refused(schema: bytes) -> None:
    with pytest.raises(ValueError, match="schema"):
        entries_schema(schema)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_damaged_frame_is_refused_or_changes_no_frame(at: int, change: int) -> None:
    file = AvroFile.read(manifest_bytes(2, entries(900)))
    body = bytearray(file.body)
    body[at % len(body)] ^= change
    damaged = AvroFile(file.header, file.sync, bytes(body))
    try:
        found = list(damaged.blocks())
    except ValueError:
        return
    lengths = [len(block.packed) for block in found]
    assert lengths == [len(block.packed) for block in file.blocks()]


def test_a_file_cut_short_is_refused() -> None:
    file = AvroFile.read(manifest_bytes(2, entries(900)))
    for cut in (1, 16, 17, 500):
        with pytest.raises(ValueError, match="end"):
            list(AvroFile(file.header, file.sync, file.body[:-cut]).blocks())


def packed(content: bytes) -> bytes:
    return zlib.compress(content, wbits=-15)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (
            Block(1 << 40, packed(b"x" * 100)),
            "records in 100 bytes",
        ),  # a decoder would make room for them all
        (
            Block(1, packed(bytes(1 << 27))),
            "too many",
        ),  # a hundred and thirty kilobytes that become gigabytes
        (Block(1, packed(b"x" * 100)[:-3]), "too early"),
        (Block(1, b"\xff" * 50), "invalid"),
    ],
)
def test_a_block_that_would_cost_memory_or_is_cut_is_refused(block: Block, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(datums("deflate", [block]))


@pytest.mark.parametrize("codec", CODECS)
def test_no_reader_of_records_unpacks_more_than_a_block_may_have(codec: str) -> None:
    file = AvroFile.read(manifest_bytes(2, entries(1)))
    bomb = pack(codec, bytes(LARGEST_BLOCK + 1))
    body = as_number(1) + as_number(len(bomb)) + bomb + file.sync
    damaged = AvroFile({**file.header, "avro.codec": codec.encode()}, file.sync, body)
    with pytest.raises(ValueError, match=r"too many|more than"):
        next(damaged.records())


@given(st.sampled_from(CODECS), st.integers(0), st.integers(0, 255), st.booleans())
def test_noise_in_a_block_is_refused_in_one_way_whatever_packed_it(
    codec: str, at: int, to: int, is_cut: bool
) -> None:
    packed = bytearray(pack(codec, b"s3://b/t/data/1.parquet" * 9))
    if is_cut:
        del packed[at % len(packed) :]
    else:
        packed[at % len(packed)] = to
    with suppress(ValueError):
        unpack(codec, bytes(packed))


def test_records_are_not_looked_for_where_there_are_fewer_bytes() -> None:
    nothing = json.dumps({"type": "record", "name": "nothing", "fields": []}).encode()
    body = as_number(1 << 40) + as_number(3) + b"abc" + bytes(16)
    with pytest.raises(ValueError, match="1099511627776 records in 3 bytes"):
        next(AvroFile({"avro.schema": nothing}, bytes(16), body).records())


def test_an_empty_block_does_not_end_the_others() -> None:
    (datum,) = datums("null", [Block(1, b"x" * 10), Block(0, b""), Block(1, b"y" * 10)])
    assert datum.records == 2
    assert datum.content == b"\x02xxxxxxxxxx\x02yyyyyyyyyy\x00"
