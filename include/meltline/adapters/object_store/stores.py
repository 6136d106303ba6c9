"""Object storage: local files, and S3, GCS and Azure through obstore.

Paths come and go as Iceberg writes them: nothing is encoded, decoded or collapsed. A key that
obstore cannot spell (`a//b`, `.`, `..`) is refused and so its object is kept. PyIceberg's FileIO
is no way out: it cannot spell `a//b` either, and it cuts a key at `#` or `?`, which was seen to
reach another object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from meltline.adapters.object_store.cloud import CloudStore, open_cloud_store, reason_of
from meltline.adapters.object_store.local import LocalFiles
from meltline.adapters.object_store.stats import shown, stats_of
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import Location, split_location
from meltline.ports import DeleteOutcome, ObjectStat, Prefix, StoredObject

_BULK = 250  # keys of one request: each counts as a write, and large requests throttle themselves
_REQUESTS = 4  # requests that one process sends at a time
_PART = 8 * 1024 * 1024
_PARTS = 2  # parts of one object on their way at a time
_UNPROVED_S3 = ("s3.endpoint", "s3.anonymous")  # not Amazon's own, or nothing is signed
_GIVE_UP_AFTER = 3  # keys in a row that got no answer: the store is not there

Batch = list[tuple[str, str]]  # paths of one store, each with its key there


class ObjectStores:
    """The object-store port over every store that the configured catalogs use.

    Holds only properties, so that executors can be sent one; each process opens its own stores.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Takes a catalog's properties in PyIceberg's words, such as `s3.endpoint`."""
        self._properties = dict(properties)
        self._local = LocalFiles()
        self._stores: dict[tuple[str, str], CloudStore] = {}

    def __repr__(self) -> str:
        return f"ObjectStores({', '.join(sorted(self._properties))})"  # values may be secrets

    def __getstate__(self) -> dict[str, object]:
        return {"_properties": self._properties, "_local": self._local, "_stores": {}}

    def read(self, path: str) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason.
        """
        if _is_local(path):
            return self._local.read(path)
        store, key = self._find(path)
        with _refusing("read", path):
            return bytes(obstore.get(store, key).bytes())

    def read_prefix(self, path: str, length: int) -> Prefix:
        """The first bytes of an object, and its size. Raises as `read` does."""
        if _is_local(path):
            return self._local.read_prefix(path, length)
        store, key = self._find(path)
        with _refusing("read", path):
            answer = obstore.get(store, key, options={"range": (0, length)})
            return Prefix(bytes(answer.bytes()), answer.meta["size"])

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there. Raises StoreRefused otherwise."""
        if _is_local(path):
            return self._local.size(path)
        store, key = self._find(path)
        try:
            with _refusing("measure", path):
                return obstore.head(store, key)["size"]
        except FileNotFoundError:
            return None

    def measure(self, path: str) -> StoredObject | None:
        """The object as a listing would show it. See the port."""
        if _is_local(path):
            return self._local.measure(path)
        store, key = self._find(path)
        try:
            with _refusing("measure", path):
                return shown(path, obstore.head(store, key))
        except FileNotFoundError:
            return None

    def proves_writes(self, path: str) -> bool:
        """Local files are read again; Amazon's S3 itself verifies what each signed request carries.

        Others that speak S3 may sign and not look; GCS and Azure are not asked for it.
        """
        if _is_local(path):
            return self._local.proves_writes(path)
        is_s3 = _place(split_location(path))[0] == "s3"
        return is_s3 and not any(self._properties.get(key) for key in _UNPROVED_S3)

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns when the store says it was written."""
        if _is_local(path):
            return self._local.write(path, content)
        store, key = self._find(path)
        with _refusing("write", path):
            obstore.put(store, key, content)
            return obstore.head(store, key)["last_modified"]

    def stream(self, path: str) -> Iterator[bytes]:
        """The object in parts of a few MiB. See the port."""
        if _is_local(path):
            yield from self._local.stream(path)
            return
        store, key = self._find(path)
        with _refusing("read", path):
            for part in obstore.get(store, key).stream(min_chunk_size=_PART):
                yield bytes(part)

    def write_stream(self, path: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts. See the port.

        Each request to S3 is signed over the SHA-256 of what it carries, and refused where that
        arrives otherwise. GCS and Azure are trusted with TLS alone.
        """
        if _is_local(path):
            self._local.write_stream(path, parts)
            return
        store, key = self._find(path)
        remaining = iter(parts)
        first = next(remaining, b"")
        with _refusing("write", path):
            if (second := next(remaining, None)) is None:
                obstore.put(store, key, first, use_multipart=False)
                return
            parts = chain((first, second), _from_a_thread(remaining))
            obstore.put(store, key, parts, chunk_size=_PART, max_concurrency=_PARTS)

    def real_path(self, path: str) -> str:
        """Where a name leads. See the port."""
        return self._local.real_path(path) if _is_local(path) else path

    def identity(self, path: str) -> str:
        """What two names of one thing have in common. See the port."""
        return self._local.identity(path) if _is_local(path) else path

    def is_link(self, path: str) -> bool:
        """Whether a name is a link. See the port."""
        return _is_local(path) and self._local.is_link(path)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object under a folder, at any depth. A folder that is not there is empty.

        Raises:
            StoreRefused: Any of it cannot be listed, or has a name that cannot be spelled.
        """
        if _is_local(prefix):
            yield from self._local.list(prefix)
            return
        base = prefix.rstrip("/") + "/"
        location = split_location(base)
        folder = location.path.removeprefix("/")
        store = self.cloud(location, prefix)
        if folder and not _can_spell(folder.removesuffix("/")):
            raise _unspellable(prefix)
        with _refusing("list", prefix):
            for page in obstore.list(store, folder or None):
                for meta in page:
                    path = base + meta["path"][len(folder) :]
                    yield shown(path, meta)

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, an outcome per path, in their order.

        An object that is gone already counts as done.
        """
        each = list(dict.fromkeys(paths))
        local = self._local.delete([path for path in each if _is_local(path)])
        batches, errors = self._by_place(each)
        errors |= {outcome.path: outcome.error for outcome in local}
        for place, batch in batches.items():
            parts = [batch[start : start + _BULK] for start in range(0, len(batch), _BULK)]
            with ThreadPoolExecutor(_REQUESTS) as pool:
                for failures in pool.map(partial(_delete_bulk, self._stores[place]), parts):
                    errors |= failures
        return [DeleteOutcome(path, errors[path]) for path in paths]

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """What lies under many paths now, by few requests where they lie close together."""
        each = list(dict.fromkeys(paths))
        local = self._local.stats([path for path in each if _is_local(path)])
        batches, errors = self._by_place(each)
        stats = {stat.path: stat for stat in local}
        stats |= {path: ObjectStat(path, error=error) for path, error in errors.items()}
        for place, batch in batches.items():
            stats |= stats_of(self._stores[place], batch)
        return [stats[path] for path in paths]

    def _by_place(
        self, paths: Sequence[str]
    ) -> tuple[dict[tuple[str, str], Batch], dict[str, str]]:
        """The paths that are not local with their keys, by store; and why some have none."""
        batches: dict[tuple[str, str], Batch] = {}
        errors: dict[str, str] = {}
        folders: dict[str, tuple[Batch, str]] = {}  # thousands of objects, few folders
        for path in paths:
            if _is_local(path):
                continue
            folder, _, name = path.rpartition("/")
            if folder in folders and _can_spell(name):
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
                if folder:  # else the name holds the scheme too
                    folders[folder] = batch, key.removesuffix(name)
        return batches, errors

    def _find(self, path: str) -> tuple[CloudStore, str]:
        place, key = self._spot(path)
        return self._stores[place], key

    def _spot(self, path: str) -> tuple[tuple[str, str], str]:
        """In which store an object lies, open by now, and its key there."""
        location = split_location(path)
        self.cloud(location, path)
        key = location.path.removeprefix("/")
        if not _can_spell(key):
            raise _unspellable(path)
        return _place(location), key

    def cloud(self, location: Location, path: str) -> CloudStore:
        """The store of objects that are not local, open; `path` is what a refusal names."""
        place = _place(location)
        if place not in self._stores:
            with _refusing("open the store of", path):
                self._stores[place] = open_cloud_store(*place, self._properties)
        return self._stores[place]


def _from_a_thread(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The same parts: inside its runtime, where obstore asks for them, no read of its may begin."""
    with ThreadPoolExecutor(1) as elsewhere:
        while (part := elsewhere.submit(next, parts, None).result()) is not None:
            yield part


# --- spelling --------------------------------------------------------------------------------

_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "abfs"),
}


