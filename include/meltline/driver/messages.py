"""Messages between a step and its driver: JSON documents and an open file, over a Unix socket.

Connections are those of `multiprocessing.connection`, which frames messages and proves that the
other side knows the driver's token. Only bytes are exchanged: nothing is unpickled.
"""

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

_MOST_BYTES = 4 * 1024 * 1024
"""Bytes of one message; the process's environment is the largest part."""

UNHEARD = (
    *(OSError, EOFError, AuthenticationError),
    *(AssertionError, RuntimeError, TypeError, ValueError),
)
"""Errors of a connection whose other side is gone, is late, or sends an invalid message."""


@dataclass(frozen=True)
class StepRequest:
    """A step for a driver to run.

    Attributes:
        application: The app's file.
        words: Its arguments.
        environment: The complete environment of its process.
        folder: Its working directory.
        is_last: Whether the run's driver may end after it.
    """

    application: str
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    is_last: bool = False

    def send(self, connection: Connection, output: int) -> None:
        """Sends the request; the step prints to the open file `output`."""
        connection.send_bytes(json.dumps(asdict(self)).encode())
        send_handle(connection, output, None)


def receive_request(connection: Connection) -> tuple[StepRequest, int]:
    """Returns a request, and the open file for its step's output. Raises one of `UNHEARD`."""
    request = StepRequest(**json.loads(connection.recv_bytes(_MOST_BYTES)))
    return request, recv_handle(connection)


def opened(stream: socket.socket, seconds: float) -> Connection:
    """Wraps a connected socket. Each read from it fails after that many seconds."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    stream.settimeout(None)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    return Connection(stream.detach())
