"""Queries of rollups: which can be refreshed by parts, and what Spark is told instead."""

import pytest
import sqlglot

from meltline.domain.errors import RollupInvalid
from meltline.grammar.rollups import AGGREGATES, SOURCE_VIEW, rollup_query

COUNTED = "SELECT {bucket} AS b, count(*) AS n FROM t GROUP BY 1"
HOURLY_SENSORS = (
    "SELECT lakets.time_bucket('1 hour', time) AS bucket, sensor_id, avg(temperature) AS avg_temp,"
    " max(temperature) AS max_temp, count(*) AS readings FROM sensor_data"
    " GROUP BY bucket, sensor_id"
)
DAILY_SENSORS = (
    "SELECT lakets.time_bucket('1 day', bucket) AS bucket, sensor_id, avg(avg_temp) AS avg_temp,"
    " max(max_temp) AS max_temp, sum(readings) AS readings FROM _rollup_hourly_sensors"
    " GROUP BY 1, 2"
)
CANDLES = (
    "SELECT lakets.time_bucket('1 minute', time) AS bucket, lakets.first(price, time) AS open,"
    " max(price) AS high, min(price) AS low, lakets.last(price, time) AS close"
    " FROM trades GROUP BY 1"
)

_OF_SQLGLOT = "logical_and logical_or approx_distinct variance_pop quantile mean "
_OF_TWO = """
    min_by max_by first last first_value last_value corr covar_pop covar_samp percentile
    percentile_cont arg_min arg_max bitwise_and_agg bitwise_or_agg bitwise_xor_agg
"""
_LEFT_OUT = frozenset((_OF_SQLGLOT + _OF_TWO).split())


def of_bucket(bucket: str) -> str:
    return COUNTED.format(bucket=bucket)


def with_rest(column: str = "count(*) AS n", rest: str = "FROM t GROUP BY 1") -> str:
    return f"SELECT time_bucket('1 hour', ts) AS b, {column} {rest}"


def columns(sql: str) -> dict[str, str]:
    select = sqlglot.parse_one(sql, read="spark")
    return {p.alias_or_name: p.unalias().sql("spark") for p in select.expressions}


def test_an_hourly_rollup_says_its_bucket_its_source_and_what_its_averages_are_made_of() -> None:
    query = rollup_query(HOURLY_SENSORS)
    assert (query.bucket_column, query.time_column) == ("bucket", "time")
    assert (query.source, str(query.width)) == (("sensor_data",), "1 hour")
    assert query.averages == ("avg_temp",)
    assert list(columns(query.sql))[-2:] == ["avg_temp__sum", "avg_temp__count"]
    assert f"FROM {SOURCE_VIEW} AS sensor_data" in query.sql


def test_a_rollup_over_a_rollup_averages_by_the_sums_and_counts_below() -> None:
    query = rollup_query(DAILY_SENSORS, rollup_query(HOURLY_SENSORS).averages)
    by_name = columns(query.sql)
    parts = "SUM(avg_temp__sum)", "SUM(avg_temp__count)"
    assert by_name["avg_temp"] == f"TRY_DIVIDE({parts[0]}, {parts[1]})"
    assert (by_name["avg_temp__sum"], by_name["avg_temp__count"]) == parts
    assert by_name["readings"] == "SUM(readings)"
    assert columns(rollup_query(DAILY_SENSORS).sql)["avg_temp"] == "AVG(avg_temp)"


def test_a_filter_on_an_average_is_one_on_its_parts() -> None:
    below = rollup_query(with_rest("avg(v) FILTER (WHERE v > 1) AS m"))
    assert columns(below.sql)["m__count"] == "COUNT(v) FILTER(WHERE v > 1)"
    above = rollup_query(with_rest("avg(M) FILTER (WHERE n > 2) AS m"), below.averages)
    filtered = "SUM(M__sum) FILTER(WHERE n > 2)", "SUM(M__count) FILTER(WHERE n > 2)"
    assert columns(above.sql)["m"] == f"TRY_DIVIDE({filtered[0]}, {filtered[1]})"


