"""Tables of formats that Meltline cannot manage: what waits for them, by the site's choice."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.catalog.live_catalogs import look_afresh
from meltline.app.doctor.doctor import examine
from tests.lake.lake import Lake, Table

Document = dict[str, Any]
NIGHTS = range(3, 40, 5)  # windows of 7 days and failsafes of 7 days are over


def is_format_4(document: Document) -> None:
    document["format-version"] = 4


def is_encrypted(document: Document) -> None:
    document["encryption-keys"] = [{"key-id": "k", "encrypted-key-metadata": "AA=="}]


def a_lake(
    change: Callable[[Document], None], *, holds_group: bool, is_read_before: bool = False
) -> tuple[Lake, Table, Table]:
    """Two tables of three commits each; an engine makes one of them what Meltline cannot read."""
    lake = Lake(holds_group=holds_group)
    dark, well = (lake.on(0).table(name) for name in ("dark", "well"))
    for day in range(3):
        lake.on(day)
        dark.append(f"o{day}")
        well.overwrite(f"w{day}")
    if is_read_before:
        lake.run()
    dark.edit(change)
    return lake, dark, well


def nights(lake: Lake) -> str:
    """Runs every fifth day; returns the first sentence of the last night."""
    for day in NIGHTS:
        summary = lake.on(day).run()
        assert summary.exit_code == 4
    sentence: str = summary.as_json()["recap"][0]
    return sentence


CHANGES = pytest.mark.parametrize("change", [is_format_4, is_encrypted])
BEFORE = pytest.mark.parametrize("is_read_before", [False, True])


@CHANGES
@BEFORE
def test_the_lake_waits_by_default_and_the_first_sentence_names_both_ways_on(
    change: Callable[[Document], None], *, is_read_before: bool
) -> None:
    lake, dark, well = a_lake(change, holds_group=False, is_read_before=is_read_before)
    sentence = nights(lake)
    assert f"`meltline detach {dark.name} --reason TEXT`" in sentence
    assert "`unreadable: hold-group` in meltline.yaml" in sentence
    assert well.data("w0") in lake.paths()


@CHANGES
@BEFORE
def test_other_tables_purge_on_where_the_site_has_its_group_alone_wait(
    change: Callable[[Document], None], *, is_read_before: bool
) -> None:
    lake, dark, well = a_lake(change, holds_group=True, is_read_before=is_read_before)
    assert "purging has stopped" not in nights(lake)
    assert well.data("w0") not in lake.paths() and len(well.snapshots) == 1
    assert {dark.data(f"o{day}") for day in range(3)} <= lake.paths()
    assert not look_afresh(lake.services()).unreadable.get("")
    codes = {finding.code for finding in examine(lake.services())}
    assert "table_unreadable" in codes and "purging_held_back" not in codes


def test_a_site_that_takes_its_choice_back_has_the_lake_wait_again() -> None:
    lake, _, _ = a_lake(is_format_4, holds_group=True)
    assert not lake.on(3).run().purge_blocked
    lake.holds_group = False
    assert lake.on(4).run().purge_blocked


def test_what_lies_at_its_locations_waits_with_the_table_that_named_it() -> None:
    lake, dark, well = a_lake(lambda document: None, holds_group=True)
    third = lake.table("third")
    third.overwrite("t0")
    third.overwrite("t1")
    inside = f"{dark.document['location']}/data/of-another"
    well.append(inside)
    well.overwrite("w3")
    dark.edit(is_format_4)
    nights(lake)
    assert third.data("t0") not in lake.paths()
    assert {inside, well.data("w0")} <= lake.paths()


def test_a_gate_stops_everything_where_it_writes_elsewhere_since_the_observation() -> None:
    lake, dark, _ = a_lake(is_format_4, holds_group=True)
    lake.on(3).run()
    assert not look_afresh(lake.services()).unreadable.get("")
    elsewhere = {"write.data.path": "file:///w/elsewhere"}
    dark.edit(lambda document: document["properties"].update(elsewhere))
    assert look_afresh(lake.services()).unreadable[""]


def test_a_location_that_is_not_stated_stops_the_lake_all_the_same() -> None:
    def has_no_location(document: Document) -> None:
        is_format_4(document)
        del document["location"]

    def writes_elsewhere(document: Document) -> None:
        is_format_4(document)
        document["properties"]["write.data.path"] = "relative/data"

    for change in (has_no_location, writes_elsewhere):
        lake, _, well = a_lake(change, holds_group=True)
        assert "purging has stopped" in nights(lake)
        assert well.data("w0") in lake.paths()


def test_metadata_that_is_no_metadata_stops_the_lake_all_the_same() -> None:
    lake, dark, well = a_lake(lambda document: None, holds_group=True)
    lake.spoil(dark.metadata_location)
    assert "purging has stopped" in nights(lake)
    assert well.data("w0") in lake.paths()


def test_a_healthy_lake_purges_under_either_choice() -> None:
    for holds_group in (False, True):
        lake, _, well = a_lake(lambda document: None, holds_group=holds_group)
        for day in NIGHTS:
            assert lake.on(day).run().exit_code == 0
        assert well.data("w0") not in lake.paths()
