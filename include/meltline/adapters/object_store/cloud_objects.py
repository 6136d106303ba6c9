"""Objects of S3, GCS and Azure, through obstore. `stores` calls it for all remote paths.

Paths are used exactly as Iceberg writes them: nothing is encoded, decoded or collapsed. A key that
obstore cannot spell (`a//b`, `.`, `..`) is refused, so its object is kept. PyIceberg's FileIO is
no alternative. It cannot spell `a//b` either, and it cuts a key at `#` or `?`, which reached
another object in a test.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from meltline.adapters.object_store.cloud import CloudStore, open_cloud_store
from meltline.adapters.object_store.stats import shown, stats_of
from meltline.adapters.object_store.store_errors import reason_of, refusing
from meltline.adapters.object_store.vended import VendedPrefixes
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import SAME_SCHEME, split_location
from meltline.ports import DeleteOutcome, ObjectStat, Prefix, StoredObject

if TYPE_CHECKING:
    from obstore import Attributes, UpdateVersion

_BULK = 250  # keys per request: each counts as a write, and large requests get throttled
_REQUESTS = 4  # parallel requests of one process
_PART = 8 * 1024 * 1024
_PARTS = 2  # parallel parts of one object
_UNPROVED_S3 = ("s3.endpoint", "s3.anonymous")  # not Amazon's own, or unsigned requests
_GIVE_UP_AFTER = 3  # consecutive keys without an answer: the store is down
_PATIENCE = 60.0  # seconds after which it is not probed again: the batch is given up

STORAGE_CLASS = "s3.write.storage-class"
"""Iceberg's own property: the storage class of new objects in S3, such as GLACIER_IR (AR-29)."""

_OPEN = 200  # open stores: with vended credentials each table has one

Batch = list[tuple[str, str]]  # paths of one store, each with its key


class Place(NamedTuple):
    """Identifies one opened store.

    Attributes:
        scheme: The canonical one of its schemes.
        authority: The bucket or container.
        prefix: The prefix of vended credentials; empty if none are vended.
    """

    scheme: str
    authority: str
    prefix: str = ""


