"""A scheduler that is killed while a step runs: no driver stays, and the next run finishes."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from meltline.app.run.steps import STEPS
from tests.dags.airflow_home import running_airflow
from tests.dags.small_lake import COMMITS, TABLES, LakeState, small_lake

pytestmark = [
    pytest.mark.slow("a real scheduler is killed, and another one finishes the run"),
    pytest.mark.airflow,
    pytest.mark.spark,
]

_SECONDS = 120  # a driver waits for sixty for the next step


def test_a_dead_scheduler_s_driver_ends_by_itself_and_the_next_run_finishes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("s")
    (folder / "r").mkdir(mode=0o700)
    lake = small_lake(folder / "lake")
    of_tasks = {"MELTLINE_CONFIG": str(lake), "XDG_RUNTIME_DIR": str(folder / "r")}
    step = random.choice(STEPS).name
    with running_airflow(folder / "airflow", **of_tasks) as airflow:
        airflow.unpause()
        airflow.until(airflow.runs, seconds=60)
        run = airflow.runs()[0]["dag_run_id"]
        begun = ("running", "success")
        airflow.until(lambda: airflow.states(run).get(step) in begun, seconds=300)
        killed = [p for p in _with("airflow scheduler") if str(folder) in _place(p)]
        for process in killed:
            process.kill()
        assert killed
        assert _ends(lambda: _with(str(folder / "r"))), f"a driver was left in {step}"
    with running_airflow(folder / "again", **of_tasks) as airflow:
        airflow.unpause()
        airflow.until(airflow.runs, seconds=60)
        run = airflow.runs()[0]["dag_run_id"]
        assert airflow.finished(run)["state"] == "success", airflow.states(run)
    assert LakeState.of(lake) == LakeState(
        {table: [COMMITS] for table in TABLES}, dict.fromkeys(TABLES, 1)
    )


def _with(words: str) -> list[psutil.Process]:
    every = psutil.process_iter(["cmdline"])
    return [process for process in every if words in " ".join(process.info["cmdline"] or ())]


def _place(process: psutil.Process) -> str:
    try:
        return str(Path(process.cwd()))
    except psutil.Error:
        return ""


def _ends(goes_on: Callable[[], object]) -> bool:
    deadline = time.monotonic() + _SECONDS
    while goes_on() and time.monotonic() < deadline:
        time.sleep(0.5)
    return not goes_on()
