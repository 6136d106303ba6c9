"""The lifecycle in a real Airflow with real Spark: by schedule, by hand, by backfill.

Each way has a lake of its own, all built alike; they must end alike (PX-6, PX-8).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from meltline.domain.units import format_instant
from tests.dags.airflow_home import RunningAirflow, running_airflow
from tests.dags.project import TASKS
from tests.dags.small_lake import COMMITS, SECRET, TABLES, LakeState, built_on, small_lake, today

pytestmark = [
    pytest.mark.slow("nights by schedule, by hand and by backfill in a real Airflow"),
    pytest.mark.airflow,
    pytest.mark.spark,
]

# Every snapshot but the head is superseded, and older than the retention.
END = LakeState({table: [COMMITS] for table in TABLES}, dict.fromkeys(TABLES, 1))
BEGINNING = LakeState(
    {table: list(range(1, COMMITS + 1)) for table in TABLES}, dict.fromkeys(TABLES, COMMITS)
)


@dataclass(frozen=True)
class Scheduled:
    """An Airflow whose schedule has had its first night, and the lake that it saw then."""

    airflow: RunningAirflow
    lake: Path
    days: set[str]  # the midnights that a first night may have ended at: more than one at midnight
    run: dict[str, Any]


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduled]:
    folder = tmp_path_factory.mktemp("three ways")
    lake = small_lake(folder / "scheduled", files_per_app=1)
    assert LakeState.of(lake) == BEGINNING
    with running_airflow(folder / "airflow") as airflow:
        airflow.set_variable("meltline_config", str(lake))
        unpaused_on = format_instant(today())
        airflow.unpause()  # which begins with the last interval that has ended
        airflow.until(lambda: airflow.runs("scheduled"), seconds=60)
        first = airflow.runs("scheduled")[0]["dag_run_id"]
        days = {unpaused_on, format_instant(today())}
        yield Scheduled(airflow, lake, days, airflow.finished(first))


@pytest.fixture
def airflow(scheduled: Scheduled) -> RunningAirflow:
    return scheduled.airflow


@pytest.fixture
def lake(airflow: RunningAirflow, tmp_path: Path) -> Path:
    """A lake of its own for one test, which Airflow is told of."""
    config = small_lake(tmp_path / "a lake")
    airflow.set_variable("meltline_config", str(config))
    return config


def succeeded(airflow: RunningAirflow, run: dict[str, Any]) -> dict[str, Any]:
    """The run's own document; it must have succeeded."""
    document: dict[str, Any] = airflow.xcom(run["dag_run_id"], "verdict")
    if run["state"] != "success":
        states = airflow.states(run["dag_run_id"])
        pytest.fail(f"{run['dag_run_id']} {run['state']}: {states}\n{document}")
    return document


def expired(document: dict[str, Any]) -> int:
    return sum(table["snapshots_expired"] for table in document["tables"])


def test_by_schedule(scheduled: Scheduled) -> None:
    document = succeeded(scheduled.airflow, scheduled.run)
    assert document["as_of"] in scheduled.days
    assert expired(document) == len(TABLES) * (COMMITS - 1)
    assert {t["table"] for t in document["tables"]} == {"lake.air.t", "lake.air.`it's u`"}
    assert set(scheduled.airflow.states(scheduled.run["dag_run_id"])) == set(TASKS)
    assert LakeState.of(scheduled.lake) == END


def test_what_a_run_did_is_its_note_where_a_connection_is_given(scheduled: Scheduled) -> None:
    airflow = scheduled.airflow
    note = airflow.finished(scheduled.run["dag_run_id"])["note"]
    assert note.split("\n\n")[0] == airflow.xcom(scheduled.run["dag_run_id"], "verdict")["recap"][0]
    assert f"of {len(TABLES)} tables expired" in note


