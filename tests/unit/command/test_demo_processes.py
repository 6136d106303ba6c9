"""`make down` ends what runs in the demo's Airflow home, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from demo.processes import end, of_home

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(started: list["subprocess.Popen[str]"], home: Path, code: str) -> int:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process.pid


def test_only_what_lives_in_that_home_is_found(
    started: list["subprocess.Popen[str]"], tmp_path: Path
) -> None:
    ours = start(started, tmp_path / "a", SLEEP)
    theirs = start(started, tmp_path / "ab", SLEEP)
    assert of_home(tmp_path / "a") == [ours]
    assert of_home(tmp_path / "ab") == [theirs]
    assert of_home(tmp_path / "c") == []


@pytest.mark.parametrize("code", [SLEEP, DEAF, PARENT], ids=["gentle", "deaf", "with a child"])
def test_all_of_it_is_ended_and_a_stranger_goes_on(
    started: list["subprocess.Popen[str]"], tmp_path: Path, code: str
) -> None:
    start(started, tmp_path / "a", code)
    stranger = start(started, tmp_path / "b", SLEEP)
    assert end(lambda: of_home(tmp_path / "a"), patience=1) >= 1
    assert of_home(tmp_path / "a") == []
    assert of_home(tmp_path / "b") == [stranger]


def test_where_nothing_runs_nothing_is_ended(tmp_path: Path) -> None:
    nothing: Sequence[int] = ()
    assert end(lambda: nothing) == 0
    assert of_home(tmp_path) == []
