"""Manifests and lists for cold: other paths, and every other byte of meaning as it was."""

import io
import struct
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.adapters.archive.rewriting.manifests import (
    Amended,
    ColdManifest,
    EntryTotals,
    Need,
    NeededFile,
    is_readable,
    listed_manifests,
    needed_files,
    rewrite_list,
    rewrite_manifest,
    same_records,
)
from meltline.adapters.manifests.avro_container import AvroFile
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes

COLD = "s3://ice/archive"
HOT = "s3://lake/t"
each_format = pytest.mark.parametrize("version", [1, 2, 3])


def cold(path: str) -> str:
    return mirrored(path, COLD)


def entry(name: str, status: EntryStatus = EntryStatus.ADDED, size: int = 10) -> Entry:
    return Entry(f"{HOT}/{name}", size, FileKind.DATA, status, 7, 3)


def ref(content: bytes, added: int, existing: int = 0, deleted: int = 0) -> ManifestFile:
    return ManifestFile(f"{HOT}/m.avro", len(content), added, existing, deleted)


def read(content: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(content)))


ENTRIES = (
    entry("a"),
    entry("b b#", EntryStatus.EXISTING, 20),
    entry("gone", EntryStatus.DELETED),
)


@each_format
def test_only_paths_differ_and_the_header_does_not(version: int) -> None:
    content = manifest_bytes(version, ENTRIES)
    made, totals = rewrite_manifest(ref(content, 1, 1, 1), content, COLD, {})
    expected = read(content)
    for one in expected:
        one["data_file"]["file_path"] = cold(one["data_file"]["file_path"])
    assert read(made) == expected
    assert totals == EntryTotals(files=2, bytes=30, rows=2)
    assert AvroFile.read(made).header == AvroFile.read(content).header
    assert AvroFile.read(made).sync == AvroFile.read(content).sync


@each_format
def test_a_manifest_needs_its_live_files_alone(version: int) -> None:
    content = manifest_bytes(version, ENTRIES)
    found = list(needed_files(ref(content, 1, 1, 1), content))
    assert found == [
        NeededFile(f"{HOT}/a", 10, Need.COPY),
        NeededFile(f"{HOT}/b b#", 20, Need.COPY),
    ]