@pytest.mark.parametrize(
    ("column", "averages"),
    [
        ("round(avg(cpu)::numeric, 2) AS m", ("m",)),
        ("(avg(cpu)) AS m", ("m",)),
        ("avg(cpu) + 1 AS m", ()),
        ("CASE WHEN avg(cpu) > 5 THEN 1 END AS m", ()),
        ("avg(DISTINCT cpu) AS m", ()),
        ("avg(a) / avg(b) AS m", ()),
    ],
)
def test_only_what_is_an_average_but_for_its_digits_has_parts(
    column: str, averages: tuple[str, ...]
) -> None:
    assert rollup_query(with_rest(column)).averages == averages


def test_numerics_without_a_scale_keep_digits_to_round() -> None:
    sql = rollup_query(with_rest("round(avg(cpu)::numeric, 2) AS m")).sql
    assert columns(sql)["m"] == "ROUND(CAST(AVG(cpu) AS DECIMAL(38, 10)), 2)"


@pytest.mark.parametrize("prefix", ["lakets.", ""])
def test_the_first_and_the_last_value_are_those_by_time(prefix: str) -> None:
    by_name = columns(rollup_query(CANDLES.replace("lakets.", prefix)).sql)
    assert by_name["open"] == "MIN_BY(price, time)"
    assert by_name["close"] == "MAX_BY(price, time)"


@pytest.mark.parametrize(
    ("bucket", "width"),
    [
        ("lakets.time_bucket('15 minutes', ts)", "15 minutes"),
        ("TIME_BUCKET('1 hour'::interval, ts)", "1 hour"),
        ("time_bucket(INTERVAL '1 hour', t.ts)", "1 hour"),
        ("time_bucket(INTERVAL '30' MINUTE, ts)", "30 minutes"),
        ("time_bucket(INTERVAL 7 DAYS, ts::timestamptz)", "7 days"),
        ("time_bucket('1 month', ts)", "1 month"),
        ("date_trunc('day', ts)", "1 day"),
        ("date_trunc('QUARTER', ts)", "3 months"),
        ("date_bin('20 minutes', ts)", "20 minutes"),
        ("date_bin(INTERVAL '1 hour', ts, TIMESTAMP '2000-01-01 00:00:00')", "1 hour"),
    ],
)
def test_a_bucket_may_be_written_in_many_ways(bucket: str, width: str) -> None:
    query = rollup_query(of_bucket(bucket))
    assert (str(query.width), query.time_column) == (width, "ts")


@pytest.mark.parametrize(
    "group",
    ["1", "b", "B", "time_bucket('1 hour', ts)"],
)
def test_the_bucket_may_be_grouped_by_place_name_and_expression(group: str) -> None:
    by_place = rollup_query(with_rest())
    query = rollup_query(with_rest(rest=f"FROM t GROUP BY {group}"))
    assert query.sql == by_place.sql


def test_a_column_of_the_source_may_be_called_as_the_bucket_is() -> None:
    sql = rollup_query(
        "SELECT time_bucket('1 day', bucket) AS bucket, count(*) AS n FROM t GROUP BY bucket"
    ).sql
    select = sqlglot.parse_one(sql, read="spark")
    assert select.args["group"].expressions == [select.expressions[0].unalias()]


def test_a_filter_stays_and_an_order_goes() -> None:
    rest = "FROM t WHERE v > 1 GROUP BY 1 HAVING count(*) > 2 ORDER BY b"
    sql = rollup_query(with_rest("count(*) FILTER (WHERE v < 9) AS n", rest)).sql
    assert "WHERE v > 1" in sql and "HAVING COUNT(*) > 2" in sql
    assert columns(sql)["n"] == "COUNT(*) FILTER(WHERE v < 9)"
    assert "ORDER BY" not in sql


def test_spark_words_are_read_where_postgres_has_others() -> None:
    assert rollup_query(with_rest("count_if(v > 1) AS n", "FROM `a`.`t` GROUP BY 1")).source == (
        "a",
        "t",
    )


