"""Both DAGs over chunks with real Spark: a table is copied, proved, and dropped by age."""

import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.config.load import load_config
from meltline.domain.units import format_instant
from meltline.wiring import Wiring
from tests.dags.airflow_home import new_home
from tests.dags.chunks.lake_of_days import OLD, TABLE, YOUNG, day, days_of, lake_of_days

pytestmark = [
    pytest.mark.slow("both DAGs over chunks with real Spark"),
    pytest.mark.airflow,
    pytest.mark.spark,
]


def rows_of(today: date, days: tuple[int, ...]) -> list[str]:
    return sorted(day(today, ago) for ago in days for _ in range(2))


def told(config: Path, dag: str) -> dict[str, Any]:
    """What the ledger has of the DAG's newest run."""
    control = Wiring(load_config(config, os.environ, config.parent)).ledgers().control
    records = [r for r in control.runs.newest(None) if r.id.startswith(f"{dag}__")]
    assert records[0].ended_at
    document: dict[str, Any] = json.loads(records[0].summary)
    return document


def test_what_is_proved_to_be_in_cold_leaves_hot_and_a_second_run_changes_nothing(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    today = now.date()  # the whole test through, also when midnight comes in between
    lake = lake_of_days(tmp_path / "lake", today)
    later = now + timedelta(days=2)  # a policy's first day drops nothing
    airflow = new_home(
        tmp_path / "airflow", MELTLINE_CONFIG=str(lake), MELTLINE_NOW=format_instant(later)
    )
    airflow.airflow("dags", "test", "meltline_replicate")
    assert days_of(lake, "cold", "meltline_synced", "air", "days") == rows_of(today, OLD + YOUNG)
    assert "10 rows of `lake.air.days` copied to cold" in told(lake, "replicate")["recap"][0]

    # With a logical date, as the schedule and a backfill have one.
    airflow.airflow("dags", "test", "meltline_chunks", day(today, 0))
    assert days_of(lake, "lake", "air", "days") == rows_of(today, YOUNG)
    assert days_of(lake, "cold", "meltline_synced", "air", "days") == rows_of(today, OLD + YOUNG)
    document = told(lake, "chunks")
    assert document["as_of"] == f"{day(today, 0)}T00:00:00Z"
    assert document["recap"][0].startswith(f"armed: sandbox; 3 chunks of `{TABLE}` proved")

    # By hand, two days later: nothing is left to do.
    airflow.airflow("dags", "test", "meltline_chunks")
    assert told(lake, "chunks")["recap"] == ["armed: sandbox; nothing was done"]
    assert days_of(lake, "lake", "air", "days") == rows_of(today, YOUNG)
