"""Catalog listings: of all catalogs at once, or cached for a step that commits to many tables.

Failures are collected per catalog, so that one catalog that is down does not stop the others.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from meltline.domain.errors import CatalogUnlistable
from meltline.ports import Catalog, CatalogEntry, CatalogListing

_FRESH = 1.0  # seconds; a table that moved since causes a commit conflict, and then a new listing


@dataclass(frozen=True)
class ListedCatalogs:
    """The listing of each catalog that answered, and the errors of the others."""

    listings: Mapping[str, CatalogListing]
    unlisted: Mapping[str, CatalogUnlistable]

    @property
    def entries(self) -> list[CatalogEntry]:
        """Returns the tables of all listed catalogs."""
        return [pointer for listing in self.listings.values() for pointer in listing.entries]


def list_catalogs(catalogs: Iterable[Catalog]) -> ListedCatalogs:
    """Lists each catalog now, and collects the errors."""
    listings: dict[str, CatalogListing] = {}
    unlisted: dict[str, CatalogUnlistable] = {}
    for catalog in catalogs:
        try:
            listings[catalog.name] = catalog.listing()
        except CatalogUnlistable as refused:
            unlisted[catalog.name] = refused
    return ListedCatalogs(listings, unlisted)


class Listings:
    """Caches each catalog's newest listing; listing per table would cost O(n²)."""

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self._catalogs = catalogs
        self._taken: dict[str, tuple[float, CatalogListing]] = {}
        self._guard = Lock()

    def of(self, catalog: str, *, anew: bool = False) -> CatalogListing:
        """Returns a listing at most a second old, or a new one. Raises CatalogUnlistable."""
        with self._guard:
            at, listing = self._taken.get(catalog, (0.0, None))
            if anew or listing is None or time.monotonic() - at > _FRESH:
                listing = self._catalogs[catalog].listing()
                self._taken[catalog] = (time.monotonic(), listing)
            return listing
