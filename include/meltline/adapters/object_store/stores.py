"""The object store: local files, and objects of S3, GCS and Azure."""

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
    """The object-store port over every store that the configured catalogs use.

    A path says which of the two stores is asked. Can be sent to executors. Requests wait for their
    turn (AR-37).

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
        """Takes a catalog's properties in PyIceberg's words, a pace, and what catalogs vend."""
        self.local = LocalFiles()
        self.cloud = CloudObjects(properties, vended)
        self._pace = pace or Pace()

    @property
    def vended(self) -> VendedPrefixes:
        """Where a catalog that vends credentials notes them."""
        return self.cloud.vended

    def unpaced(self) -> "ObjectStores":
        """The same stores, for who counts the requests itself."""
        same = copy(self)
        same._pace = Pace()
        return same

    def __repr__(self) -> str:
        return f"ObjectStores({self.cloud})"

    def _of(self, path: str) -> LocalFiles | CloudObjects:
        self._pace.wait()
        return self.local if _is_local(path) else self.cloud

    def read(self, path: str) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason.
        """
        return self._of(path).read(path)

    def read_prefix(self, path: str, length: int) -> Prefix:
        """The first bytes of an object, and its size. Raises as `read` does."""
        return self._of(path).read_prefix(path, length)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A part of an object; less, or StoreRefused, where it ends before. Raises as `read`."""
        return self._of(path).read_range(path, start, length)

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there. Raises StoreRefused otherwise."""
        return self._of(path).size(path)

    def measure(self, path: str) -> StoredObject | None:
        return self._of(path).measure(path)

    def proves_writes(self, path: str) -> bool:
        return (self.local if _is_local(path) else self.cloud).proves_writes(path)

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns when the store says it was written."""
        return self._of(path).write(path, content)

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Writes an object if it holds what is expected. See the port."""
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
        """Every object under a folder, at any depth. A folder that is not there is empty.

        Raises:
            StoreRefused: Any of it cannot be listed, or has a name that cannot be spelled.
        """
        for number, stored in enumerate(self._of(prefix).list(prefix), 1):
            yield stored
            if number % _PAGE == 0:  # the first page comes with the request
                self._pace.wait()

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, an outcome per path, in their order.

        An object that is gone already counts as done.
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
    """What both stores answer, each asked once for each of its paths."""
    each = dict.fromkeys(paths)
    by_path: dict[str, Answer] = {}
    for answer in local([path for path in each if _is_local(path)]):
        by_path[answer.path] = answer
    for answer in cloud([path for path in each if not _is_local(path)]):
        by_path[answer.path] = answer
    return [by_path[path] for path in paths]


def _is_local(path: str) -> bool:
    return path.startswith(("/", "file:/")) or split_location(path).scheme == "file"
