"""Views of a rollup with what came after it: which queries go on where it ends."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from meltline.app.chunks.rollups.realtime import realtime_text
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.errors import RollupInvalid
from meltline.domain.iceberg.names import TableName

COLUMNS = "lakets.time_bucket('1 hour', ts) AS bucket, avg(v) AS mean, count(*) AS n"
LATER = "WHERE ts > lakets._rollup_watermark('hourly')"
ROLLUP = Rollup(
    id=1,
    name="hourly",
    table=TableName("lake", ("air",), "_rollup_hourly"),
    table_uuid="r",
    source=TableName("lake", ("air",), "t"),
    source_uuid="t",
    query=f"SELECT {COLUMNS} FROM t GROUP BY 1",
    width="1 hour",
    bucket_column="bucket",
    depends_on=(),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def text(query: str, rollup: Rollup = ROLLUP) -> str:
    return realtime_text([ROLLUP, rollup], rollup, query, str)


def test_the_rollups_own_query_goes_on_after_its_newest_bucket() -> None:
    view = text(f"SELECT {COLUMNS} FROM t {LATER} GROUP BY 1")

    made, rows, later = view.partition("SELECT * FROM lake.air._rollup_hourly UNION ALL ")
    assert made == "CREATE OR REPLACE VIEW lake.air._rollup_rt_hourly AS " and rows
    assert "FROM lake.air.t AS t" in later and "max(`bucket`)" in later
    assert "_rollup_watermark" not in later


def test_names_may_be_written_in_other_letters() -> None:
    assert text(f"SELECT {COLUMNS.replace('mean', 'MEAN')} FROM t {LATER} GROUP BY 1")


@pytest.mark.parametrize(
    "columns",
    [
        "time_bucket('1 hour', ts) AS bucket, count(*) AS n, avg(v) AS mean",
        "time_bucket('1 hour', ts) AS bucket, avg(v) AS mean",
        "time_bucket('1 hour', ts) AS bucket, avg(v) AS mean, count(*) AS n, max(v) AS most",
        "time_bucket('1 hour', ts) AS bucket, avg(v) AS median, count(*) AS n",
        "time_bucket('1 hour', ts) AS bucket, max(v) AS mean, count(*) AS n",
    ],
    ids=["another order", "one less", "one more", "another name", "no parts of an average"],
)
def test_columns_that_would_stand_below_others_are_refused(columns: str) -> None:
    with pytest.raises(RollupInvalid) as refused:
        text(f"SELECT {columns} FROM t {LATER} GROUP BY 1")
    assert "its columns in the same order" in refused.value.expected


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {COLUMNS} FROM t GROUP BY 1",
        f"SELECT {COLUMNS} FROM t {LATER.replace('hourly', 'daily')} GROUP BY 1",
        f"SELECT {COLUMNS} FROM other {LATER} GROUP BY 1",
        f"SELECT {COLUMNS.replace('1 hour', '1 day')} FROM t {LATER} GROUP BY 1",
    ],
    ids=["all of it", "from another's end", "another table", "another width"],
)
def test_a_query_that_does_not_go_on_there_is_refused(query: str) -> None:
    with pytest.raises(RollupInvalid):
        text(query)


def test_above_a_rollup_averages_go_by_their_parts_on_both_sides() -> None:
    daily = replace(
        ROLLUP,
        name="daily",
        table=TableName("lake", ("air",), "_rollup_daily"),
        table_uuid="d",
        source=ROLLUP.table,
        source_uuid=ROLLUP.table_uuid,
        query="SELECT time_bucket('1 day', bucket) AS bucket, avg(mean) AS mean"
        " FROM _rollup_hourly GROUP BY 1",
        width="1 day",
    )
    later = "WHERE bucket > lakets._rollup_watermark('daily')"

    view = text(daily.query.replace("GROUP", f"{later} GROUP"), daily)

    assert "SUM(mean__sum)" in view and "FROM lake.air._rollup_hourly AS" in view
