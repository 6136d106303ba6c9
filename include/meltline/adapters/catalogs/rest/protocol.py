"""Sends requests of Iceberg's REST protocol whose full answers are needed.

PyIceberg opens the catalog: it fetches the configuration, logs in and signs. But its models drop
fields that they do not know, and refuse tables with future types. So tables and commits are plain
JSON documents here.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Protocol

from pyiceberg.catalog.rest import Capability, Endpoints, IdentifierKind, RestCatalog
from requests import RequestException, Response

from meltline.adapters.catalogs.table_commits import fate_unknown, no_table
from meltline.domain.errors import CommitConflict, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote

Json = Mapping[str, Any]

_SECONDS = (10, 120)  # to connect, and between two bytes of an answer; ends half-open connections
_SIGN_IN_AGAIN = (HTTPStatus.UNAUTHORIZED, 419)
_SHOWN = 300
_NAMES = "identifiers"
_UNREGISTER = "/tables/{table}/unregister"
_NO_NAMESPACE = {HTTPStatus.NOT_FOUND}
_NO_VIEWS = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_ACCEPTABLE,
    HTTPStatus.NOT_IMPLEMENTED,
}
_TIMES_BUSY = 3
_LONGEST_WAIT = 20.0


class CommitRaced(Exception):
    """A requirement failed: a concurrent commit came first, and nothing was done."""


class CommitRejected(MeltlineError):
    """The catalog refuses a commit as it is; nothing was done."""


@dataclass(frozen=True)
class LoadedTable:
    """A table as its server returns it.

    Attributes:
        metadata_location: The metadata file that describes it.
        metadata: Its content, as far as it was requested.
        config: The server's settings for clients, with credentials among them.
        credentials: Credentials by path prefix, from servers that distinguish prefixes.
    """

    metadata_location: str
    metadata: Json
    config: Mapping[str, str]
    credentials: Sequence[Json] = ()

    @property
    def replaced(self) -> str:
        """The metadata file before this one; empty if the server names none."""
        log = self.metadata.get("metadata-log") or []
        return str(log[-1]["metadata-file"]) if log else ""


class Documents(Protocol):
    """Tables as documents: the part of the protocol that expirations need."""

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        """Loads a table's current state."""
        ...

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        """Commits updates if the requirements hold."""
        ...


