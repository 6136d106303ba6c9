"""The driver's own side: it waits, forks for each step, and ends when nobody holds it."""

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
        """By which a process finds it."""
        ...

    def is_alive(self) -> bool:
        """Whether it still runs."""
        ...


@dataclass(frozen=True)
class Driver:
    """Runs steps one at a time, each in a fork of this process.

    It ends with the first step that does not end well, whoever ends it: what a step leaves in the
    JVM when it is killed is in nobody's way then. It ends when its caller does, since a task that
    was cleared or timed out, and one whose scheduler was killed, has no more use for it.

    Attributes:
        listener: Where it is asked.
        token: The secret that a caller must know.
        gateway: Its JVM.
        idle: Seconds that it waits for the next step.
    """

    listener: socket.socket
    token: bytes
    gateway: Gateway
    idle: float = IDLE_SECONDS

    def serve(self) -> None:
        """Takes steps until there are none, or one did not end well."""
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
            return False  # not challenged: the step starts a driver of its own
        try:
            # A caller that has waited too long is gone by now, and has its step run elsewhere: so
            # it is challenged only now, and no request is taken of a caller that does not answer.
            deliver_challenge(connection, self.token)
            request, output = receive_request(connection)
        except UNHEARD:
            return True  # whoever it was, it was none of our steps
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
        """The exit code of a step; None where its caller went away, and the step with it."""
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
                if connection in ready:  # a caller says nothing while its step runs: it is gone
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
        """Goes on as the step, and never returns: not even a driver's exit handlers are to run."""
        code = 1
        try:
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != parent:  # it died before we asked to die with it
                os._exit(1)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            connection.close()  # or the driver's end would not be seen while the step goes on
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
    """Runs an app as `python APPLICATION WORDS` would, in this process; returns its exit code."""
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
    """Another step of the run at the same time starts a driver of its own."""
    with suppress(OSError):
        listener.accept()[0].close()
