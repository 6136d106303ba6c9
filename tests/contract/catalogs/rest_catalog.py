"""A REST catalog small enough to read, that takes updates and requirements as the protocol says.

The server writes the metadata, on a store of the test's. Requirements that do not hold are answered
with 409, as PyIceberg expects it. It knows what the client under test sends and nothing else.
"""

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from meltline.domain.clock import WallClock
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.ports import MetadataFiles


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, code: int, kind: str) -> None:
        super().__init__(kind)
        self.code = code
        self.kind = kind


@dataclass
class RestCatalogServer:
    """Tables and namespaces of one catalog."""

    store: MetadataFiles
    tables: MutableMapping[tuple[str, str], str] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    guard: RLock = field(default_factory=RLock)
    views: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    views_answer: int = 200
    """What a request for views is answered with; 200 where there are views."""
    uri: str = ""

    def answer(self, method: str, path: str, body: Any) -> Any:
        with self.guard:
            match [unquote(part) for part in urlsplit(path).path.split("/")[2:]]:
                case ["config"]:
                    return {"defaults": {}, "overrides": {}}
                case ["namespaces"]:
                    return self._namespaces(method, body, urlsplit(path).query)
                case ["namespaces", namespace] if method == "DELETE":
                    return self._drop_namespace(namespace)
                case ["tables", "rename"]:
                    return self._rename(body)
                case ["namespaces", namespace, "register"]:
                    return self._register((namespace, body["name"]), body["metadata-location"])
                case ["namespaces", namespace]:
                    return {"namespace": [namespace], "properties": self._namespace(namespace)}
                case ["namespaces", namespace, "properties"]:
                    return self._set_properties(namespace, body)
                case ["namespaces", namespace, "tables"]:
                    names = [name for within, name in self.tables if within == namespace]
                    return {"identifiers": [{"namespace": [namespace], "name": n} for n in names]}
                case ["namespaces", namespace, "views"]:
                    return self._list_views(namespace, urlsplit(path).query)
                case ["namespaces", namespace, "views", view]:
                    return self._view((namespace, view))
                case ["namespaces", namespace, "tables", table]:
                    return self._table(method, (namespace, table), body)
        raise Refused(404, "NoSuchPath")

    def _namespaces(self, method: str, body: Any, query: str) -> Any:
        if method == "GET":
            return {"namespaces": [] if "parent=" in query else [[n] for n in self.namespaces]}
        (name,) = body["namespace"]
        if name in self.namespaces:
            raise Refused(409, "AlreadyExistsException")
        self.namespaces[name] = dict(body["properties"])
        return {"namespace": [name], "properties": self.namespaces[name]}

    def _namespace(self, name: str) -> dict[str, str]:
        if name not in self.namespaces:
            raise Refused(404, "NoSuchNamespaceException")
        return self.namespaces[name]

    def _set_properties(self, name: str, body: Any) -> Any:
        properties = self._namespace(name)
        for key in body["removals"]:
            properties.pop(key, None)
        properties.update(body["updates"])
        return {"updated": list(body["updates"]), "removed": body["removals"], "missing": []}

    def _drop_namespace(self, name: str) -> Any:
        self._namespace(name)
        if any(within == name for within, _ in self.tables):
            raise Refused(409, "NamespaceNotEmptyException")
        del self.namespaces[name]
        return {}

    def _rename(self, body: Any) -> Any:
        source, target = (
            (body[side]["namespace"][0], body[side]["name"]) for side in ("source", "destination")
        )
        if source not in self.tables:
            raise Refused(404, "NoSuchTableException")
        if target in self.tables:
            raise Refused(409, "AlreadyExistsException")
        self.tables[target] = self.tables.pop(source)
        return {}

    def _register(self, name: tuple[str, str], at: str) -> Any:
        if name in self.tables:
            raise Refused(409, "AlreadyExistsException")
        self.tables[name] = at
        return self._table("GET", name, None)

    def _list_views(self, namespace: str, query: str) -> Any:
        """One view on each page."""
        if self.views_answer != 200:
            raise Refused(self.views_answer, "UnsupportedOperationException")
        names = sorted(name for within, name in self.views if within == namespace)
        at = int(dict(parse_qsl(query)).get("pageToken", "0"))
        shown = [{"namespace": [namespace], "name": name} for name in names[at : at + 1]]
        token = str(at + 1) if at + 1 < len(names) else None
        return {"identifiers": shown, "next-page-token": token}

    def _view(self, name: tuple[str, str]) -> Any:
        if name not in self.views:
            raise Refused(404, "NoSuchViewException")
        view = self.views[name]
        return {
            "metadata-location": f"{view['location']}/metadata/0.metadata.json",
            "metadata": view,
        }

    def _table(self, method: str, name: tuple[str, str], body: Any) -> Any:
        if name not in self.tables:
            raise Refused(404, "NoSuchTableException")
        if method == "DELETE":
            del self.tables[name]
            return {}
        if method == "POST":
            self._commit(name, body)
        at = self.tables[name]
        return {"metadata-location": at, "metadata": json.loads(self.store.read(at)), "config": {}}

    def _commit(self, name: tuple[str, str], body: Any) -> None:
        at = self.tables[name]
        full = TableName("rest", (name[0],), name[1])
        document = MetadataEditor.read(full, at, self.store.read(at), WallClock().now())
        for requirement in body["requirements"]:
            if not _holds(requirement, document):
                raise Refused(409, "CommitFailedException")
        for update in body["updates"]:
            _apply(update, document)
        new = document.successor(str(uuid4()))
        self.store.write(new.location, new.content)
        self.tables[name] = new.location


def _holds(requirement: Mapping[str, Any], document: MetadataEditor) -> bool:
    if requirement["type"] == "assert-table-uuid":
        return bool(requirement["uuid"] == document.state.uuid)
    assert requirement["type"] == "assert-ref-snapshot-id"
    ref = document.state.refs.get(requirement["ref"])
    return bool((None if ref is None else ref.snapshot_id) == requirement["snapshot-id"])


def _apply(update: Mapping[str, Any], document: MetadataEditor) -> None:
    match update["action"]:
        case "set-properties":
            document.set_properties(update["updates"])
        case "remove-properties":
            document.set_properties({}, update["removals"])
        case "remove-snapshot-ref":
            document.remove_ref(update["ref-name"])
        case "set-snapshot-ref":
            ref = SnapshotRef(update["ref-name"], update["snapshot-id"], update["type"] == "branch")
            document.set_ref(replace(ref, max_ref_age_ms=update.get("max-ref-age-ms")))
        case other:
            raise Refused(400, f"unknown update {other}")


@contextmanager
def rest_catalog(store: MetadataFiles) -> Iterator[RestCatalogServer]:
    """Serves an empty catalog on the loopback, on a port of its own, while the block lasts."""
    catalog = RestCatalogServer(store)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(catalog.answer))
    catalog.uri = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield catalog
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(answer: Callable[[str, str, Any], Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                code, document = 200, answer(self.command, self.path, body)
            except Refused as refused:
                error = {"message": refused.kind, "type": refused.kind, "code": refused.code}
                code, document = refused.code, {"error": error}
            content = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_HEAD = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    return Handler
