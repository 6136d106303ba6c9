"""The lifecycle on Postgres, two schedulers and each executor: by schedule, by hand, by backfill.

One lake is brought back as it was built before each way; all must end alike (PX-6).
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.domain.units import format_instant
from tests.contract.ledger.postgres import PostgresServer
from tests.dags.airflow_home import ROOT
from tests.dags.project import TASKS
from tests.dags.small_lake import COMMITS, SECRET, TABLES, LakeState, built_on, today
from tests.stacks.airflow.databases import Database
from tests.stacks.airflow.kept_lake import KeptLake
from tests.stacks.airflow.machines import SCHEDULERS, WORKERS, Machines, running_machines
from tests.stacks.airflow.redis_server import running_redis

pytestmark = [
    pytest.mark.slow("whole nights on real executors"),
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.postgres,
]

EXECUTORS = {"LocalExecutor": 0, "CeleryExecutor": len(WORKERS)}
"""Each executor, and how many workers it has beside the schedulers."""
# Every snapshot but the head is superseded, and older than the retention.
END = LakeState({table: [COMMITS] for table in TABLES}, dict.fromkeys(TABLES, 1))
BEGINNING = LakeState(
    {table: list(range(1, COMMITS + 1)) for table in TABLES}, dict.fromkeys(TABLES, COMMITS)
)


@dataclass(frozen=True)
class Stack:
    """An executor's Airflow, and the lake that its tasks work on."""

    executor: str
    night: datetime  # the midnight at which the one night that the schedule has begins
    machines: Machines
    lake: KeptLake

    def ended(self, run: dict[str, Any]) -> dict[str, Any]:
        """The run's own document; it must have succeeded, and the ledger must say the same."""
        airflow, run_id = self.machines.airflow, run["dag_run_id"]
        run = airflow.finished(run_id)
        document: dict[str, Any] = airflow.xcom(run_id, "verdict")
        assert run["state"] == "success", f"{airflow.states(run_id)}\n{document}"
        assert set(airflow.states(run_id)) == set(TASKS)
        record = self.lake.runs()[run_id]
        assert record.ended_at is not None
        assert format_instant(record.as_of) == document["as_of"]
        return document


