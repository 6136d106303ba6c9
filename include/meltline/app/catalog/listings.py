"""Listings of catalogs for a step that commits to many tables, one after another."""

import time
from threading import Lock

from meltline.app.services import ReadContext
from meltline.ports import CatalogListing

_FRESH = 1.0  # seconds: a table that moved since is a conflict of its commit, and listed anew


class Listings:
    """Each catalog's newest listing; a listing for each table would cost their number squared."""

    def __init__(self, ledgers: ReadContext) -> None:
        self._ledgers = ledgers
        self._taken: dict[str, tuple[float, CatalogListing]] = {}
        self._guard = Lock()

    def of(self, catalog: str, *, anew: bool = False) -> CatalogListing:
        """A listing from just now, or one taken now. Raises CatalogUnlistable."""
        with self._guard:
            at, listing = self._taken.get(catalog, (0.0, None))
            if anew or listing is None or time.monotonic() - at > _FRESH:
                listing = self._ledgers.catalogs[catalog].listing()
                self._taken[catalog] = (time.monotonic(), listing)
            return listing
