"""A table of the ledger as Iceberg's JSON describes it; what does not tell is left to others."""

import json

import pytest

from meltline.adapters.index_tables.file_parts import NotPlain
from meltline.adapters.index_tables.table_now import TableNow


def test_a_table_is_what_its_schema_and_its_snapshot_say() -> None:
    column = {"id": 4, "name": "number", "type": "long"}
    nested = {"id": 5, "name": "numbers", "type": {"type": "list", "element": "long"}}
    snapshot = {
        "manifest-list": "/list",
        "summary": {"total-data-files": "2", "total-records": "9"},
    }
    assert TableNow.of(json.dumps({"fields": [column, nested]}), json.dumps(snapshot)) == TableNow(
        {"number": (4, "long"), "numbers": (5, "")}, "/list", 2, 9
    )
    for columns, said in (
        ([column | {"initial-default": 7}], snapshot),
        ([column], {"manifests": ["/m"], "summary": snapshot["summary"]}),
        ([column], snapshot | {"summary": {"operation": "append"}}),
    ):
        with pytest.raises(NotPlain):
            TableNow.of(json.dumps({"fields": columns}), json.dumps(said))


SNAPSHOT = {
    "snapshot-id": 7,
    "manifest-list": "/list",
    "summary": {"total-data-files": "2", "total-records": "9"},
}
METADATA = {
    "current-schema-id": 1,
    "schemas": [
        {"schema-id": 0, "fields": []},
        {"schema-id": 1, "fields": [{"id": 4, "name": "number", "type": "long"}]},
    ],
    "current-snapshot-id": 7,
    "snapshots": [SNAPSHOT | {"snapshot-id": 6, "manifest-list": "/older"}, SNAPSHOT],
}


def test_a_table_is_what_its_metadata_says_of_the_current_snapshot() -> None:
    now = TableNow.of_metadata(json.dumps(METADATA).encode())
    assert now == TableNow({"number": (4, "long")}, "/list", 2, 9)


@pytest.mark.parametrize("none", [None, -1])
def test_only_a_table_that_says_so_has_no_snapshot(none: int | None) -> None:
    empty = METADATA | {"current-snapshot-id": none, "snapshots": []}
    assert TableNow.of_metadata(json.dumps(empty).encode()) is None
    with pytest.raises(NotPlain):
        TableNow.of_metadata(json.dumps(METADATA | {"current-snapshot-id": none}).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b packed",
        json.dumps({k: v for k, v in METADATA.items() if k != "current-snapshot-id"}).encode(),
        json.dumps(METADATA | {"current-snapshot-id": 8}).encode(),
        json.dumps(METADATA | {"current-schema-id": 8}).encode(),
        json.dumps(METADATA | {"snapshots": [SNAPSHOT, SNAPSHOT]}).encode(),
    ],
    ids=["packed", "nothing said", "snapshot missing", "schema missing", "two snapshots"],
)
def test_metadata_that_does_not_tell_is_not_taken_for_an_empty_table(content: bytes) -> None:
    with pytest.raises(NotPlain):
        TableNow.of_metadata(content)
