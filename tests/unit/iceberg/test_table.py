"""Metadata documents of every format, and those that must not be trusted."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from meltline.domain.errors import FormatUnsupported, MetadataUnreadable
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.table_metadata import (
    MAIN,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
    TableMetadata,
)
from meltline.domain.units import from_millis
from tests.lives.histories import NAME, UUID

WHERE = "s3://lake/air/flights/metadata/00003-5f2c.metadata.json"
FIRST, SECOND = 3051729675574597004, 3055729675574597004
T1, T2 = 1515100955770, 1555100955770
Document = dict[str, Any]


def document(**changes: Any) -> Document:
    """Format 2 metadata as Iceberg writes it; a change of None leaves the field out."""
    written: Document = {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "s3://lake/air/flights",
        "last-sequence-number": 2,
        "last-updated-ms": T2,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": SECOND,
        "refs": {"main": {"snapshot-id": SECOND, "type": "branch"}},
        "snapshots": [
            {
                "sequence-number": 1,
                "snapshot-id": FIRST,
                "timestamp-ms": T1,
                "summary": {"operation": "append", "total-data-files": "1"},
                "manifest-list": "s3://lake/air/flights/metadata/snap-1.avro",
                "schema-id": 0,
            },
            {
                "sequence-number": 2,
                "snapshot-id": SECOND,
                "parent-snapshot-id": FIRST,
                "timestamp-ms": T2,
                "summary": {"operation": "overwrite"},
                "manifest-list": "s3://lake/air/flights/metadata/snap-2.avro",
                "schema-id": 0,
            },
        ],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [
            {"timestamp-ms": T1, "snapshot-id": FIRST},
            {"timestamp-ms": T2, "snapshot-id": SECOND},
        ],
        "metadata-log": [
            {"timestamp-ms": T1, "metadata-file": "s3://lake/air/flights/metadata/00002.json"}
        ],
    }
    changed = {**written, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return {key: value for key, value in changed.items() if value is not None}


def altered(*path: str | int, to: Any) -> Document:
    """The document with one value deep inside changed; `...` takes it away."""
    written = copy.deepcopy(document())
    at: Any = written
    for step in path[:-1]:
        at = at[step]
    if to is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return written


def parsed(written: object) -> TableMetadata:
    return parse_table(NAME, WHERE, 4711, written)


def test_format_2_is_read_as_it_stands() -> None:
    state = parsed(document())
    assert (state.name, state.uuid, state.format_version) == (NAME, UUID, 2)
    assert (state.metadata_location, state.metadata_bytes) == (WHERE, 4711)
    assert state.location == "s3://lake/air/flights"
    assert state.last_updated == from_millis(T2)
    assert state.heads == {MAIN: SECOND}
    assert state.snapshots.keys() == {FIRST, SECOND}
    assert state.snapshots[SECOND].parent_id == FIRST
    assert state.snapshots[SECOND].committed_at - from_millis(T2) == timedelta(0)
    assert state.snapshots[FIRST].parent_id is None
    assert state.snapshots[FIRST].summary["total-data-files"] == "1"
    assert state.snapshots[FIRST].manifest_list.endswith("snap-1.avro")
    assert state.snapshots[FIRST].inline_manifests == ()
    assert state.snapshot_log == (
        SnapshotLogEntry(from_millis(T1), FIRST),
        SnapshotLogEntry(from_millis(T2), SECOND),
    )
    assert state.metadata_log == ("s3://lake/air/flights/metadata/00002.json",)


def test_format_3_with_row_lineage_is_read() -> None:
    written = document(format_version=3, next_row_id=100, encryption_keys=[])
    written["snapshots"][1] |= {"first-row-id": 50, "added-rows": 50}
    assert parsed(written).format_version == 3


def test_refs_keep_their_ages_and_counts() -> None:
    refs = {
        "main": {"snapshot-id": SECOND, "type": "branch", "min-snapshots-to-keep": 3},
        "audit": {"snapshot-id": FIRST, "type": "BRANCH", "max-snapshot-age-ms": 5},
        "eoy": {"snapshot-id": FIRST, "type": "tag", "max-ref-age-ms": 9},
    }
    state = parsed(document(refs=refs))
    assert state.refs["eoy"] == SnapshotRef("eoy", FIRST, is_branch=False, max_ref_age_ms=9)
    assert state.refs["audit"] == SnapshotRef("audit", FIRST, is_branch=True, max_snapshot_age_ms=5)
    assert state.refs["main"].min_snapshots_to_keep == 3
    assert state.heads == {"main": SECOND, "audit": FIRST}


def test_statistics_of_both_kinds_are_named_with_their_sizes() -> None:
    one = {"snapshot-id": FIRST, "statistics-path": "s3://lake/a.puffin", "file-size-in-bytes": 12}
    two = {"snapshot-id": SECOND, "statistics-path": "s3://lake/b.stats", "file-size-in-bytes": 34}
    state = parsed(document(statistics=[one], partition_statistics=[two]))
    assert state.statistics == (
        StatisticsFile(FIRST, "s3://lake/a.puffin", 12),
        StatisticsFile(SECOND, "s3://lake/b.stats", 34),
    )


def format_1(**changes: Any) -> Document:
    """Format 1: no sequence numbers, refs or schemas list; the uuid is optional."""
    written = document(
        format_version=1, refs=None, last_sequence_number=None, schemas=None, **changes
    )
    for snapshot in written["snapshots"]:
        del snapshot["sequence-number"]
    return written


def test_format_1_has_its_head_in_the_current_snapshot() -> None:
    state = parsed(format_1())
    assert state.refs == {MAIN: SnapshotRef(MAIN, SECOND, is_branch=True)}
    assert state.snapshots[SECOND].sequence_number == 0


def test_format_1_without_a_uuid_is_known_by_its_location() -> None:
    one, same = parsed(format_1(table_uuid=None)), parsed(format_1(table_uuid=None))
    other = parsed(format_1(table_uuid=None, location="s3://lake/air/other"))
    assert one.uuid == same.uuid
    assert one.uuid != other.uuid
    assert "s3://lake/air/flights" in one.uuid


def test_format_1_may_name_its_manifests_inline() -> None:
    written = format_1()
    del written["snapshots"][0]["manifest-list"]
    written["snapshots"][0]["manifests"] = ["s3://lake/m1.avro", "s3://lake/m2.avro"]
    snapshot = parsed(written).snapshots[FIRST]
    assert (snapshot.manifest_list, snapshot.inline_manifests) == (
        "", ("s3://lake/m1.avro", "s3://lake/m2.avro"),
    )  # fmt: skip


def test_a_parent_of_minus_one_is_none() -> None:
    assert (
        parsed(altered("snapshots", 1, "parent-snapshot-id", to=-1)).snapshots[SECOND].parent_id
        is None
    )


@pytest.mark.parametrize("current", [-1, None])
def test_a_table_never_written_is_empty_and_no_error(current: int | None) -> None:
    state = parsed(document(current_snapshot_id=current, refs={}, snapshots=[], snapshot_log=[]))
    assert (state.snapshots, state.refs, state.snapshot_log) == ({}, {}, ())


def test_main_missing_among_the_refs_is_the_current_snapshot() -> None:
    refs = {"eoy": {"snapshot-id": FIRST, "type": "tag"}}
    assert parsed(document(refs=refs)).heads == {MAIN: SECOND}


def test_a_parent_that_was_expired_ends_the_ancestry() -> None:
    written = altered("snapshots", 0, "snapshot-id", to=99)
    state = parsed(written)
    assert [s.snapshot_id for s in state.ancestry(SECOND)] == [SECOND]
    assert not state.descends_from(SECOND, FIRST)


def test_a_head_descends_from_itself_and_its_ancestors_only() -> None:
    state = parsed(document())
    assert state.descends_from(SECOND, SECOND)
    assert state.descends_from(SECOND, FIRST)
    assert not state.descends_from(FIRST, SECOND)
    assert list(state.ancestry(12345)) == []


def test_a_table_is_linear_when_all_its_snapshots_are_one_line_that_ends_at_main() -> None:
    assert parsed(document()).is_linear
    rolled_back = {MAIN: {"snapshot-id": FIRST, "type": "branch"}}
    behind = altered("current-snapshot-id", to=FIRST) | {"refs": rolled_back}
    assert not parsed(behind).is_linear
    assert not parsed(altered("snapshots", 0, "snapshot-id", to=99)).is_linear
    assert not parsed(altered("snapshots", 1, "sequence-number", to=0)).is_linear


def test_a_table_owns_its_location_and_its_data_and_metadata_paths_once() -> None:
    properties = {
        "write.data.path": "s3://fast/flights",
        "write.metadata.path": "s3://meta/flights",
        "write.object-storage.path": "s3://fast/flights",
    }
    state = parsed(document(properties=properties))
    assert state.owned_locations == (
        "s3://lake/air/flights", "s3://fast/flights", "s3://meta/flights",
    )  # fmt: skip


@pytest.mark.parametrize(("flag", "engine"), [("true", True), (" TRUE", True), ("false", False)])
def test_whether_the_engine_deletes_metadata_itself_is_a_property(flag: str, engine: bool) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": flag}
    assert parsed(document(properties=properties)).engine_deletes_metadata is engine
    assert parsed(document()).engine_deletes_metadata is False


@pytest.mark.parametrize(
    "written",
    [
        document(format_version=4),
        document(format_version=0),
        document(format_version="2"),
        document(format_version=2.5),
        document(encryption_keys=[{"key-id": "k1", "encrypted-key-metadata": "AA=="}]),
        document(properties={"encryption.key-id": "k1"}),
    ],
)
def test_an_unknown_format_and_an_encrypted_table_are_passed_over_by_name(
    written: Document,
) -> None:
    with pytest.raises(FormatUnsupported) as refused:
        parsed(written)
    assert refused.value.object == WHERE
    assert str(NAME) in refused.value.message
    assert refused.value.next


def odd_documents() -> dict[str, object]:
    """What must not be trusted, by what is wrong with it."""
    main = {"snapshot-id": SECOND, "type": "branch"}
    return {
        "a list": [document()],
        "nothing": None,
        "a text": "{}",
        "a number": 7,
        "an empty object": {},
        "no format": document(format_version=None),
        "no location": document(location=None),
        "no time": document(last_updated_ms=None),
        "a time that is a word": document(last_updated_ms="yesterday"),
        "a time beyond the calendar": document(last_updated_ms=10**18),
        "snapshots as an object": document(snapshots={"1": {}}),
        "a snapshot that is null": document(snapshots=[None]),
        "a snapshot without id": altered("snapshots", 0, "snapshot-id", to=...),
        "a snapshot id as text": altered("snapshots", 0, "snapshot-id", to=str(FIRST)),
        "a snapshot id as a fraction": altered("snapshots", 0, "snapshot-id", to=1.5),
        "a snapshot id as a flag": altered("snapshots", 0, "snapshot-id", to=True),
        "a snapshot time as text": altered("snapshots", 0, "timestamp-ms", to=str(T1)),
        "a parent as text": altered("snapshots", 1, "parent-snapshot-id", to=str(FIRST)),
        "no manifest list": altered("snapshots", 0, "manifest-list", to=...),
        "a summary that is a list": altered("snapshots", 0, "summary", to=["append"]),
        "a missing head": document(refs={"main": {"snapshot-id": 1, "type": "branch"}}),
        "a current snapshot that is missing": document(refs=None, current_snapshot_id=1),
        "two heads": document(current_snapshot_id=FIRST),
        "a current snapshot as text": document(refs=None, current_snapshot_id=str(SECOND)),
        "a head that is missing": document(
            refs={"main": {**main, "snapshot-id": 1}}, current_snapshot_id=1
        ),
        "a ref of no kind": document(refs={"main": main, "t": {"snapshot-id": FIRST}}),
        "a ref of an odd kind": document(
            refs={"main": main, "t": {"snapshot-id": FIRST, "type": "bookmark"}}
        ),
        "refs as a list": document(refs=["main"]),
        "a ref age as text": document(refs={"main": {**main, "max-ref-age-ms": "9"}}),
        "properties as a list": document(properties=["a=b"]),
        "a log without times": document(snapshot_log=[{"snapshot-id": FIRST}]),
        "a log of numbers": document(snapshot_log=[FIRST]),
        "a metadata log of texts": document(metadata_log=["00002.json"]),
        "statistics without a size": document(
            statistics=[{"snapshot-id": FIRST, "statistics-path": "s3://lake/a.puffin"}]
        ),
    }


def trusted_today() -> dict[str, object]:
    """What the parser takes today although the spec does not allow it."""
    no_list = altered("snapshots", 0, "manifest-list", to=...)
    null_list, empty_list = copy.deepcopy(no_list), copy.deepcopy(no_list)
    null_list["snapshots"][0]["manifests"] = None
    empty_list["snapshots"][0]["manifests"] = []
    broken_inline = copy.deepcopy(no_list)
    broken_inline["snapshots"][0]["manifests"] = ["s3://lake/a\nb.avro"]
    twice = document()
    twice["snapshots"].append({**twice["snapshots"][0], "manifest-list": "s3://lake/other.avro"})
    return {
        "a manifest list with a line break": altered(
            "snapshots", 0, "manifest-list", to="s3://lake/a\nb.avro"
        ),
        "an inline manifest with a line break": broken_inline,
        "a location that is null": {**document(), "location": None},
        "a location that is a list": document(location=["s3://lake"]),
        "format 2 without a uuid": document(table_uuid=None),
        "a uuid that is more than one": document(table_uuid="x' OR '1'='1"),
        "a uuid with more behind it": document(table_uuid=f"{UUID}' OR '1'='1"),
        "a uuid with a line end": document(table_uuid=f"{UUID}\n"),
        "a uuid as an address": document(table_uuid=f"urn:uuid:{UUID}"),
        "a uuid of format 1 that is none": format_1(table_uuid="u"),
        "a format that is a flag": document(format_version=True),
        "a time as text": document(last_updated_ms=str(T2)),
        "a log time as a fraction": document(
            snapshot_log=[{"timestamp-ms": T1 + 0.5, "snapshot-id": FIRST}]
        ),
        "a log id as text": document(
            snapshot_log=[{"timestamp-ms": T1, "snapshot-id": str(FIRST)}]
        ),
        "no manifest list and null for manifests": null_list,
        "no manifest list in format 2": empty_list,
        "a manifest list that is an object": altered("snapshots", 0, "manifest-list", to={"a": 1}),
        "an empty text for the list of snapshots": document(
            snapshots="", refs={}, current_snapshot_id=-1
        ),
        "two snapshots of one id": twice,
        "a snapshot with an encryption key": altered("snapshots", 0, "key-id", to="k1"),
        "a metadata log without a name": document(
            metadata_log=[{"timestamp-ms": T1, "metadata-file": None}]
        ),
    }


@pytest.mark.parametrize("what", list(odd_documents()))
def test_a_document_with_something_odd_is_refused_naming_the_file(what: str) -> None:
    refuses(odd_documents()[what])


@pytest.mark.parametrize("what", list(trusted_today()))
def test_a_document_that_the_spec_does_not_allow_is_refused(what: str) -> None:
    refuses(trusted_today()[what])


def refuses(written: object) -> None:
    with pytest.raises(MetadataUnreadable) as refused:
        parsed(written)
    error = refused.value
    assert error.object == WHERE
    assert str(NAME) in error.message
    assert error.expected
    assert error.found
    assert error.next


@pytest.mark.parametrize(
    ("refs", "flaw"),
    [
        ({"main": {"snapshot-id": SECOND, "type": "tag"}}, "main is a tag"),
        (
            {
                "main": {"snapshot-id": SECOND, "type": "branch"},
                "t": {"snapshot-id": 1, "type": "tag"},
            },
            "ref t names snapshot 1, which is not there",
        ),
    ],
)
def test_what_leaves_no_doubt_about_its_files_is_a_flaw(refs: Document, flaw: str) -> None:
    state = parsed(document(refs=refs))
    assert state.flaws == (flaw,)
    assert state.current_snapshot_id == SECOND
    assert "t" not in state.refs


def test_snapshots_that_share_an_id_are_all_had_by_who_asks_for_files() -> None:
    written = document()
    first = written["snapshots"][0]
    places = [first["manifest-list"], "s3://lake/b.avro", "s3://lake/c.avro"]
    written["snapshots"] += [{**first, "manifest-list": place} for place in places[1:]]
    state = parse_table(NAME, WHERE, 4711, written, with_namesakes=True)
    named = [state.snapshots[key].manifest_list for key in state.namesakes]
    assert named == places and set(state.namesakes.values()) == {FIRST}
    assert all(snapshot.snapshot_id == key for key, snapshot in state.snapshots.items())
    assert state.current_snapshot_id == SECOND and not state.is_linear


def test_a_table_whose_ids_differ_has_no_namesakes() -> None:
    assert not parse_table(NAME, WHERE, 4711, document(), with_namesakes=True).namesakes
