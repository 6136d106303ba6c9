"""Path aliases: finds where a file may have a second name, in a local folder or a store.

A local file may have one through a link or a mount, an object through a store with two names. An
operator declares which stores are the same. The ownership and deletion checks use it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from meltline.domain.iceberg.locations import claim_prefix, split_location

_LOCAL = "file:///"
_NUMBERS = re.compile(r"[\d-]+")


def place_of(path: str) -> str:
    """Returns the local folder or the store of a file, where a second name may exist.

    For a local file this is its folder as written, since any part of it may be a link. For an
    object it is its store alone.
    """
    return _place_of_folder(path.rpartition("/")[0] + "/")


def data_set_of(path: str) -> str:
    """Returns the root folder, as a prefix, of the data set that a file belongs to.

    It is above all folders named like partitions, dates or hashes.
    """
    folder = claim_prefix(path.rpartition("/")[0])
    store = store_of(folder)
    parts = folder.removeprefix(store).split("/")
    above = "".join(f"{part}/" for part in takewhile(_is_named, filter(None, parts)))
    return store + above if above else folder


def _is_named(part: str) -> bool:
    return "=" not in part and not _NUMBERS.fullmatch(part)


@lru_cache(maxsize=4096)
def _place_of_folder(folder: str) -> str:
    location = split_location(folder)
    if location.scheme == "file" and not location.authority:
        return f"file://{location.path}"  # raw: the path to open, not to compare
    return store_of(folder)


def is_local(place: str) -> bool:
    """Returns whether a folder or location is in this machine's file system."""
    location = split_location(place)
    return location.scheme == "file" and not location.authority


def places_in(
    paths: Iterable[str], links_among: Callable[[Sequence[str]], Iterable[str]]
) -> set[str]:
    """Returns the folders and stores of some files, and those local files that are links.

    Args:
        paths: The files.
        links_among: Returns which of some local paths, all of one folder, are links.
    """
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    places: set[str] = set()
    for in_folder in by_folder.values():
        place = place_of(in_folder[0])
        places.add(place)
        if is_local(place):
            places.update(links_among(in_folder))
    return places


def store_of(path: str) -> str:
    """Returns the store of a location, such as `s3://bucket/`; `file:///` for all local files."""
    scheme, _, location = claim_prefix(path).partition("://")
    return f"{scheme}://{location.partition('/')[0]}/"


def names_in(store: str, path: str) -> list[str]:
    """Returns the names that an object would have if its store had that second name.

    Its key is the same. For an HTTP address, whose host is unknown, its bucket may precede the key.
    """
    location = split_location(path)
    key = location.path.removeprefix("/")
    is_address = store.startswith(("http://", "https://"))
    return [store + key, *([f"{store}{location.authority}/{key}"] if is_address else [])]


@dataclass(frozen=True)
class StoreNames:
    """An operator's declarations on stores: which names are one store, and which are different.

    Attributes:
        same: Groups of names that all mean one store, as `store_of` spells them.
        different: Groups of names that each mean a separate store.
    """

    same: tuple[frozenset[str], ...] = ()
    different: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, same: Sequence[Sequence[str]], different: Sequence[Sequence[str]]) -> "StoreNames":
        """Creates it from groups as they are written."""
        return cls(
            tuple(frozenset(map(store_of, group)) for group in same),
            tuple(frozenset(map(store_of, group)) for group in different),
        )

    def are_same(self, store: str, peer: str) -> bool:
        """Returns whether two stores are declared to be the same."""
        return store == peer or any({store, peer} <= group for group in self.same)

    def are_different(self, store: str, peer: str) -> bool:
        """Returns whether two stores are declared to be different."""
        return store != peer and any({store, peer} <= group for group in self.different)

    @property
    def contradictions(self) -> tuple[tuple[str, str], ...]:
        """Returns pairs of stores that are declared to be both."""
        return tuple(
            sorted(
                (store, peer)
                for group in self.same
                for store in group
                for peer in group
                if store < peer and self.are_different(store, peer)
            )
        )
