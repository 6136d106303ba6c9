"""The requests of Iceberg's REST protocol whose answers are needed whole.

PyIceberg opens the catalog: it asks for its configuration, logs in and signs. But its models drop
fields that they do not know and refuse tables with types of tomorrow; so tables and commits travel
here as the documents that they are.
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

_SECONDS = (10, 120)  # to connect, and between two bytes of an answer: a half-open one ends
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
    """A requirement did not hold: somebody else committed first, and nothing was done."""


class CommitRejected(MeltlineError):
    """The catalog does not take a commit as it is; nothing was done."""


@dataclass(frozen=True)
class LoadedTable:
    """A table as its server tells it.

    Attributes:
        metadata_location: The metadata file that describes it.
        metadata: What that file says, as far as was asked for.
        config: What the server wants clients to use: credentials among it.
        credentials: The same by prefix, for servers that tell them apart.
    """

    metadata_location: str
    metadata: Json
    config: Mapping[str, str]
    credentials: Sequence[Json] = ()

    @property
    def replaced(self) -> str:
        """The metadata file before this one; empty where the server names none."""
        log = self.metadata.get("metadata-log") or []
        return str(log[-1]["metadata-file"]) if log else ""


class Documents(Protocol):
    """Tables as documents: what expirations need of the protocol."""

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        """A table as it stands now."""
        ...

    def commit(
        self, name: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        """Carries out updates if the requirements hold."""
        ...


class RestProtocol:
    """One catalog behind the protocol.

    Args:
        name: The catalog's name in `meltline.yaml`.
        connect: Asks the server for its configuration and logs in; done once, when needed.
        address: Where it is, as it is configured.
        pause: Waits so many seconds before a server is asked again that has too much to do.
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
        """PyIceberg's client, in which no request waits for ever."""
        catalog = self._connect()
        session = catalog._session
        session.request = partial(session.request, timeout=_SECONDS)  # type: ignore[method-assign]
        return catalog

    @property
    def server(self) -> str:
        """What tells this server from another: its address, and what it says that it can do."""
        catalog = self.catalog
        parts = [self._address, *sorted(map(str, catalog._supported_endpoints))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def settings(self, uri: str, warehouse: str) -> Mapping[str, str]:
        """What the server has its clients use now, whatever they themselves are told.

        Raises:
            RestRefused: The server does not answer, or with an error.
        """
        params = {"warehouse": warehouse} if warehouse else {}
        answer = self._get(f"{uri.rstrip('/')}/v1/config", self.name, params)
        document = _require_ok(answer, self.name).json()
        return {**(document.get("defaults") or {}), **(document.get("overrides") or {})}

    def load(self, name: TableName, *, refs_only: bool = False) -> LoadedTable:
        """A table as it stands now.

        Args:
            name: Which.
            refs_only: Whether snapshots may be left out that no branch or tag names: who wants to
                know where the table stands needs none of them.

        Raises:
            TableNotFound: There is none of that name.
            RestRefused: The server does not answer, or with an error.
        """
        answer = self._get(self._url(name), name, {"snapshots": "refs"} if refs_only else {})
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise no_table(self.name, name)
        return _table(_require_ok(answer, name))

    def views(self, namespace: Sequence[str]) -> Sequence[TableName]:
        """The views of a namespace; none where the server has no such request.

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
        """A view as it is now. Raises RestRefused."""
        catalog = self.catalog
        path = catalog._split_identifier_for_path((*name.namespace, name.name), IdentifierKind.VIEW)
        url = catalog.url(Endpoints.load_view, prefixed=True, **path)
        return _table(_require_ok(self._get(url, name, {}), name))

    def drop(self, name: TableName) -> None:
        """Takes a table out of the catalog and leaves its files: unregisters it where it can.

        Raises:
            TableNotFound: There is none of that name; so does NoSuchTableError.
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
        """Carries out updates if the requirements hold.

        Raises:
            CommitRaced: They do not; nothing was done.
            CommitRejected: The server does not take such updates; nothing was done.
            TableNotFound: There is none of that name.
            CommitConflict: Nobody knows whether it was done.
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
        """What tells this state of a table from another; empty where the server says nothing."""
        return str(self._send("GET", self._url(name)).headers.get("ETag", ""))

    def get_beside(self, root: str, path: str, params: Mapping[str, str]) -> Response:
        """What a server answers beside Iceberg's own paths, under another root and the same prefix.

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
        # What took too long, and a server's own failure, may come from before the commit or after.
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
        """Sends a request; again, after a login or a wait, only where nothing was done."""
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
    """How many seconds a busy server wants to be left alone, within reason."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isdecimal() else 1.0


def refused(subject: TableName | str, answer: str) -> CommitConflict:
    """A catalog that could not be asked."""
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
    """What a server says went wrong, in a line."""
    try:
        error = answer.json()["error"]
        text = f"{error.get('type', '')}: {error.get('message', '')}"
    except (ValueError, KeyError, TypeError, AttributeError):
        text = answer.text
    return f"HTTP {answer.status_code} {text[:_SHOWN]}".strip()
