"""The table in cold: its name is one hot table's, and it never gets what it cannot hold."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.domain.errors import NameConflict, TableNotFound, UsageInvalid
from meltline.domain.iceberg.names import TableName
from tests.chunks.chunk_tables import VALUE, ChunkTable, chunk_table, reading
from tests.chunks.chunked_lake import ChunkedLake
from tests.doubles.chunks import complete_rows_of
from tests.unit.chunks.tiers import DAYS, Tiers

Fields = list[dict[str, Any]]
NAME = "rows.shared"


def two_tables() -> tuple[ChunkedLake, ChunkTable, ChunkTable]:
    """Two tables that can be cut into chunks; nothing of them is in cold."""
    lake = ChunkedLake(has_cold=True, sandbox=True)
    lake.begin(2)
    assert lake.hot is not None
    return lake, lake.hot, chunk_table(lake, "lake.air.others", version=2)


def test_a_cold_name_that_was_only_declared_is_refused_to_a_second_table() -> None:
    lake, first, second = two_tables()
    start_sync(lake.services(), first.name, NAME)
    with pytest.raises(NameConflict, match="another table"):
        start_sync(lake.services(), second.name, NAME)
    assert [sync.table_uuid for sync in lake.control.syncs.all()] == [first.uuid]
    assert lake.control.chunks.tracked([second.uuid]) == []


def test_the_same_table_may_declare_its_name_again() -> None:
    lake, first, _ = two_tables()
    before = start_sync(lake.services(), first.name, NAME)
    assert start_sync(lake.services(), first.name, NAME) == before


def test_a_name_that_nobody_chose_gives_way_to_one_that_somebody_did() -> None:
    lake, first, second = two_tables()
    chosen = start_sync(lake.services(), first.name, "meltline_synced.air.others").cold
    other = start_sync(lake.services(), second.name).cold
    assert chosen == TableName("ice", ("meltline_synced", "air"), "others")
    assert other.namespace == chosen.namespace and other.name.startswith("others__")


# --- tables that were replaced ---


def retyped(tiers: Tiers) -> None:
    """Hot as `CREATE OR REPLACE` leaves it: the same UUID and field ids, another type."""
    evolved(
        tiers, lambda fields: [f | {"type": "string"} if f["id"] == VALUE else f for f in fields]
    )


def evolved(tiers: Tiers, change: Callable[[Fields], Fields]) -> None:
    """Hot with another schema beside the former ones."""

    def edit(document: dict[str, Any]) -> None:
        former = document["schemas"][-1]
        number = former["schema-id"] + 1
        fields = change(former["fields"])
        document["schemas"].append(former | {"schema-id": number, "fields": fields})
        document["current-schema-id"] = number
        document["last-column-id"] = max(field["id"] for field in fields)

    tiers.hot.edit(edit)


def cold_files(tiers: Tiers) -> dict[str, bytes]:
    """Each metadata file that cold's catalog points to, with its content."""
    entries = tiers.lake.cold.listing().entries
    return {e.metadata_location: tiers.lake.store.read(e.metadata_location) for e in entries}


def test_a_pass_that_refuses_other_types_has_not_touched_cold() -> None:
    tiers = Tiers()
    before = cold_files(tiers)
    retyped(tiers)
    tiers.hot.append_rows(reading(90, 0))
    refused = tiers.replicate()
    assert refused.error is not None and "the table was replaced" in refused.error.message
    assert "--to NAME" in refused.error.next
    assert refused.sync.reason == "DIVERGED"
    assert cold_files(tiers) == before
    assert tiers.anew().sync.reason == "DIVERGED"
    assert cold_files(tiers) == before


def test_a_column_that_hot_gains_is_carried_to_cold_and_rows_follow() -> None:
    tiers = Tiers()
    note = {"id": VALUE + 1, "name": "note", "required": False, "type": "string"}
    evolved(tiers, lambda fields: [*fields, note])
    assert tiers.replicate().error is None
    (content,) = cold_files(tiers).values()
    assert note in json.loads(content)["schemas"][-1]["fields"]
    tiers.hot.append_rows(reading(90, 0))
    assert tiers.replicate().error is None
    assert tiers.ids() == [*range(2 * DAYS), 90]


def test_a_replaced_table_goes_on_under_another_name_and_the_old_rows_stay_where_they_are() -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("drops")
    (before,) = cold_files(tiers).items()
    retyped(tiers)
    assert tiers.replicate().sync.reason == "DIVERGED"
    start_sync(tiers.lake.services(), tiers.hot.name, "rows.anew")
    assert tiers.replicate().error is None
    assert before in cold_files(tiers).items() and len(cold_files(tiers)) == 2
    read = complete_rows(tiers.lake.services(), tiers.hot.name).read
    assert sorted(complete_rows_of(read, tiers.lake.store)) == sorted(tiers.lake.hot_rows())


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_table_that_was_not_replaced_keeps_its_name_in_cold(is_stopped: bool) -> None:
    tiers = Tiers()
    if is_stopped:
        stop_sync(tiers.lake.services(), tiers.hot.name)
    before = tiers.lake.sync
    with pytest.raises(UsageInvalid, match="the only rows"):
        start_sync(tiers.lake.services(), tiers.hot.name, "rows.anew")
    assert tiers.lake.sync == before
    with pytest.raises(TableNotFound):
        tiers.lake.cold.location(TableName("ice", ("rows",), "anew"))
