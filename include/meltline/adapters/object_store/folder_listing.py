"""Lists single folders of any store, so that a large listing can be split among workers.

Sweeps, and checks for foreign owners, call it. It is apart from `ObjectStores`, because nothing
else lists level by level.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import obstore

from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.stats import shown
from meltline.adapters.object_store.store_errors import refusing
from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.object_store.vended import VendedPrefixes
from meltline.domain.iceberg.locations import split_location
from meltline.ports import FolderReader, Level, StoredObject


class FolderLister(FolderReader, Protocol):
    """Lists folders, one level or all. Must be picklable."""

    def measures(self, folder: str) -> bool:
        """Returns whether a listing there includes sizes and times at no further cost."""
        ...

    def measure(self, path: str) -> StoredObject | None:
        """Measures a file that was listed by name only; None if it is gone since."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields every object under a folder: see `ObjectReader`."""
        ...


class FolderStores:
    """Implements `FolderLister` over every store that the configured catalogs use."""

    def __init__(
        self,
        properties: Mapping[str, str],
        pace: Pace | None = None,
        vended: VendedPrefixes | None = None,
    ) -> None:
        """Takes the arguments of `ObjectStores`."""
        self._pace = pace or Pace()
        self._stores = ObjectStores(properties, self._pace, vended)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields every object under a folder."""
        return self._stores.list(prefix)

    def level(self, folder: str) -> Level:
        """Returns the direct children of a folder; a missing one is empty."""
        base = folder.rstrip("/") + "/"
        self._pace.wait()
        if not self.measures(base):
            files, folders = self._stores.local.names(base)
            return Level((), tuple(files), tuple(f"{base}{name}/" for name in folders))
        prefix = split_location(base).path.removeprefix("/")
        store = self._stores.cloud.store_of(folder)
        with refusing("list", folder):
            page = obstore.list_with_delimiter(store, prefix or None)
        return Level(
            tuple(shown(base + file["path"][len(prefix) :], file) for file in page["objects"]),
            (),
            tuple(f"{base}{name[len(prefix) :].rstrip('/')}/" for name in page["common_prefixes"]),
        )

    def measures(self, folder: str) -> bool:
        """Returns whether a listing there includes sizes and times: not on a local disk."""
        return split_location(folder).scheme != "file"

    def measure(self, path: str) -> StoredObject | None:
        """Measures a file that was listed by name only; None if it is gone since."""
        return self._stores.local.measure(path)
