"""The driver of a run's steps, with real processes and sockets; its JVM alone is stood in for."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, answer_challenge
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from meltline.domain.errors import DriverLost, DriverUnavailable
from meltline.driver.client import RunDriver, _answer
from meltline.driver.messages import StepRequest
from meltline.driver.place import DriverPlace, DriverPlaces, run_key
from meltline.driver.server import Driver

KEY = "run"
_PATIENCE = 20  # seconds


_DRIVER = """
import socket, sys
from pathlib import Path
from types import SimpleNamespace
from meltline.driver.place import DriverPlace
from meltline.driver.server import Driver
folder, idle, jvm = sys.argv[1:]
place = DriverPlace(Path(folder))
listener = socket.socket(socket.AF_UNIX)
listener.bind(str(place.socket))
listener.listen()
place.log.touch()
gateway = SimpleNamespace(variables={"JVM": "here"}, is_alive=lambda: jvm == "alive")
Driver(listener, place.token(), gateway, float(idle)).serve()
"""


class Jvm:
    """One that is there."""

    variables: ClassVar[Mapping[str, str]] = {}

    def is_alive(self) -> bool:
        return True


@dataclass
class Drivers:
    """Drivers as processes of their own, and steps that are asked of them."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def places(self) -> DriverPlaces:
        return DriverPlaces(self.folder)

    def start(self, *, idle: float = 30, jvm: str = "alive") -> DriverPlace:
        place = self.places.new(KEY)
        words = [sys.executable, "-c", _DRIVER, str(place.folder), str(idle), jvm]
        self.processes.append(subprocess.Popen(words))
        assert ends(lambda: not place.log.exists())
        return place

    def app(self, text: str) -> str:
        app = self.folder.parent / "app.py"
        app.write_text(text)
        return str(app)

    def request(self, text: str, *words: str, is_last: bool = False) -> StepRequest:
        return StepRequest(self.app(text), words, {"FROM": "the task"}, "/", is_last)

    def run(self, text: str, *words: str, is_last: bool = False) -> tuple[int, list[str]]:
        """A step's exit code, and what it printed; a driver must be there."""
        lines: list[str] = []
        driver = WithoutNew(self.places, KEY, "local")
        return driver.run(self.request(text, *words, is_last=is_last), lines.append), lines

    def has_ended(self) -> bool:
        """Whether the driver started last ends soon."""
        return ends(lambda: self.processes[-1].poll() is None)


class WithoutNew(RunDriver):
    """Starts no driver: these tests have theirs."""

    def _started(self, environment: Mapping[str, str]) -> DriverPlace:
        raise DriverUnavailable("none is there")


