"""A table that was replaced by one with other types: cold is left as it was, and never misread."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.domain.errors import UsageInvalid
from meltline.testing.chunks import complete_rows_of
from tests.chunks.chunk_tables import VALUE, reading
from tests.unit.chunks.tiers import DAYS, Tiers

Fields = list[dict[str, Any]]


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


def test_a_table_that_was_not_replaced_keeps_its_name_in_cold() -> None:
    tiers = Tiers()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    with pytest.raises(UsageInvalid, match="the only rows"):
        start_sync(tiers.lake.services(), tiers.hot.name, "rows.anew")