def test_by_schedule_in_two_batches_side_by_side(scheduled: Scheduled) -> None:
    names = scheduled.airflow.batches(scheduled.run["dag_run_id"])
    both = ["batch 1 of 2: 1 plan", "batch 2 of 2: 1 plan"]
    mapped = ("gate_expiration", "expire", "gate_purge", "purge")
    assert {task: [": ".join(n.split(": ")[:2]) for n in names[task]] for task in names} == (
        dict.fromkeys(mapped, both)
    )
    assert all("began to wait" in name for name in names["expire"])
    assert all("1 plan passed" in name for name in names["gate_purge"])


def test_the_gates_of_the_night_are_a_click_away_for_who_has_logged_in(
    scheduled: Scheduled,
) -> None:
    airflow, run_id = scheduled.airflow, scheduled.run["dag_run_id"]
    for task, batch in (("plan_expiration", -1), ("gate_expiration", 0), ("gate_expiration", 1)):
        address = airflow.link(run_id, task, batch)
        answer = airflow.client.get(address)
        assert answer.status_code == 200, answer.text
        assert "planned share of the bytes" not in answer.text and "passed" in answer.text
        assert httpx.get(airflow.client.base_url.join(address)).status_code == 401
        in_batch = ["lake.air.t<" in answer.text, "it&#39;s u" in answer.text]
        assert in_batch.count(True) == (1 if batch >= 0 else 2)
    assert airflow.client.get("/meltline/storage").status_code == 200


def test_by_hand_without_a_logical_date_a_second_time_changes_nothing(
    scheduled: Scheduled,
) -> None:
    airflow = scheduled.airflow
    airflow.set_variable("meltline_config", str(scheduled.lake))
    run = airflow.finished(airflow.trigger(tables="lake.air.*"))
    document = succeeded(airflow, run)
    assert run["logical_date"] is None
    assert abs(moment(document["as_of"]) - moment(run["run_after"])) < timedelta(seconds=1)
    assert (expired(document), document["plans"]) == (0, [])
    assert LakeState.of(scheduled.lake) == END


def test_no_secret_reaches_a_log_or_a_summary(scheduled: Scheduled) -> None:
    assert SECRET in scheduled.lake.read_text()
    logs = scheduled.airflow.logs()
    assert "starting Spark" in logs
    assert SECRET not in logs
    run_id = scheduled.run["dag_run_id"]
    assert SECRET not in str(
        [scheduled.airflow.xcom(run_id, step) for step in ("observe", "verdict")]
    )


def test_by_backfill_in_parallel(airflow: RunningAirflow, lake: Path) -> None:
    documents = backfilled(airflow, lake, max_active_runs=2, run_backwards=False)
    assert len(documents) == 2
    assert sum(map(expired, documents)) == len(TABLES) * (COMMITS - 1)
    assert LakeState.of(lake) == END


def test_by_backfill_backwards(airflow: RunningAirflow, lake: Path) -> None:
    newest, older = backfilled(airflow, lake, max_active_runs=1, run_backwards=True)
    (batch,) = airflow.batches(newest["run_id"])["expire"]
    assert batch.startswith("batch 1 of 1: 2 plans: ") and "of 2 tables expired" in batch
    assert newest["as_of"] > older["as_of"]
    assert expired(newest) == len(TABLES) * (COMMITS - 1)
    assert expired(older) == 0
    assert LakeState.of(lake) == END


def backfilled(airflow: RunningAirflow, lake: Path, **options: Any) -> list[dict[str, Any]]:
    """Runs two past days: the first expires some of the history, the second all of it.

    Returns:
        The runs' documents, in the order in which they began.
    """
    before = {run["dag_run_id"]: run["start_date"] for run in airflow.runs("backfill")}
    first, last = (built_on(lake) - timedelta(days=days) for days in (5, 4))
    again = {"reprocess_behavior": "completed"}
    airflow.backfill(first.isoformat(), last.isoformat(), **again, **options)
    ran = [r for r in airflow.runs("backfill") if before.get(r["dag_run_id"]) != r["start_date"]]
    return [succeeded(airflow, run) for run in sorted(ran, key=lambda run: run["start_date"])]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
