"""`make demo`: a real warehouse with a past, the real DAG in real Airflow, and what happened."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demo.airflow import CHUNKS, LIFECYCLE, REPLICATE, Airflow
from demo.chunks import DECLARED_BEFORE, declare, load, print_chunks
from demo.cold import print_cold
from demo.outcome import print_clone, print_outcome, write_page
from demo.place import Place, environment
from demo.rollups import declare_rollup, print_rollup
from demo.task_logs import write_task_logs
from demo.warehouse import NAMESPACE, DemoFacts, TableFacts, build
from meltline.app.doctor.init import init
from meltline.app.services import ReadContext
from meltline.config.load import load_config
from meltline.domain.units import format_size
from meltline.wiring import Wiring

FAILSAFE_PASSES = timedelta(days=8)


def main() -> None:
    """Builds, runs the DAGs today and eight days later, prints and draws the outcome."""
    started = time.monotonic()
    place = Place()
    # Midnight, so that the demo's numbers do not depend on the hour.
    now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(hours=6)
    _say("building the warehouse: 45 days of New York's flights, day by day", started)
    airflow = Airflow(place.root / "airflow")
    with ThreadPoolExecutor(1) as beside:
        prepared = beside.submit(airflow.prepare, airflow.environment(environment(now, place)))
        facts, by_age = build_lake(place, now)
        prepared.result()
    for table in facts.tables:
        _say(f"  {table.name}: {table.commits} commits, {table.rows} rows", started)
    _say(f"  {facts.files} files, {format_size(facts.bytes)}", started)
    _say(f"  {by_age.name}, to be dropped by age: {by_age.rows} rows", started)
    days = {"today": now, "eight days later": now + FAILSAFE_PASSES}
    for (label, wall), replication in zip(days.items(), (CHUNKS, REPLICATE), strict=True):
        # Until cold has passed by a drop, history keeps what was dropped.
        for dag in (replication, LIFECYCLE):
            _say(f"running the DAG {dag} in Airflow, {label}", started)
            _run_dag(airflow, place, wall, dag)
    place.clock_file.write_text(wall.isoformat())
    _show(_wiring(place, wall).ledgers(), place, now, by_age)
    print(f"\nThe picture: {place.page.as_uri()}\nThis took {time.monotonic() - started:.0f} s.")


def _show(ledgers: ReadContext, place: Place, now: datetime, by_age: TableFacts) -> None:
    flights = f"{ledgers.config.hot}.{NAMESPACE}.flights"
    print_outcome(ledgers, before=now.replace(hour=0))
    write_page(ledgers, place.page, first=now.date() - timedelta(days=45))
    print_chunks(ledgers, place, by_age)
    print_rollup(ledgers, place, by_age)
    print_cold(ledgers, place, flights)
    print_clone(ledgers, flights)


def _say(line: str, started: float) -> None:
    print(f"[{time.monotonic() - started:4.0f} s] {line}", flush=True)


def _wiring(place: Place, now: datetime) -> Wiring:
    config = load_config(place.config, {}, Path.cwd())
    return Wiring(config, environment(now, place), progress=lambda _: None)


def build_lake(place: Place, now: datetime) -> tuple[DemoFacts, TableFacts]:
    """The demo's warehouse, catalogs and ledgers, as its first run finds them."""
    place.clear()
    (place.warehouse / ".meltline-sandbox").touch()  # what `meltline init --sandbox` leaves
    services = _wiring(place, now).services("demo")
    init(services)
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None, "the services started one"
    midnight, hot, catalog_db = now.replace(hour=0), services.config.hot, place.lake / "catalog.db"
    facts = build(spark, hot, place.warehouse, catalog_db, midnight)
    by_age = load(spark, hot, catalog_db, midnight)
    before = _wiring(place, now - DECLARED_BEFORE)
    declare(before.ledgers(), by_age.name)
    declare_rollup(before)
    spark.stop()
    return facts, by_age


def _run_dag(airflow: Airflow, place: Place, wall: datetime, dag: str) -> None:
    """One day's run, as of its midnight.

    Airflow is not told a logical date: it would take that for the run's beginning, and show
    days of a run that took half a minute.
    """
    settings = airflow.environment(environment(wall, place))
    day = wall.date().isoformat()
    words = ["dags", "test", dag]
    if dag != REPLICATE:  # which decides nothing by age
        words += ["--conf", json.dumps({"as_of": f"{day}T00:00:00Z"})]
    console = airflow.home / f"{dag}-{day}.log"
    airflow.call(words, settings, console)
    write_task_logs(console, airflow.home / "logs")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"demo: {' '.join(map(str, failed.cmd[-3:]))} failed; its log's end is above")
