"""Which files lie in which chunks, from real Avro: formats, inheritance, times, refusals."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from meltline.domain.chunks.layout import EVERYWHERE, Times
from meltline.domain.chunks.ranges import TimeRange, Unit
from meltline.domain.errors import MetadataUnreadable, StoreRefused
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.doubles.manifest_files import PartitionSpec
from tests.doubles.store import MemoryStore
from tests.lake.avro_files import FileFacts
from tests.lake.counting import CountingStore
from tests.seeds import SEED
from tests.unit.chunks.avro_table import (
    BY_DAY,
    BY_NOTHING,
    EARLIER,
    FIRST_DAY,
    LIST,
    SEQUENCE,
    SNAPSHOT,
    TS,
    AvroTable,
    a_schema,
    an_entry,
    bounded,
    facts,
)
from tests.unit.chunks.chunks import DAYS, at
from tests.unit.stopping.odd_lists import without_ids

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
DAY = Times(Unit.DAY.range("2026-01-05"))
VERSIONS = (1, 2, 3)
DELETED_PATH = 2147483546


def times_of(of: FileFacts, kind: FileKind = FileKind.DATA, version: int = 2) -> Times:
    table = AvroTable(version)
    table.manifest(an_entry(of, kind=kind))
    (file,) = table.live()
    return file.times


# --- what is inherited ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_is_told_with_all_that_chunks_need(version: int) -> None:
    table = AvroTable(version)
    table.manifest(an_entry(facts(BY_DAY, FIRST_DAY, rows=12)))
    (file,) = table.live()
    assert (file.path, file.kind, file.bytes, file.rows) == ("a.parquet", FileKind.DATA, 100, 12)
    assert (file.times, file.spec_id, file.snapshot_id) == (DAY, 1, SNAPSHOT)
    assert file.sequence_number == (0 if version == 1 else SEQUENCE)


@pytest.mark.parametrize("version", [2, 3])
def test_only_what_is_added_inherits_from_the_list(version: int) -> None:
    table = AvroTable(version)
    old = an_entry(status=EXISTING, path="old", snapshot=EARLIER, sequence=2)
    table.manifest(an_entry(path="new"), old)
    files = {file.path: file for file in table.live()}
    assert (files["new"].snapshot_id, files["new"].sequence_number) == (SNAPSHOT, SEQUENCE)
    assert (files["old"].snapshot_id, files["old"].sequence_number) == (EARLIER, 2)


def test_a_file_that_was_there_without_a_sequence_number_is_refused() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(status=EXISTING))
    rows = table.rows(manifest)
    rows[0]["sequence_number"] = None
    table.rewrite(manifest, rows)
    with pytest.raises(MetadataUnreadable, match="cannot be read as a manifest"):
        table.live()


def test_what_a_table_had_before_it_became_format_2_has_the_number_0() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(status=EXISTING), sequence=0)
    rows = table.rows(manifest)
    rows[0]["sequence_number"] = None
    table.rewrite(manifest, rows)
    assert [file.sequence_number for file in table.live()] == [0]


def test_tombstones_are_not_alive() -> None:
    table = AvroTable()
    table.manifest(an_entry(status=DELETED))
    table.manifest(an_entry(path="kept"), an_entry(status=DELETED))
    assert [file.path for file in table.live()] == ["kept"]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_say_which_file_they_are_about(version: int) -> None:
    table = AvroTable(version)
    path = ((DELETED_PATH, b"file:///d.parquet"),)
    other = ((DELETED_PATH, b"file:///e.parquet"),)
    day = facts(BY_DAY, FIRST_DAY)
    kind = FileKind.POSITION_DELETE
    table.manifest(
        an_entry(replace(day, referenced="file:///c.parquet"), path="1", kind=kind),
        an_entry(replace(day, lower=path, upper=path), path="2", kind=kind),
        an_entry(replace(day, lower=path, upper=other), path="3", kind=kind),
        an_entry(day, path="4", kind=kind),
        an_entry(replace(day, lower=path, upper=path), path="5", kind=FileKind.EQUALITY_DELETE),
    )
    table.manifest(an_entry(replace(day, lower=path, upper=path), path="6"))
    assert {file.path: file.referenced for file in table.live()} == {
        "1": "file:///c.parquet",
        "2": "file:///d.parquet",
        "3": "",
        "4": "",
        "5": "",
        "6": "",
    }


def test_deletion_vectors_of_one_file_are_told_apart() -> None:
    table = AvroTable(version=3)
    vectors = [an_entry(path="v", kind=FileKind.DELETION_VECTOR) for _ in range(2)]
    manifest = table.manifest(*vectors)
    rows = table.rows(manifest)
    for place, row in enumerate(rows):
        row["data_file"] |= {"content_offset": 4 + place, "referenced_data_file": f"d{place}"}
    table.rewrite(manifest, rows)
    files = [(file.path, file.part, file.referenced, file.kind) for file in table.live()]
    vector = FileKind.DELETION_VECTOR
    assert files == [("v", 4, "d0", vector), ("v", 5, "d1", vector)]


# --- times of a partition -------------------------------------------------------------------------


def spec(*fields: tuple[str, int], types: tuple[str, ...] = ()) -> PartitionSpec:
    written = tuple((1000 + n, f"p{n}", how, source) for n, (how, source) in enumerate(fields))
    return PartitionSpec(4, written, types or ("int",) * len(fields))


HOUR = TimeRange(at("2026-01-05T07:00"), at("2026-01-05T08:00"))
HOUR_ORDINAL = FIRST_DAY * 24 + 7


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("transform", "type", "value", "times"),
    [
        ("day", "date", FIRST_DAY, DAY),
        ("day", "int", FIRST_DAY, DAY),
        ("hour", "int", HOUR_ORDINAL, Times(HOUR)),
        ("month", "int", 672, Times(Unit.MONTH.range("2026-01"))),
        ("year", "int", 56, Times(Unit.YEAR.range("2026"))),
        ("day", "date", None, Times(None)),
        ("day", "int", 2**31 - 1, Times(None)),
        ("day", "date", 2**31 - 1, Times(None)),  # Python has no such date
        ("day", "date", -(2**31), Times(None)),
    ],
)
def test_a_partition_tells_the_times_of_its_files(
    transform: str, type: str, value: Any, times: Times, version: int
) -> None:
    of = facts(spec((transform, TS), types=(type,)), value)
    assert times_of(of, version=version) == times


def test_a_partition_of_one_timestamp_is_a_microsecond() -> None:
    value = (FIRST_DAY * 86400 + 1) * 1_000_000
    times = times_of(facts(spec(("identity", TS), types=("long",)), value))
    start, end = at("2026-01-05T00:00:01"), at("2026-01-05T00:00:01.000001")
    assert times == Times(TimeRange(start, end))


def test_of_several_fields_the_times_that_all_allow_are_taken() -> None:
    by = spec(("month", TS), ("bucket[4]", 1), ("hour", TS))
    assert times_of(facts(by, 672, 3, HOUR_ORDINAL)) == Times(HOUR)
    assert times_of(facts(by, 672, None, HOUR_ORDINAL)) == Times(HOUR)
    assert times_of(facts(by, None, 3, None)) == Times(None)
    assert times_of(facts(by, 673, 3, HOUR_ORDINAL)) == EVERYWHERE  # they contradict each other


@pytest.mark.parametrize("kind", [FileKind.POSITION_DELETE, FileKind.EQUALITY_DELETE])
def test_deletes_of_a_partition_reach_no_further(kind: FileKind) -> None:
    assert times_of(facts(BY_DAY, FIRST_DAY), kind) == DAY
    assert times_of(facts(BY_DAY, None), kind) == Times(None)


def test_a_field_is_found_by_its_id_whatever_avro_calls_it() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry())
    renamed = PartitionSpec(1, ((1000, "an hour/x", "day", TS),), ("date",))
    table.rewrite(manifest, header=renamed.header)
    assert [file.times for file in table.live()] == [DAY]


def test_fields_without_an_id_are_numbered_as_format_1_did() -> None:
    table = AvroTable(version=1)
    manifest = table.manifest(an_entry())
    old = '[{"name": "ts_day", "transform": "day", "source-id": 3}]'
    table.rewrite(manifest, header={"partition-spec": old}, without="partition-spec-id")
    assert [(file.times, file.spec_id) for file in table.live()] == [(DAY, 0)]


# --- times by bounds ------------------------------------------------------------------------------

NOON, LATER = "2026-01-05T12:00", "2026-01-06T13:00"
BETWEEN = Times(TimeRange(at(NOON), at("2026-01-06T13:00:00.000001")))
WITHOUT_TIME = [BY_NOTHING, spec(("void", TS)), spec(("bucket[4]", 1), ("day", 5))]


@pytest.mark.parametrize("by", WITHOUT_TIME, ids=["unpartitioned", "void", "by other columns"])
@pytest.mark.parametrize("version", VERSIONS)
def test_where_no_partition_tells_the_bounds_do(by: PartitionSpec, version: int) -> None:
    of = replace(bounded(NOON, LATER), spec=by, partition=tuple((f[1], None) for f in by.fields))
    assert times_of(of, version=version) == BETWEEN


@pytest.mark.parametrize(
    ("of", "times"),
    [
        (bounded(NOON, LATER, nulls=1, rows=3), EVERYWHERE),
        (bounded(NOON, LATER, nulls=None), EVERYWHERE),
        (bounded(LATER, NOON), EVERYWHERE),
        (replace(bounded(NOON, LATER), lower=()), EVERYWHERE),
        (replace(bounded(NOON, LATER), upper=((1, b"x"),)), EVERYWHERE),
        (replace(bounded(NOON, LATER), upper=((TS, b"cut"),)), EVERYWHERE),
        (facts(BY_NOTHING, rows=0), EVERYWHERE),
        (facts(BY_NOTHING, rows=3, nulls=((TS, 3),)), Times(None)),
    ],
)
def test_bounds_that_do_not_tell_all_tell_nothing(of: FileFacts, times: Times) -> None:
    assert times_of(of) == times


@pytest.mark.parametrize("by", WITHOUT_TIME, ids=["unpartitioned", "void", "by other columns"])
@pytest.mark.parametrize("kind", [FileKind.POSITION_DELETE, FileKind.EQUALITY_DELETE])
def test_deletes_that_no_partition_bounds_may_be_about_all(
    kind: FileKind, by: PartitionSpec
) -> None:
    of = replace(bounded(NOON, LATER), spec=by, partition=tuple((f[1], None) for f in by.fields))
    assert times_of(of, kind) == EVERYWHERE


@pytest.mark.parametrize(
    ("of", "times"),
    [
        (bounded(NOON, LATER), EVERYWHERE),
        (facts(spec(("identity", TS)), FIRST_DAY), EVERYWHERE),
        (facts(BY_DAY, FIRST_DAY), DAY),
    ],
)
def test_values_of_a_column_that_was_of_another_type_tell_nothing(
    of: FileFacts, times: Times
) -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(of))
    table.rewrite(manifest, header={"schema": a_schema("date")})
    assert [file.times for file in table.live()] == [times]


def test_a_column_under_another_name_is_the_same() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(bounded(NOON, LATER)))
    schema = a_schema("timestamptz").replace('"ts"', '"time"')
    table.rewrite(manifest, header={"schema": schema})
    assert [file.times for file in table.live()] == [BETWEEN]


# --- what a snapshot did --------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_change_is_what_its_own_manifests_add_and_remove(version: int) -> None:
    table = AvroTable(version, {"operation": "overwrite", "added-data-files": "1"})
    own = table.manifest(
        an_entry(path="new"),
        an_entry(path="kept", status=EXISTING, snapshot=EARLIER),
        an_entry(path="gone", status=DELETED),
    )
    older = table.manifest(an_entry(path="old", snapshot=EARLIER), snapshot=EARLIER)
    change = table.reader.change(table.snapshot(), DAYS, place=4)
    assert [file.path for file in change.added] == ["new"]
    assert [(file.path, file.snapshot_id) for file in change.removed] == [("gone", SNAPSHOT)]
    assert (change.snapshot_id, change.place, change.operation) == (SNAPSHOT, 4, "overwrite")
    assert change.summary == table.summary
    assert change.touched(DAYS) == frozenset({"2026-01-05"})
    assert table.store.reads == {LIST: 1, own.path: 1}
    assert older.path not in table.store.reads


def test_rewritten_manifests_are_no_change_and_are_not_opened() -> None:
    table = AvroTable(summary={"operation": "replace", "manifests-created": "1"})
    table.manifest(an_entry(status=EXISTING, snapshot=EARLIER))
    change = table.reader.change(table.snapshot(), DAYS, place=4)
    assert not change.added and not change.removed
    assert table.store.reads == {LIST: 1}
    assert [file.path for file in table.live()] == ["a.parquet"]


def test_what_an_earlier_snapshot_did_is_no_change_of_a_merged_manifest() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(path="new"), an_entry(path="older"))
    rows = table.rows(manifest)
    rows[1]["snapshot_id"] = EARLIER
    table.rewrite(manifest, rows)
    change = table.reader.change(table.snapshot(), DAYS, place=4)
    assert [file.path for file in change.added] == ["new"]


def test_a_snapshot_of_the_oldest_form_lists_its_manifests_itself() -> None:
    table = AvroTable(version=1, summary={})
    table.manifest(
        an_entry(path="new"),
        an_entry(path="old", status=EXISTING, snapshot=EARLIER),
        an_entry(path="gone", status=DELETED),
    )
    snapshot = table.snapshot(is_inline=True)
    change = table.reader.change(snapshot, DAYS, place=1)
    assert [file.path for file in change.added] == ["new"]
    assert [file.path for file in change.removed] == ["gone"]
    assert change.operation == ""
    assert [file.path for file in table.reader.live(snapshot, DAYS)] == ["new", "old"]


@pytest.mark.parametrize(
    "summary",
    [
        {"added-data-files": "2"},
        {"added-data-files": "0"},
        {"added-data-files": "many"},
        {"deleted-data-files": "1"},
    ],
)
def test_a_summary_that_the_manifests_do_not_explain_is_refused(summary: dict[str, str]) -> None:
    table = AvroTable(summary={"operation": "overwrite", **summary})
    table.manifest(an_entry())
    with pytest.raises(MetadataUnreadable, match="do not explain its summary"):
        table.reader.change(table.snapshot(), DAYS, place=4)


def test_a_change_that_nobody_listed_is_refused() -> None:
    table = AvroTable(summary={"operation": "delete", "deleted-data-files": "1"})
    table.manifest(an_entry(snapshot=EARLIER), snapshot=EARLIER)
    with pytest.raises(MetadataUnreadable, match="do not explain its summary"):
        table.reader.change(table.snapshot(), DAYS, place=4)


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_file_that_is_removed_twice_may_be_counted_once_or_twice(count: str) -> None:
    table = AvroTable(summary={"operation": "delete", "deleted-data-files": count})
    table.manifest(an_entry(status=DELETED), an_entry(status=DELETED))
    change = table.reader.change(table.snapshot(), DAYS, place=4)
    assert [file.path for file in change.removed] == ["a.parquet", "a.parquet"]


def test_delete_files_are_no_data_files_in_the_summary() -> None:
    table = AvroTable(summary={"operation": "delete", "added-delete-files": "1"})
    table.manifest(an_entry(kind=FileKind.POSITION_DELETE))
    change = table.reader.change(table.snapshot(), DAYS, place=4)
    assert [file.kind for file in change.added] == [FileKind.POSITION_DELETE]


def test_times_are_told_by_partitions_whose_fields_have_no_ids() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry())
    (times,) = [file.times for file in table.live()]
    content = without_ids(table.store.store.read(manifest.path))
    table.store.store.write(manifest.path, content)
    table.manifests[0] = replace(manifest, length=len(content))
    assert [file.times for file in table.live()] == [times] and times != EVERYWHERE


# --- what cannot be read --------------------------------------------------------------------------


def test_a_manifest_with_other_counts_than_its_list_says_is_refused() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry(path="a"), an_entry(path="b"))
    table.rewrite(manifest, table.rows(manifest)[:1])
    with pytest.raises(MetadataUnreadable, match="not what its manifest list says"):
        table.live()
    with pytest.raises(MetadataUnreadable, match="not what its manifest list says"):
        table.reader.change(table.snapshot(), DAYS, place=4)


def test_a_manifest_of_another_length_is_refused() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry())
    table.manifests[0] = replace(manifest, length=manifest.length + 1)
    with pytest.raises(MetadataUnreadable, match="not what its manifest list says"):
        table.live()


@pytest.mark.parametrize("missing", [LIST, "file:///t/m0.avro"])
def test_a_file_that_is_not_there_is_said_to_be_unreadable(missing: str) -> None:
    table = AvroTable()
    table.manifest(an_entry())
    snapshot = table.snapshot()
    table.store.store.delete([missing])
    for read in (table.reader.live, lambda s, d: table.reader.change(s, d, place=4)):
        with pytest.raises(MetadataUnreadable):
            read(snapshot, DAYS)


def test_a_store_that_refuses_is_not_taken_for_an_empty_table() -> None:
    table = AvroTable()
    table.manifest(an_entry())
    snapshot = table.snapshot()
    table.store = CountingStore(MemoryStore(failing=frozenset({LIST})))
    with pytest.raises(StoreRefused):
        table.reader.live(snapshot, DAYS)


def test_a_manifest_that_does_not_say_how_it_is_partitioned_is_refused() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry())
    table.rewrite(manifest, without="partition-spec")
    with pytest.raises(MetadataUnreadable, match="cannot be read as a manifest"):
        table.live()


def test_a_field_of_the_spec_that_no_file_has_is_refused() -> None:
    table = AvroTable()
    manifest = table.manifest(an_entry())
    other = PartitionSpec(1, ((1007, "ts_day", "day", TS),), ("date",))
    table.rewrite(manifest, header=other.header)
    with pytest.raises(MetadataUnreadable, match="cannot be read as a manifest"):
        table.live()


@pytest.mark.parametrize("number", range(200))
def test_a_damaged_manifest_is_read_or_refused_by_name(number: int) -> None:
    random = Random(f"{SEED} {number}")
    table = AvroTable(version=1 + number % 3)
    of = facts(BY_DAY, FIRST_DAY) if number % 2 else bounded(NOON, LATER)
    manifest = table.manifest(*(an_entry(of, path=f"{n}") for n in range(3)))
    content = bytearray(table.store.store.read(manifest.path))
    for _ in range(random.randint(1, 4)):
        content[random.randrange(len(content))] = random.randrange(256)
    table.store.store.write(manifest.path, bytes(content))
    try:
        files = table.live()
    except MetadataUnreadable:
        return
    assert len(files) == 3
