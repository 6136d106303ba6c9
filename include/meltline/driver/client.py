"""A step's side of the shared driver: finds or starts the run's driver, and relays the output.

The Airflow operator calls it. It imports neither Spark nor the server.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge

from meltline.domain.errors import DriverLost, DriverUnavailable
from meltline.driver.messages import UNHEARD, StepRequest, opened
from meltline.driver.place import DriverPlace, DriverPlaces

_DRIVER = "meltline.cli.run.driver"  # started as a module, never imported here
_START_SECONDS = 180  # until a new driver is ready
_ANSWER_SECONDS = 10  # until an idle one answers
_TAIL = 4000  # characters of a log

Log = Callable[[str], object]
"""Receives each line that a step prints."""


@dataclass(frozen=True)
class RunDriver:
    """The driver of a run; the run's first step starts it.

    Attributes:
        places: Folders of the user's drivers.
        key: The run's key.
        master: The Spark master.
        python: The interpreter to start a driver with.
    """

    places: DriverPlaces
    key: str
    master: str
    python: str = sys.executable

    def run(self, step: StepRequest, log: Log, *, alone: bool = False) -> int:
        """Runs a step to its end; returns its exit code.

        Args:
            step: The step.
            log: Receives each line that it prints.
            alone: Whether the step needs a new driver: a retry must not meet state that the
                first attempt left.

        Raises:
            DriverUnavailable: No driver accepted it.
            DriverLost: The driver ended before the step did.
        """
        if not alone:
            for place in self.places.of_run(self.key):
                with suppress(DriverUnavailable):
                    return _answer(place, step, log, _ANSWER_SECONDS)
        return _answer(self._started(step.environment), step, log, _START_SECONDS)

    def _started(self, environment: Mapping[str, str]) -> DriverPlace:
        """Starts a driver, which outlives the task that starts it."""
        try:
            place = self.places.new(self.key)
            with place.log.open("wb") as output:
                subprocess.run(
                    [self.python, "-P", "-m", _DRIVER, str(place.folder), self.master],
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    check=True,
                )
        except (OSError, subprocess.CalledProcessError) as error:
            raise _unavailable(self.key, f"{error}") from error
        return place


def _answer(place: DriverPlace, step: StepRequest, log: Log, seconds: float) -> int:
    # Any exit from this block closes the connection, and so ends the step.
    with _greeted(place, seconds) as connection:
        before = len(place.printed())
        code = _ran(connection, step, log)
    for line in place.printed()[before:].splitlines():
        log(line)  # the JVM's output meanwhile
    if code is None:
        raise DriverLost(
            "the run's driver ended before its step did",
            object=str(place.folder),
            expected="the step's exit code",
            found="no answer; what the driver printed stands above",
            next="try the step again: it begins in a driver of its own",
        )
    return code


def _greeted(place: DriverPlace, seconds: float) -> Connection:
    """Waits until a driver sends its challenge, which means that it is ready for a step.

    Raises:
        DriverUnavailable: It is not ready in time, or does not accept this process as its user's.
    """
    with ExitStack() as closing:
        stream = closing.enter_context(socket.socket(socket.AF_UNIX))
        try:
            stream.settimeout(seconds)
            stream.connect(str(place.socket))
            connection = closing.enter_context(opened(stream, seconds))
            answer_challenge(connection, place.token())
        except UNHEARD as error:
            raise _unavailable(str(place.folder), f"{error}; {_tail(place)}") from error
        closing.pop_all()
    return connection


def _ran(connection: Connection, request: StepRequest, log: Log) -> int | None:
    """Runs a step to its end; returns its exit code, or None if the driver did not report it."""
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
        try:
            request.send(connection, writing)
        except OSError:
            return None
        finally:
            os.close(writing)
        for line in output:
            log(line.rstrip("\n"))
    with suppress(*UNHEARD):
        connection.poll(None)  # a step may close its output long before it ends
        return int(connection.recv_bytes())
    return None


def _tail(place: DriverPlace) -> str:
    return place.printed()[-_TAIL:].strip() or "it printed nothing"


def _unavailable(driver: str, problem: str) -> DriverUnavailable:
    return DriverUnavailable(
        "no driver took the step",
        object=driver,
        expected="a driver of this run that waits for steps, or a new one",
        found=problem,
        next="nothing: the step is submitted on its own; MELTLINE_DRIVER=step does so at once",
    )
