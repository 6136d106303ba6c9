"""Refreshing rollups through Spark: only what changed is written, and it equals a full look."""

from collections.abc import Iterator

import pytest

from meltline.adapters.chunks.cold_branch import BRANCH
from meltline.domain.errors import RollupRefused
from tests.spark.rollups.lake_of_rollups import DAILY, HOURLY, RollupLake
from tests.spark.setups.warehouse import setting

pytestmark = pytest.mark.spark

FULL_HOURLY = (
    "SELECT date_trunc('HOUR', ts), v, count(*), avg(id), min(id), max(id), sum(id)"
    " FROM {t} GROUP BY 1, 2"
)
FULL_DAILY = (
    "SELECT date_trunc('DAY', ts), count(*), avg(id), min(id), max(id), sum(id) FROM {t} GROUP BY 1"
)
SHOWN = "bucket, v, samples, mean, least, most, total"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RollupLake]:
    made = RollupLake.empty(tmp_path_factory.mktemp("rollups"))
    made.lake.create("t", mode="merge-on-read")
    made.lake.insert("t", 3, 2, 1, rows=3)
    yield made


def test_a_rollup_has_every_bucket_from_its_declaration_on(lake: RollupLake) -> None:
    created = lake.declare("hourly", HOURLY.format(table="t"))

    assert created.refreshed.is_refreshed
    assert created.refreshed.everything
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_a_refresh_with_nothing_new_commits_nothing(lake: RollupLake) -> None:
    before = lake.lake.head("_rollup_hourly")

    done = lake.refresh("hourly")

    assert (done.is_refreshed, done.buckets) == (False, 0)
    assert lake.lake.head("_rollup_hourly") == before


def test_a_late_row_rewrites_its_own_bucket_and_no_other_file(lake: RollupLake) -> None:
    before = lake.files("hourly")
    day = lake.lake.day(2)
    lake.lake.w.sql(f"INSERT INTO {{t}} VALUES (900, TIMESTAMP '{day} 17:20:00', 'late')")

    done = lake.refresh("hourly")

    assert (done.buckets, done.rows, done.everything) == (1, 1, False)
    assert before < lake.files("hourly")
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_an_update_rewrites_the_bucket_of_its_row_alone(lake: RollupLake) -> None:
    before = lake.files("hourly")
    lake.lake.w.sql("UPDATE {t} SET id = id + 7000 WHERE v = 'late'")

    done = lake.refresh("hourly")

    assert done.buckets == 1
    assert len(before - lake.files("hourly")) == 1
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_a_bucket_whose_last_row_was_deleted_has_no_row_any_more(lake: RollupLake) -> None:
    lake.lake.w.sql("DELETE FROM {t} WHERE v = 'late'")

    done = lake.refresh("hourly")

    assert (done.buckets, done.rows) == (1, 0)
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_a_compaction_rewrites_nothing_but_where_the_rollup_stands(lake: RollupLake) -> None:
    before = lake.files("hourly")
    lake.lake.insert("t", 1)
    lake.refresh("hourly")
    after = lake.files("hourly")
    lake.call("rewrite_data_files", "t", "options => map('rewrite-all', 'true')")

    done = lake.refresh("hourly")

    assert done.buckets == 0
    assert lake.files("hourly") == after != before
    assert not lake.refresh("hourly").is_refreshed


def test_a_rollup_over_a_rollup_averages_by_its_parts(lake: RollupLake) -> None:
    lake.lake.insert("t", 3, rows=1)
    lake.declare("daily", DAILY.format(table="_rollup_hourly"), depends_on=["hourly"])

    refreshed = lake.refresh_all()

    assert [r.rollup.name for r in refreshed] == ["hourly", "daily"]
    shown = "bucket, samples, mean, least, most, total"
    assert lake.rows("daily", shown) == lake.computed(FULL_DAILY)


def test_buckets_shorter_than_an_hour_share_a_file_and_stay_apart(lake: RollupLake) -> None:
    lake.declare(
        "often",
        "SELECT time_bucket('15 minutes', ts) AS b, count(*) AS n FROM t GROUP BY 1",
    )
    day = lake.lake.day(1)
    lake.lake.w.sql(
        f"INSERT INTO {{t}} VALUES (1, TIMESTAMP '{day} 03:50:00', 'x'),"
        f" (2, TIMESTAMP '{day} 03:20:00', 'y')"
    )

    done = lake.refresh("often")

    assert done.buckets == 2
    assert lake.rows("often") == lake.computed(
        "SELECT timestamp_micros(unix_micros(ts) - unix_micros(ts) % 900000000), count(*)"
        " FROM {t} GROUP BY 1"
    )


