"""Path aliases: finds other names of a file through links, mounts, and stores with two names.

Planners, gates and rechecks call it. Paths are compared as text everywhere, and a file has no list
of its names. So every folder in which a table ever had a file is recorded. Before a delete all of
them are resolved again, to find those that lead to the file (decision 025).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.services import ReadContext
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import location_key
from meltline.domain.path_aliases import StoreNames, is_local, names_in, place_of, store_of
from meltline.ports import ObjectReader, PathResolver


class OtherNames:
    """Finds other names of files, by where known folders lead now."""

    def __init__(
        self,
        store: ObjectReader,
        resolver: PathResolver,
        places: Iterable[str],
        stores: StoreNames,
    ) -> None:
        """Takes the folders in which tables have, or had, files.

        Raises:
            StoreRefused: A local one cannot be resolved.
        """
        self._store = store
        self._resolver = resolver
        self._names = stores
        self._places = frozenset(places)
        self._stores = sorted({store_of(place) for place in self._places if not is_local(place)})
        self._folders: dict[str, list[str]] | None = None
        self._links: dict[tuple[str, str], list[str]] = {}
        self._identities: dict[str, str] = {}

    @classmethod
    def now(cls, context: ReadContext, also: Collection[str] = ()) -> "OtherNames":
        """Builds it with the recorded folders, and some more."""
        places = context.control.places.all() | frozenset(also)
        return cls(context.store, context.resolver, places, context.config.stores)

    def of(self, path: str) -> list[str]:
        """Returns the other names that a file may have, whether or not anything uses them."""
        place, name = place_of(path), path.rpartition("/")[2]
        if is_local(place):
            aliases = self._local(place, name)
        else:
            beside = self._stores_beside(place)
            aliases = [name for store in beside for name in names_in(store, path)]
        own = location_key(path)
        return [alias for alias in dict.fromkeys(aliases) if location_key(alias) != own]

    def _stores_beside(self, place: str) -> list[str]:
        beside = (store for store in self._stores if store != place)
        return [store for store in beside if not self._names.are_different(place, store)]

    def _local(self, place: str, name: str) -> list[str]:
        if self._folders is None:
            self._folders = self._look()
        at = self._identity(place)
        folders = (folder for folder in self._folders.get(at, ()) if folder != place)
        return [*(folder + name for folder in folders), *self._links.get((at, name), ())]

    def _look(self) -> dict[str, list[str]]:
        """Groups the known folders by identity, and records where links lead."""
        folders: dict[str, list[str]] = {}
        for place in sorted(self._places):
            if not is_local(place):
                continue
            if place.endswith("/"):
                folders.setdefault(self._identity(place), []).append(place)
            else:
                real = self._resolver.real_path(place)
                at = (self._identity(place_of(real)), real.rpartition("/")[2])
                self._links.setdefault(at, []).append(place)
        return folders

    def _identity(self, folder: str) -> str:
        if folder not in self._identities:
            self._identities[folder] = self._resolver.identity(folder)
        return self._identities[folder]

    def differ(self, path: str, alias: str) -> bool:
        """Returns whether two names are certainly different files, because their sizes differ."""
        if not is_local(path) and self._names.are_same(store_of(path), store_of(alias)):
            return False
        try:
            size, alias_size = self._store.size(path), self._store.size(alias)
        except StoreRefused:
            return False
        return None not in (size, alias_size) and size != alias_size


def needed_by_other_names(
    names: OtherNames, paths: Sequence[str], needed: Callable[[Sequence[str]], Collection[str]]
) -> dict[str, str]:
    """Returns files that are, or may be, needed under another name: by path, that name.

    Args:
        names: Finds the other names.
        paths: Files that are to be deleted.
        needed: Returns which of some paths are referenced.
    """
    by_path = {path: names.of(path) for path in paths}
    all_aliases = sorted({alias for aliases in by_path.values() for alias in aliases})
    hits = frozenset(needed(all_aliases)) if all_aliases else frozenset[str]()
    pairs = [(path, alias) for path in paths for alias in by_path[path] if alias in hits]
    differ = load_concurrently(lambda pair: names.differ(*pair), pairs)
    return {path: alias for (path, alias), no in zip(pairs, differ, strict=True) if not no}
