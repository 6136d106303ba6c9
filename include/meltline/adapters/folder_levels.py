"""Object stores that also list one level of a folder: how a listing is cut into parts."""

from collections.abc import Iterator
from typing import Protocol

import obstore
from obstore.exceptions import BaseError

from meltline.adapters.object_store import ObjectStores
from meltline.domain.errors import StoreRefused
from meltline.domain.locations import split_location
from meltline.ports import ObjectStore, StoredObject


class FolderStore(ObjectStore, Protocol):
    """The object-store port, and a look at one folder."""

    def level(self, folder: str) -> Iterator[StoredObject | str]:
        """What lies directly in a folder: its files, and its folders by location, with a slash.

        Raises:
            StoreRefused: Any of it cannot be listed, or has a name that cannot be spelled.
        """
        ...


class FolderStores(ObjectStores):
    """The port `FolderStore` over every store that the configured catalogs use."""

    def level(self, folder: str) -> Iterator[StoredObject | str]:
        """What lies directly in a folder: its files, and its folders by location, with a slash."""
        base = folder.rstrip("/") + "/"
        location = split_location(base)
        if location.scheme == "file":
            yield from self._local.level(base)
            return
        store, prefix = self._store(location, folder), location.path.removeprefix("/")
        try:
            found = obstore.list_with_delimiter(store, prefix or None)
        except (BaseError, OSError, ValueError) as error:
            raise _refused(folder, error) from None  # the client's words may hold a signed address
        for name in found["common_prefixes"]:
            yield f"{base}{name[len(prefix) :].rstrip('/')}/"
        for file in found["objects"]:
            at = base + file["path"][len(prefix) :]
            yield StoredObject(at, file["size"], file["last_modified"])


def _refused(folder: str, error: Exception) -> StoreRefused:
    reason = type(error).__name__
    return StoreRefused(
        f"cannot list {folder}: {reason}",
        object=folder,
        expected="an answer from the store",
        found=reason,
        next="check the store, its address and the credentials in meltline.yaml",
    )
