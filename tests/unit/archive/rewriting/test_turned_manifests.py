"""Manifests of data files that are turned to cold around the bytes of their entries."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.adapters.archive.rewriting.manifests import (
    needed_files,
    rewrite_manifest,
    same_records,
)
from meltline.adapters.archive.rewriting.turned_manifests import Examined, examined
from meltline.adapters.manifests.avro_container import AvroFile
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from tests.lake.avro_files import Entry, manifest_bytes

COLD = "s3://ice/archive"
HOT = "s3://lake/t"
M = ManifestFile(f"{HOT}/m.avro", 0)
LONG = ["null", "long"]
BOUND = {
    "type": "record",
    "name": "bound",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}


def entry_schema(*before_path: dict[str, Any], snapshot: object = LONG) -> dict[str, Any]:
    file = {
        "type": "record",
        "name": "file",
        "fields": [
            {"name": "content", "type": "int"},
            *before_path,
            {"name": "file_path", "type": "string"},
            {"name": "file_format", "type": "string"},
            {"name": "partition", "type": ["null", "string"]},
            {"name": "record_count", "type": "long"},
            {"name": "file_size_in_bytes", "type": "long"},
            {"name": "lower_bounds", "type": {"type": "array", "items": BOUND}},
            {"name": "referenced_data_file", "type": ["null", "string"]},
        ],
    }
    return {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "status", "type": "int"},
            {"name": "snapshot_id", "type": snapshot},
            {"name": "sequence_number", "type": snapshot},
            {"name": "data_file", "type": file},
        ],
    }


def record(path: str = f"{HOT}/a", **changes: Any) -> dict[str, Any]:
    file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": None,
        "record_count": 3,
        "file_size_in_bytes": 10,
        "lower_bounds": [],
        "referenced_data_file": None,
    }
    outer = {"status": 1, "snapshot_id": 7, "sequence_number": None}
    outer |= {name: changes.pop(name) for name in outer if name in changes}
    return {**outer, "data_file": file | changes}


def manifest(schema: dict[str, Any], *records: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    fastavro.writer(content, schema, records, codec="deflate", metadata={"said": "so"})
    return content.getvalue()


def require_as_rewritten(content: bytes) -> Examined:
    """What is turned is, record by record, what is decoded, changed and encoded."""
    read = examined(M, content, COLD)
    made, totals = rewrite_manifest(M, content, COLD, {})
    assert read.turned is not None
    assert same_records(read.turned.content, made)
    assert read.turned.totals == totals
    assert AvroFile.read(read.turned.content).header == AvroFile.read(content).header
    assert read.missing == tuple(needed_files(M, content))
    return read


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_manifest_that_is_turned_is_the_one_that_is_rewritten(version: int) -> None:
    statuses = (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)
    entries = [
        Entry(f"{HOT}/{name}", 10, FileKind.DATA, status, 7, 3)
        for name, status in zip(("a", "b b#", "gone"), statuses, strict=True)
    ]
    read = require_as_rewritten(manifest_bytes(version, entries))
    assert [file.path for file in read.missing] == [f"{HOT}/a", f"{HOT}/b b#"]


numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
paths = st.text("aä/#", max_size=80).map(lambda name: f"{HOT}/{name}x")
records = st.builds(
    record,
    paths,
    status=st.sampled_from([0, 1, 2]),
    snapshot_id=numbers,
    sequence_number=numbers,
    content=st.sampled_from([0, 0, 0, 2]),
    partition=st.none() | paths,
    record_count=st.integers(0, 2**40),
    lower_bounds=st.lists(st.builds(dict, key=st.integers(0, 9), value=st.binary(max_size=9))),
)


@given(st.lists(records, max_size=30, unique_by=lambda one: one["data_file"]["file_path"]))
def test_whatever_else_an_entry_holds_stays_as_it_is(made: list[dict[str, Any]]) -> None:
    content = manifest(entry_schema(), *made)
    if any(one["data_file"]["content"] == 2 for one in made):
        read = examined(M, content, COLD)
        assert read.turned is None
        assert read.missing == tuple(needed_files(M, content))
    else:
        require_as_rewritten(content)


def test_numbers_that_look_like_a_path_are_none() -> None:
    looks = {"length": 2, "slash": -24, "letter": -49}  # written as the path's length and letters
    schema = entry_schema(*({"name": name, "type": "int"} for name in looks))
    content = manifest(schema, record("/a", **looks))
    ((_, encoded),) = AvroFile.read(content).encoded_records()
    assert encoded.count(b"\x04/a") == 2
    assert examined(M, content, COLD).turned is None


def test_what_has_more_than_numbers_before_its_path_is_decoded_and_encoded() -> None:
    schema = entry_schema({"name": "note", "type": "string"})
    content = manifest(schema, record(note=f"{HOT}/a"))
    read = examined(M, content, COLD)
    assert read.turned is None
    assert [file.path for file in read.missing] == [f"{HOT}/a"]


@pytest.mark.parametrize("change", [{"content": 1}, {"referenced_data_file": f"{HOT}/b"}], ids=str)
def test_an_entry_of_which_more_than_the_path_changes_is_not_turned(change: Any) -> None:
    content = manifest(entry_schema(), record(f"{HOT}/plain"), record(**change))
    read = examined(M, content, COLD)
    assert read.turned is None
    assert len(read.missing) == 2


def test_what_cold_surely_has_is_not_missing() -> None:
    content = manifest(entry_schema(), record(f"{HOT}/a"), record(f"{HOT}/b"), record(f"{HOT}/c"))
    present = {(mirrored(f"{HOT}/a", COLD), 10), (mirrored(f"{HOT}/b", COLD), 11)}
    read = examined(M, content, COLD, present)
    assert [file.path for file in read.missing] == [f"{HOT}/b", f"{HOT}/c"]
    assert read.turned is not None
    assert read.turned.totals.files == 3


@pytest.mark.parametrize("odd", [{"path": f"{HOT}/../a"}, {"file_format": "CSV"}], ids=str)
def test_what_cannot_be_copied_is_refused_in_the_first_pass(odd: Any) -> None:
    with pytest.raises(MetadataUnreadable, match="cannot be handed over"):
        examined(M, manifest(entry_schema(), record(**odd)), COLD)