@pytest.mark.parametrize("counts", [(2, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_manifest_that_does_not_hold_what_its_list_says_is_refused(
    counts: tuple[int, int, int],
) -> None:
    content = manifest_bytes(2, ENTRIES)
    with pytest.raises(MetadataUnreadable, match="cannot be handed over"):
        list(needed_files(ref(content, *counts), content))
    with pytest.raises(MetadataUnreadable):
        rewrite_manifest(ref(content, *counts), content, COLD, {})


def test_a_manifest_of_another_length_or_cut_short_is_refused() -> None:
    content = manifest_bytes(2, ENTRIES)
    for odd in (content + b"x", content[:-1], content[:40], b"", b"Obj\x01"):
        with pytest.raises(MetadataUnreadable):
            list(needed_files(ref(content, 1, 1, 1), odd))
        with pytest.raises(MetadataUnreadable):
            list(needed_files(ManifestFile("m", 0), odd))
        assert not is_readable(odd)
    assert is_readable(content)


def test_a_path_that_cannot_be_mirrored_is_refused() -> None:
    content = manifest_bytes(2, [entry("../a")])
    with pytest.raises(MetadataUnreadable, match="mirrored"):
        rewrite_manifest(ref(content, 1), content, COLD, {})


# --- delete files ---------------------------------------------------------------------------------


def field(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def bounds(number: int, name: str) -> dict[str, Any]:
    pair = [
        {"name": "key", "type": "int", "field-id": number + 1},
        {"name": "value", "type": "bytes", "field-id": number + 2},
    ]
    items = {"type": "record", "name": f"k{number + 1}_v{number + 2}", "fields": pair}
    return field(number, name, {"type": "array", "items": items, "logicalType": "map"})


DELETES = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            {"name": "content", "type": "int", "field-id": 134},
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "field-id": 102, "type": {
                "type": "record", "name": "r102", "fields": [
                    field(1000, "day", {"type": "int", "logicalType": "date"}),
                    field(1001, "price", {
                        "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
                    field(1002, "at", {"type": "long", "logicalType": "timestamp-micros"}),
                ]}},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            bounds(125, "lower_bounds"),
            bounds(128, "upper_bounds"),
            field(131, "key_metadata", "bytes"),
            field(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
            field(143, "referenced_data_file", "string"),
            field(144, "content_offset", "long"),
            field(145, "content_size_in_bytes", "long"),
        ]}},
    ],
}  # fmt: skip


def delete_entry(**changes: Any) -> dict[str, Any]:
    path = f"{HOT}/a".encode()
    file = {
        "content": 1, "file_path": f"{HOT}/d", "file_format": "PARQUET", "record_count": 5,
        "file_size_in_bytes": 100, "split_offsets": [4], "referenced_data_file": None,
        "partition": {"day": date(2026, 1, 2), "price": Decimal("1.50"), "at": None},
        "lower_bounds": [{"key": 2147483546, "value": path}, {"key": 1, "value": b"\x01"}],
        "upper_bounds": [{"key": 2147483546, "value": path}],
        "content_offset": None, "content_size_in_bytes": None, "key_metadata": None,
    }  # fmt: skip
    return {"status": 1, "data_file": {**file, **changes}}


def deletes(*entries: Mapping[str, Any]) -> bytes:
    made = io.BytesIO()
    metadata = {"format-version": "2", "content": "deletes", "schema": "{}"}
    fastavro.writer(made, DELETES, entries, codec="deflate", metadata=metadata)
    return made.getvalue()


def rewritten(amended: Mapping[str, Amended], *entries: Mapping[str, Any]) -> list[Any]:
    content = deletes(*entries)
    made, _ = rewrite_manifest(ManifestFile("m", 0), content, COLD, amended)
    return [one["data_file"] for one in read(made)]


def test_position_deletes_get_their_new_length_and_bounds_and_no_row_groups() -> None:
    amended = {f"{HOT}/d": Amended(90, cold(f"{HOT}/a"), cold(f"{HOT}/b"))}
    (file,) = rewritten(amended, delete_entry())
    expected = delete_entry(
        file_path=cold(f"{HOT}/d"), file_size_in_bytes=90, split_offsets=None,
        lower_bounds=[
            {"key": 2147483546, "value": cold(f"{HOT}/a").encode()}, {"key": 1, "value": b"\x01"},
        ],
        upper_bounds=[{"key": 2147483546, "value": cold(f"{HOT}/b").encode()}],
    )  # fmt: skip
    assert file == expected["data_file"]


def test_a_vector_keeps_its_place_in_its_file() -> None:
    vector = delete_entry(
        file_path=f"{HOT}/v.puffin", file_format="PUFFIN", referenced_data_file=f"{HOT}/a",
        content_offset=4, content_size_in_bytes=40, lower_bounds=None, upper_bounds=None,
        split_offsets=[4],
    )  # fmt: skip
    (file,) = rewritten({f"{HOT}/v.puffin": Amended(120)}, vector)
    assert file == {
        **vector["data_file"], "file_path": cold(f"{HOT}/v.puffin"), "file_size_in_bytes": 120,
        "referenced_data_file": cold(f"{HOT}/a"),
    }  # fmt: skip


def test_deletes_that_are_gone_name_no_place_in_hot_either() -> None:
    (file,) = rewritten({}, {**delete_entry(referenced_data_file=f"{HOT}/a"), "status": 2})
    assert file["file_size_in_bytes"] == 100
    assert file["referenced_data_file"] == cold(f"{HOT}/a")
    for name in ("lower_bounds", "upper_bounds"):
        assert file[name][0]["value"] == cold(f"{HOT}/a").encode()


def test_equality_deletes_are_copied_as_they_are() -> None:
    content = deletes(delete_entry(content=2))
    (needed,) = needed_files(ManifestFile("m", 0), content)
    assert needed == NeededFile(f"{HOT}/d", 100, Need.COPY)
    made, totals = rewrite_manifest(ManifestFile("m", 0), content, COLD, {})
    (file,) = (one["data_file"] for one in read(made))
    assert file == {**delete_entry(content=2)["data_file"], "file_path": cold(f"{HOT}/d")}
    assert totals == EntryTotals(1, 100, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file_format": "ORC"}, "position deletes in ORC"),
        ({"content": 0, "file_format": "LANCE"}, "LANCE"),
        ({"content": 3}, "content 3"),
        ({"key_metadata": b"key"}, "encrypted"),
    ],
)
def test_what_nobody_here_knows_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MetadataUnreadable, match=said):
        list(needed_files(ManifestFile("m", 0), deletes(delete_entry(**changes))))