class RestProtocol:
    """One catalog behind the protocol.

    Args:
        name: The catalog's name in `meltline.yaml`.
        connect: Fetches the server's configuration and logs in; called once, when needed.
        address: Its configured address.
        pause: Waits the given seconds before a busy server is asked again.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], RestCatalog],
        address: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause = pause
        self.name = name
        self._connect = connect
        self._address = address

    @cached_property
    def catalog(self) -> RestCatalog:
        """PyIceberg's client, with a timeout for every request."""
        catalog = self._connect()
        session = catalog._session
        session.request = partial(session.request, timeout=_SECONDS)  # type: ignore[method-assign]
        return catalog

    @property
    def server(self) -> str:
        """Fingerprint of the server: its address, and the endpoints that it lists."""
        catalog = self.catalog
        parts = [self._address, *sorted(map(str, catalog._supported_endpoints))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def settings(self, uri: str, warehouse: str) -> Mapping[str, str]:
        """Returns the server's current settings for clients, whatever the clients' own are.

        Raises:
            RestRefused: The server does not answer, or with an error.
        """
        params = {"warehouse": warehouse} if warehouse else {}
        answer = self._get(f"{uri.rstrip('/')}/v1/config", self.name, params)
        document = _require_ok(answer, self.name).json()
        return {**(document.get("defaults") or {}), **(document.get("overrides") or {})}

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        """Loads a table's current state.

        Args:
            name: The table.
            refs_only: Whether to omit snapshots without a branch or tag: the table's current
                metadata file does not depend on them.

        Raises:
            TableNotFound: No table has that name.
            RestRefused: The server does not answer, or with an error.
        """
        answer = self._get(self._url(name), name, {"snapshots": "refs"} if refs_only else {})
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise no_table(self.name, name)
        return _table(_require_ok(answer, name))

    def views(self, namespace: Sequence[str]) -> Sequence[TableName]:
        """Lists the views of a namespace; none if the server has no such request.

        Raises:
            RestRefused: The server does not answer, or with an error.
        """
        catalog = self.catalog
        encoded = catalog._encode_namespace_path(tuple(namespace))
        url = catalog.url(Endpoints.list_views, namespace=encoded)
        is_offered = Capability.V1_LIST_VIEWS in catalog._supported_endpoints
        views: list[TableName] = []
        params: dict[str, str] = {}
        while True:
            answer = self._get(url, self.name, params)
            if answer.status_code in (_NO_NAMESPACE if is_offered else _NO_VIEWS):
                return views
            page = _require_ok(answer, self.name).json()
            views += [TableName(self.name, (*i["namespace"],), i["name"]) for i in page[_NAMES]]
            params = {"pageToken": str(page.get("next-page-token") or "")}
            if not params["pageToken"]:
                return views

    def load_view(self, name: TableName) -> LoadedTable:
        """Loads a view. Raises RestRefused."""
        catalog = self.catalog
        path = catalog._split_identifier_for_path((*name.namespace, name.name), IdentifierKind.VIEW)
        url = catalog.url(Endpoints.load_view, prefixed=True, **path)
        return _table(_require_ok(self._get(url, name, {}), name))

    def drop(self, name: TableName) -> None:
        """Removes a table from the catalog and keeps its files; unregisters it if the server can.

        Raises:
            TableNotFound: No table has that name; NoSuchTableError means the same.
        """
        catalog = self.catalog
        if not any(str(one).endswith(_UNREGISTER) for one in catalog._supported_endpoints):
            catalog.drop_table((*name.namespace, name.name))
            return
        answer = self._send("POST", f"{self._url(name)}/unregister")
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise no_table(self.name, name)
        _require_ok(answer, name)

    def _get(self, url: str, subject: TableName | str, params: Mapping[str, str]) -> Response:
        try:
            return self._send("GET", url, params=params)
        except RequestException as failure:
            raise refused(subject, type(failure).__name__) from failure

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        """Commits updates if the requirements hold.

        Raises:
            CommitRaced: They do not; nothing was done.
            CommitRejected: The server refuses such updates; nothing was done.
            TableNotFound: No table has that name.
            CommitConflict: The outcome is unknown.
        """
        body = {
            "identifier": {"namespace": list(name.namespace), "name": name.name},
            "requirements": list(requirements),
            "updates": list(updates),
        }
        try:
            answer = self._send("POST", self._url(name), json=body)
        except RequestException as failure:
            raise fate_unknown(name, type(failure).__name__) from failure
        if answer.ok:
            return _table(answer)
        raise self._not_done(name, answer)

    def etag(self, name: TableName) -> str:
        """Returns the ETag of a table's current state; empty if the server sends none."""
        return str(self._send("GET", self._url(name)).headers.get("ETag", ""))

    def get_beside(self, root: str, path: str, params: Mapping[str, str]) -> Response:
        """Requests a path outside Iceberg's own, under another root and the same prefix.

        Raises:
            RequestException: It does not answer.
        """
        base, _, prefixed = self.catalog.url(path, prefixed=True).rpartition("/v1/")
        return self._send("GET", f"{base}/{root}/{prefixed}", params=params)

    def _not_done(self, name: TableName, answer: Response) -> Exception:
        if answer.status_code == HTTPStatus.CONFLICT:
            return CommitRaced(_problem(answer))
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return no_table(self.name, name)
        if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            return refused(name, _problem(answer))
        # A timeout, or a server's own failure, may occur before the commit or after it.
        is_late = answer.status_code == HTTPStatus.REQUEST_TIMEOUT
        if is_late or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return fate_unknown(name, _problem(answer))
        return CommitRejected(
            f"catalog {self.name} does not take a change of {name}",
            object=str(name),
            expected="a server that carries out the updates of Iceberg's REST protocol",
            found=_problem(answer),
            next=f"`meltline doctor --probe-catalog {quote(self.name)}` says what it can do",
        )

    def _url(self, name: TableName) -> str:
        catalog = self.catalog
        place = catalog._split_identifier_for_path((*name.namespace, name.name))
        return catalog.url(Endpoints.load_table, prefixed=True, **place)

    def _send(self, method: str, url: str, **words: Any) -> Response:
        """Sends a request; repeats it, after a login or a wait, only if nothing was done."""
        session = self.catalog._session
        answer = session.request(method, url, **words)
        if answer.status_code in _SIGN_IN_AGAIN:
            self.catalog._refresh_token()
            answer = session.request(method, url, **words)
        for _ in range(_TIMES_BUSY):
            if answer.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                break
            self._pause(_wait_of(answer))
            answer = session.request(method, url, **words)
        return answer


def _wait_of(answer: Response) -> float:
    """Returns how many seconds a busy server wants clients to wait, within a limit."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isdecimal() else 1.0


def refused(subject: TableName | str, answer: str) -> CommitConflict:
    """Builds the error for a catalog that could not be reached."""
    return CommitConflict(
        f"the catalog of {subject} does not answer",
        object=str(subject),
        expected="an answer of the REST catalog",
        found=answer,
        next="look at the server; nothing was changed, run the command again",
    )


def _require_ok(answer: Response, subject: TableName | str) -> Response:
    if not answer.ok:
        raise refused(subject, _problem(answer))
    return answer


def _table(answer: Response) -> LoadedTable:
    document = answer.json()
    return LoadedTable(
        str(document.get("metadata-location") or ""),
        document.get("metadata") or {},
        document.get("config") or {},
        document.get("storage-credentials") or (),
    )


def _problem(answer: Response) -> str:
    """Returns the server's error in one line."""
    try:
        error = answer.json()["error"]
        text = f"{error.get('type', '')}: {error.get('message', '')}"
    except (ValueError, KeyError, TypeError, AttributeError):
        text = answer.text
    return f"HTTP {answer.status_code} {text[:_SHOWN]}".strip()
