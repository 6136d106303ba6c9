"""Servers for tests: each a process on a free port of the loopback, ended by its own id."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from meltline.jars.jar_paths import cache_folder

_PATIENCE = 90  # seconds that a server may take to start, on a machine that does other things too


def program(name: str, variable: str) -> str:
    """Where a server's program is: what the variable names, else where `setup/servers` puts it.

    Without one the test is skipped, which in CI is a failure.
    """
    path = os.environ.get(variable) or str(cache_folder(os.environ) / "servers" / name)
    if not Path(path).exists():
        pytest.skip(f"no {path}: setup/servers fetches it, or {variable} names another")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: Callable[[int], Sequence[str]], log: Path) -> Iterator[int]:
    """Starts a server that ends with the block, and gives its port.

    Args:
        command: Its words, for a port.
        log: Takes what it prints.
    """
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(command(port), stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, log)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")
