"""Shares of which somebody has dropped a table: what they still pin is listed, and let go of."""

import pytest

from meltline.app.clone.shares import drop_share, list_shares, update_share
from meltline.app.drop.drop import drop
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake, Table
from tests.unit.clone.test_shares import NAME, TAG, live, shared, table_of, written


def without_its_table(source: str = NAME) -> tuple[Lake, Table]:
    """A share `s` whose table `lake.s.t` somebody has dropped, in the hot catalog's own way."""
    lake, table = written("t", "u")
    shared(lake, source)
    drop(lake.services(), "lake.s.t")
    return lake, table


@pytest.mark.parametrize("source", [NAME, "lake.air"])
def test_what_a_share_still_pins_is_listed_though_its_table_is_gone(source: str) -> None:
    # ML-21
    lake, table = without_its_table(source)
    (found,) = list_shares(lake.services())
    gone = [one for one in found.tables if one.gone]
    assert [(one.source, str(one.table), one.snapshot_id) for one in gone] == [
        (table.name, "lake.s.t", table.head)
    ]
    assert {one.condition for one in found.tables} == (
        {"table gone"} if source == NAME else {"table gone", "current"}
    )


def test_an_update_brings_the_table_back_and_a_drop_takes_the_pin_away() -> None:
    lake, table = without_its_table()
    update_share(lake.services(), "s")
    assert live(table_of(lake)) == live(table)
    assert [one.condition for one in list_shares(lake.services())[0].tables] == ["current"]
    drop(lake.services(), "lake.s.t")
    drop_share(lake.services(), "s")
    assert TAG not in table.refs and list_shares(lake.services()) == []


def test_the_pin_of_a_source_that_is_dropped_as_well_is_found_among_the_dropped() -> None:
    lake, table = without_its_table("lake.air")
    head = table.head
    drop(lake.services(), NAME)
    (found,) = list_shares(lake.services())
    (gone,) = [one for one in found.tables if one.gone]
    assert (gone.source, gone.snapshot_id) == (table.name, head)
    update_share(lake.services(), "s")
    dropped = [
        Table(lake, TableName("lake", entry.name.namespace, entry.name.name))
        for entry in lake.catalogs["lake"].listing().entries
        if entry.name.namespace == ("meltline_dropped",)
    ]
    assert dropped and not any(TAG in one.refs for one in dropped)


def test_what_only_the_lost_pin_kept_departs_once_the_share_is_dropped() -> None:
    # ML-20
    lake, table = without_its_table()
    old = table.data("f1")
    table.overwrite("later")
    lake.on(40).run()
    assert old not in lake.waiting()
    drop_share(lake.services(), "s")
    lake.on(41).run()
    assert old in lake.waiting()
