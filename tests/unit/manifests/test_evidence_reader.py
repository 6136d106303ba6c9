"""The gate's quick reading of a manifest gives what its full reading gives, or refuses the file."""

import io
import zlib
from collections.abc import Sequence
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.manifests.pyiceberg_reader import (
    ListedManifest,
    LiveColumns,
    live_columns,
    live_files,
)
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.lake.avro_files import Entry, manifest_bytes

MARKER = b"0123456789abcdef"


def maybe(kind: Any) -> list[Any]:
    return ["null", kind]


def pairs(number: int, value: str) -> dict[str, Any]:
    """A map whose keys are no text, as Iceberg has it in Avro."""
    name = f"k{number}_v{number + 1}"
    fields = [
        {"name": "key", "type": "int", "field-id": number},
        {"name": "value", "type": value, "field-id": number + 1},
    ]
    entry = {"type": "record", "name": name, "fields": fields}
    return {"type": "array", "items": entry, "logicalType": "map"}


def fields(*rows: tuple[int, str, Any]) -> list[dict[str, Any]]:
    return [{"field-id": number, "name": name, "type": kind} for number, name, kind in rows]


DECIMAL = {
    **{"type": "fixed", "name": "d", "size": 4},
    **{"logicalType": "decimal", "precision": 9, "scale": 0},
}
PARTITION = fields(
    (1000, "price", maybe(DECIMAL)), (1001, "city", maybe("string")), (1002, "on", "boolean")
)
FILE = fields(
    (134, "content", "int"),
    (100, "file_path", "string"),
    (101, "file_format", "string"),
    (102, "partition", {"type": "record", "name": "r102", "fields": PARTITION}),
    (103, "record_count", "long"),
    (104, "file_size_in_bytes", "long"),
    (108, "column_sizes", maybe(pairs(117, "long"))),
    (109, "value_counts", maybe(pairs(119, "long"))),
    (125, "lower_bounds", maybe(pairs(126, "bytes"))),
    (131, "key_metadata", maybe("bytes")),
    (132, "split_offsets", maybe({"type": "array", "items": "long", "element-id": 133})),
    (140, "sort_order_id", maybe("int")),
    (143, "referenced_data_file", maybe("string")),
)


def written(file: Sequence[dict[str, Any]]) -> Any:
    """A manifest's schema, its data file's fields in whatever order."""
    entry = fields(
        (0, "status", "int"),
        (1, "snapshot_id", maybe("long")),
        (3, "sequence_number", maybe("long")),
        (2, "data_file", {"type": "record", "name": "r2", "fields": list(file)}),
    )
    return fastavro.parse_schema({"type": "record", "name": "manifest_entry", "fields": entry})


