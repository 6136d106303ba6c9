"""An object store in memory: for tests, with faults that are hard to stage on a real one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import NamedTuple

from meltline.domain.clock import Clock, WallClock
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import SAME_SCHEME, Location, split_location
from meltline.ports import DeleteOutcome, Level, ObjectStat, Prefix, StoredObject

_PART = 1024


class _Object(NamedTuple):
    """What it holds, since when, and what the store calls that; local files have no such name."""

    body: bytes
    at: datetime
    etag: str

    def shown(self, path: str) -> StoredObject:
        """As a listing shows it."""
        return StoredObject(path, len(self.body), self.at, self.etag)


class MemoryStore:
    """The object-store port over a dict.

    Args:
        objects: What it holds to begin with, by path.
        failing: Paths whose every request is refused.
        clock: Gives written objects their time.
    """

    def __init__(
        self,
        objects: Mapping[str, bytes] | None = None,
        *,
        failing: frozenset[str] = frozenset(),
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or WallClock()
        self._failing = {_place(path) for path in failing}
        self._versions = count(1)
        self._objects: dict[Location, _Object] = {}
        for path, body in (objects or {}).items():
            self._put(_place(path), body)
        self.links: dict[str, str] = {}
        """Other names: of a folder, to its slash, or of a file; and what each leads to."""

    def read(self, path: str) -> bytes:
        """The whole object. Raises FileNotFoundError or, for a failing path, StoreRefused."""
        place = self._allowed(path)
        if place not in self._objects:
            raise FileNotFoundError(path)
        return self._objects[place].body

    def read_prefix(self, path: str, length: int) -> Prefix:
        """The first bytes of an object, and its size. Raises as `read` does."""
        whole = self.read(path)
        return Prefix(whole[:length], len(whole))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A part of an object."""
        return self.read(path)[start : start + length]

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there."""
        stored = self._objects.get(self._allowed(path))
        return None if stored is None else len(stored.body)

    def measure(self, path: str) -> StoredObject | None:
        """The object as a listing would show it; None when it is not there."""
        stored = self._objects.get(self._allowed(path))
        return None if stored is None else stored.shown(path)

    def proves_writes(self, path: str) -> bool:
        """Tests put faults in between: nobody has read again what was written."""
        return False

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object at the clock's time."""
        return self._put(self._allowed(path), bytes(content))

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Writes an object if it holds what is expected."""
        stored = self._objects.get(self._allowed(path))
        if (None if stored is None else stored.body) != expected:
            return False
        self.write(path, content)
        return True

    def _put(self, place: Location, content: bytes) -> datetime:
        etag = "" if place.scheme == "file" else f'"{next(self._versions)}"'
        self._objects[place] = _Object(content, self._clock.now(), etag)
        return self._objects[place].at

    def stream(self, path: str) -> Iterator[bytes]:
        """The object in parts."""
        whole = self.read(path)
        for start in range(0, len(whole), _PART):
            yield whole[start : start + _PART]

    def write_stream(
        self, path: str, parts: Iterable[bytes], together: object | None = None
    ) -> None:
        """Writes an object from parts; it waits for no others to be synced with."""
        self._allowed(path)
        self.write(path, b"".join(parts))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object under a folder, at any depth."""
        base = prefix.rstrip("/") + "/"
        folder = _place(self.real_path(base))
        below = (place for place in self._objects if place.path.startswith(folder.path))
        for place in sorted(place for place in below if place[:2] == folder[:2]):
            yield self._objects[place].shown(base + place.path[len(folder.path) :])

    def level(self, folder: str) -> Level:
        """What lies right in a folder."""
        base = folder.rstrip("/") + "/"
        tails = [(stored, stored.path[len(base) :]) for stored in self.list(base)]
        folders = {base + tail.partition("/")[0] + "/" for _, tail in tails if "/" in tail}
        files = tuple(stored for stored, tail in tails if "/" not in tail)
        return Level(files, (), tuple(sorted(folders)))

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """The sizes and times of many objects."""
        return [self._stat(path) for path in paths]

    def _stat(self, path: str) -> ObjectStat:
        try:
            stored = self._objects.get(self._allowed(path))
        except StoreRefused as error:
            return ObjectStat(path, error=str(error))
        return ObjectStat(path, stored and stored.shown(path), is_link=self.is_link(path))

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects, the local ones with their side files, an outcome per path."""
        return [DeleteOutcome(path, self._delete(path)) for path in paths]

    def _delete(self, path: str) -> str:
        if self.links.pop(self._by_its_folder(path), ""):
            return ""  # the link goes, and what it leads to stays
        try:
            place = self._allowed(path)
        except StoreRefused as error:
            return str(error)
        self._objects.pop(place, None)
        if place.scheme == "file":
            folder, slash, name = place.path.rpartition("/")
            self._objects.pop(place._replace(path=f"{folder}{slash}.{name}.crc"), None)
        return ""

    def real_path(self, path: str) -> str:
        """What a name leads to, by `links`."""
        for name, leads_to in self.links.items():
            if path == name or (name.endswith("/") and f"{path}/".startswith(name)):
                return self.real_path(leads_to + path[len(name) :])
        return path

    def identity(self, path: str) -> str:
        """Where it leads."""
        return self.real_path(path.rstrip("/")).rstrip("/")

    def is_link(self, path: str) -> bool:
        """Whether it is another name of a file, by whatever name of its folder."""
        return self._by_its_folder(path) in self.links

    def links_among(self, paths: Sequence[str]) -> Iterable[str]:
        """Those of some names that are links."""
        return filter(self.is_link, paths)

    def _by_its_folder(self, path: str) -> str:
        """The path, its folder by the name to which no link leads."""
        folder, slash, name = path.rpartition("/")
        return self.real_path(folder + slash) + name

    def _allowed(self, path: str) -> Location:
        place = _place(self.real_path(path))
        if place in self._failing:
            raise StoreRefused(
                f"{path} is refused",
                object=path,
                expected="an answer",
                found="a fault put in on purpose",
                next="take it from `failing`",
            )
        return place


def _place(path: str) -> Location:
    location = split_location(path)
    scheme = SAME_SCHEME.get(location.scheme, location.scheme)
    return location._replace(scheme=scheme)
