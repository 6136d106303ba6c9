"""The driver's own side: it waits, forks for each step, and ends when nobody holds it."""

import ctypes
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, Protocol

from meltline.driver.messages import StepRequest, receive_request, send

IDLE_SECONDS = 60
_PATIENCE = 10  # seconds for a request to be said
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
        token: What it wants to hear first.
        gateway: Its JVM.
        idle: Seconds that it waits for the next step.
    """

    listener: socket.socket
    token: str
    gateway: Gateway
    idle: float = IDLE_SECONDS

    def serve(self) -> None:
        """Takes steps until there are none, or one did not end well."""
        self.listener.settimeout(self.idle)
        while True:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                return
            with connection:
                if not self._goes_on_after(connection):
                    return

    def _goes_on_after(self, connection: socket.socket) -> bool:
        if not self.gateway.is_alive():
            return False  # not greeted: the step starts a driver of its own
        connection.settimeout(_PATIENCE)
        try:
            # A caller that has waited too long is gone by now, and has its step run elsewhere: so
            # it is asked for only now, and nobody's request is taken who did not hear this.
            send(connection, ready=True)
            request, output = receive_request(connection)
        except (ValueError, TypeError, OSError):
            return True  # whoever it was, it was none of our steps
        try:
            if not compare_digest(request.token.encode(), self.token.encode()):
                return True
            code = self._forked(request, connection, output)
        finally:
            os.close(output)
        if code is None:
            return False
        with suppress(OSError):
            send(connection, exit=code)
        return code == 0 and not request.is_last

    def _forked(self, request: StepRequest, connection: socket.socket, output: int) -> int | None:
        """The exit code of a step; None where its caller went away, and the step with it."""
        parent = os.getpid()
        step = os.fork()
        if step == 0:
            self._become(request, connection, output, parent)
        ending = os.pidfd_open(step)
        try:
            while True:
                awaited: list[Any] = [ending, connection, self.listener]
                ready, _, _ = select.select(awaited, [], [])
                if ending in ready:
                    return os.waitstatus_to_exitcode(os.waitpid(step, 0)[1])
                if connection in ready and not _says_something(connection):
                    os.kill(step, signal.SIGKILL)
                    os.waitpid(step, 0)
                    return None
                if self.listener in ready:
                    _turn_away(self.listener)
        finally:
            os.close(ending)

    def _become(
        self, request: StepRequest, connection: socket.socket, output: int, parent: int
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


def _says_something(connection: socket.socket) -> bool:
    """A caller says nothing while its step runs: what can be read is its end."""
    try:
        return bool(connection.recv(1))
    except OSError:
        return False


def _turn_away(listener: socket.socket) -> None:
    """Another step of the run at the same time starts a driver of its own."""
    with suppress(OSError):
        listener.accept()[0].close()
