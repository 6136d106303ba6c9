"""Stands in front of a server and does to requests what networks, gateways and servers do."""

import contextlib
import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread


class Fault(StrEnum):
    """What happens to a request."""

    SLOW_DOWN = "503 SlowDown, and nothing is done"
    TOO_MANY = "429 with Retry-After, and nothing is done"
    BROKEN = "500 InternalError, and nothing is done"
    AFTERWARDS = "done, and the answer is a 500"
    LOST = "done, and the answer is lost"
    DROPPED = "the connection ends, and nothing is done"
    HALF_OPEN = "the connection stays open, and nothing ever comes"
    SLOW = "done, and the answer comes byte by byte"
    CUT = "done, and the answer ends in its middle"
    PARTIAL = "a bulk delete does every second key, and has an error for each of the others"
    EXPIRED = "the login or the keys have ended, and nothing is done"


@dataclass(frozen=True)
class Request:
    """What a client has sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_bulk_delete(self) -> bool:
        return self.method == "POST" and self.path.endswith("?delete")

    @property
    def key_id(self) -> str:
        """With whose key it is signed."""
        signed = re.search(r"Credential=([^/]+)/", self.headers.get("authorization", ""))
        return signed[1] if signed else ""


@dataclass(frozen=True)
class Answer:
    """What a server says."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


STATUS = {
    Fault.SLOW_DOWN: (503, "SlowDown"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.AFTERWARDS: (500, "InternalError"),
}

Chooses = Callable[[Request], Fault | None]
Refuses = Callable[[Fault], Answer]
Changes = Callable[[Request, Answer], Answer]


def of_s3(fault: Fault) -> Answer:
    """What S3 says when it refuses."""
    status, code = STATUS.get(fault, (400, "ExpiredToken"))
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Answer(status, [("Content-Type", "application/xml")], text.encode())


def of_rest(fault: Fault) -> Answer:
    """What a server of Iceberg's REST protocol says."""
    status, kind = STATUS.get(fault, (401, "NotAuthorizedException"))
    error = {"message": kind, "type": kind, "code": status}
    headers = [("Content-Type", "application/json"), ("Retry-After", "0")]
    return Answer(status, headers, json.dumps({"error": error}).encode())


@dataclass
class FaultProxy:
    """A proxy that is running.

    Attributes:
        port: Where it listens.
        refuses: What a refusal looks like.
        chooses: What is to happen to a request; a test sets it anew as it likes.
        changes: What becomes of an answer on its way; called when the work is done.
        patience: How many seconds a half-open connection lasts: longer than any client waits.
        counts: How often what happened.
    """

    port: int
    refuses: Refuses
    chooses: Chooses = lambda request: None
    changes: Changes = lambda request, answer: answer
    patience: float = 8.0
    counts: Counter[str] = field(default_factory=Counter)
    guard: Lock = field(default_factory=Lock)

    def choose(self, request: Request) -> Fault | None:
        with self.guard:
            fault = self.chooses(request)
            if fault is Fault.PARTIAL and request.body.count(b"<Object>") < 2:
                fault = None  # nothing that could be done in part
            self.counts[fault.name if fault else "NONE"] += 1
        return fault


@contextlib.contextmanager
def fault_proxy(target: int, refuses: Refuses = of_s3) -> Iterator[FaultProxy]:
    """Runs a proxy in front of a port of the loopback until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    proxy = FaultProxy(server.server_port, refuses)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            _handle(self, proxy, target)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def _handle(handler: BaseHTTPRequestHandler, proxy: FaultProxy, target: int) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    headers = {name.lower(): text for name, text in handler.headers.items()}
    request = Request(handler.command, handler.path, headers, body)

    def done() -> Answer:
        return proxy.changes(request, _ask(target, request))

    match fault := proxy.choose(request):
        case Fault.SLOW_DOWN | Fault.TOO_MANY | Fault.BROKEN | Fault.EXPIRED:
            _send(handler, proxy.refuses(fault))
        case Fault.AFTERWARDS:
            done()
            _send(handler, proxy.refuses(fault))
        case Fault.DROPPED:
            handler.close_connection = True
        case Fault.HALF_OPEN:
            time.sleep(proxy.patience)
            handler.close_connection = True
        case Fault.LOST:
            done()
            handler.close_connection = True
        case Fault.CUT:
            _send(handler, done(), most=0.5)
        case Fault.SLOW:
            _send(handler, done(), pause=0.02)
        case Fault.PARTIAL:
            _send(handler, _some_deleted(target, request))
        case _:
            _send(handler, done())


def _ask(target: int, request: Request) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", target, timeout=60)
    with contextlib.closing(connection):
        headers = {k: v for k, v in request.headers.items() if k != "connection"}
        connection.request(request.method, request.path, request.body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())


def _some_deleted(target: int, request: Request) -> Answer:
    """Does every second key of a bulk delete, and answers for all of them."""
    objects = re.findall(rb"<Object>.*?</Object>", request.body, re.DOTALL)
    body = request.body
    for unlucky in objects[1::2]:
        body = body.replace(unlucky, b"")
    unsigned = {
        name: text
        for name, text in request.headers.items()
        if not name.startswith(("x-amz-checksum", "content-md5", "content-length"))
    }
    answer = _ask(target, Request(request.method, request.path, unsigned, body))
    keys = [re.search(rb"<Key>(.*?)</Key>", each, re.DOTALL) for each in objects[1::2]]
    errors = b"".join(
        b"<Error><Key>%s</Key><Code>InternalError</Code><Message>try again</Message></Error>"
        % key[1]
        for key in keys
        if key
    )
    end = b"</DeleteResult>"
    return Answer(answer.status, answer.headers, answer.body.replace(end, errors + end))


def _send(
    handler: BaseHTTPRequestHandler, answer: Answer, *, most: float = 1.0, pause: float = 0.0
) -> None:
    is_head = handler.command == "HEAD"
    handler.send_response_only(answer.status)
    for name, text in answer.headers:
        if name.lower() not in ("content-length", "connection", "transfer-encoding"):
            handler.send_header(name, text)
    length = next((text for name, text in answer.headers if name.lower() == "content-length"), "")
    handler.send_header("Content-Length", length if is_head else str(len(answer.body)))
    handler.end_headers()
    body = b"" if is_head else answer.body[: int(len(answer.body) * most)]
    parts = [
        body[at : at + max(1, len(body) // 20)]
        for at in range(0, len(body), max(1, len(body) // 20))
    ]
    for part in parts if pause else [body]:
        handler.wfile.write(part)
        time.sleep(pause)
    if most < 1.0:
        handler.close_connection = True
