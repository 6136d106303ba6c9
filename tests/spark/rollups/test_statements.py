"""The statements of the source about rollups, as it writes them, on real Spark (LT-27, LT-28)."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import meltline
from meltline.domain.errors import RollupInvalid, RollupNotFound, StatementUnsupported
from tests.spark.rollups.lake_of_rollups import RollupLake
from tests.spark.setups.warehouse import SPACE

pytestmark = pytest.mark.spark

AGGREGATES = (
    " avg(temperature) AS avg_temp, max(temperature) AS max_temp, min(temperature) AS min_temp,"
    " count(*) AS sample_count"
)


class Session:
    """A session of a person's own, in the schema of a table of sensors."""

    def __init__(self, lake: RollupLake) -> None:
        self.lake = lake
        self.spark = lake.lake.w.spark

    def rows(self, text: str) -> list[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notices
            frame = meltline.sql(self.spark, text, config=self.lake.lake.w.yaml)
        return [row.asDict() for row in frame.collect()]

    def value(self, call: str) -> Any:
        (row,) = self.rows(f"SELECT lakets.{call}")
        ((column, value),) = row.items()
        assert column == call.partition("(")[0]
        return value

    def insert(self, day: str, hour: int, device: int, temperature: float) -> None:
        moment = f"TIMESTAMP '{day} {hour:02}:30:00'"
        self.spark.sql(f"INSERT INTO sensor_data VALUES ({device}, {moment}, {temperature})")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = Session(RollupLake.empty(tmp_path_factory.mktemp("statements")))
    spark, before = made.spark, made.spark.catalog.currentCatalog()
    spark.sql(f"USE {made.lake.lake.w.catalog}.{SPACE}")
    spark.sql(
        "CREATE TABLE sensor_data (device_id BIGINT, time TIMESTAMP, temperature DOUBLE)"
        " USING iceberg PARTITIONED BY (days(time))"
    )
    made.insert("2026-03-01", 1, 7, 10.0)
    made.insert("2026-03-01", 1, 7, 20.0)
    made.insert("2026-03-01", 2, 7, 60.0)
    made.insert("2026-03-02", 2, 8, 5.0)
    yield made
    spark.catalog.setCurrentCatalog(before)


def test_an_hourly_rollup_and_a_daily_one_above_it(session: Session) -> None:
    hourly = session.value(
        f"""create_rollup(
        'hourly_sensors',
        $$SELECT lakets.time_bucket('1 hour', time) AS bucket,
            device_id,{AGGREGATES}
            FROM sensor_data
            GROUP BY 1, 2$$,
        '1 hour',
        'sensor_data'
    )"""
    )
    daily = session.value(
        """create_rollup(
        'daily_sensors',
        $$SELECT lakets.time_bucket('1 day', bucket) AS bucket,
                device_id,
                avg(avg_temp) AS avg_temp,
                max(max_temp) AS max_temp,
                min(min_temp) AS min_temp,
                sum(sample_count) AS sample_count
           FROM public._rollup_hourly_sensors
           GROUP BY 1, 2$$,
        '1 day',
        NULL, 'public',
        ARRAY['hourly_sensors']
    )"""
    )

    assert isinstance(hourly, int) and daily == hourly + 1
    shown = session.rows(
        "SELECT date_format(bucket, 'dd') AS day, device_id, avg_temp, max_temp, sample_count"
        " FROM _rollup_daily_sensors ORDER BY 1"
    )
    assert [tuple(row.values()) for row in shown] == [
        ("01", 7, 30.0, 60.0, 3),
        ("02", 8, 5.0, 5.0, 1),
    ]


def test_a_view_has_what_came_after_the_last_refresh_too(session: Session) -> None:
    session.value(
        f"""create_rollup_view(
        'hourly_sensors',
        $$SELECT lakets.time_bucket('1 hour', time) AS bucket,
                device_id,{AGGREGATES}
           FROM sensor_data
           WHERE time > lakets._rollup_watermark('hourly_sensors')
           GROUP BY 1, 2$$
    )"""
    )
    session.insert("2026-03-02", 3, 8, 9.0)

    def samples(table: str) -> int:
        (row,) = session.rows(f"SELECT sum(sample_count) AS n FROM {table}")
        return int(row["n"])

    assert (samples("_rollup_hourly_sensors"), samples("_rollup_rt_hourly_sensors")) == (4, 5)
    assert session.value("refresh_rollup('hourly_sensors')") is True
    assert (samples("_rollup_hourly_sensors"), samples("_rollup_rt_hourly_sensors")) == (5, 5)
    assert session.value("refresh_rollup('hourly_sensors')") is False
    with pytest.raises(RollupInvalid):
        session.value(
            "create_rollup_view('hourly_sensors', $$SELECT time_bucket('1 hour', time) AS bucket,"
            " count(*) AS n FROM sensor_data GROUP BY 1$$)"
        )


def test_a_cascade_refreshes_in_order_and_says_how_long_it_took(session: Session) -> None:
    assert session.value("enable_rollup_invalidation('hourly_sensors')") == ""
    session.insert("2026-03-01", 1, 7, 90.0)

    rows = session.rows("SELECT * FROM lakets.refresh_rollup_cascade()")

    assert [(r["rollup_name"], r["refreshed"]) for r in rows] == [
        ("hourly_sensors", True),
        ("daily_sensors", True),
    ]
    assert all(row["refresh_ms"] > 0 for row in rows)
    again = session.rows("SELECT * FROM lakets.refresh_rollup_cascade('daily_sensors')")
    assert [row["refreshed"] for row in again] == [False, False]


def test_a_range_is_invalidated_by_hand(session: Session) -> None:
    march = "'2026-03-01', '2026-03-31'"
    assert session.value(f"invalidate_rollup_range('hourly_sensors', {march})") == 30 * 24
    assert session.value(f"invalidate_rollup_range('hourly_sensors', {march}, 'cold')") == 0
    assert session.value("refresh_rollup('hourly_sensors')") is False, "no value was another one"


def test_rollups_are_shown_with_what_they_depend_on(session: Session) -> None:
    daily, hourly = session.rows("SELECT * FROM lakets.show_rollups()")
    assert (hourly["name"], hourly["bucket_interval"], hourly["bucket_column"]) == (
        "hourly_sensors",
        "1 hour",
        "bucket",
    )
    assert hourly["rollup_table"].endswith("._rollup_hourly_sensors")
    assert hourly["realtime_view"].endswith("._rollup_rt_hourly_sensors")
    assert hourly["source_table"].endswith(".sensor_data") and daily["source_table"].endswith(
        "._rollup_hourly_sensors"
    )
    assert f"{hourly['watermark']:%Y-%m-%d %H:%M}" == "2026-03-02 03:00"
    assert len(daily["depends_on"]) == 1 and hourly["depends_on"] == []
    dag = session.rows("SELECT * FROM lakets.show_rollup_dag()")
    assert [(r["rollup_name"], r["depends_on_names"], r["refresh_order"]) for r in dag] == [
        ("hourly_sensors", [], 1),
        ("daily_sensors", ["hourly_sensors"], 2),
    ]


def test_a_rollup_has_policies_by_its_own_name(session: Session) -> None:
    assert isinstance(session.value("add_retention_policy('hourly_sensors', '10 years')"), int)
    (policy,) = session.rows("SELECT * FROM lakets.show_retention_policy('hourly_sensors')")
    assert policy["drop_after"] == "10y"
    assert session.value("remove_retention_policy('_rollup_hourly_sensors')") == ""


def test_rollups_are_dropped_from_above(session: Session) -> None:
    with pytest.raises(RollupInvalid, match="depend on"):
        session.value("drop_rollup('hourly_sensors')")
    assert session.value("drop_rollup('daily_sensors')") == ""
    assert session.value("drop_rollup('hourly_sensors')") == ""
    assert session.rows("SELECT * FROM lakets.show_rollups()") == []
    assert not session.spark.catalog.tableExists("_rollup_rt_hourly_sensors")
    with pytest.raises(RollupNotFound):
        session.value("refresh_rollup('hourly_sensors')")
    with pytest.raises(StatementUnsupported, match="disable_rollup_invalidation"):
        session.value("disable_rollup_invalidation('hourly_sensors')")
