"""A run whose driver and whose task are killed in each of its steps, with real Spark."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import pytest

from meltline.app.run.steps import STEPS, Step
from meltline.domain.errors import DriverLost
from meltline.domain.units import format_instant
from meltline.driver.client import RunDriver
from meltline.driver.messages import StepRequest
from meltline.driver.place import DriverPlaces
from tests.dags.airflow_home import ROOT
from tests.dags.small_lake import COMMITS, TABLES, LakeState, small_lake, today

pytestmark = [pytest.mark.slow("a run is killed in each of its steps"), pytest.mark.spark]

END = LakeState({table: [COMMITS] for table in TABLES}, dict.fromkeys(TABLES, 1))
_SECONDS = 30


@dataclass(frozen=True)
class Run:
    """One run's steps, each of which is asked of the run's driver by a task of its own.

    Attributes:
        as_of: The same in all of them, also when midnight comes in between.
    """

    lake: Path
    places: DriverPlaces
    as_of: datetime = field(default_factory=today)

    def request(self, step: Step) -> StepRequest:
        words = [f"--config={self.lake}", f"--summary={self.lake.parent / 'summary.json'}"]
        words += ["--run-id=killed", f"--as-of={format_instant(self.as_of)}"]
        words += [f"--kind={step.kind}"] if step.app == "gate" else []
        app = ROOT / "spark_apps" / f"{step.app or step.name}.py"
        path = os.pathsep.join([str(ROOT / "include"), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        return StepRequest(str(app), words, environ, str(self.lake.parent))

    def do(self, step: Step, log: Callable[[str], object], *, alone: bool = False) -> int:
        return RunDriver(self.places, "run", "local[2]").run(self.request(step), log, alone=alone)

    def drivers(self) -> list[psutil.Process]:
        """Drivers that are alive, and the steps that they have forked."""
        every = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "meltline.cli.run.driver" in words and str(self.places.root) in " ".join(words):
                every.append(process)
        return every

    def steps(self) -> list[psutil.Process]:
        """Those of them that are steps."""
        every = self.drivers()
        return [process for process in every if process.ppid() in {p.pid for p in every}]

    def end(self) -> None:
        """Kills the driver, and nothing that has to end with it."""
        steps = self.steps()
        for driver in [process for process in self.drivers() if process not in steps]:
            below = driver.children(recursive=True)
            driver.kill()
            _, alive = psutil.wait_procs([driver, *below], timeout=_SECONDS)
            assert alive == []


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("k")
    places = folder / "d"
    places.mkdir(mode=0o700)
    started = Run(small_lake(folder / "lake"), DriverPlaces(places))
    yield started
    started.end()


def test_whatever_is_killed_in_whichever_step_the_run_is_finished_by_trying_again(
    run: Run,
) -> None:
    chance = random.Random()
    for step in STEPS:
        for kill in (killed_driver, killed_task):
            kill(run, step, chance.uniform(0, 1.5))
            psutil.wait_procs(run.steps(), timeout=_SECONDS)
            assert run.steps() == [], f"after {kill.__name__} in {step.name}"
            run.end()
        lines: list[str] = []
        assert run.do(step, lines.append, alone=True) == 0, "\n".join(lines)
    assert LakeState.of(run.lake) == END


def killed_driver(run: Run, step: Step, after: float) -> None:
    """Kills the driver a moment after the step's first word."""

    def kill(line: str) -> None:
        if line == "starting Spark":
            time.sleep(after)
            run.end()

    with suppress(DriverLost):  # unless the step had ended by then
        run.do(step, kill)


def killed_task(run: Run, step: Step, after: float) -> None:
    """Kills the process that asked for the step."""
    context = get_context("fork")
    begun: Any = context.Event()
    task = context.Process(target=run.do, args=(step, lambda line: begun.set()))
    task.start()
    assert begun.wait(_SECONDS)
    time.sleep(after)
    assert task.pid is not None
    os.kill(task.pid, signal.SIGKILL)
    task.join()
