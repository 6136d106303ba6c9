"""Reads the policy store of Apache Polaris: policies attached to tables, schemas or catalogs.

One request for each table returns its policies, inherited ones included: the server resolves them.
The endpoint is Polaris' own, so it is called only if the server lists it among its endpoints.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from meltline.adapters.catalogs.rest.protocol import RestProtocol
from meltline.concurrency import thread_map
from meltline.domain.errors import MeltlineError, PolicyUnread
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.stated_policies import Stated, StatedPolicy, TablePolicies

Json = Mapping[str, Any]

_ENDPOINT = "applicable-policies"  # any other path answers 404, and then counts as unread
_LEVELS = "\x1f"
_EXPIRY, _REMOVAL = "system.snapshot-expiry", "system.orphan-file-removal"
_VERSIONS = ("2025-02-03",)
_FIELDS = {
    _EXPIRY: {"version", "enable", "config"},
    _REMOVAL: {"version", "enable", "config", "max_orphan_file_age_in_days", "locations"},
}
_CONFIG = {
    # Refs have their own age here; of orphans only those that are surely a table's are deleted.
    _EXPIRY: {"max_snapshot_age_days", "min_snapshot_to_keep", "max_ref_age_days"},
    _REMOVAL: {"prefix_mismatch_mode"},
}
_FRESH = 300.0  # seconds
_MOST_PAGES = 100
_SHOWN = 300  # characters of an answer


class PolarisPolicies:
    """The port `PolicyStore` over one catalog's protocol.

    Args:
        protocol: Its connection to the server.
        seconds: A clock for the cache.
    """

    def __init__(
        self, protocol: RestProtocol, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._protocol = protocol
        self._seconds = seconds
        self._known: dict[TableName, tuple[float, Stated]] = {}

    def of(self, tables: Sequence[TableName], *, anew: bool = False) -> Mapping[TableName, Stated]:
        """Returns the policies that apply to each table. See the port."""
        try:
            if not tables or not self._is_there():
                return {}
        except Exception as failure:  # it does not even list its endpoints
            return {name: _unread(name, type(failure).__name__) for name in tables}
        since = self._seconds() - _FRESH
        answers = (
            {} if anew else {n: s for n in tables if (s := self._recent(n, since)) is not None}
        )
        asked = [name for name in dict.fromkeys(tables) if name not in answers]
        for name, stated in zip(asked, thread_map(self._stated, asked), strict=True):
            answers[name] = stated
            self._known[name] = self._seconds(), stated
        return answers

    def _is_there(self) -> bool:
        endpoints = map(str, self._protocol.catalog._supported_endpoints)
        return any(_ENDPOINT in endpoint for endpoint in endpoints)

    def _recent(self, name: TableName, since: float) -> Stated | None:
        at, stated = self._known.get(name, (since, None))
        # A failure is not cached: it may have been temporary.
        return None if at <= since or isinstance(stated, MeltlineError) else stated

    def _stated(self, name: TableName) -> Stated:
        try:
            return read_policies(self._documents(name))
        except _Unreadable as problem:
            return _unread(name, str(problem))
        except Exception as failure:  # a login fails in many ways; then keep
            return _unread(name, type(failure).__name__)

    def _documents(self, name: TableName) -> list[Json]:
        """Returns the policies of every page."""
        where = {"namespace": _LEVELS.join(name.namespace), "target-name": name.name}
        documents: list[Json] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._page(where | ({"pageToken": token} if token else {}))
            policies = page.get("applicable-policies")
            if not isinstance(policies, list) or not all(isinstance(p, dict) for p in policies):
                raise _Unreadable("no list of policies")
            documents += policies
            token = page.get("next-page-token") or ""
            if not token:
                return documents
        raise _Unreadable(f"more than {_MOST_PAGES} pages")

    def _page(self, params: Mapping[str, str]) -> Json:
        answer = self._protocol.get_beside("polaris/v1", "applicable-policies", params)
        if answer.status_code != HTTPStatus.OK:
            raise _Unreadable(f"HTTP {answer.status_code} {answer.text[:_SHOWN]}".strip())
        try:
            page = answer.json()
        except ValueError as error:
            raise _Unreadable("no JSON") from error
        if not isinstance(page, dict):
            raise _Unreadable("no JSON object")
        return page


class _Unreadable(Exception):
    """The answer does not show which policies apply."""


def _unread(name: TableName, answer: str) -> PolicyUnread:
    return PolicyUnread(
        f"the policies of {name} in its catalog's policy store could not be read",
        object=str(name),
        expected="the policies that apply to it",
        found=answer,
        next="see that the server lets Meltline read them: until then the table is left alone",
    )


def read_policies(documents: Sequence[Json]) -> TablePolicies:
    """Parses a server's policies for one table; ignores types that Meltline does not know."""
    return TablePolicies(
        _the_only([_policy(d, _EXPIRY) for d in documents if d.get("policy-type") == _EXPIRY]),
        _the_only([_policy(d, _REMOVAL) for d in documents if d.get("policy-type") == _REMOVAL]),
    )


def _the_only(policies: Sequence[StatedPolicy]) -> StatedPolicy | None:
    if len(policies) < 2:
        return next(iter(policies), None)
    further = ", ".join(policy.source for policy in policies[1:])
    return StatedPolicy(policies[0].source, problem=f"is not the only one of its type: {further}")


def _policy(document: Json, type: str) -> StatedPolicy:
    source = _source(document)
    try:
        content = _content(document, type)
        config = content.get("config") or {}
        if type == _EXPIRY:
            days = _whole(config, "max_snapshot_age_days")
            least = _whole(config, "min_snapshot_to_keep") or 0
            return StatedPolicy(source, content["enable"], days, least)
        days = _whole(content, "max_orphan_file_age_in_days")
        return StatedPolicy(source, content["enable"], days)
    except _Disobeyed as problem:
        return StatedPolicy(source, problem=str(problem))


class _Disobeyed(Exception):
    """The reason why a policy cannot be applied."""


def _source(document: Json) -> str:
    namespace = document.get("namespace")
    levels = namespace if isinstance(namespace, list) else []
    name = ".".join(map(str, (*levels, document.get("name") or "?")))
    how = "inherited" if document.get("inherited") is True else "attached to the table"
    return f"Polaris policy {name} ({how})"


def _content(document: Json, type: str) -> dict[str, Any]:
    """Returns a policy's content if every key is known: an unknown one might keep more."""
    try:
        content = json.loads(document.get("content") or "")
    except (ValueError, TypeError) as error:
        raise _Disobeyed("has a content that cannot be read") from error
    if not isinstance(content, dict) or not isinstance(content.get("enable"), bool):
        raise _Disobeyed("does not say whether it is enabled")
    if content.get("version") not in (None, "", *_VERSIONS):
        raise _Disobeyed(f"is of version {content['version']}, which is not known")
    config = content.get("config") or {}
    if not isinstance(config, dict):
        raise _Disobeyed("has a config that is no map")
    unknown = sorted((content.keys() - _FIELDS[type]) | (config.keys() - _CONFIG[type]))
    if unknown and content["enable"]:
        raise _Disobeyed(f"says what is not known here: {', '.join(unknown)}")
    return content


def _whole(words: Json, key: str) -> int | None:
    """Returns a whole number of at least 0, from a number or digits; None if it is absent."""
    raw = words.get(key)
    if raw is None:
        return None
    if isinstance(raw, str) and raw.isascii() and raw.isdecimal() and len(raw) < 20:
        return int(raw)
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise _Disobeyed(f"has {key} {raw!r}, which is no whole number of at least 0")
    return raw
