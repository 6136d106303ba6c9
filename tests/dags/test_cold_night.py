"""A night of the real DAG, with real Spark, on a lake that has a cold tier."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from meltline.domain.units import format_instant
from tests.dags.airflow_home import DAG_ID, new_home
from tests.dags.busy_writer import rows
from tests.dags.small_lake import COMMITS, TABLES, LakeState, small_lake

pytestmark = [
    pytest.mark.slow("a whole night with real Spark"),
    pytest.mark.airflow,
    pytest.mark.spark,
]


def archived(lake: Path, table: str) -> list[list[int]]:
    """The rows of each snapshot of a table of the archive, as any engine reads them."""
    catalog = SqlCatalog("archive", uri=f"sqlite:///{lake.parent}/archive.db")
    try:
        found = catalog.load_table(("air", table))
        return sorted(rows(found, snapshot.snapshot_id) for snapshot in found.snapshots())
    finally:
        catalog.close()


def test_history_is_in_the_archive_row_for_row_before_it_leaves_the_lake(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake", cold=True)
    airflow = new_home(tmp_path / "airflow", MELTLINE_CONFIG=str(lake))
    as_of = json.dumps({"as_of": format_instant(datetime.now(UTC))})
    airflow.airflow("dags", "test", DAG_ID, "--conf", as_of)
    for table in TABLES:
        past = [list(range(number, number + 4)) for number in range(1, COMMITS)]
        assert archived(lake, table) == past
    # What was handed over has expired, and its files have gone the same night.
    assert LakeState.of(lake) == LakeState(
        {table: [COMMITS] for table in TABLES}, dict.fromkeys(TABLES, 1)
    )
