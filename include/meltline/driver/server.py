"""The shared driver's server: accepts steps, forks for each, ends when idle or after a failure.

`cli/run/driver` runs it, in a process that outlives the task of the step that started it.
"""

import ctypes
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, deliver_challenge, wait
from typing import Protocol

from meltline.driver.messages import UNHEARD, StepRequest, opened, receive_request

IDLE_SECONDS = 60
_PATIENCE = 10  # seconds for a caller to answer
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl(2)


class Gateway(Protocol):
    """The JVM that steps share."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables by which a process finds it."""
        ...

    def is_alive(self) -> bool:
        """Returns whether it still runs."""
        ...


@dataclass(frozen=True)
class Driver:
    """Runs steps one at a time, each in a fork of this process.

    It ends with the first step that fails or is killed, so that state which the step left in the
    JVM affects no other. It also ends when the caller of a step is gone: the task was cleared or
    timed out, or its scheduler was killed.

    Attributes:
        listener: The socket on which it accepts steps.
        token: The secret that a caller must know.
        gateway: Its JVM.
        idle: Seconds that it waits for the next step.
    """

    listener: socket.socket
    token: bytes
    gateway: Gateway
    idle: float = IDLE_SECONDS

    def serve(self) -> None:
        """Accepts steps until none has come in time, or one has failed."""
        self.listener.settimeout(self.idle)
        while True:
            try:
                stream, _ = self.listener.accept()
            except TimeoutError:
                return
            with opened(stream, _PATIENCE) as connection:
                if not self._goes_on_after(connection):
                    return

    def _goes_on_after(self, connection: Connection) -> bool:
        if not self.gateway.is_alive():
            return False  # no challenge: the step starts its own driver
        try:
            # A caller that waited too long is gone, and runs its step elsewhere. So the challenge
            # is sent only now, and no request is read from a caller that does not answer it.
            deliver_challenge(connection, self.token)
            request, output = receive_request(connection)
        except UNHEARD:
            return True  # the caller was no step of ours
        try:
            code = self._forked(request, connection, output)
        finally:
            os.close(output)
        if code is None:
            return False
        with suppress(OSError):
            connection.send_bytes(str(code).encode())
        return code == 0 and not request.is_last

    def _forked(self, request: StepRequest, connection: Connection, output: int) -> int | None:
        """Returns the exit code of a step; None if its caller went away and the step was killed."""
        parent = os.getpid()
        step = os.fork()
        if step == 0:
            self._become(request, connection, output, parent)
        ending = os.pidfd_open(step)
        try:
            while True:
                ready = wait([ending, connection, self.listener])
                if ending in ready:
                    return os.waitstatus_to_exitcode(os.waitpid(step, 0)[1])
                if connection in ready:  # a caller sends nothing while its step runs, so it is gone
                    os.kill(step, signal.SIGKILL)
                    os.waitpid(step, 0)
                    return None
                if self.listener in ready:
                    _turn_away(self.listener)
        finally:
            os.close(ending)

    def _become(
        self, request: StepRequest, connection: Connection, output: int, parent: int
    ) -> None:
        """Continues as the step, and never returns: the driver's exit handlers must not run."""
        code = 1
        try:
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != parent:  # the driver died before prctl
                os._exit(1)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            connection.close()  # else the driver's end would stay unnoticed while the step runs
            self.listener.close()
            code = _run_app(request, self.gateway.variables)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _run_app(request: StepRequest, gateway: Mapping[str, str]) -> int:
    """Runs an app in this process as `python APPLICATION` would; returns its exit code."""
    os.environ.clear()
    os.environ.update({**request.environment, **gateway})
    os.chdir(request.folder)
    sys.argv = [request.application, *request.words]
    try:
        runpy.run_path(request.application, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _turn_away(listener: socket.socket) -> None:
    """Rejects a concurrent step of the run, which then starts its own driver."""
    with suppress(OSError):
        listener.accept()[0].close()