# --- lists ----------------------------------------------------------------------------------------


@each_format
def test_a_list_names_the_copies_with_their_lengths_and_totals(version: int) -> None:
    manifests = [Manifest(f"{HOT}/{name}.avro", 100, 7, 3, ENTRIES) for name in ("one", "two")]
    content = list_bytes(version, manifests)
    there = {
        cold(one.path): ColdManifest(200 + number, EntryTotals(number, 30, 2))
        for number, one in enumerate(manifests)
    }
    made = rewrite_list("l", content, COLD, there)
    expected = read(content)
    for number, row in enumerate(expected):
        row["manifest_path"] = cold(row["manifest_path"])
        row["manifest_length"] = 200 + number
    assert read(made) == expected
    assert listed_manifests("l", made) == there
    assert AvroFile.read(content).header.items() <= AvroFile.read(made).header.items()


def test_a_list_that_was_not_written_here_tells_nothing() -> None:
    with pytest.raises(MetadataUnreadable):
        listed_manifests("l", list_bytes(2, []))


# --- the container --------------------------------------------------------------------------------

ANY = {
    "type": "record",
    "name": "any",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "f", "type": ["null", "double"]},
        {"name": "b", "type": "bytes"},
        {"name": "u", "type": {"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "n": LONGS,
            "f": st.none() | st.floats(allow_nan=False),
            "b": st.binary(max_size=30),
            "u": st.binary(min_size=16, max_size=16),
            "d": st.integers(-(2**31), 2**31 - 1),  # most of them are no dates of Python's
        }
    ),
    max_size=20,
)


@given(RECORDS, st.sampled_from(["null", "deflate", "bzip2", "xz", "snappy", "zstandard"]))
def test_a_file_rewritten_with_its_own_records_holds_the_same(
    records: list[dict[str, Any]], codec: str
) -> None:
    first = io.BytesIO()
    plain = {**ANY, "fields": [dict(f) for f in ANY["fields"]]}  # type: ignore[union-attr]
    fastavro.writer(first, plain, [], metadata={"said": "so"})
    file = AvroFile.read(first.getvalue())
    file = AvroFile({**file.header, "avro.codec": codec.encode()}, file.sync, b"")
    content = file.with_records(records, {})
    again = AvroFile.read(content)
    assert list(again.records()) == records
    assert again.header["avro.schema"] == file.header["avro.schema"]
    assert same_records(content, again.with_records(again.records(), {}))
    assert again.with_records(again.records(), {}) == content


def test_a_large_file_is_cut_into_blocks() -> None:
    entries = [entry(f"{number:05}") for number in range(5000)]
    content = manifest_bytes(2, entries)
    made, totals = rewrite_manifest(ref(content, 5000), content, COLD, {})
    assert totals.files == 5000
    assert len(list(fastavro.block_reader(io.BytesIO(made)))) > 3
    assert [one["data_file"]["file_path"] for one in read(made)] == [cold(e.path) for e in entries]


def test_an_unknown_codec_is_refused_by_name() -> None:
    content = manifest_bytes(2, ENTRIES).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(ValueError, match="lzma"):
        AvroFile.read(content)


def test_a_block_whose_length_lies_is_refused() -> None:
    content = manifest_bytes(2, ENTRIES)
    sync = AvroFile.read(content).sync
    broken = content[: -len(sync)] + struct.pack("16s", b"other marker")
    assert not is_readable(broken)
