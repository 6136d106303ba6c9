"""Editing a metadata document: what was asked for changes, all else stays as it was."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.domain.errors import FormatUnsupported, MetadataUnreadable
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, SnapshotRef
from meltline.domain.units import to_millis
from tests.lives.histories import instant

NAME = TableName("lake", ("air",), "t")
NOW = instant(9)
BASE = "s3://b/air/t/metadata/00041-aaaa.metadata.json"


def written(**more: Any) -> dict[str, Any]:
    """A metadata file of two snapshots, on day 1 and day 2, with things that nobody here knows."""
    moments = [to_millis(instant(day)) for day in (1, 2)]
    document: dict[str, Any] = {
        "format-version": 3,
        "table-uuid": "0b0c2a52-6a2a-4f6c-8f5e-2f3c1d1b7a10",
        "location": "s3://b/air/t",
        "last-updated-ms": moments[1],
        "schemas": [{"fields": [{"id": 1, "name": "v", "type": "variant", "required": False}]}],
        "next-row-id": 77,
        "a-field-of-tomorrow": {"deep": [1, {"x": 9_007_199_254_740_993}], "none": None},
        "properties": {"owner": "ж", "n": "1"},
        "current-snapshot-id": 2,
        "snapshots": [
            {"snapshot-id": n + 1, "timestamp-ms": at, "manifest-list": f"s3://b/{n}.avro",
             "unknown": n} for n, at in enumerate(moments)
        ],
        "snapshot-log": [{"snapshot-id": n + 1, "timestamp-ms": at}
                         for n, at in enumerate(moments)],
        "metadata-log": [{"timestamp-ms": moments[0], "metadata-file": "s3://b/old.json"}],
        "refs": {"main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 3}},
    }  # fmt: skip
    return {**document, **more}


def opened(document: Mapping[str, Any], base: str = BASE, now: Any = NOW) -> MetadataEditor:
    return MetadataEditor.read(NAME, base, json.dumps(document).encode(), now)


def successor(document: MetadataEditor) -> tuple[str, dict[str, Any]]:
    found = document.successor("new")
    plain = gzip.decompress(found.content) if ".gz." in found.location else found.content
    after: dict[str, Any] = json.loads(plain)
    return found.location, after


def test_an_edit_of_properties_leaves_every_other_field_as_it_was() -> None:
    before = written()
    document = opened(before)
    document.set_properties({"k": "v"}, ["n"])
    _, after = successor(document)
    assert after["properties"] == {"owner": "ж", "k": "v"}
    touched = {"properties", "metadata-log", "last-updated-ms"}
    assert {k: v for k, v in after.items() if k not in touched} == {
        k: v for k, v in before.items() if k not in touched
    }


def test_a_tag_adds_one_ref_and_moves_nothing() -> None:
    before = written()
    document = opened(before)
    document.set_ref(SnapshotRef("t", 1, is_branch=False, max_ref_age_ms=2**63 - 1))
    _, after = successor(document)
    assert after["refs"] == {
        **before["refs"], "t": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 2**63 - 1}
    }  # fmt: skip
    for field in ("current-snapshot-id", "snapshot-log", "snapshots", "a-field-of-tomorrow"):
        assert after[field] == before[field]


def test_moving_main_changes_the_current_snapshot_and_says_so_in_the_log() -> None:
    before = written()
    document = opened(before)
    document.set_ref(replace(document.state.refs[MAIN], snapshot_id=1))
    _, after = successor(document)
    assert after["current-snapshot-id"] == 1
    assert after["refs"]["main"] == {**before["refs"]["main"], "snapshot-id": 1}
    assert after["snapshot-log"] == [
        *before["snapshot-log"], {"timestamp-ms": to_millis(NOW), "snapshot-id": 1}
    ]  # fmt: skip


def test_a_removed_tag_is_gone_and_one_that_was_not_there_is_no_change() -> None:
    document = opened(written(refs={**written()["refs"], "t": {"snapshot-id": 1, "type": "tag"}}))
    document.remove_ref("never")
    assert not document.is_changed
    document.remove_ref("t")
    assert successor(document)[1]["refs"].keys() == {"main"}


def test_a_file_of_format_1_without_refs_gets_main_along_with_its_first_tag() -> None:
    old = written(**{"format-version": 1})
    del old["refs"]
    document = opened(old)
    document.set_ref(SnapshotRef("t", 1, is_branch=False))
    assert successor(document)[1]["refs"] == {
        "main": {"snapshot-id": 2, "type": "branch"},
        "t": {"snapshot-id": 1, "type": "tag"},
    }


def test_setting_what_is_there_already_is_no_change() -> None:
    document = opened(written())
    document.set_properties({"n": "1"}, ["never"])
    document.set_ref(document.state.refs[MAIN])
    assert not document.is_changed


# --- the next file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "properties", "expected"),
    [
        (BASE, {}, "s3://b/air/t/metadata/00042-new.metadata.json"),
        ("s3://b/x/v7.metadata.json", {}, "s3://b/air/t/metadata/00000-new.metadata.json"),
        ("s3://b/99999-a.metadata.json", {}, "s3://b/air/t/metadata/100000-new.metadata.json"),
        (BASE, {"write.metadata.path": "s3://m/t/"}, "s3://m/t/00042-new.metadata.json"),
        (
            BASE,
            {"write.metadata.compression-codec": "GZIP"},
            "s3://b/air/t/metadata/00042-new.gz.metadata.json",
        ),
        (
            BASE,
            {"write.metadata.compression-codec": "none"},
            "s3://b/air/t/metadata/00042-new.metadata.json",
        ),
    ],
    ids=["next", "unnumbered", "large", "own path", "gzip", "none"],
)
def test_the_next_file_is_named_as_iceberg_names_it(
    base: str, properties: dict[str, str], expected: str
) -> None:
    location, after = successor(opened(written(properties=properties), base))
    assert location == expected
    assert after["properties"] == properties


def test_a_compression_that_iceberg_does_not_know_is_refused() -> None:
    document = opened(written(properties={"write.metadata.compression-codec": "zst"}))
    with pytest.raises(MetadataUnreadable, match="no Iceberg can write"):
        document.successor("new")


def test_a_compressed_file_is_read_by_what_it_holds() -> None:
    content = gzip.compress(json.dumps(written()).encode())
    assert MetadataEditor.read(NAME, BASE, content, NOW).state.refs.keys() == {"main"}


def log_after(count: int, **properties: str) -> list[str]:
    """The files that the log names after an edit, of a table whose log named so many."""
    names = [{"timestamp-ms": n, "metadata-file": f"f{n}"} for n in range(count)]
    keys = {k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()}
    _, after = successor(opened(written(**{"metadata-log": names, "properties": keys})))
    assert after["metadata-log"][-1] == {
        "timestamp-ms": written()["last-updated-ms"], "metadata-file": BASE
    }  # fmt: skip
    return [entry["metadata-file"] for entry in after["metadata-log"]]


def test_the_log_gains_the_base_and_keeps_as_many_as_the_table_says() -> None:
    assert log_after(3, write__metadata__previous_versions_max="3") == ["f1", "f2", BASE]
    assert log_after(3, write__metadata__previous_versions_max="0") == [BASE]
    assert len(log_after(150)) == 100
    assert len(log_after(150, write__metadata__previous_versions_max="odd")) == 100


def test_where_the_engine_deletes_what_its_log_forgets_we_forget_nothing_for_it() -> None:
    kept = log_after(
        5,
        write__metadata__previous_versions_max="2",
        write__metadata__delete_after_commit__enabled="true",
    )
    assert kept == ["f0", "f1", "f2", "f3", "f4", BASE]


def test_a_commit_is_never_earlier_than_the_one_before() -> None:
    document = opened(written(), now=instant(2) - timedelta(hours=1))
    document.set_ref(replace(document.state.refs[MAIN], snapshot_id=1))
    _, after = successor(document)
    assert after["last-updated-ms"] == to_millis(instant(2))
    assert after["snapshot-log"][-1]["timestamp-ms"] == to_millis(instant(2))


# --- what is not edited ---------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8b\x08 cut", b"[]", b'{"a": 1}'])
def test_what_cannot_be_read_is_not_written_either(content: bytes) -> None:
    with pytest.raises(MetadataUnreadable):
        MetadataEditor.read(NAME, BASE, content, NOW)


def test_a_format_to_come_is_left_alone() -> None:
    with pytest.raises(FormatUnsupported):
        opened(written(**{"format-version": 4}))


def test_an_edit_that_would_spoil_the_table_is_seen_before_it_is_written() -> None:
    document = opened(written())
    document.set_ref(SnapshotRef("t", 99, is_branch=False))
    with pytest.raises(MetadataUnreadable, match="does not follow"):
        document.successor("new")
