"""Listings of catalogs: of all at once, and for a step that commits to one table after another."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from meltline.domain.errors import CatalogUnlistable
from meltline.ports import Catalog, CatalogEntry, CatalogListing

_FRESH = 1.0  # seconds: a table that moved since is a conflict of its commit, and listed anew


@dataclass(frozen=True)
class ListedCatalogs:
    """What each catalog holds that could be listed, and why the others could not."""

    listings: Mapping[str, CatalogListing]
    unlisted: Mapping[str, CatalogUnlistable]

    @property
    def entries(self) -> list[CatalogEntry]:
        """The tables of all of them."""
        return [pointer for listing in self.listings.values() for pointer in listing.entries]


def list_catalogs(catalogs: Iterable[Catalog]) -> ListedCatalogs:
    """Lists each catalog now; what fails is named."""
    listings: dict[str, CatalogListing] = {}
    unlisted: dict[str, CatalogUnlistable] = {}
    for catalog in catalogs:
        try:
            listings[catalog.name] = catalog.listing()
        except CatalogUnlistable as refused:
            unlisted[catalog.name] = refused
    return ListedCatalogs(listings, unlisted)


class Listings:
    """Each catalog's newest listing; a listing for each table would cost their number squared."""

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self._catalogs = catalogs
        self._taken: dict[str, tuple[float, CatalogListing]] = {}
        self._guard = Lock()

    def of(self, catalog: str, *, anew: bool = False) -> CatalogListing:
        """A listing from just now, or one taken now. Raises CatalogUnlistable."""
        with self._guard:
            at, listing = self._taken.get(catalog, (0.0, None))
            if anew or listing is None or time.monotonic() - at > _FRESH:
                listing = self._catalogs[catalog].listing()
                self._taken[catalog] = (time.monotonic(), listing)
            return listing
