"""`make demo`: a real warehouse with a past, the real DAG in real Airflow, and what happened."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demo.airflow import DAG, Airflow
from demo.cold import print_cold
from demo.outcome import print_clone, print_outcome, write_page
from demo.place import Place, environment
from demo.task_logs import write_task_logs
from demo.warehouse import NAMESPACE, DemoFacts, build
from meltline.app.doctor.init import init
from meltline.config.load import load_config
from meltline.domain.units import format_size
from meltline.wiring import Wiring

FAILSAFE_PASSES = timedelta(days=8)


def main() -> None:
    """Builds, runs the lifecycle today and eight days later, prints and draws the outcome."""
    started = time.monotonic()
    place = Place()
    # Midnight, so that the demo's numbers do not depend on the hour.
    now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(hours=6)
    _say("building the warehouse: 45 days of New York's flights, day by day", started)
    facts = _build(place, now)
    for table in facts.tables:
        _say(f"  {table.name}: {table.commits} commits, {table.rows} rows", started)
    _say(f"  {facts.files} files, {format_size(facts.bytes)}", started)
    airflow = Airflow(place.root / "airflow")
    airflow.prepare(airflow.environment(environment(now, place)))
    days = [now, now + FAILSAFE_PASSES]
    for label, wall in zip(("today", "eight days later"), days, strict=True):
        _say(f"running the DAG {DAG} in Airflow, {label}", started)
        _run_dag(airflow, place, wall)
    place.clock_file.write_text(days[-1].isoformat())
    ledgers = Wiring(
        load_config(place.config, {}, Path.cwd()), environment(days[-1], place)
    ).ledgers()
    print_outcome(ledgers, before=now.replace(hour=0))
    write_page(ledgers, place.page, first=now.date() - timedelta(days=45))
    print_cold(ledgers, place, f"{ledgers.config.hot}.{NAMESPACE}.flights")
    print_clone(ledgers, f"{ledgers.config.hot}.{NAMESPACE}.flights")
    print(f"\nThe picture: {place.page.as_uri()}\nThis took {time.monotonic() - started:.0f} s.")


def _say(line: str, started: float) -> None:
    print(f"[{time.monotonic() - started:4.0f} s] {line}", flush=True)


def _build(place: Place, now: datetime) -> DemoFacts:
    place.clear()
    config = load_config(place.config, {}, Path.cwd())
    (place.warehouse / ".meltline-sandbox").touch()  # what `meltline init --sandbox` leaves
    wiring = Wiring(config, environment(now, place), progress=lambda _: None)
    services = wiring.services("demo")
    init(services)
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None, "the services started one"
    midnight = now.replace(hour=0)
    facts = build(spark, config.hot, place.warehouse, place.lake / "catalog.db", midnight)
    spark.stop()
    return facts


def _run_dag(airflow: Airflow, place: Place, wall: datetime) -> None:
    """One day's run, as of its midnight.

    Airflow is not told a logical date: it would take that for the run's beginning, and show
    days of a run that took half a minute.
    """
    settings = airflow.environment(environment(wall, place))
    day = wall.date().isoformat()
    words = ["dags", "test", DAG, "--conf", json.dumps({"as_of": f"{day}T00:00:00Z"})]
    console = airflow.home / f"run-{day}.log"
    airflow.call(words, settings, console)
    write_task_logs(console, airflow.home / "logs")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"demo: {' '.join(map(str, failed.cmd[-3:]))} failed; its log's end is above")
