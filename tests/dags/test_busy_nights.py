"""Nights of the real DAG while somebody commits to every table all the time.

Each step is a process of its own, so commits come between plan and gate, gate and commit, and all
other steps. The account keeps no history and no failsafe: what is superseded goes the same night.
"""

import json
import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from meltline.config.load import load_config
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.units import format_instant, from_millis
from meltline.wiring import Wiring
from tests.dags.airflow_home import DAG_ID, new_home
from tests.dags.busy_writer import BusyWriter, busy_writer, open_table, rows
from tests.dags.small_lake import TABLES, small_lake

pytestmark = [
    pytest.mark.slow("three nights with real Spark"),
    pytest.mark.airflow,
    pytest.mark.spark,
]

NIGHTS = 3


def test_tables_that_never_rest_expire_night_for_night_and_lose_nothing(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake", retention_days=0)
    airflow = new_home(tmp_path / "airflow", MELTLINE_CONFIG=str(lake))
    with busy_writer(lake) as writer:
        for night in range(1, NIGHTS + 1):
            before = len(writer.written())
            as_of = json.dumps({"as_of": format_instant(datetime.now(UTC))})
            airflow.airflow("dags", "test", DAG_ID, "--conf", as_of)
            plans = applied(lake)[-len(TABLES) :]
            assert len(applied(lake)) == night * len(TABLES)
            assert len(writer.written()) - before > 10 * len(TABLES)
            # Between plan and commit the tables moved, or this would show nothing.
            assert all(plan.committed_base != plan.base_location for plan in plans)
            for table in TABLES:
                check_history(lake, table, writer, since=min(plan.as_of for plan in plans))


def applied(lake: Path) -> list[Plan]:
    """Expirations that were committed, in order."""
    ledgers = Wiring(load_config(lake, os.environ, lake.parent)).ledgers()
    plans = ledgers.control.plans.find(states=[PlanState.APPLIED])
    expired = [plan for plan in plans if plan.kind is PlanKind.EXPIRE]
    return sorted(expired, key=lambda plan: plan.created_at)


def check_history(lake: Path, name: str, writer: BusyWriter, since: datetime) -> None:
    """Nothing superseded before then is left, and what is left reads row for row."""
    table, written = open_table(lake, name), writer.written()
    log = table.metadata.snapshot_log
    ends = {one.snapshot_id: from_millis(after.timestamp_ms) for one, after in pairwise(log)}
    kept = [snapshot.snapshot_id for snapshot in table.snapshots()]
    old = [snapshot_id for snapshot_id in kept if ends.get(snapshot_id, since) < since]
    assert not old, f"{name}: superseded before {since}: {old}"
    for snapshot_id in kept:
        if snapshot_id in written:  # the newest may not be written down yet
            assert rows(table, snapshot_id) == written[snapshot_id]
    assert len(written.keys() & kept) >= len(kept) - 2