@pytest.mark.parametrize(
    "rest",
    [
        "FROM t JOIN u ON t.a = u.a GROUP BY 1",
        "FROM t, u GROUP BY 1",
        "FROM (SELECT * FROM t) AS x GROUP BY 1",
        "FROM t WHERE v IN (SELECT v FROM u) GROUP BY 1",
        "FROM t WHERE EXISTS (SELECT 1 FROM u) GROUP BY 1",
        "FROM t GROUP BY 1 LIMIT 5",
        "FROM t GROUP BY 1 OFFSET 5",
        "FROM t GROUP BY 1 QUALIFY n > 1",
        "FROM t TABLESAMPLE SYSTEM (10) GROUP BY 1",
        "FROM t VERSION AS OF 5 GROUP BY 1",
        "FROM ONLY t GROUP BY 1",
        "FROM t AS x (ts, v) GROUP BY 1",
        "FROM t LATERAL VIEW explode(a) x AS y GROUP BY 1",
        "FROM generate_series(1, 5) AS t GROUP BY 1",
        "INTO u FROM t GROUP BY 1",
        "FROM t GROUP BY 1 UNION ALL SELECT 1, 2",
        "FROM t GROUP BY 1; DROP TABLE t",
        "FROM t",
        "FROM t GROUP BY v",
        "FROM t GROUP BY 1, 2",
        "FROM t GROUP BY ROLLUP (1, v)",
        "FROM t GROUP BY GROUPING SETS ((1), (v))",
        "FROM t GROUP BY ALL",
        "FROM t WHERE ts > now() - INTERVAL '1 day' GROUP BY 1",
        "FROM t WHERE ts > localtimestamp GROUP BY 1",
        "FROM t WHERE d = current_date GROUP BY 1",
        "FROM t WHERE random() < 0.5 GROUP BY 1",
        "FROM t WHERE randn() < 0.5 GROUP BY 1",
        "FROM t WHERE unix_timestamp() > 5 GROUP BY 1",
        "FROM t WHERE owner = current_user GROUP BY 1",
    ],
)
def test_what_is_more_than_one_table_grouped_or_changes_by_itself_is_refused(rest: str) -> None:
    with pytest.raises(RollupInvalid):
        rollup_query(with_rest(rest=rest))


@pytest.mark.parametrize(
    "condition",
    [
        "ts > timestamp 'now'",
        "ts > TIMESTAMP 'Today UTC'",
        "d = date 'tomorrow'",
        "ts > cast('yesterday' AS timestamp)",
        "ts > 'now'::timestamp",
        "ts > try_cast('epoch' AS timestamp)",
        "ts > to_timestamp('now')",
        "ts > 'today'",
        "reflect('java.lang.System', 'nanoTime') = '1'",
        "java_method('java.util.UUID', 'randomUUID') = a",
        "try_reflect('java.lang.System', 'exit', 1) = a",
        "user() = owner",
        "session_user() = owner",
        "current_catalog() = a",
        "version() = a",
        "lake.air.f(v) > 1",
        "air.f(v) > 1",
        "lake.air.upper(a) = b",
        "my_function(v) > 1",
        "v > @x",
        "v > @@session.x",
        "v > :x",
        "v > ?",
        "v > session.x()",
        "exists(a, x -> x > rand())",
        "aggregate(a, 0, (acc, x) -> acc + x) > 1",
        "ai_query('model', a) = 'yes'",
        "parse_url(a, 'HOST') = b",
        "spark_partition_id() = 1",
        "approx_percentile(v, 0.5) > 1",
    ],
)
@pytest.mark.parametrize("clause", ["WHERE {} GROUP BY 1", "GROUP BY 1 HAVING max({})"])
def test_what_answers_differently_each_time_or_runs_code_is_refused(
    condition: str, clause: str
) -> None:
    with pytest.raises(RollupInvalid):
        rollup_query(with_rest(rest=f"FROM t {clause.format(condition)}"))


@pytest.mark.parametrize("name", sorted(AGGREGATES - _LEFT_OUT))
def test_an_allowed_aggregate_is_taken_by_every_name(name: str) -> None:
    assert rollup_query(with_rest(f"{name}(v) AS n")).columns[:2] == ("b", "n")


