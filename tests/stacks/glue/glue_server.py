"""Glue and S3 by moto, on one port, behind a proxy that does what moto leaves out.

moto passes over the `VersionId` of an `UpdateTable`. The proxy demands one, and answers with Glue's
own error where it is not the version that the table has. It sends one request on at a time.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any

from moto.server import ThreadedMotoServer

_TARGET = "X-Amz-Target"
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass
class GlueServer:
    """Where Glue and S3 answer, and what was asked of Glue.

    Attributes:
        requests: Operation and body of each request, in order.
        broken: Operations that are done, and whose answers are lost.
        refused: Operations that fail before anything is done.
    """

    moto_port: int
    uri: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    guard: RLock = field(default_factory=RLock)

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Asks moto."""
        connection = HTTPConnection("127.0.0.1", self.moto_port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Passes a request on, unless Glue would refuse it where moto does not."""
        operation = headers.get(_TARGET, "").rpartition(".")[2]
        if not headers.get(_TARGET, "").startswith("AWSGlue."):
            return self.send(method, path, headers, body)
        with self.guard:
            words = json.loads(body)
            self.requests.append((operation, words))
            if operation == "UpdateTable" and not self._is_current(headers, words):
                return _refusal("ConcurrentModificationException")
            if operation in self.refused:
                return _refusal("InternalServiceException", 500)
            status, fields, content = self.send(method, path, headers, body)
            if operation in self.broken:
                return _refusal("InternalServiceException", 500)
            return status, fields, content

    def _is_current(self, headers: dict[str, str], words: dict[str, Any]) -> bool:
        name = {"DatabaseName": words["DatabaseName"], "Name": words["TableInput"]["Name"]}
        body = json.dumps(name).encode()
        asked = {**headers, _TARGET: "AWSGlue.GetTable", "Content-Length": str(len(body))}
        status, _, content = self.send("POST", "/", asked, body)
        if status != 200:
            return True  # moto says what is wrong
        return bool(json.loads(content)["Table"]["VersionId"] == words.get("VersionId"))


def _refusal(kind: str, status: int = 400) -> tuple[int, list[tuple[str, str]], bytes]:
    content = json.dumps({"__type": kind, "message": kind}).encode()
    return status, [("Content-Type", "application/x-amz-json-1.1")], content


@contextmanager
def glue_server() -> Iterator[GlueServer]:
    """Serves empty ones on the loopback, on a port of their own."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    _, moto_port = moto.get_host_and_port()
    server = GlueServer(moto_port)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    server.uri = f"http://127.0.0.1:{proxy.server_port}"
    thread = Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        server.send("POST", "/moto-api/reset", {}, b"")
        yield server
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
        moto.stop()


def _handler(server: GlueServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
            status, fields, content = server.answer(self.command, self.path, headers, body)
            self.send_response(status)
            for key, text in fields:
                if key.lower() not in _HOP:
                    self.send_header(key, text)
            length = next((v for k, v in fields if k.lower() == "content-length"), len(content))
            is_head = self.command == "HEAD"
            self.send_header("Content-Length", str(length if is_head else len(content)))
            self.end_headers()
            if not is_head:
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    return Handler