def test_what_a_killed_refresh_has_written_is_never_seen(lake: RollupLake) -> None:
    """It lies on the branch on which the refresh wrote; the next one begins that anew."""
    lake.refresh("hourly")
    before = lake.rows("hourly", SHOWN)
    lake.lake.w.sql(
        f"ALTER TABLE {{_rollup_hourly}} CREATE BRANCH {BRANCH}",
        f"INSERT INTO {lake.lake.w.name('_rollup_hourly')}.branch_{BRANCH}"
        " SELECT * FROM {_rollup_hourly}",
    )
    assert lake.rows("hourly", SHOWN) == before
    lake.lake.insert("t", 2, rows=1)

    done = lake.refresh("hourly")

    assert (done.everything, done.buckets) == (False, 1)
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)
    assert set(lake.lake.w.document("_rollup_hourly")["refs"]) == {"main"}


def test_after_a_rollback_everything_is_aggregated_anew(lake: RollupLake) -> None:
    lake.lake.w.sql(f"INSERT INTO {{t}} VALUES (77, TIMESTAMP '{lake.lake.day(0)} 01:00:00', 'z')")
    lake.refresh("hourly")
    snapshots = lake.lake.w.document("t")["snapshots"]
    lake.call("rollback_to_snapshot", "t", f"snapshot_id => {snapshots[-2]['snapshot-id']}")

    done = lake.refresh("hourly")

    assert done.everything
    assert done.buckets == 1
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_rows_that_somebody_wrote_into_a_rollup_are_mended(lake: RollupLake) -> None:
    lake.lake.w.sql("INSERT INTO {_rollup_hourly} SELECT * FROM {_rollup_hourly} LIMIT 1")

    done = lake.refresh("hourly")

    assert done.everything
    assert done.buckets == 1
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)


def test_a_session_of_another_zone_gets_the_same_buckets(lake: RollupLake) -> None:
    lake.lake.w.sql(
        "CREATE TABLE {zoned} (at TIMESTAMP_NTZ, n INT) USING iceberg PARTITIONED BY (days(at))",
        "INSERT INTO {zoned} VALUES (TIMESTAMP_NTZ '2026-01-31 23:30:00', 1),"
        " (TIMESTAMP_NTZ '2026-02-01 00:30:00', 2)",
    )
    spark = lake.lake.w.spark
    query = "SELECT time_bucket('1 month', at) AS month, sum(n) AS n FROM zoned GROUP BY 1"
    services = lake.services()  # which would set the zone by itself
    with setting(spark, "spark.sql.session.timeZone", "Asia/Kathmandu"):
        lake.declare("zoned", query, services=services)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"

    shown = "date_format(month, 'yyyy-MM-dd HH:mm'), n"
    with setting(spark, "spark.sql.session.timeZone", "UTC"):
        assert lake.rows("zoned", shown) == [("2026-01-01 00:00", 1), ("2026-02-01 00:00", 2)]


def test_a_column_that_is_gone_leaves_the_rollup_as_it_was_and_is_named(lake: RollupLake) -> None:
    before = lake.rows("hourly", SHOWN)
    lake.lake.insert("t", 1)
    lake.lake.w.sql("ALTER TABLE {t} RENAME COLUMN v TO w")

    refreshed = {done.rollup.name: done for done in lake.refresh_all()}

    error = refreshed["hourly"].error
    assert isinstance(error, RollupRefused) and "`v`" in error.found
    assert lake.rows("hourly", SHOWN) == before
    assert "cannot be refreshed" in lake.known("hourly").problem
    lake.lake.w.sql("ALTER TABLE {t} RENAME COLUMN w TO v")
    assert lake.refresh("hourly").buckets and not lake.known("hourly").problem


def test_buckets_in_one_file_with_a_changed_one_stay_whatever_its_owner_has_done(
    lake: RollupLake,
) -> None:
    lake.lake.w.sql(
        "ALTER TABLE {_rollup_hourly} REPLACE PARTITION FIELD bucket_hour WITH months(bucket)"
    )
    lake.call("rewrite_data_files", "_rollup_hourly", "options => map('rewrite-all', 'true')")
    before = lake.files("hourly")
    lake.lake.w.sql(f"INSERT INTO {{t}} VALUES (5, TIMESTAMP '{lake.lake.day(2)} 03:20:00', 'a')")

    done = lake.refresh("hourly")

    assert (done.buckets, done.everything) == (1, False)
    assert done.rows > 1, "what lies beside it in its file is written again"
    assert len(before - lake.files("hourly")) == 1
    assert lake.rows("hourly", SHOWN) == lake.computed(FULL_HOURLY)
