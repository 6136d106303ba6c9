"""A step's side: it finds its run's driver or starts one, and hears what the step prints."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from meltline.domain.errors import DriverLost, DriverUnavailable
from meltline.driver.messages import StepRequest, receive
from meltline.driver.place import DriverPlace, DriverPlaces

_DRIVER = "meltline.cli.run.driver"  # what is run; nothing of it is imported here
_START_SECONDS = 180  # until a new driver is ready
_ANSWER_SECONDS = 10  # until one that waits says that it is
_TAIL = 4000  # characters of a log

Log = Callable[[str], object]
"""Takes each line that a step prints."""


@dataclass(frozen=True)
class RunDriver:
    """The driver of a run, which the first of its steps starts.

    Attributes:
        places: Where drivers are.
        key: Of the run.
        master: Of Spark.
        python: The interpreter that a driver is started with.
    """

    places: DriverPlaces
    key: str
    master: str
    python: str = sys.executable

    def run(self, step: StepRequest, log: Log, *, alone: bool = False) -> int:
        """Runs a step to its end; returns its exit code.

        Args:
            step: What to run.
            log: Takes each line that it prints.
            alone: Whether no driver that is there may take it: a step that is tried again is not
                to meet what was left by the time before.

        Raises:
            DriverUnavailable: No driver took it.
            DriverLost: The driver ended before the step did.
        """
        if not alone:
            for place in self.places.of_run(self.key):
                with suppress(DriverUnavailable):
                    return _answer(place, step, log, _ANSWER_SECONDS)
        return _answer(self._started(step.environment), step, log, _START_SECONDS)

    def _started(self, environment: Mapping[str, str]) -> DriverPlace:
        """Starts a driver, which goes on when the task that starts it has ended."""
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
    with socket.socket(socket.AF_UNIX) as connection:
        request = replace(step, token=_greeted(place, connection, seconds))
        # Whatever ends this function from now on closes the connection, and so ends the step.
        before = len(place.printed())
        code = _ran(connection, request, log)
    for line in place.printed()[before:].splitlines():
        log(line)  # what the JVM said meanwhile
    if code is None:
        raise DriverLost(
            "the run's driver ended before its step did",
            object=str(place.folder),
            expected="the step's exit code",
            found="no answer; what the driver printed stands above",
            next="try the step again: it begins in a driver of its own",
        )
    return code


def _greeted(place: DriverPlace, connection: socket.socket, seconds: float) -> str:
    """Waits until a driver is ready for a step; returns its token. Raises DriverUnavailable."""
    try:
        connection.settimeout(seconds)
        connection.connect(str(place.socket))
        token, greeting = place.token(), receive(connection)
    except (OSError, ValueError) as error:
        raise _unavailable(str(place.folder), f"{error}; {_tail(place)}") from error
    if greeting is None:
        raise _unavailable(str(place.folder), _tail(place))
    return token


def _ran(connection: socket.socket, request: StepRequest, log: Log) -> int | None:
    """Has a step run to its end; its exit code, or None where nobody told it."""
    connection.settimeout(None)
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
    return _exit_code(connection)


def _exit_code(connection: socket.socket) -> int | None:
    with suppress(OSError, ValueError, KeyError):
        if (answer := receive(connection)) is not None:
            return int(answer["exit"])
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