def ends(goes_on: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while goes_on():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    folder = tmp_path_factory.mktemp("d") / "of"
    folder.mkdir()
    started = Drivers(folder)
    yield started
    for process in started.processes:
        process.kill()
        process.wait()


def test_a_step_runs_as_the_app_would_and_its_words_and_output_and_exit_code_are_its_own(
    drivers: Drivers,
) -> None:
    drivers.start()
    text = """
import os, sys
print(sys.argv[1:], os.environ["FROM"], os.environ["JVM"], os.getcwd(), __name__)
print("to stderr", file=sys.stderr)
"""
    assert drivers.run(text, "--one", "two") == (
        0,
        ["['--one', 'two'] the task here / __main__", "to stderr"],
    )


def test_each_step_is_a_process_of_its_own_that_knows_nothing_of_the_one_before(
    drivers: Drivers,
) -> None:
    drivers.start()
    text = """
import os, meltline.driver
print(getattr(meltline.driver, "left", None), os.environ.get("LEFT"))
meltline.driver.left = os.environ["LEFT"] = "by another step"
"""
    assert drivers.run(text) == (0, ["None None"])
    assert drivers.run(text) == (0, ["None None"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('no')", 1),
        ("raise ValueError", 1),
        ("import os; os.kill(os.getpid(), 9)", -9),
    ],
)
def test_a_step_that_does_not_end_well_is_the_driver_s_last(
    drivers: Drivers, text: str, code: int
) -> None:
    drivers.start()
    assert drivers.run(text)[0] == code
    assert drivers.has_ended()


def test_what_a_step_died_of_is_among_what_it_printed(drivers: Drivers) -> None:
    drivers.start()
    assert "ValueError: of this" in drivers.run("raise ValueError('of this')")[1]


def test_it_ends_with_the_run_s_last_step(drivers: Drivers) -> None:
    drivers.start()
    assert drivers.run("", is_last=True) == (0, [])
    assert drivers.has_ended()


def test_it_ends_when_nothing_is_asked_of_it(drivers: Drivers) -> None:
    drivers.start(idle=0.1)
    assert drivers.has_ended()


def test_it_takes_no_step_when_its_jvm_has_ended(drivers: Drivers) -> None:
    drivers.start(jvm="dead")
    with pytest.raises(DriverUnavailable):
        drivers.run("")
    assert drivers.has_ended()


def test_who_does_not_know_the_token_runs_nothing(drivers: Drivers, tmp_path: Path) -> None:
    place = drivers.start()
    token = place.token()
    (place.folder / "token").write_text("another")
    step = drivers.request(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(DriverUnavailable, match="no driver took"):
        _answer(place, step, print, _PATIENCE)
    assert not (tmp_path / "ran").exists()
    (place.folder / "token").write_bytes(token)
    assert drivers.run("print('still here')") == (0, ["still here"])


def test_a_step_that_was_given_up_before_the_driver_was_ready_is_not_begun(
    drivers: Drivers, tmp_path: Path
) -> None:
    place = drivers.places.new(KEY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()
        given_up = drivers.request(f"open({str(tmp_path / 'ran')!r}, 'w')")
        with pytest.raises(DriverUnavailable):
            _answer(place, given_up, print, seconds=0.1)
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(_answer, place, drivers.request(""), print, _PATIENCE)
            Driver(listener, place.token(), Jvm(), idle=1).serve()
        assert later.result() == 0  # a driver that has begun a step without a task ends with it
    assert not (tmp_path / "ran").exists()


def test_who_says_something_else_does_not_end_it(drivers: Drivers) -> None:
    place = drivers.start()
    for words in (b"", b"GET / HTTP/1.1\r\n", b"[]\n", b'{"no": "request"}\n'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place.socket))
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
    for words in (b"[]", b'{"no": "request"}', b"\x80\x04K\x01."):
        with Client(str(place.socket)) as caller:
            answer_challenge(caller, place.token())
            caller.send_bytes(words)
    assert drivers.run("print('still here')") == (0, ["still here"])


SLEEPER = """
import os, sys, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


def sleeping(drivers: Drivers) -> tuple[Thread, int, list[BaseException]]:
    """A step that goes on, its pid, and what its caller meets."""
    lines: list[str] = []
    errors: list[BaseException] = []
    request = drivers.request(SLEEPER)

    def call() -> None:
        try:
            WithoutNew(drivers.places, KEY, "local").run(request, lines.append)
        except DriverLost as error:
            errors.append(error)

    caller = Thread(target=call, daemon=True)
    caller.start()
    assert ends(lambda: not lines)
    return caller, int(lines[0]), errors


def test_a_second_step_at_the_same_time_is_turned_away(drivers: Drivers) -> None:
    drivers.start()
    _, step, _ = sleeping(drivers)
    with pytest.raises(DriverUnavailable):
        drivers.run("")
    assert is_alive(step)


def test_a_second_step_at_the_same_time_finds_another_driver_of_the_run(drivers: Drivers) -> None:
    drivers.start()
    sleeping(drivers)
    drivers.start()
    assert drivers.run("print('here')") == (0, ["here"])


def test_when_the_driver_is_killed_its_step_dies_and_the_task_learns_of_it(
    drivers: Drivers,
) -> None:
    drivers.start()
    caller, step, errors = sleeping(drivers)
    drivers.processes[-1].kill()
    caller.join(_PATIENCE)
    assert [type(error) for error in errors] == [DriverLost]
    assert ends(lambda: is_alive(step))


def test_when_the_task_is_killed_its_step_and_the_driver_end(drivers: Drivers) -> None:
    drivers.start()
    reading, writing = os.pipe()
    task = os.fork()
    if task == 0:
        WithoutNew(drivers.places, KEY, "local").run(
            drivers.request(SLEEPER), lambda line: os.write(writing, line.encode())
        )
    step = int(os.read(reading, 100))
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    assert ends(lambda: is_alive(step))
    assert drivers.has_ended()
    os.close(reading)
    os.close(writing)


def test_a_step_that_is_tried_again_asks_no_driver_that_is_there(drivers: Drivers) -> None:
    drivers.start()
    driver = WithoutNew(drivers.places, KEY, "local")
    with pytest.raises(DriverUnavailable, match="none is there"):
        driver.run(drivers.request("print('met')"), print, alone=True)


def test_a_driver_that_cannot_start_says_why(drivers: Drivers, tmp_path: Path) -> None:
    environment = {**os.environ, "MELTLINE_JARS": str(tmp_path)}
    step = StepRequest(drivers.app(""), (), environment, "/")
    with pytest.raises(DriverUnavailable) as unavailable:
        RunDriver(drivers.places, KEY, "local").run(step, print)
    assert "the jar" in unavailable.value.found


def test_only_a_folder_of_the_user_s_own_is_trusted(tmp_path: Path) -> None:
    places = DriverPlaces.of_user({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert places is not None
    assert places.root.stat().st_mode & 0o777 == 0o700
    places.root.chmod(0o750)
    assert DriverPlaces.of_user({"XDG_RUNTIME_DIR": str(tmp_path)}) is None
    places.root.chmod(0o700)
    places.root.rename(tmp_path / "elsewhere")
    places.root.symlink_to(tmp_path / "elsewhere")
    assert DriverPlaces.of_user({"XDG_RUNTIME_DIR": str(tmp_path)}) is None


def test_what_dead_drivers_left_is_removed_and_nothing_else(drivers: Drivers) -> None:
    alive, dead, new = drivers.start(), drivers.places.new(KEY), drivers.places.new(KEY)
    for place in (alive, dead):
        os.utime(place.folder, (1, 1))
    drivers.places.new(KEY)
    assert [place.folder.exists() for place in (alive, dead, new)] == [True, False, True]


def test_a_run_finds_no_driver_that_was_started_with_anything_else(tmp_path: Path) -> None:
    config = tmp_path / "meltline.yaml"
    config.write_text("hot: lake")
    run, environ = ("dag", "run"), {"AWS_SECRET_ACCESS_KEY": "s"}
    key = run_key(run, "local", config, environ)
    assert key == run_key(run, "local", config, {**environ, "AIRFLOW_CTX_TASK_ID": "expire"})
    others = {
        run_key(("dag", "other"), "local", config, environ),
        run_key(("other", "run"), "local", config, environ),
        run_key(run, "local[2]", config, environ),
        run_key(run, "local", config, {"AWS_SECRET_ACCESS_KEY": "t"}),
    }
    config.write_text("hot: pond")
    others.add(run_key(run, "local", config, environ))
    assert len(others | {key}) == 6
