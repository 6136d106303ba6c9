"""Places: what can have two names. A local folder, or a whole store; and which stores are one."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from meltline.domain.iceberg.locations import claim_prefix, split_location

_LOCAL = "file:///"
_NUMBERS = re.compile(r"[\d-]+")


def place_of(path: str) -> str:
    """Where a file lies, as far as that can have another name.

    Of a local file its folder, as it is written, for a link may stand anywhere in it; of an
    object its store alone.
    """
    return _place_of_folder(path.rpartition("/")[0] + "/")


def data_set_of(path: str) -> str:
    """The folder, as a prefix, of the data set that a file is a part of.

    It lies above all folders that are called as partitions, dates and hashes are.
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
        return f"file://{location.path}"  # raw: what is opened, not what is compared
    return store_of(folder)


def is_local(place: str) -> bool:
    """Whether a place, or a location, is one of this machine's file system."""
    location = split_location(place)
    return location.scheme == "file" and not location.authority


def places_in(
    paths: Iterable[str], links_among: Callable[[Sequence[str]], Iterable[str]]
) -> set[str]:
    """Where some files lie, and those local ones that are links to a file of another name.

    Args:
        paths: The files.
        links_among: Tells which of some local names, all of one folder, are links.
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
    """The store of a location, such as `s3://bucket/`; `file:///` for all local files."""
    scheme, _, location = claim_prefix(path).partition("://")
    return f"{scheme}://{location.partition('/')[0]}/"


def names_in(store: str, path: str) -> list[str]:
    """The names that an object would have if its store were also called by that other name.

    Its key is the same. Behind an address of the web, whose host nobody knows, its bucket may
    stand before the key.
    """
    location = split_location(path)
    key = location.path.removeprefix("/")
    is_address = store.startswith(("http://", "https://"))
    return [store + key, *([f"{store}{location.authority}/{key}"] if is_address else [])]


@dataclass(frozen=True)
class StoreNames:
    """What a person has said of stores: which names are one place, and which are different ones.

    Attributes:
        same: Groups of names that all mean one place, as `store_of` spells them.
        different: Groups of names each of which means a place of its own.
    """

    same: tuple[frozenset[str], ...] = ()
    different: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, same: Sequence[Sequence[str]], different: Sequence[Sequence[str]]) -> "StoreNames":
        """From groups as they are written."""
        return cls(
            tuple(frozenset(map(store_of, group)) for group in same),
            tuple(frozenset(map(store_of, group)) for group in different),
        )

    def are_same(self, store: str, peer: str) -> bool:
        """Whether two stores are said to be one place."""
        return store == peer or any({store, peer} <= group for group in self.same)

    def are_different(self, store: str, peer: str) -> bool:
        """Whether two stores are said to be different places."""
        return store != peer and any({store, peer} <= group for group in self.different)

    @property
    def contradictions(self) -> tuple[tuple[str, str], ...]:
        """Pairs that are said to be both."""
        return tuple(
            sorted(
                (store, peer)
                for group in self.same
                for store in group
                for peer in group
                if store < peer and self.are_different(store, peer)
            )
        )
