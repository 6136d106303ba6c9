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

_START_SECONDS = 180  # until a new driver takes its first step
_ANSWER_SECONDS = 10  # until one that waits does
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
    """

    places: DriverPlaces
    key: str
    master: str

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
                    [sys.executable, "-m", "meltline.driver", str(place.folder), self.master],
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
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, encoding="utf-8", errors="replace") as output,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        try:
            connection.settimeout(seconds)
            connection.connect(str(place.socket))
            begun = place.printed()
            replace(step, token=place.token()).send(connection, writing)
            answer = receive(connection)
        except (OSError, ValueError) as error:
            raise _unavailable(str(place.folder), f"{error}; {_tail(place)}") from error
        finally:
            os.close(writing)
        if not answer or not answer.get("accepted"):
            raise _unavailable(str(place.folder), _tail(place))
        # Whatever ends this function from now on closes the connection, and so ends the step.
        connection.settimeout(None)
        for line in output:
            log(line.rstrip("\n"))
        code = _exit_code(connection)
    for line in place.printed()[len(begun) :].splitlines():
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
