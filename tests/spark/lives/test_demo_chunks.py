"""The demo's table of days: what is old leaves hot, and no row is lost."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.chunks import DECLARED_BEFORE, declare, load, print_chunks
from demo.outcome import write_page
from demo.place import Place
from demo.rollups import declare_rollup, print_rollup
from demo.warehouse import NAMESPACE
from meltline.app.chunks.reading.status import list_chunks
from meltline.app.chunks.run import ChunkRun
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import CHUNK_STEPS
from meltline.app.run_request import RunRequest
from meltline.domain.iceberg.names import TableName
from tests.spark.setups.warehouse import Warehouse

pytestmark = pytest.mark.spark

HOT, COLD = "aging", "aging_cold"
ROLLUP = f"{HOT}.{NAMESPACE}._rollup_weather_daily"
DAYS = """
SELECT date_trunc('day', observed_at) AS day, origin, avg(temp) AS temp, max(wind_speed) AS wind,
  count(*) AS readings
FROM {} GROUP BY 1, 2 ORDER BY 1, 2
"""
MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MORNING = MIDNIGHT + timedelta(hours=6)
CONFIG = f"""\
  {COLD}:
    type: sql
    uri: sqlite:///archive.db
    warehouse: archive
cold: {COLD}
"""


def day(number: int) -> str:
    """The chunk of the data's day, counted from 0."""
    return f"{MIDNIGHT + timedelta(days=number - 45):%Y-%m-%d}"


@pytest.mark.slow("the demo's weather is replicated and dropped by age")
def test_old_days_are_in_cold_alone_and_both_sides_together_have_every_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    lake = Warehouse.empty(place.lake, HOT, CONFIG)
    lake.spark.sql(f"CREATE NAMESPACE {HOT}.{NAMESPACE}")
    lake.init(MORNING)
    written = load(lake.spark, HOT, lake.db, MIDNIGHT)
    added = declare(lake.services(MORNING - DECLARED_BEFORE), written.name)
    assert (added.first, added.drops) == (day(0), 15)
    declare_rollup(lake.wiring(MORNING - DECLARED_BEFORE))
    days = lake.spark.sql(DAYS.format(written.name)).collect()

    services = lake.services(MORNING)
    request = RunRequest("chunks__today", MIDNIGHT)
    summary = run_recorded(services, request, CHUNK_STEPS, ChunkRun(services, request))
    assert summary.exit_code == 0, summary.as_json()
    chunks = [line.chunk for line in list_chunks(services, TableName.parse(written.name))]
    assert Counter(map(lambda c: str(c.status), chunks)) == {
        "dropped": 17,
        "tiered": 14,
        "active": 14,
    }
    (oldest,) = lake.spark.sql(f"SELECT min(observed_at) FROM {written.name}").collect()
    assert f"{oldest[0]:%Y-%m-%d}" == day(17)

    print_chunks(services, place, written)
    told = capsys.readouterr().out
    hot, rows = lake.spark.table(written.name).count(), written.rows
    assert f"reads {rows} rows in cold; in hot it reads {hot}." in told
    assert f"Together these are {rows} of the {rows} rows" in told
    assert "17 chunks left hot at " in told and "their bytes are deleted after " in told
    assert place.warehouse.exists()

    print_rollup(services, place, written)
    told = capsys.readouterr().out
    assert f"reads 45 days of {ROLLUP},\n{day(0)} to {day(44)}, with {rows} readings" in told
    assert "\n17 of these days are frozen" in told
    assert len(days) == 45 * 3
    assert (
        lake.spark.table(ROLLUP).select(*days[0].asDict()).sort("day", "origin").collect() == days
    )

    write_page(services, place.page, first=(MIDNIGHT - timedelta(days=45)).date())
    page = place.page.read_text()
    assert "17 dropped, 14 tiered, 14 active; rollup weather_daily: 45 buckets, 17 frozen" in page

    lake.spark.sql(f"DELETE FROM {ROLLUP} WHERE day = DATE '{day(3)}'")  # no demo, if it is true
    with pytest.raises(SystemExit, match="lacks days or rows"):
        print_rollup(services, place, written)
