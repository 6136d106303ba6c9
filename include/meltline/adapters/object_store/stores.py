"""The object store of all configured catalogs: local files, and objects of S3, GCS and Azure.

`wiring` builds it for every port of `ports/stores`. It dispatches by path and limits the rate;
`local` and `cloud_objects` do the work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import TypeVar

from meltline.adapters.object_store.cloud_objects import CloudObjects
from meltline.adapters.object_store.local import LocalFiles
from meltline.adapters.object_store.local_writes import Together
from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.vended import VendedPrefixes
from meltline.domain.iceberg.locations import split_location
from meltline.ports import DeleteOutcome, ObjectStat, Prefix, StoredObject

Answer = TypeVar("Answer", ObjectStat, DeleteOutcome)
_PAGE = 1000  # keys that one request lists or deletes


class ObjectStores:
    """Implements the object-store port over every store that the configured catalogs use.

    The path decides between local files and cloud objects. Picklable for executors. Requests wait
    for the rate limiter (AR-37).

    Attributes:
        local: Files of this machine.
        cloud: Objects of all other schemes.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        pace: Pace | None = None,
        vended: VendedPrefixes | None = None,
    ) -> None:
        """Takes a catalog's PyIceberg properties, a rate limiter, and vended credentials."""
        self.local = LocalFiles()
        self.cloud = CloudObjects(properties, vended)
        self._pace = pace or Pace()

    @property
    def vended(self) -> VendedPrefixes:
        """The credentials that catalogs vend; REST catalogs add theirs."""
        return self.cloud.vended

    def unpaced(self) -> "ObjectStores":
        """Returns the same stores without a limit, for a caller that counts requests itself."""
        same = copy(self)
        same._pace = Pace()
        return same

    def __repr__(self) -> str:
        return f"ObjectStores({self.cloud})"

    def _of(self, path: str) -> LocalFiles | CloudObjects:
        self._pace.wait()
        return self.local if _is_local(path) else self.cloud

    def read(self, path: str) -> bytes:
        """Returns the whole object.

        Raises:
            FileNotFoundError: There is no such object.
            StoreRefused: The store failed otherwise.
        """
        return self._of(path).read(path)

    def read_prefix(self, path: str, length: int) -> Prefix:
        """Returns the first bytes of an object, and its size. Raises as `read` does."""
        return self._of(path).read_prefix(path, length)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Returns a part of an object; less, or StoreRefused, if it ends. Raises as `read`."""
        return self._of(path).read_range(path, start, length)

    def size(self, path: str) -> int | None:
        """Returns its length in bytes, None if there is none. Raises StoreRefused otherwise."""
        return self._of(path).size(path)

    def measure(self, path: str) -> StoredObject | None:
        return self._of(path).measure(path)

    def proves_writes(self, path: str) -> bool:
        return (self.local if _is_local(path) else self.cloud).proves_writes(path)

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns the store's time of the write."""
        return self._of(path).write(path, content)

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Replaces an object if it has the expected content. See the port."""
        return self._of(path).swap(path, content, expected)

    def stream(self, path: str) -> Iterator[bytes]:
        return self._of(path).stream(path)

    def write_stream(
        self, path: str, parts: Iterable[bytes], together: Together | None = None
    ) -> None:
        self._pace.wait()
        if _is_local(path):
            self.local.write_stream(path, parts, together)
        else:
            self.cloud.write_stream(path, parts)

    def real_path(self, path: str) -> str:
        return self.local.real_path(path) if _is_local(path) else path

    def identity(self, path: str) -> str:
        return self.local.identity(path) if _is_local(path) else path

    def is_link(self, path: str) -> bool:
        return _is_local(path) and self.local.is_link(path)

    def links_among(self, paths: Sequence[str]) -> Iterable[str]:
        return self.local.links_among(paths) if paths and _is_local(paths[0]) else ()

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields every object under a folder, at any depth. A missing folder is empty.

        Raises:
            StoreRefused: A part cannot be listed, or has a name that cannot be spelled.
        """
        for number, stored in enumerate(self._of(prefix).list(prefix), 1):
            yield stored
            if number % _PAGE == 0:  # the first page comes with the request
                self._pace.wait()

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, one result per path, in their order.

        An object that is already gone counts as deleted.
        """
        self._pace.wait(-(-len(paths) // _PAGE))
        return _answers(paths, self.local.delete, self.cloud.delete)

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        self._pace.wait(len(paths))
        return _answers(paths, self.local.stats, self.cloud.stats)


def _answers(
    paths: Sequence[str],
    local: Callable[[Sequence[str]], Sequence[Answer]],
    cloud: Callable[[Sequence[str]], Sequence[Answer]],
) -> Sequence[Answer]:
    """Merges the results of both stores; each is called once with its own paths."""
    each = dict.fromkeys(paths)
    by_path: dict[str, Answer] = {}
    for answer in local([path for path in each if _is_local(path)]):
        by_path[answer.path] = answer
    for answer in cloud([path for path in each if not _is_local(path)]):
        by_path[answer.path] = answer
    return [by_path[path] for path in paths]


def _is_local(path: str) -> bool:
    return path.startswith(("/", "file:/")) or split_location(path).scheme == "file"
