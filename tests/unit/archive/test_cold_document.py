"""A cold table's metadata: what it takes from hot, and what it never gives up again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.archive.archive import ARCHIVED, COLD_OF, Validity
from meltline.domain.archive.cold_document import (
    Addition,
    Registration,
    first_document,
    with_snapshots,
)
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import from_millis

NOW = datetime(2026, 11, 21, tzinfo=UTC)
START = 1_750_000_000_000
DAY = 86_400_000
HOT, COLD = "00000000-0000-4000-8000-0000000000a1", "00000000-0000-4000-8000-0000000000c1"


def at(number: int) -> int:
    return START + number * DAY


def hot(*ids: int, version: int = 2, **changes: Any) -> dict[str, Any]:
    """A table whose snapshots were committed one a day; the last one is its head."""
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": HOT,
        "location": "s3://lake/t",
        "last-sequence-number": max(ids),
        "last-updated-ms": at(max(ids)),
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": max(ids),
        "refs": {"main": {"snapshot-id": max(ids), "type": "branch"}},
        "snapshots": [snapshot(one) for one in ids],
        "snapshot-log": [{"timestamp-ms": at(one), "snapshot-id": one} for one in ids],
        "metadata-log": [{"timestamp-ms": at(0), "metadata-file": "s3://lake/t/old.json"}],
    }
    if version == 3:
        document["next-row-id"] = 100 * max(ids)
    return {**document, **changes}


def snapshot(number: int) -> dict[str, Any]:
    return {
        "snapshot-id": number, "parent-snapshot-id": number - 1, "sequence-number": number,
        "timestamp-ms": at(number), "schema-id": 0, "summary": {"operation": "append"},
        "manifest-list": f"s3://lake/t/{number}.avro", "odd": [number],
    }  # fmt: skip


def registered(document: dict[str, Any], *ids: int, **changes: Any) -> Addition:
    found = {one["snapshot-id"]: one for one in document["snapshots"]}
    validity = Validity(NOW, None)
    facts: dict[str, Any] = {"statistics": {}, "files": 1, "bytes": 2, "rows": 3, **changes}
    return Addition(
        document, "hot",
        [
            Registration(found[id], f"s3://ice/{id}.avro", (), validity=validity, **facts)
            for id in ids
        ],
    )  # fmt: skip


def first(document: dict[str, Any], *ids: int, **changes: Any) -> dict[str, Any]:
    return first_document(registered(document, *ids, **changes), COLD, "s3://ice/t", NOW, NOW)


def more(cold: dict[str, Any], document: dict[str, Any], *ids: int) -> dict[str, Any]:
    return with_snapshots(cold, registered(document, *ids), NOW)


def log(document: dict[str, Any]) -> list[int]:
    times = [entry["timestamp-ms"] for entry in document["snapshot-log"]]
    assert times == sorted(times)
    return [entry["snapshot-id"] for entry in document["snapshot-log"]]


def valid(document: dict[str, Any]) -> None:
    parse_table(TableName.parse("ice.n.t"), "x", 1, document)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_cold_table_is_one_of_its_own(version: int) -> None:
    made = first(hot(1, 2, 3, version=version, schema={}, **{"partition-spec": []}), 1)
    valid(made)
    assert (made["table-uuid"], made["location"]) == (COLD, "s3://ice/t")
    assert made["metadata-log"] == []
    assert made["format-version"] == version
    assert made["properties"][COLD_OF] == "hot"
    assert ("schema" in made) == ("partition-spec" in made) == (version == 1)


def test_a_snapshot_is_as_it_was_but_for_its_list() -> None:
    # AR-33
    made = first(hot(1, 2, 3), 2)
    assert made["snapshots"] == [{**snapshot(2), "manifest-list": "s3://ice/2.avro"}]


def test_a_snapshot_of_format_1_that_lists_manifests_goes_on_to_list_them() -> None:
    raw = {"snapshot-id": 1, "timestamp-ms": at(1), "manifests": ["s3://lake/m"]}
    one = Registration(raw, "", ("s3://ice/m",), {}, Validity(NOW, None), 1, 1, 1)
    assert one.as_json() == {**raw, "manifests": ["s3://ice/m"]}


def test_main_is_the_newest_whatever_comes_last() -> None:
    document = hot(1, 2, 3, 4)
    made = more(first(document, 3), document, 1)
    valid(made)
    assert made["current-snapshot-id"] == 3
    assert made["refs"]["main"] == {"snapshot-id": 3, "type": "branch"}
    assert [one["snapshot-id"] for one in made["snapshots"]] == [1, 3]


def test_adding_what_is_there_changes_nothing() -> None:
    # AR-33
    document = hot(1, 2, 3)
    made = first(document, 1, 2)
    assert more(made, document, 1, 2) == made


# --- by time --------------------------------------------------------------------------------------


def test_behind_the_last_snapshot_before_a_gap_stands_the_one_that_cold_lacks() -> None:
    document = hot(1, 2, 3, 4, 5, 6)
    assert log(first(document, 1)) == [1, 2]
    assert log(first(document, 1, 2, 4)) == [1, 2, 3, 4, 5]
    assert log(first(document, 1, 2, 3, 4, 5, 6)) == [1, 2, 3, 4, 5, 6]


def test_a_gap_closes_when_what_lay_in_it_comes_and_hot_has_forgotten_the_rest() -> None:
    made = first(hot(1, 2, 3), 1)
    made = more(made, hot(2, 3, 4), 2)
    assert log(made) == [1, 2, 3]
    assert log(more(made, hot(4, 5, 6), 5)) == [1, 2, 3, 5, 6]


def test_a_rollback_is_told_as_it_was() -> None:
    document = hot(1, 2, 3)
    back = {"timestamp-ms": at(4), "snapshot-id": 1}
    document["snapshot-log"] += [back, {"timestamp-ms": at(5), "snapshot-id": 3}]
    assert log(first(document, 1)) == [1, 2, 1, 3]


def test_what_hot_no_longer_has_in_its_log_answers_no_question_by_time() -> None:
    document = hot(1, 2, 3)
    document["snapshot-log"] = document["snapshot-log"][1:]
    assert log(first(document, 1)) == []


@given(st.lists(st.sets(st.integers(1, 9), min_size=1), min_size=1, max_size=4))
def test_reading_by_time_is_right_or_finds_nothing_in_any_order(nights: list[set[int]]) -> None:
    document = hot(*range(1, 11))
    made = first(document, *sorted(nights[0]))
    for night in nights[1:]:
        made = more(made, document, *sorted(night))
    archived = set().union(*nights)
    valid(made)
    for number in range(1, 11):
        found = [e["snapshot-id"] for e in made["snapshot-log"] if e["timestamp-ms"] <= at(number)]
        if number in archived:
            assert found[-1] == number
        else:
            assert not found or found[-1] not in archived


# --- names ----------------------------------------------------------------------------------------


def tagged(document: dict[str, Any], **tags: int) -> dict[str, Any]:
    refs = {
        name: {"snapshot-id": one, "type": "tag", "max-ref-age-ms": 1} for name, one in tags.items()
    }
    return {**document, "refs": {**document["refs"], **refs}}


def test_tags_come_along_without_their_ages_and_branches_do_not() -> None:
    document = tagged(hot(1, 2, 3), spring=1, summer=2)
    document["refs"]["side"] = {"snapshot-id": 1, "type": "branch"}
    assert first(document, 1)["refs"] == {
        "main": {"snapshot-id": 1, "type": "branch"},
        "spring": {"snapshot-id": 1, "type": "tag"},
    }


def test_a_name_in_cold_never_comes_to_mean_something_else() -> None:
    made = first(tagged(hot(1, 2, 3), latest=1), 1)
    made = more(made, tagged(hot(1, 2, 3), latest=2), 2)
    assert made["refs"]["latest"]["snapshot-id"] == 1
    assert made["refs"]["latest@2"]["snapshot-id"] == 2
    again = more(made, tagged(hot(1, 2, 3), latest=2), 2)
    assert again["refs"] == made["refs"]


# --- what never falls -----------------------------------------------------------------------------


@given(st.permutations([1, 2, 3]))
def test_counters_columns_and_the_format_only_grow(order: Sequence[int]) -> None:
    def of(number: int) -> dict[str, Any]:
        schemas = [{"schema-id": number, "type": "struct", "fields": []}]
        changes = {"schemas": schemas, "current-schema-id": number, "last-column-id": number}
        legacy: dict[str, Any] = {"schema": {}, "partition-spec": []} if number == 1 else {}
        return hot(1, 2, 3, 4, 5 + number, version=number, **changes, **legacy)

    made = first(of(order[0]), order[0])
    for number in order[1:]:
        before, made = made, more(made, of(number), number)
        valid(made)
        for key in ("format-version", "last-sequence-number", "last-column-id", "next-row-id"):
            assert made.get(key, 0) >= before.get(key, 0)
        assert {s["schema-id"] for s in before["schemas"]} < {
            s["schema-id"] for s in made["schemas"]
        }
        assert made["current-schema-id"] == number
    assert (made["format-version"], made["last-sequence-number"]) == (3, 8)
    assert "schema" not in made


def test_the_oldest_words_of_format_1_are_understood() -> None:
    document = hot(1, 2, version=1, schema={"type": "struct", "fields": []})
    document["partition-spec"] = [{"source-id": 1, "field-id": 1000}]
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id",
                "sort-orders", "default-sort-order-id", "last-partition-id"):  # fmt: skip
        del document[key]
    made = first(document, 1)
    valid(made)
    assert made["schemas"] == [{"schema-id": 0, "type": "struct", "fields": []}]
    assert made["partition-specs"] == [{"spec-id": 0, "fields": document["partition-spec"]}]


# --- properties and statistics --------------------------------------------------------------------


def test_properties_come_along_but_for_what_is_said_of_hot_itself() -> None:
    said = {
        "owner": "me",
        "schema.name-mapping.default": "[]",
        "gc.enabled": "true",
        "write.data.path": "s3://lake/elsewhere",
        "write.metadata.path": "s3://lake/elsewhere",
        "write.metadata.delete-after-commit.enabled": "true",
        "history.expire.max-snapshot-age-ms": "1",
        "meltline.retention-days": "1",
        "meltline.hold.x": "y",
    }
    made = first(hot(1, 2, properties=said), 1)["properties"]
    assert {key: made[key] for key in ("owner", "schema.name-mapping.default", "gc.enabled")} == {
        "owner": "me",
        "schema.name-mapping.default": "[]",
        "gc.enabled": "false",
    }
    left_out = {key for key in said if key.startswith(("write.", "history.", "meltline."))}
    assert left_out & made.keys() == {"write.metadata.delete-after-commit.enabled"}
    assert made["write.metadata.delete-after-commit.enabled"] == "false"


def test_what_was_said_of_earlier_copies_stays() -> None:
    document = hot(1, 2, 3)
    made = more(first(document, 1), document, 2)["properties"]
    assert {key for key in made if key.startswith(ARCHIVED)} == {f"{ARCHIVED}1", f"{ARCHIVED}2"}


def test_statistics_are_those_of_the_copied_snapshots_at_their_new_places() -> None:
    def file(id: int) -> dict[str, Any]:
        return {"snapshot-id": id, "statistics-path": f"s3://lake/{id}.stats", "blob-metadata": []}

    document = hot(1, 2, 3, statistics=[file(1), file(2)])
    copies = {"s3://lake/1.stats": "s3://ice/1.stats"}
    made = first(document, 1, statistics=copies)
    assert made["statistics"] == [{**file(1), "statistics-path": "s3://ice/1.stats"}]
    assert more(made, document, 3)["statistics"] == made["statistics"]


def test_nothing_of_the_documents_it_is_made_from_is_changed() -> None:
    document = hot(1, 2, 3)
    made = first(document, 1)
    more(made, document, 2)["snapshots"][0]["odd"].append("changed")
    assert document == hot(1, 2, 3)
    assert from_millis(made["last-updated-ms"]) == NOW
