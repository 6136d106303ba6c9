"""Functions about rollups that need no engine."""

from datetime import UTC, datetime

from meltline.domain.chunks.rollup import Rollup
from meltline.domain.iceberg.names import TableName
from tests.unit.sql.lakets_session import LaketsSession


def test_a_rollup_is_shown_though_nobody_knows_any_more_what_it_depends_on() -> None:
    """Somebody dropped that while this one was declared."""
    sql = LaketsSession()
    sql.lake.control.rollups.add(
        Rollup(
            id=0,
            name="daily",
            table=TableName("lake", ("air",), "_rollup_daily"),
            table_uuid="r",
            source=TableName("lake", ("air",), "_rollup_hourly"),
            source_uuid="gone",
            query="SELECT",
            width="1 day",
            bucket_column="bucket",
            depends_on=("hourly",),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
    )
    (row,) = sql.rows("SELECT * FROM lakets.show_rollups()")
    assert (row["name"], row["depends_on"]) == ("daily", [])
    (placed,) = sql.rows("SELECT * FROM lakets.show_rollup_dag()")
    assert placed["depends_on_names"] == ["hourly"]
    assert "is gone" in sql.notices("show_rollups()")
