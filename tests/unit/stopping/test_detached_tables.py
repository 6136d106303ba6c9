"""Tables that a person has detached with a reason: each night names them, and none fails."""

from collections.abc import Callable

import pytest

from meltline.app.catalog.management import attach, detach
from meltline.app.doctor.doctor import examine
from meltline.app.run.summary import Summary
from meltline.domain.errors import MetadataUnreadable
from tests.lake.lake import Lake, Table

REASON = "frozen since its writer is gone"


def miscounted(lake: Lake, table: Table) -> None:
    """A commit that nobody has seen yet has too many files in its totals."""
    table.append("miscounted")

    def change(document: dict[str, object]) -> None:
        for snapshot in document["snapshots"]:  # type: ignore[attr-defined]
            snapshot["summary"]["total-data-files"] = "9"

    table.edit(change)


def torn(lake: Lake, table: Table) -> None:
    """Its metadata file is read no more, and was read before."""
    lake.spoil(table.metadata_location)


def a_lake(harm: Callable[[Lake, Table], None]) -> tuple[Lake, Table, Table]:
    """Two tables of three commits each; one comes to harm after a first run."""
    lake = Lake()
    odd, well = (lake.on(0).table(name) for name in ("odd", "well"))
    odd.append("o")
    for day in range(3):
        lake.on(day)
        well.overwrite(f"w{day}")
    lake.on(3).run()
    harm(lake, odd)
    return lake, odd, well


def left_out(summary: Summary, table: Table) -> list[str]:
    return [notice for notice in summary.notices if notice.startswith(f"{table.name} is detached")]


def levels(lake: Lake, table: Table) -> set[str]:
    """How doctor ranks that a table is left out."""
    codes = ("table_unreadable", "table_skipped")
    findings = examine(lake.services())
    return {f.level for f in findings if f.code in codes and f.object == str(table.name)}


@pytest.mark.parametrize("harm", [miscounted, torn])
def test_a_table_that_is_detached_with_a_reason_is_information_each_night(
    harm: Callable[[Lake, Table], None],
) -> None:
    lake, odd, well = a_lake(harm)
    assert lake.on(8).run().exit_code == 4
    assert levels(lake, odd) == {"error"}
    detach(lake.services(), [odd.name], REASON)
    for day in (13, 18, 23, 28):
        summary = lake.on(day).run()
        assert summary.exit_code == 0
        (notice,) = left_out(summary, odd)
        assert REASON in notice
    assert levels(lake, odd) == {"info"}
    assert odd.data("o") in lake.paths() and well.data("w0") not in lake.paths()


@pytest.mark.parametrize("harm", [miscounted, torn])
def test_a_table_that_is_detached_without_a_reason_is_still_an_alarm(
    harm: Callable[[Lake, Table], None],
) -> None:
    lake, odd, _ = a_lake(harm)
    detach(lake.services(), [odd.name], "")
    summary = lake.on(8).run()
    assert summary.exit_code == 4 and not left_out(summary, odd)


def test_a_table_that_shares_files_with_it_is_an_alarm_as_it_waits_too() -> None:
    lake, odd, well = a_lake(lambda lake, table: None)
    odd.append(well.data("w1"))
    lake.on(4).run()
    torn(lake, odd)
    detach(lake.services(), [odd.name], REASON)
    summary = lake.on(8).run()
    assert summary.exit_code == 4
    assert {t.table for t in summary.tables.values() if t.skipped} == {str(well.name)}


def test_attaching_it_ends_that() -> None:
    lake, odd, _ = a_lake(torn)
    detach(lake.services(), [odd.name], REASON)
    attach(lake.services(), odd.name)
    assert lake.on(8).run().exit_code == 4
    with pytest.raises(MetadataUnreadable):
        attach(lake.services(), odd.name)


def test_a_detached_table_whose_new_metadata_is_unread_stops_purging_and_is_an_alarm() -> None:
    lake, odd, _ = a_lake(miscounted)
    detach(lake.services(), [odd.name], REASON)
    odd.append("more")
    torn(lake, odd)
    summary = lake.on(8).run()
    assert summary.purge_blocked and summary.exit_code == 4


def test_a_healthy_table_that_is_detached_is_left_alone_in_silence() -> None:
    lake, odd, _ = a_lake(lambda lake, table: None)
    detach(lake.services(), [odd.name], REASON)
    summary = lake.on(8).run()
    assert summary.exit_code == 0 and not left_out(summary, odd)