def _is_local(path: str) -> bool:
    return path.startswith(("/", "file:/")) or split_location(path).scheme == "file"


def _place(location: Location) -> tuple[str, str]:
    return _SCHEMES.get(location.scheme, location.scheme), location.authority


def _can_spell(key: str) -> bool:
    """Whether obstore sends this very key: no part empty, `.` or `..`, no control character."""
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
    """Deletes one batch at once, and where that fails key by key; an error or "" per path."""
    try:
        obstore.delete(store, [key for _, key in batch])
    except (BaseError, OSError, ValueError):
        return _delete_singly(store, batch)
    return {path: "" for path, _ in batch}


def _delete_singly(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, str]:
    errors: dict[str, str] = {}
    unanswered = 0
    for path, key in batch:
        if unanswered >= _GIVE_UP_AFTER and not _answers(store, key):
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
    """Whether the store says anything at all; else a batch would wait for every key's retries."""
    try:
        obstore.head(store, key)
    except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError):
        return True
    except (BaseError, OSError, ValueError):
        return False
    return True


# --- trouble ---------------------------------------------------------------------------------


@contextmanager
def _refusing(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and action != "write":
            raise FileNotFoundError(path) from None
        reason = reason_of(error)
        raise StoreRefused(
            f"cannot {action} {path}: {reason}",
            object=path,
            expected="an answer from the store",
            found=reason,
            next="check the store, its address and the credentials in meltline.yaml",
        ) from None  # the client's own words may hold a signed address
