"""Listings of catalogs for a step that commits to many tables, one after another."""

import time
from collections.abc import Mapping
from threading import Lock

from meltline.ports import Catalog, CatalogListing

_FRESH = 1.0  # seconds: a table that moved since is a conflict of its commit, and listed anew


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
