"""Vended credentials of REST catalogs: parsed from responses, cached by prefix, renewed in time.

REST catalogs add what they receive; the object stores look up the longest prefix of a path.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from meltline.domain.errors import CredentialsExpired, MeltlineError
from meltline.domain.iceberg.locations import claim_prefix
from meltline.ports import CredentialVendor, VendedCredentials

_OF_STORES = ("s3.", "client.", "gcs.", "adls.")
_CREDENTIALS = (
    "s3.access-key-id",
    "s3.remote-signing-enabled",
    "gcs.oauth2.token",
    "adls.sas-token.",
    "adls.token",
)
_ENDS = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at")
_ENDS_SAS = "adls.sas-token-expires-at-ms."
_PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path")
_MARGIN = timedelta(minutes=5)
"""Credentials are renewed this long before their expiry."""


def vended(response: Mapping[str, Any]) -> list[VendedCredentials]:
    """Returns the credentials in a `loadTable`, `createTable` or `registerTable` response.

    A prefix such as `s3` in `storage-credentials` applies to this table alone, so the table's own
    locations replace it.

    Args:
        response: The response as JSON: `metadata`, `config`, `storage-credentials`.
    """
    config = _of_stores(response.get("config"))
    places = list(_places(response))
    vended: dict[str, VendedCredentials] = {}
    if any(key.startswith(_CREDENTIALS) for key in config):
        vended |= {place: _credentials(place, config) for place in places}
    listed = response.get("storage-credentials") or ()
    for each in sorted(listed, key=lambda each: len(each["prefix"])):  # the longest comes last
        properties = {**config, **_of_stores(each.get("config"))}
        for prefix in _confined(str(each["prefix"]), places):
            vended[prefix] = _credentials(prefix, properties)
    return list(vended.values())


def _of_stores(config: Any) -> dict[str, str]:
    pairs = (config or {}).items()
    return {key: str(text) for key, text in pairs if key.startswith(_OF_STORES)}


def _places(response: Mapping[str, Any]) -> Iterator[str]:
    """Yields the locations of a table's files: its own, and those that its properties set."""
    metadata = response.get("metadata") or {}
    properties = metadata.get("properties") or {}
    places = [metadata.get("location"), *(properties.get(key) for key in _PLACES)]
    if location := response.get("metadata-location"):
        places.append(location.rpartition("/")[0])
    yield from (claim_prefix(place) for place in places if place)


def _confined(prefix: str, places: Sequence[str]) -> Iterator[str]:
    """Yields a response's prefix as locations: itself, or the table's locations under it."""
    scheme, _, bucket = prefix.partition("://")
    if not bucket.strip("/"):  # `s3`, `s3:` or `s3://`: every location with the scheme
        root = claim_prefix(f"{scheme.rstrip(':')}://x").partition("x")[0]
        yield from (place for place in places if place.startswith(root))
        return
    own = claim_prefix(prefix)
    covered = [place for place in places if place.startswith(own.rstrip("/"))]
    yield from covered or [own]


def _credentials(prefix: str, properties: Mapping[str, str]) -> VendedCredentials:
    return VendedCredentials(prefix, properties, _end_of(properties))


def _end_of(properties: Mapping[str, str]) -> datetime | None:
    """Returns the earliest expiry; a value that is not a number is ignored."""
    ends = [
        datetime.fromtimestamp(int(text) / 1000, UTC)
        for key, text in properties.items()
        if (key in _ENDS or key.startswith(_ENDS_SAS)) and text.isdecimal()
    ]
    return min(ends, default=None)


def _now() -> datetime:
    return datetime.now(UTC)


class VendedPrefixes:
    """Cached credentials by prefix; the longest prefix applies, and they are renewed in time.

    Picklable for executors if the vendors are.
    """

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        """Takes the real clock, not a simulated one, because the store compares with its own."""
        self._now = now
        self._vended: dict[str, tuple[VendedCredentials, CredentialVendor]] = {}
        self._guard = Lock()

    def __repr__(self) -> str:
        return f"VendedPrefixes({len(self._vended)})"

    def __getstate__(self) -> dict[str, object]:
        return {"_now": self._now, "_vended": self._vended}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_guard": Lock()}

    def note(self, vended: Iterable[VendedCredentials], vendor: CredentialVendor) -> None:
        """Adds credentials that a catalog has vended, and the vendor that renews them."""
        with self._guard:
            by_prefix = {claim_prefix(each.prefix): (each, vendor) for each in vended}
            self._vended = {**self._vended, **by_prefix} if by_prefix else self._vended

    def prefix_of(self, path: str) -> str:
        """Returns the longest prefix with vended credentials; empty if there is none."""
        if not (vended := self._vended):
            return ""
        at = claim_prefix(path)
        while at not in vended:
            at = at.rstrip("/").rpartition("/")[0] + "/"
            if at.endswith("://"):
                return ""
        return at

    def current(self, prefix: str) -> VendedCredentials:
        """Returns the current credentials for a prefix, renewed if they expire soon.

        Raises:
            MeltlineError: They have expired and could not be renewed.
        """
        vended, vendor = self._vended[prefix]
        if not self._ends_within(_MARGIN, vended):
            return vended
        try:
            self.note(vendor(prefix), vendor)
        except MeltlineError:
            if self._ends_within(timedelta(0), vended):
                raise
        renewed, _ = self._vended[prefix]
        if self._ends_within(timedelta(0), renewed):
            raise _expired(renewed)
        return renewed

    def _ends_within(self, span: timedelta, vended: VendedCredentials) -> bool:
        return vended.expires_at is not None and vended.expires_at - self._now() <= span


def _expired(vended: VendedCredentials) -> CredentialsExpired:
    return CredentialsExpired(
        f"what the catalog vends for {vended.prefix} has ended",
        object=vended.prefix,
        expected="credentials that are still good",
        found=f"an end at {vended.expires_at}",
        next="look whether the catalog still vends credentials for the table, and run again",
    )
