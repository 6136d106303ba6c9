"""A REST catalog small enough to read, that takes updates and requirements as the protocol says.

The server writes the metadata, on a store of the test's. Requirements that do not hold are answered
with 409, as PyIceberg expects it. It knows what the client under test sends and nothing else.
"""

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from pyiceberg.catalog.rest import API_PREFIX, DEFAULT_ENDPOINTS

from meltline.domain.clock import Clock, WallClock
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.ports import MetadataFiles
from tests.doubles.rest_protocol import APPLY


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
    clock: Clock = field(default_factory=WallClock)
    deletes_after: timedelta | None = None
    """How long after a drop the server deletes the table's files; never where there is none."""
    insists_on_purge: bool = False
    """Whether a drop is refused unless it asks for the files to be deleted."""
    unregisters: bool = False
    """Whether the server offers the request that takes a table out and leaves its files."""
    is_down: bool = False
    to_delete: list[tuple[datetime, list[str]]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Any) -> Any:
        with self.guard:
            self.requests.append(f"{method} {path}")
            self._delete_what_is_due()
            if self.is_down:
                raise Refused(500, "ServiceFailure")
            match [unquote(part) for part in urlsplit(path).path.split("/")[2:]]:
                case ["config"]:
                    return {"defaults": {}, "overrides": {}, "endpoints": self._endpoints()}
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
                    return self._tables(method, namespace, body)
                case ["namespaces", namespace, "views", *view]:
                    return self._views(namespace, view, urlsplit(path).query)
                case ["namespaces", namespace, "tables", table]:
                    purges = "purgerequested=true" in urlsplit(path).query.lower()
                    return self._table(method, (namespace, table), body, purges=purges)
                case ["namespaces", namespace, "tables", table, "unregister"] if self.unregisters:
                    return self._table("UNREGISTER", (namespace, table), body)
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
        if self.store.size(at) is None:
            raise Refused(404, "NotFoundException")
        self.tables[name] = at
        return self._table("GET", name, None)

    def _tables(self, method: str, namespace: str, body: Any) -> Any:
        if method == "POST":
            return self._create((namespace, body["name"]), body)
        names = [name for within, name in self.tables if within == namespace]
        return {"identifiers": [{"namespace": [namespace], "name": name} for name in names]}

    def _views(self, namespace: str, view: Sequence[str], query: str) -> Any:
        """One view; or all, one on each page."""
        if view:
            return self._view((namespace, view[0]))
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

    def _endpoints(self) -> list[str] | None:
        """What it offers, where that is more than what every server does."""
        if not self.unregisters:
            return None
        return [*map(str, DEFAULT_ENDPOINTS), f"POST {API_PREFIX}{_TABLE}/unregister"]

    def _create(self, name: tuple[str, str], body: Any) -> Any:
        folder = f"file:///w/{name[0]}/{name[1]}"
        at = f"{folder}/metadata/00000-{uuid4()}.metadata.json"
        self.store.write(at, json.dumps(_empty(folder, body["schema"])).encode())
        return self._register(name, at)

    def _drop(self, name: tuple[str, str], *, purges: bool) -> Any:
        if self.insists_on_purge and not purges:
            raise Refused(400, "BadRequestException")
        at = self.tables.pop(name)
        log = json.loads(self.store.read(at))["metadata-log"]
        wait = timedelta(0) if purges else self.deletes_after
        if wait is not None:
            files = [at, *(logged["metadata-file"] for logged in log)]
            self.to_delete.append((self.clock.now() + wait, files))
        return {}

    def _delete_what_is_due(self) -> None:
        for due, files in [*self.to_delete]:
            if due <= self.clock.now():
                self.to_delete.remove((due, files))
                self.store.delete(files)

    def _table(self, method: str, name: tuple[str, str], body: Any, *, purges: bool = False) -> Any:
        if name not in self.tables:
            raise Refused(404, "NoSuchTableException")
        if method == "DELETE":
            return self._drop(name, purges=purges)
        if method == "UNREGISTER":
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
        if any(update["action"] in _OF_SNAPSHOTS for update in body["updates"]):
            content = dict(json.loads(self.store.read(at)))
            for update in body["updates"]:
                APPLY[update["action"]](content, update)
            document.replace(content)
        else:
            for update in body["updates"]:
                _apply(update, document)
        new = document.successor(str(uuid4()))
        self.store.write(new.location, new.content)
        self.tables[name] = new.location


_OF_SNAPSHOTS = ("add-snapshot", "remove-snapshots")
_TABLE = "/namespaces/{namespace}/tables/{table}"


def _empty(folder: str, schema: Any) -> dict[str, Any]:
    """A table without any snapshot."""
    return {
        "format-version": 2,
        "table-uuid": str(uuid4()),
        "location": folder,
        "last-sequence-number": 0,
        "last-updated-ms": 1_000,
        "last-column-id": 1,
        "schemas": [{**schema, "schema-id": 0}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }


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
