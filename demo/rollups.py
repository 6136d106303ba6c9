"""A rollup, shown: days of the weather that outlive the rows they were aggregated from."""

import sys
from functools import partial

import pyarrow.compute as pc

from demo.chunks import TABLE, read_table
from demo.place import Place
from demo.warehouse import NAMESPACE, TableFacts
from meltline.app.chunks.reading.status import list_chunks
from meltline.app.chunks.rollups.status import rollup_lines
from meltline.app.services import ReadContext
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.wiring import Wiring

ROLLUP = "weather_daily"
STATEMENT = f"""\
SELECT lakets.create_rollup('{ROLLUP}', $$
  SELECT lakets.time_bucket('1 day', observed_at) AS day, origin,
    avg(temp) AS temp, max(wind_speed) AS wind, count(*) AS readings
  FROM {TABLE} GROUP BY 1, 2
$$, '1 day', '{TABLE}')"""
"""As somebody writes it who knows the source's functions."""


def declare_rollup(wiring: Wiring) -> None:
    """Declares it by SQL, as of the wiring's clock, and aggregates all that there is.

    Args:
        wiring: Of the lake that `demo.chunks.load` has written to; it joins the Spark session.
    """
    standing = ObjectName(wiring.config.hot, (NAMESPACE,))
    engine = partial(wiring.sql_engine, standing)
    run_statement(wiring.ledgers(), engine, StatementRequest(STATEMENT, standing), wiring.services)


def print_rollup(ledgers: ReadContext, place: Place, written: TableFacts) -> None:
    """Which days the rollup has, of how many rows, and of which days hot has none any more.

    Raises:
        SystemExit: Nobody can tell how it stands, or it lacks a day or a row that was ever written.
    """
    (line,) = rollup_lines(ledgers)
    if line.problem:
        sys.exit(f"demo: the rollup {ROLLUP}: {line.problem}")
    frozen = line.rollup.buckets.count(line.frozen)
    buckets = read_table(place.lake / "catalog.db", line.rollup.table)
    days = sorted({f"{day:%Y-%m-%d}" for day in buckets["day"].to_pylist()})
    readings = pc.sum(buckets["readings"]).as_py()
    print(
        f"\nThe rollup {ROLLUP}: PyIceberg reads {len(days)} days of {line.rollup.table},\n"
        f"{min(days, default='-')} to {max(days, default='-')}, with {readings} readings of the "
        f"{written.rows} rows that were ever written.\n{frozen} of these days are frozen: "
        "hot has none of their rows any more.\n  setup/run meltline rollups list"
    )
    chunks = list_chunks(ledgers, TableName.parse(written.name))
    if days != sorted(each.chunk.name for each in chunks) or readings != written.rows:
        sys.exit(f"demo: the rollup {ROLLUP} lacks days or rows of {written.name}")
