"""Files that a table added and removed outside of its present folders: L8 of such nights."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lake.lake import Table
from tests.unit.status.nightly import NightlyLake

LAST_NIGHT = 24  # windows of 7 days and failsafes of 7 days are over
DATA_PATH = "write.data.path"


def moved(table: Table, location: str) -> None:
    """ALTER TABLE … SET LOCATION."""
    table.edit(lambda document: document.update(location=location))


def data_path_was_set_and_unset(table: Table) -> str:
    left = "file:///w/objects/part=1/left.parquet"
    table.configure(**{DATA_PATH: "file:///w/objects"})
    table.append(left)
    table.edit(lambda document: document["properties"].pop(DATA_PATH))
    return left


def location_was_set_twice(table: Table) -> str:
    home = table.location
    moved(table, "file:///w/for-an-hour")
    table.append("left")
    left = table.data("left")
    moved(table, home)
    return left


@pytest.mark.parametrize("stage", [data_path_was_set_and_unset, location_was_set_twice])
def test_what_a_table_wrote_where_it_was_between_two_nights_goes_as_all_else(
    stage: Callable[[Table], str], tmp_path: Path
) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    odd.append("first")
    nightly.nights(1, 2)
    left = stage(odd)
    odd.overwrite("last")
    assert nightly.nights(*range(3, LAST_NIGHT)).exit_code == 0
    assert left not in nightly.lake.paths()
    assert nightly.lake.control.places.withheld() == []
    assert odd.data("last") in nightly.lake.paths()
