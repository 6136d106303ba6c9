"""Confinement: outside the roots nothing is ever planned to go, and nothing is deleted.

Roots are the warehouses of the catalogs that may be changed, and `storage-roots`. A name counts by
where it leads: what a link, or `..`, leads out of the roots lies outside.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from meltline.domain.errors import StoreRefused
from meltline.domain.locations import claim_prefix, is_odd
from meltline.domain.places import is_local
from meltline.domain.withheld import Why
from meltline.ports import ObjectStore


class Confinement:
    """The roots, and what lies outside of them."""

    def __init__(self, roots: Sequence[str], store: ObjectStore) -> None:
        """Takes the folders and buckets that may be deleted from; none at all allows nothing."""
        self._roots = roots
        self._store = store
        self._prefixes = tuple(map(claim_prefix, roots))

    def refused(self, paths: Iterable[str]) -> Mapping[str, Why]:
        """Those of some files that may not go, and why. Names are resolved anew at each call."""
        look = _Look(self._roots, self._store)
        found = {}
        for path in paths:
            why = self._why(path, look)
            if why is not None:
                found[path] = why
        return found

    def _why(self, path: str, look: "_Look") -> Why | None:
        if not self.covers(path):
            return Why.OUTSIDE
        if is_local(path) and look.leads_out(path):
            return Why.LINK
        return None

    def covers(self, path: str) -> bool:
        """Whether a file lies under a root, by its name alone."""
        return not is_odd(path) and claim_prefix(path).startswith(self._prefixes)


class _Look:
    """Where local names lead at this moment."""

    def __init__(self, roots: Sequence[str], store: ObjectStore) -> None:
        self._roots = roots
        self._store = store
        self._folders: dict[str, bool] = {}

    def leads_out(self, path: str) -> bool:
        """Whether a file is a link, or its folder leads out of all roots, or nobody can tell."""
        folder = path.rpartition("/")[0]
        try:
            if folder not in self._folders:
                real = claim_prefix(self._store.real_path(folder))
                self._folders[folder] = not real.startswith(self._real_roots)
            return self._folders[folder] or self._store.is_link(path)
        except StoreRefused:
            return True

    @cached_property
    def _real_roots(self) -> tuple[str, ...]:
        local = (root for root in self._roots if is_local(root))
        return tuple(claim_prefix(self._store.real_path(root)) for root in local)