class CloudObjects:
    """Implements the object-store port over every bucket that the configured catalogs use.

    Holds only properties, so that it can be pickled for executors; each process opens its stores.
    """

    def __init__(self, properties: Mapping[str, str], vended: VendedPrefixes | None = None) -> None:
        """Takes a catalog's properties, such as `s3.endpoint`, and vended credentials."""
        self._properties = dict(properties)
        self.vended = vended or VendedPrefixes()
        self._stores: dict[Place, CloudStore] = {}
        self._guard = Lock()

    def __repr__(self) -> str:
        return f"CloudObjects({', '.join(sorted(self._properties))})"  # values may be secrets

    def __getstate__(self) -> dict[str, object]:
        return {"_properties": self._properties, "vended": self.vended}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_stores": {}, "_guard": Lock()}

    def read(self, path: str) -> bytes:
        store, key = self._find(path)
        with refusing("read", path):
            return bytes(obstore.get(store, key).bytes())

    def read_prefix(self, path: str, length: int) -> Prefix:
        store, key = self._find(path)
        with refusing("read", path):
            answer = obstore.get(store, key, options={"range": (0, length)})
            return Prefix(bytes(answer.bytes()), answer.meta["size"])

    def read_range(self, path: str, start: int, length: int) -> bytes:
        store, key = self._find(path)
        with refusing("read", path):
            return bytes(obstore.get_range(store, key, start=start, length=length))

    def size(self, path: str) -> int | None:
        file = self.measure(path)
        return None if file is None else file.bytes

    def measure(self, path: str) -> StoredObject | None:
        store, key = self._find(path)
        try:
            with refusing("measure", path):
                return shown(path, obstore.head(store, key))
        except FileNotFoundError:
            return None

    def proves_writes(self, path: str) -> bool:
        """Returns True for Amazon's S3, which verifies the content of each signed request.

        Other stores with S3's protocol may not verify it; GCS and Azure are not asked to.
        """
        is_s3 = _scheme_of(path) == "s3"
        return is_s3 and not any(self._properties.get(key) for key in _UNPROVED_S3)

    def write(self, path: str, content: bytes) -> datetime:
        store, key = self._find(path)
        with refusing("write", path):
            obstore.put(store, key, content, attributes=self._attributes(path))
            return obstore.head(store, key)["last_modified"]

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        store, key = self._find(path)
        with refusing("write", path):
            return _swap(store, key, content, expected)

    def stream(self, path: str) -> Iterator[bytes]:
        store, key = self._find(path)
        with refusing("read", path):
            for part in obstore.get(store, key).stream(min_chunk_size=_PART):
                yield bytes(part)

    def write_stream(self, path: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts. See the port.

        Each request to S3 is signed over the SHA-256 of its content, and S3 refuses other content.
        GCS and Azure rely on TLS alone.
        """
        store, key = self._find(path)
        remaining = iter(parts)
        first = next(remaining, b"")
        about = self._attributes(path)
        with refusing("write", path):
            if (second := next(remaining, None)) is None:
                obstore.put(store, key, first, use_multipart=False, attributes=about)
                return
            parts = chain((first, second), _from_a_thread(remaining))
            obstore.put(
                store, key, parts, chunk_size=_PART, max_concurrency=_PARTS, attributes=about
            )

    def _attributes(self, path: str) -> "Attributes | None":
        """Returns attributes of a new object: the storage class, if one is configured for S3."""
        storage_class = self._properties.get(STORAGE_CLASS, "")
        is_s3 = _scheme_of(path) == "s3"
        return {"Storage-Class": storage_class} if storage_class and is_s3 else None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        base = prefix.rstrip("/") + "/"
        location = split_location(base)
        folder = location.path.removeprefix("/")
        store = self.store_of(prefix)
        if folder and not _can_spell(folder.removesuffix("/"), _scheme_of(prefix)):
            raise _unspellable(prefix)
        with refusing("list", prefix):
            for page in obstore.list(store, folder or None):
                for meta in page:
                    path = base + meta["path"][len(folder) :]
                    yield shown(path, meta)

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, one result per path, in their order."""
        batches, errors = self._by_place(paths)
        for place, batch in batches.items():
            parts = [batch[start : start + _BULK] for start in range(0, len(batch), _BULK)]
            with ThreadPoolExecutor(_REQUESTS) as pool:
                for failures in pool.map(partial(_delete_bulk, self._open(place)), parts):
                    errors |= failures
        return [DeleteOutcome(path, errors[path]) for path in paths]

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """Returns the states of paths, in few requests if the objects lie close together."""
        batches, errors = self._by_place(paths)
        stats = {path: ObjectStat(path, error=error) for path, error in errors.items()}
        for place, batch in batches.items():
            stats |= stats_of(self._open(place), batch)
        return [stats[path] for path in paths]

    def _by_place(self, paths: Sequence[str]) -> tuple[dict[Place, Batch], dict[str, str]]:
        """Groups paths with their keys by store; returns also why some have no key."""
        batches: dict[Place, Batch] = {}
        errors: dict[str, str] = {}
        folders: dict[str, tuple[Batch, str]] = {}  # thousands of objects, few folders
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder in folders and _can_spell(name, _scheme_of(path)):
                batch, front = folders[folder]
                batch.append((path, front + name))
                continue
            try:
                place, key = self._spot(path)
            except StoreRefused as error:
                errors[path] = str(error)
            else:
                batch = batches.setdefault(place, [])
                batch.append((path, key))
                if folder:  # else the name includes the scheme
                    folders[folder] = batch, key.removesuffix(name)
        return batches, errors

    def _find(self, path: str) -> tuple[CloudStore, str]:
        place, key = self._spot(path)
        return self._open(place), key

    def _spot(self, path: str) -> tuple[Place, str]:
        """Returns the store of an object, which is open then, and the object's key in it."""
        self.store_of(path)
        key, place = split_location(path).path.removeprefix("/"), self._place_of(path)
        if not _can_spell(key, place.scheme):
            raise _unspellable(path)
        return place, key

    def store_of(self, path: str) -> CloudStore:
        """Returns the store of a location.

        Raises:
            StoreRefused: There is none, or it cannot be opened; names the path.
        """
        with refusing("open the store of", path):
            return self._open(self._place_of(path))

    def _place_of(self, path: str) -> Place:
        authority = split_location(path).authority
        return Place(_scheme_of(path), authority, self.vended.prefix_of(path))

    def _open(self, place: Place) -> CloudStore:
        """Returns an open store; if too many are open, closes the least recently used one."""
        current, properties = None, self._properties
        if place.prefix:
            current = partial(self.vended.current, place.prefix)
            properties = {**properties, **current().properties}  # raises if they have expired
        with self._guard:
            store = self._stores.pop(place, None)
            if store is None:
                store = open_cloud_store(place.scheme, place.authority, properties, current)
            self._stores[place] = store
            if len(self._stores) > _OPEN:
                del self._stores[next(iter(self._stores))]
        return store


def _from_a_thread(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the parts from another thread: obstore's runtime allows no read of its own inside."""
    with ThreadPoolExecutor(1) as elsewhere:
        while (part := elsewhere.submit(next, parts, None).result()) is not None:
            yield part


# --- writing on a condition --------------------------------------------------------------------


def _swap(store: CloudStore, key: str, content: bytes, expected: bytes | None) -> bool:
    """Writes an object by one conditional request. See `ObjectWriter.swap`.

    If the store has no conditional writes, the object is read before and after an ordinary write.
    """
    try:
        answer = obstore.get(store, key)
        held, version = bytes(answer.bytes()), answer.meta
    except FileNotFoundError:
        held, version = None, None
    if held != expected:
        return False
    mode: Literal["create"] | UpdateVersion = "create"
    if version is not None:
        stated = {"e_tag": version["e_tag"], "version": version["version"]}
        mode = {name: text for name, text in stated.items() if text}  # type: ignore[assignment]
    try:
        obstore.put(store, key, content, mode=mode, use_multipart=False)
    except (AlreadyExistsError, PreconditionError):
        return False
    except (NotImplementedError, BaseError) as error:
        if not _offers_none(error):
            raise
        obstore.put(store, key, content, use_multipart=False)
        return bytes(obstore.get(store, key).bytes()) == content
    return True


def _offers_none(error: Exception) -> bool:
    """Returns whether a store, or its client, has no conditional writes."""
    return isinstance(error, NotImplementedError) or "NotImplemented" in str(error)


# --- spelling --------------------------------------------------------------------------------


def _scheme_of(path: str) -> str:
    scheme = split_location(path).scheme
    return SAME_SCHEME.get(scheme, scheme)


def _can_spell(key: str, scheme: str) -> bool:
    r"""Returns whether the store gets this key unchanged: no part is empty, `.` or `..`.

    Control characters are refused too. Azure reads `a\b` as `a/b`, which is another blob.
    """
    if scheme == "abfss" and "\\" in key:
        return False
    return key.isprintable() and not {"", ".", ".."}.intersection(key.split("/"))


def _unspellable(path: str) -> StoreRefused:
    return StoreRefused(
        f"no client here can spell {path!r}, so it is left alone",
        object=path,
        expected="a key without empty parts, '.', '..' and control characters",
        found=path,
        next="if it is a table's location, copy the table to one without them",
    )


# --- deleting --------------------------------------------------------------------------------


def _delete_bulk(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Deletes a batch at once, key by key if that fails; returns an error or "" per path."""
    try:
        obstore.delete(store, [key for _, key in batch])
    except (BaseError, OSError, ValueError):
        return _delete_singly(store, batch)
    return {path: "" for path, _ in batch}


def _delete_singly(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, str]:
    errors: dict[str, str] = {}
    unanswered, until = 0, time.monotonic() + _PATIENCE
    for path, key in batch:
        if unanswered >= _GIVE_UP_AFTER and (time.monotonic() > until or not _answers(store, key)):
            break
        try:
            obstore.delete(store, key)
            errors[path] = ""
        except FileNotFoundError:
            errors[path] = ""
        except (BaseError, OSError, ValueError) as error:
            errors[path] = reason_of(error)
            if not isinstance(error, PermissionDeniedError | UnauthenticatedError):
                unanswered += 1
                continue
        unanswered = 0
    not_tried = "not tried: the store did not answer for the files before"
    return {path: errors.get(path, not_tried) for path, _ in batch}


def _answers(store: CloudStore, key: str) -> bool:
    """Returns whether the store responds; if not, the retries of every key would add up."""
    try:
        obstore.head(store, key)
    except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError):
        return True
    except (BaseError, OSError, ValueError):
        return False
    return True
