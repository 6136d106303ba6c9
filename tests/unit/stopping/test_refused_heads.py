"""Heads that Iceberg's Java library refuses to load: their table is named, and the others go on."""

from datetime import timedelta
from typing import Any

from meltline.app.doctor.doctor import examine
from meltline.domain.iceberg.metadata_editor import PREVIOUS_VERSIONS
from tests.lake.lake import Lake, Table


def a_lake() -> tuple[Lake, Table, Table]:
    """Two tables of four snapshots each; on day 12 the first three of each may go."""
    lake = Lake()
    late, well = (lake.on(0).table(name) for name in ("late", "well"))
    for day in range(4):
        lake.on(day)
        late.overwrite(f"l{day}")
        well.overwrite(f"w{day}")
    return lake.on(12), late, well


def committed_late(table: Table, late: timedelta) -> None:
    """Leaves a head as PyIceberg does whose transaction began before somebody else's commit."""

    def change(document: dict[str, Any]) -> None:
        newest = document["metadata-log"][-1]["timestamp-ms"]
        document["last-updated-ms"] = newest - late // timedelta(milliseconds=1)
        document["snapshot-log"] = []

    table.edit(change)


def test_its_table_is_left_out_by_name_with_the_way_out_and_others_go_on() -> None:
    lake, late, well = a_lake()
    committed_late(late, timedelta(minutes=2))
    summary = lake.run()
    assert len(late.snapshots) == 4 and len(well.snapshots) == 1
    assert {plan.table for plan in lake.control.plans.find()} == {well.name}
    tables = {one["table"]: one for one in summary.as_json()["tables"]}
    assert "Iceberg's Java library" in tables[str(late.name)]["skipped"]
    (finding,) = [f for f in examine(lake.services()) if f.code == "head_refused_by_iceberg"]
    assert finding.object == str(late.name) and "previous-versions-max=1" in finding.fix


def test_it_is_still_left_out_where_somebody_has_committed_since() -> None:
    lake, late, _ = a_lake()
    committed_late(late, timedelta(minutes=2))
    lake.on(13)
    late.configure(mended="true")
    assert lake.run().exit_code == 4
    assert len(late.snapshots) == 4


def test_it_expires_as_ever_once_its_metadata_log_begins_anew() -> None:
    lake, late, _ = a_lake()
    committed_late(late, timedelta(minutes=2))
    lake.run()
    lake.on(13)
    late.configure(**{PREVIOUS_VERSIONS: "1"})
    assert lake.run().exit_code == 0
    assert len(late.snapshots) == 1


def test_clocks_that_differ_by_less_than_iceberg_allows_hinder_nothing() -> None:
    lake, late, _ = a_lake()
    committed_late(late, timedelta(minutes=1))
    assert lake.run().exit_code == 0
    assert len(late.snapshots) == 1