def per_column(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    entry = st.fixed_dictionaries({"key": st.integers(0, 300), "value": kind})
    return st.none() | st.lists(entry, max_size=4)


NUMBER, TEXT = st.integers(0, 2**62), st.text(max_size=12)
ENTRIES = st.fixed_dictionaries(
    {
        "status": st.integers(0, 2),
        "snapshot_id": st.none() | NUMBER,
        "sequence_number": st.none() | NUMBER,
        "data_file": st.fixed_dictionaries(
            {
                "content": st.integers(0, 2),
                "file_path": TEXT,
                "file_format": st.sampled_from(["PARQUET", "ORC", "PUFFIN"]),
                "partition": st.fixed_dictionaries(
                    {
                        "price": st.none() | st.decimals(0, 99999, places=0),
                        "city": st.none() | TEXT,
                        "on": st.booleans(),
                    }
                ),
                "record_count": NUMBER,
                "file_size_in_bytes": NUMBER,
                "column_sizes": per_column(NUMBER),
                "value_counts": per_column(NUMBER),
                "lower_bounds": per_column(st.binary(max_size=90)),
                "key_metadata": st.none() | st.binary(max_size=5),
                "split_offsets": st.none() | st.lists(NUMBER, max_size=3),
                "sort_order_id": st.none() | st.integers(0, 3),
                "referenced_data_file": st.none() | TEXT,
            }
        ),
    }
)


def avro(rows: Sequence[Any], schema: Any, **how: Any) -> bytes:
    made = io.BytesIO()
    fastavro.writer(made, schema, rows, sync_marker=MARKER, **how)
    return made.getvalue()


def both(content: bytes, rows: int | None = None) -> tuple[LiveColumns, LiveColumns]:
    manifest = ListedManifest("m.avro", len(content), rows)
    full = live_files(manifest, content)
    expected = LiveColumns([file.path for file in full], [file.bytes for file in full])
    return live_columns(manifest, content), expected


@settings(deadline=None)
@given(
    rows=st.lists(ENTRIES, max_size=12),
    file=st.permutations(FILE),
    codec=st.sampled_from(["null", "deflate"]),
    block=st.sampled_from([1, 100, 16000]),
)
def test_the_quick_reading_finds_what_the_full_one_finds(
    rows: list[Any], file: list[dict[str, Any]], codec: str, block: int
) -> None:
    content = avro(rows, written(file), codec=codec, sync_interval=block)
    quick, full = both(content, len(rows))
    assert quick == full
    live = [row["data_file"] for row in rows if row["status"] != 2]
    assert quick.paths == [one["file_path"] for one in live]
    assert quick.sizes == [one["file_size_in_bytes"] for one in live]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_of_every_format(version: int) -> None:
    entries = [Entry(f"f{n}", n, FileKind.DATA, EntryStatus(n % 3), 1, 1) for n in range(9)]
    quick, full = both(manifest_bytes(version, entries), 9)
    assert quick == full
    assert quick.paths == [entry.path for entry in entries if entry.is_live]


def test_fields_that_a_writer_lets_be_null_are_read_where_they_are_not() -> None:
    loose = [{**one, "type": maybe(one["type"])} if one["field-id"] == 100 else one for one in FILE]
    row = {"status": 1, "data_file": {"file_path": "a", **plain()}}
    quick, full = both(avro([row], written(loose)))
    assert (quick, full.paths) == (full, ["a"])
    row["data_file"]["file_path"] = None
    assert "null" in refusal(avro([row], written(loose)))


@pytest.mark.parametrize(("number", "kind"), [(100, "bytes"), (100, "double"), (104, "string")])
def test_a_field_of_another_type_is_refused(number: int, kind: str) -> None:
    other = [{**one, "type": kind} if one["field-id"] == number else one for one in FILE]
    value = {"bytes": b"a", "double": 1.0, "string": "1"}[kind]
    row = {"status": 1, "data_file": {"file_path": "a", **plain()}}
    row["data_file"]["file_path" if number == 100 else "file_size_in_bytes"] = value
    assert f"field {number}" in refusal(avro([row], written(other)))


def plain() -> dict[str, Any]:
    names = ("content", "record_count", "file_size_in_bytes")
    return {"file_format": "", "partition": {"on": True}, **dict.fromkeys(names, 1)}


def blocks(*parts: tuple[int, bytes], schema: Any = None) -> bytes:
    """A file of such blocks: how many records each announces, and what it holds."""
    made = avro([], schema or written(FILE))
    for records, block in parts:
        made += bytes([2 * records]) + bytes([2 * len(block)]) + block + MARKER
    return made


def one_entry() -> bytes:
    row = {"status": 1, "data_file": {"file_path": "a", **plain()}}
    return avro([row], written(FILE))[len(avro([], written(FILE))) + 2 : -len(MARKER)]


def refusal(content: bytes, rows: int | None = None) -> str:
    """Why a manifest is refused of which no list says how long it is."""
    with pytest.raises(MetadataUnreadable) as refused:
        live_columns(ListedManifest("m", 0, rows), content)
    return refused.value.found


def test_a_file_that_does_not_add_up_is_refused() -> None:
    entry = one_entry()
    whole = blocks((1, entry), (1, entry))
    assert live_columns(ListedManifest("m", len(whole), 2), whole).paths == ["a", "a"]
    assert "2 entries" in refusal(whole, 3)
    miscounted = live_columns(ListedManifest("m", len(whole), 3), whole)
    assert miscounted == LiveColumns(["a", "a"], [1, 1], miscounted.contradiction)
    assert "2 entries where its list says 3" in miscounted.contradiction
    assert "broken block" in refusal(whole[:-1] + b"?")
    assert "announced" in refusal(whole[: -len(MARKER) - 1])
    assert "take" in refusal(blocks((1, entry + entry)), 1)
    assert "announced" in refusal(blocks((2, entry)), 2)
    assert "announced" in refusal(blocks((63, b"")))


def test_an_entry_that_reaches_into_the_next_block_is_refused() -> None:
    entry = one_entry()
    for cut in range(len(entry)):
        torn = blocks((1, entry), (1, entry[:cut]), (1, entry[cut:] + entry), (1, entry))
        refusal(torn)
        refusal(blocks((1, entry[:cut]), (0, entry[cut:])))


def test_thousands_of_small_blocks_are_all_read_in_their_order() -> None:
    """PyIceberg makes a block of each entry; they are gone through some thousands at a time."""
    entries = [Entry(f"f{n}", n, FileKind.DATA, EntryStatus.ADDED, 1, 1) for n in range(9_000)]
    rows = list(fastavro.reader(io.BytesIO(manifest_bytes(2, entries))))
    schema = fastavro.reader(io.BytesIO(manifest_bytes(2, []))).writer_schema
    content = avro(rows, schema, codec="deflate", sync_interval=1)
    quick, full = both(content, 9_000)
    assert quick == full
    assert quick.paths == [entry.path for entry in entries]
    assert "8999 entries" in refusal(content[: content.rindex(MARKER, 0, -16) + 16], 9_000)


@settings(deadline=None)
@given(rows=st.lists(ENTRIES, min_size=1, max_size=3), at=NUMBER, noise=st.binary(min_size=1))
def test_noise_inside_a_block_ends_no_process(rows: list[Any], at: int, noise: bytes) -> None:
    """PyIceberg's decoder would follow a wrong length to wherever in memory it leads."""
    schema = written(FILE)
    content = avro(rows, schema, sync_interval=1 if at % 2 else 16_000)
    begin = len(avro([], schema)) + 4
    at = begin + at % (len(content) - begin - len(MARKER))
    broken = (content[:at] + noise + content[at + len(noise) :])[: len(content)]
    manifest = ListedManifest("m", len(content), len(rows))
    try:
        assert len(live_columns(manifest, broken).paths) <= len(rows)
    except MetadataUnreadable as refused:
        assert refused.found


def test_noise_is_refused() -> None:
    whole = blocks((1, one_entry()))
    for content in (b"", b"?" * 400, whole[:4] + b"?" * 400, whole[:-40]):
        refusal(content)
    deflated = zlib.compress(one_entry())[2:-4]
    broken = avro([], written(FILE), codec="deflate")
    broken += bytes([2, 2 * len(deflated)]) + b"\xff" * len(deflated) + MARKER
    refusal(broken)
