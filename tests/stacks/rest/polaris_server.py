"""A server that speaks the policy endpoints of Apache Polaris, by its specification.

It stands in front of Iceberg's own REST server and passes on what is Iceberg's; alone it answers
for its configuration and its policies. It is not Polaris: what is shown with it is the protocol.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

EXPIRY, REMOVAL = "system.snapshot-expiry", "system.orphan-file-removal"
POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"
_SEPARATOR = "\x1f"
_OF_A_HOP = {
    "connection",
    "transfer-encoding",
    "content-encoding",
    "content-length",
    "date",
    "host",
}


@dataclass
class PolarisServer:
    """Policies, what they are attached to, and what it was asked.

    Attributes:
        upstream: The Iceberg server behind it; empty for none.
        endpoints: What it adds to the endpoints of its configuration.
        page: So many policies come at a time.
        refuses: Answers to requests for a table's policies, by the table's name: status and body.
        asked: Queries for policies, in their order.
    """

    upstream: str = ""
    endpoints: Sequence[str] = (POLICIES,)
    prefix: str = ""
    page: int = 100
    refuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    port: int = 0
    _attached: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """With a path of its own before the protocol's, as Polaris has it."""
        return f"http://127.0.0.1:{self.port}/api/catalog"

    def attach(
        self, to: tuple[str, ...], name: str, content: Any, type: str = EXPIRY, space: str = "rules"
    ) -> None:
        """Attaches a policy: to the catalog (), a namespace's levels, or a table's full name."""
        policies = self._attached.setdefault(to, [])
        policies[:] = [policy for policy in policies if policy["policy-type"] != type]
        policies.append(
            {
                "policy-type": type,
                "inheritable": True,
                "name": name,
                "description": None,
                "content": content if isinstance(content, str) else json.dumps(content),
                "version": 0,
                "namespace": [space],
            }
        )

    def detach(self, to: tuple[str, ...]) -> None:
        self._attached.pop(to, None)

    def applicable(self, namespace: tuple[str, ...], table: str) -> list[dict[str, Any]]:
        """The nearest of each type, as Polaris resolves them."""
        path = [*(namespace[:depth] for depth in range(len(namespace) + 1)), (*namespace, table)]
        nearest: dict[str, dict[str, Any]] = {}
        for level in path:
            for policy in self._attached.get(level, ()):
                nearest[policy["policy-type"]] = {**policy, "inherited": level != path[-1]}
        return list(nearest.values())

    def answer(self, query: Mapping[str, str]) -> tuple[int, str]:
        """To a request for the policies of a table."""
        self.asked.append(query)
        if query["target-name"] in self.refuses:
            return self.refuses[query["target-name"]]
        policies = self.applicable(
            tuple(query["namespace"].split(_SEPARATOR)), query["target-name"]
        )
        start = int(query.get("pageToken") or 0)
        end = start + self.page
        more = {"next-page-token": str(end)} if end < len(policies) else {}
        return 200, json.dumps({"applicable-policies": policies[start:end], **more})

    def config(self, upstream: Mapping[str, Any]) -> dict[str, Any]:
        endpoints = [*upstream.get("endpoints", ["GET /v1/{prefix}/namespaces"]), *self.endpoints]
        overrides = {
            **upstream.get("overrides", {}),
            **({"prefix": p} if (p := self.prefix) else {}),
        }
        return {**upstream, "defaults": {}, "overrides": overrides, "endpoints": endpoints}


@contextmanager
def polaris_server(upstream: str = "", **settings: Any) -> Iterator[PolarisServer]:
    """Runs one while the block lasts."""
    polaris = PolarisServer(upstream, **settings)

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            url = urlsplit(self.path)
            path = url.path.removeprefix("/api/catalog")
            query = {key: words[0] for key, words in parse_qs(url.query).items()}
            prefix = f"{polaris.prefix}/" if polaris.prefix else ""
            if path == f"/polaris/v1/{prefix}applicable-policies":
                self.send(*polaris.answer(query))
            elif polaris.upstream:
                self.pass_on(path, url.query)
            elif path == "/v1/config":
                self.send(200, json.dumps(polaris.config({})))
            else:
                self.send(404, "{}")

        do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = handle_any

        def pass_on(self, path: str, query: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_A_HOP}
            answer = httpx.request(
                self.command,
                f"{polaris.upstream}{path}{f'?{query}' if query else ''}",
                headers=headers,
                content=self.rfile.read(length) if length else None,
                timeout=60,
            )
            body = answer.text
            if path == "/v1/config" and answer.is_success:
                body = json.dumps(polaris.config(answer.json()))
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _OF_A_HOP}
            self.send(answer.status_code, body, kept)

        def send(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
            content = body.encode()
            self.send_response(status)
            for key, word in (headers or {"Content-Type": "application/json"}).items():
                self.send_header(key, word)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD" and status != 204:
                self.wfile.write(content)

        def log_message(self, format: str, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    polaris.port = server.server_port
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield polaris
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