@pytest.mark.parametrize(
    "expression",
    [
        "sum(CASE WHEN v > 1 AND NOT (v = 3 OR v IS NULL) THEN v ELSE 0 END)",
        "max(coalesce(nullif(v, 0), greatest(a, b), 1))",
        "min(substring(lower(trim(name)) FROM 1 FOR 3))",
        "count(DISTINCT concat(a, '-', left(b, 2)))",
        "sum(extract(hour FROM ts)) + max(date_part('day', ts))",
        "max(date_trunc('day', ts2)) - INTERVAL '1 day'",
        "avg(power(abs(v), 2)) / sqrt(count(*))",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)",
        "max(v) FILTER (WHERE name LIKE 'a%' AND name IN ('now-or-never', 'x'))",
        "max(to_timestamp(text)) ",
        "sum(regexp_like(name, '^a')::int)",
        "max_by(v, ts) + lakets.last(v, ts)",
        "max(unix_timestamp(ts))",
        "max(d) FILTER (WHERE ts > TIMESTAMP '2026-01-01 00:00:00')",
        "max(j.a.b)",
    ],
)
def test_usual_expressions_are_taken(expression: str) -> None:
    assert rollup_query(with_rest(f"{expression} AS n")).columns[:2] == ("b", "n")


@pytest.mark.parametrize(
    "column",
    [
        "count(*)",
        "v AS v",
        "7 AS seven",
        "sum(v) AS v__sum",
        "sum(v) AS V__COUNT",
        "sum(v) AS n, max(v) AS N",
        "(SELECT max(v) FROM u) AS n",
        "row_number() OVER () AS n",
        "max(gen_random_uuid()) AS n",
        "max(input_file_name()) AS n",
        "array_agg(v) AS n",
        "string_agg(v, ',') AS n",
        "any_value(v) AS n",
        "first(v) AS n",
        "time_bucket('1 day', ts) AS d",
    ],
)
def test_a_column_that_is_no_stable_aggregate_with_a_name_of_its_own_is_refused(
    column: str,
) -> None:
    with pytest.raises(RollupInvalid):
        rollup_query(with_rest(column))


@pytest.mark.parametrize(
    "bucket",
    [
        "v",
        "time_bucket('7 minutes', ts)",
        "time_bucket('0 hours', ts)",
        "time_bucket(w, ts)",
        "time_bucket('1 hour', ts, TIMESTAMP '2001-01-01')",
        "time_bucket('1 hour', ts, 'Europe/Berlin')",
        "time_bucket('1 hour', ts + INTERVAL '1 hour')",
        "time_bucket('1 hour', ts::date)",
        "time_bucket('1 hour', ts) + INTERVAL '1 hour'",
        "time_bucket('1 hour', ts AT TIME ZONE 'Europe/Berlin')",
        "date_trunc('hour', ts, 'Europe/Berlin')",
        "date_trunc('week', ts)",
        "date_trunc('decade', ts)",
        "date_bin(INTERVAL '1 hour', ts, TIMESTAMP '2000-01-01 00:10:00')",
    ],
)
def test_a_bucket_that_would_begin_elsewhere_than_it_says_is_refused(bucket: str) -> None:
    with pytest.raises(RollupInvalid):
        rollup_query(of_bucket(bucket))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense (",
        "DELETE FROM t",
        "SELECT 1",
        "WITH x AS (SELECT * FROM t) SELECT time_bucket('1 day', ts) AS b FROM x GROUP BY 1",
        "SELECT DISTINCT time_bucket('1 day', ts) AS b, count(*) AS n FROM t GROUP BY 1",
        "SELECT time_bucket('1 day', ts), count(*) AS n FROM t GROUP BY 1",
        "SELECT *, time_bucket('1 day', ts) AS b FROM t GROUP BY 2",
    ],
)
def test_what_is_no_such_query_at_all_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(RollupInvalid) as refused:
        rollup_query(text)
    assert refused.value.object == text
    assert refused.value.expected and refused.value.found
