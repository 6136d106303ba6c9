"""Tables that were read wholly and contradict themselves: their group waits, the others go on."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.doctor.doctor import examine
from tests.lake.avro_files import list_bytes
from tests.lake.lake import Lake, Table

Document = dict[str, Any]
LAST_DAY = 30  # windows of 7 days and failsafes of 7 days are over


def miscounted(document: Document) -> None:
    """Totals that are the commit's own, as some libraries write them."""
    for snapshot in document["snapshots"]:
        added = "1" if snapshot is not document["snapshots"][0] else "0"
        snapshot["summary"]["total-data-files"] = added


def too_few(document: Document) -> None:
    """Totals that one wrong commit has left too high for ever."""
    for snapshot in document["snapshots"]:
        snapshot["summary"]["total-data-files"] = "9"


def main_is_a_tag(document: Document) -> None:
    document["refs"]["main"]["type"] = "tag"


def ref_dangles(document: Document) -> None:
    document["refs"]["old"] = {"snapshot-id": 12345, "type": "tag"}


def a_lake(change: Callable[[Document], None]) -> tuple[Lake, Table, Table]:
    """Two tables of three commits each, one of which is first seen as a writer has left it."""
    lake = Lake()
    odd, well = (lake.on(0).table(name) for name in ("odd", "well"))
    for day in range(3):
        lake.on(day)
        odd.append(f"o{day}")
        well.overwrite(f"w{day}")
    odd.edit(change)
    return lake, odd, well


def nights(lake: Lake) -> list[int]:
    """Runs every fifth day; returns their exit codes."""
    return [lake.on(day).run().exit_code for day in range(3, LAST_DAY, 5)]


@pytest.mark.parametrize("change", [miscounted, too_few, main_is_a_tag, ref_dangles])
def test_a_table_that_was_read_wholly_stops_no_other_tables_purge(
    change: Callable[[Document], None],
) -> None:
    lake, odd, well = a_lake(change)
    gone = {well.data("w0"), well.data("w1")}
    assert set(nights(lake)) == {4}
    assert len(well.snapshots) == 1 and not gone & lake.paths()
    assert len(odd.snapshots) == 3
    summary = lake.run().as_json()
    assert {t["table"] for t in summary["tables"] if t["skipped"]} == {str(odd.name)}
    findings = examine(lake.services())
    assert [f for f in findings if f.object == str(odd.name)]
    assert not [f for f in findings if f.code == "purging_held_back"]


@pytest.mark.parametrize("change", [miscounted, too_few])
def test_what_shares_files_with_it_waits(change: Callable[[Document], None]) -> None:
    lake, odd, well = a_lake(change)
    odd.append(well.data("w0"))
    odd.edit(change)
    nights(lake)
    assert well.data("w0") in lake.paths() and well.data("w1") in lake.paths()


def test_a_list_that_ends_after_its_header_may_have_named_any_file() -> None:
    lake, odd, well = a_lake(lambda document: None)
    head = odd.snapshot(odd.head)
    lake.spoil(head["manifest-list"], empty_list(lake, odd))
    assert set(nights(lake)) == {4}
    assert well.data("w0") in lake.paths()


def empty_list(lake: Lake, table: Table) -> bytes:
    """A list that names no manifest, sound as a file."""
    return list_bytes(table.version, [])


def test_it_expires_as_ever_once_its_totals_are_right_again() -> None:
    lake, odd, _ = a_lake(miscounted)
    nights(lake)

    def mended(document: Document) -> None:
        for number, snapshot in enumerate(document["snapshots"], start=1):
            snapshot["summary"]["total-data-files"] = str(number)

    odd.edit(mended)
    assert lake.on(LAST_DAY + 1).run().exit_code == 0
    assert len(odd.snapshots) == 1