@pytest.fixture(scope="module", params=EXECUTORS)
def stack(
    request: pytest.FixtureRequest,
    postgres: PostgresServer,
    lake: KeptLake,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    executor: str = request.param
    folder = tmp_path_factory.mktemp(executor)
    metadata = Database.create(postgres, executor.lower())
    lake.restore()
    night = today()
    project = one_night(folder / "p", night)
    words = {"AIRFLOW__CORE__EXECUTOR": executor, "MELTLINE_CONFIG": str(lake.config)}
    with ExitStack() as servers:
        if EXECUTORS[executor]:
            words |= {
                "AIRFLOW__CELERY__BROKER_URL": servers.enter_context(running_redis(folder / "b")),
                "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{metadata.url}",
                "AIRFLOW__CELERY__WORKER_CONCURRENCY": "1",  # so that neither takes all
            }
        machines = servers.enter_context(
            running_machines(folder / "a", project, metadata, EXECUTORS[executor], **words)
        )
        yield Stack(executor, night, machines, lake)


def one_night(project: Path, night: datetime) -> Path:
    """A DAG for which no second night begins when midnight comes while the tests run."""
    dags = project / "dags"
    dags.mkdir(parents=True)
    last = night - timedelta(days=1)  # when the interval that it is for begins
    text = (ROOT / "dags" / "meltline_lifecycle.py").read_text()
    until = f"end_date=datetime.fromisoformat({last.isoformat()!r})"
    assert text.count("lifecycle_dag()") == 1
    text = text.replace("lifecycle_dag()", f"lifecycle_dag({until})")
    text = text.replace("from pathlib", "from datetime import datetime\nfrom pathlib")
    (dags / "meltline_lifecycle.py").write_text(text)
    return project


@dataclass(frozen=True)
class FirstNight:
    """The run by schedule, and what it says."""

    run_id: str
    document: dict[str, Any]


@pytest.fixture(scope="module")
def first_night(stack: Stack) -> FirstNight:
    airflow = stack.machines.airflow
    assert LakeState.of(stack.lake.config) == BEGINNING
    airflow.unpause()  # which begins with the last interval that has ended
    airflow.until(lambda: airflow.runs("scheduled"), seconds=60)
    (run,) = airflow.runs("scheduled")
    return FirstNight(run["dag_run_id"], stack.ended(run))


def expired(*documents: dict[str, Any]) -> int:
    return sum(table["snapshots_expired"] for each in documents for table in each["tables"])


def test_by_schedule(stack: Stack, first_night: FirstNight) -> None:
    assert first_night.document["as_of"] == format_instant(stack.night)
    assert expired(first_night.document) == len(TABLES) * (COMMITS - 1)
    assert LakeState.of(stack.lake.config) == END
    assert set(stack.lake.runs()) == {first_night.run_id}


def test_both_schedulers_are_alive_and_no_task_of_the_night_was_tried_twice(
    stack: Stack, first_night: FirstNight
) -> None:
    assert stack.machines.alive_schedulers() == set(SCHEDULERS)
    assert stack.machines.tries(first_night.run_id) == 1


def test_by_hand_without_a_logical_date_a_second_time_changes_nothing(
    stack: Stack, first_night: FirstNight
) -> None:
    airflow = stack.machines.airflow
    run_id = airflow.trigger(tables="lake.air.*")
    document = stack.ended({"dag_run_id": run_id})
    run = airflow.finished(run_id)
    assert run["logical_date"] is None
    late = datetime.fromisoformat(document["as_of"]) - datetime.fromisoformat(run["run_after"])
    assert abs(late) < timedelta(seconds=1)
    assert (expired(document), document["plans"]) == (0, [])
    assert LakeState.of(stack.lake.config) == END
    assert set(stack.lake.runs()) == {first_night.run_id, run_id}


def test_by_backfill_of_two_days_side_by_side(stack: Stack, first_night: FirstNight) -> None:
    airflow, lake = stack.machines.airflow, stack.lake
    lake.restore()
    days = [built_on(lake.config) - timedelta(days=days) for days in (5, 4)]
    airflow.home.airflow("backfill", "create", *backfill(days))
    airflow.until(lambda: len(airflow.runs("backfill")) == len(days), seconds=120)
    runs = sorted(airflow.runs("backfill"), key=lambda run: str(run["logical_date"]))
    older, newer = (stack.ended(run) for run in runs)
    ends = [format_instant(day + timedelta(days=1)) for day in days]
    assert [older["as_of"], newer["as_of"]] == ends
    # By the end of the older day, the one before the last has not been superseded for a day.
    assert expired(older) <= len(TABLES) * (COMMITS - 2)
    assert expired(older, newer) == len(TABLES) * (COMMITS - 1)
    assert LakeState.of(lake.config) == END
    assert set(lake.runs()) == {run["dag_run_id"] for run in runs}
    assert [stack.machines.tries(run["dag_run_id"]) for run in runs] == [1, 1]


def backfill(days: Sequence[datetime]) -> list[str]:
    first, last = (day.date().isoformat() for day in days)
    words = ["--dag-id", "meltline_lifecycle", "--max-active-runs", str(len(days))]
    return [*words, "--from-date", first, "--to-date", last]


def test_tasks_ran_on_both_machines_that_there_are_for_them(
    stack: Stack, first_night: FirstNight
) -> None:
    assert stack.machines.hosts() == set(WORKERS if EXECUTORS[stack.executor] else SCHEDULERS)


def test_steps_share_a_driver_beside_a_scheduler_and_are_submitted_on_a_worker(
    stack: Stack, first_night: FirstNight
) -> None:
    machines = stack.machines
    shared = {name for name in machines.processes if machines.has_had_a_driver(name)}
    assert shared == (set() if EXECUTORS[stack.executor] else set(SCHEDULERS))


def test_a_run_ends_right_though_the_machine_of_its_scheduler_goes_down(
    stack: Stack, first_night: FirstNight
) -> None:
    airflow, machines, lake = stack.machines.airflow, stack.machines, stack.lake
    lake.restore()
    run_id = airflow.trigger()
    step = random.choice(["plan_expiration", "gate_expiration", "expire", "gate_purge", "purge"])
    begun = ("running", "success")
    airflow.until(lambda: airflow.states(run_id).get(step) in begun, seconds=300)
    busy: list[str] = []
    airflow.until(
        lambda: busy.extend(machines.schedulers_of(run_id, "running")) or busy, seconds=60
    )
    killed = busy[0]
    machines.kill(killed)
    left = killed in machines.schedulers_of(run_id, "queued", "running")
    document = stack.ended({"dag_run_id": run_id})
    assert machines.alive_schedulers() == set(SCHEDULERS) - {killed}
    assert expired(document) == len(TABLES) * (COMMITS - 1), f"killed in {step}"
    assert LakeState.of(lake.config) == END
    assert set(lake.runs()) == {run_id}
    # What ran beside the scheduler went with it; a worker's task goes on, and is adopted.
    assert machines.tries(run_id) == (2 if left and not EXECUTORS[stack.executor] else 1)


def test_no_secret_reaches_a_log(stack: Stack, first_night: FirstNight) -> None:
    logs = stack.machines.airflow.logs()
    assert "starting Spark" in logs
    assert SECRET not in logs
    assert stack.lake.ledger.password not in logs
