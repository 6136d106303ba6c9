"""Calls about rollups, by the signatures of the reference, and those that need no engine."""

from datetime import UTC, datetime
from typing import Any

import pytest

from meltline.app.sql.lakets.rollup_functions import SIGNATURES
from meltline.app.sql.lakets.signatures import bound
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.errors import SqlUnreadable
from meltline.domain.iceberg.names import TableName
from meltline.grammar import parse
from meltline.grammar.statements import FunctionCall
from tests.unit.sql.lakets_session import LaketsSession

QUERY = """SELECT lakets.time_bucket('1 hour', time) AS bucket, device_id, avg(v) AS "mean"
  FROM sensor_data -- all of it
 GROUP BY 1, 2"""


def said(text: str) -> dict[str, Any]:
    call = parse(text)
    assert isinstance(call, FunctionCall)
    (signature,) = [s for s in SIGNATURES if s.name == call.name]
    return bound(call, signature)


def test_a_rollup_is_made_as_the_reference_writes_it() -> None:
    text = f"SELECT lakets.create_rollup('hourly', $${QUERY}$$, '1 hour', 'sensor_data');"
    assert said(text) == {
        "p_name": "hourly",
        "p_query": QUERY,
        "p_bucket_interval": "1 hour",
        "p_source_table": "sensor_data",
        "p_source_schema": None,
        "p_depends_on": (),
    }


@pytest.mark.parametrize(
    "rest",
    [
        "'1 day', NULL, 'public', ARRAY['hourly', 'other']",
        "'1 day', NULL, 'public', 'incremental', ARRAY['hourly', 'other']",
        "'1 day', NULL, 'public', '{hourly, \"other\"}'",
        "INTERVAL '1 day', p_source_schema => 'public', p_depends_on => '{hourly,other}'::text[]",
        "'1 day', p_refresh_mode => 'incremental', p_source_schema => 'public',"
        " p_depends_on => ARRAY['hourly', 'other']",
    ],
)
def test_both_versions_of_the_reference_are_understood(rest: str) -> None:
    values = said(f"SELECT lakets.create_rollup('daily', $q$SELECT 1$q$, {rest})")
    assert (values["p_bucket_interval"], values["p_source_table"]) == ("1 day", None)
    assert (values["p_source_schema"], values["p_depends_on"]) == ("public", ("hourly", "other"))


def test_a_whole_refresh_is_no_mode_of_ours() -> None:
    with pytest.raises(SqlUnreadable):
        said("SELECT lakets.create_rollup('a', 'SELECT 1', p_refresh_mode => 'full')")


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("'2026-03-01'", datetime(2026, 3, 1, tzinfo=UTC)),
        ("'2026-03-01 06:30:00'", datetime(2026, 3, 1, 6, 30, tzinfo=UTC)),
        ("'2026-03-01 06:30:00+02'", datetime(2026, 3, 1, 4, 30, tzinfo=UTC)),
        ("'2026-03-01 06:30:00+00'::timestamptz", datetime(2026, 3, 1, 6, 30, tzinfo=UTC)),
        ("TIMESTAMPTZ '2026-03-01T06:30:00Z'", datetime(2026, 3, 1, 6, 30, tzinfo=UTC)),
    ],
)
def test_times_are_of_utc_unless_they_say_otherwise(written: str, moment: datetime) -> None:
    values = said(f"SELECT lakets.invalidate_rollup_range('hourly', {written}, '2026-03-31')")
    assert values == {
        "p_name": "hourly",
        "p_from": moment,
        "p_to": datetime(2026, 3, 31, tzinfo=UTC),
        "p_tier": None,
    }


def test_a_tier_and_a_time_that_there_are_not_are_refused() -> None:
    for rest in (
        "'2026-03-01', '2026-03-31', 'warm'",
        "'2026-13-01', '2026-03-31'",
        "'0001-01-01 00:00:00+05', '2026-03-31'",
        "'soon', NULL",
    ):
        with pytest.raises(SqlUnreadable):
            said(f"SELECT lakets.invalidate_rollup_range('hourly', {rest})")


def test_all_rollups_are_refreshed_where_none_is_named() -> None:
    for text in ("", "NULL", "p_name => NULL"):
        assert said(f"SELECT * FROM lakets.refresh_rollup_cascade({text})") == {"p_name": None}


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
