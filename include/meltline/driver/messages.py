"""What a step and its driver say to each other: one JSON document a line, and open files."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_MOST_BYTES = 4 * 1024 * 1024
"""Of one message: the environment of a process is the largest part of it."""


@dataclass(frozen=True)
class StepRequest:
    """What a driver is to run.

    Attributes:
        application: The app's file.
        words: Its arguments.
        environment: Of its process, whole.
        folder: Where it runs.
        is_last: Whether the run needs its driver no more.
        token: Of the driver that is asked; proves that its folder could be read.
    """

    application: str
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    is_last: bool = False
    token: str = ""

    def send(self, connection: socket.socket, output: int) -> None:
        """Asks for it; what it prints goes to the open file `output`."""
        line = json.dumps(asdict(self)).encode() + b"\n"
        socket.send_fds(connection, [line[:1]], [output])
        connection.sendall(line[1:])


def receive_request(connection: socket.socket) -> tuple[StepRequest, int]:
    """A request, and the open file for what its step prints.

    Raises:
        ValueError: It is none.
        OSError: The connection is gone.
    """
    first, files, _, _ = socket.recv_fds(connection, 1, 1)
    try:
        if len(files) != 1:
            raise ValueError("no file to print to")
        return StepRequest(**_document(first + _line(connection))), files[0]
    except BaseException:
        for file in files:  # or whoever reads what is printed would wait for more
            os.close(file)
        raise


def send(connection: socket.socket, **answer: Any) -> None:
    """Answers."""
    connection.sendall(json.dumps(answer).encode() + b"\n")


def receive(connection: socket.socket) -> Mapping[str, Any] | None:
    """An answer; None where the other side ended without one.

    Raises:
        ValueError: It is no document.
        OSError: The connection is gone.
    """
    line = _line(connection)
    return _document(line) if line else None


def _line(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = connection.recv(65536)
        if not part or sum(map(len, parts)) > _MOST_BYTES:
            return b""
        parts.append(part)
    return b"".join(parts)


def _document(line: bytes) -> dict[str, Any]:
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError("no document")
    return document
