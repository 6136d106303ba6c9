"""Confinement: files outside the roots, or in half-seen locations, are never planned or deleted.

Planners, gates and purges all check it. Roots are the warehouses of the catalogs that may be
changed, and `storage-roots`. A path counts by where it resolves to: if a link, or `..`, leads out
of the roots, it is outside.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from meltline.domain.deletion.half_seen import HalfSeenPlaces
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import claim_prefix, is_odd
from meltline.domain.path_aliases import is_local
from meltline.ports import PathResolver


class Confinement:
    """Checks paths against the roots and the half-seen locations."""

    def __init__(
        self,
        roots: Sequence[str],
        resolver: PathResolver,
        half_seen: HalfSeenPlaces = HalfSeenPlaces(),  # noqa: B008 - it never changes
    ) -> None:
        """Takes the folders and buckets from which files may be deleted; none allows nothing."""
        self._roots = roots
        self._resolver = resolver
        self._half_seen = half_seen
        self._prefixes = tuple(map(claim_prefix, roots))

    def refused(self, paths: Iterable[str]) -> Mapping[str, Why]:
        """Returns files that may not be deleted, and why. Links are resolved again at each call."""
        candidates = list(paths)
        refusals = dict(self.misplaced(candidates))
        links = [path for path in candidates if path not in refusals and self._is_link(path)]
        return refusals | dict.fromkeys(links, Why.LINK)

    def misplaced(self, paths: Iterable[str]) -> Mapping[str, Why]:
        """Does the same as `refused`, for callers that have just checked files for links."""
        look = _Look(self._roots, self._prefixes, self._resolver, self._half_seen)
        return {path: why for path in paths if (why := self._reason(path, look)) is not None}

    def _reason(self, path: str, look: "_Look") -> Why | None:
        folder = look.folder_of(path)
        if is_odd(path) or not (folder.is_covered or self.covers(path)):
            return Why.OUTSIDE
        if folder.leads_into_half_seen or self._half_seen.holds(path):
            return Why.HALF_SEEN
        return Why.LINK if folder.leads_out else None

    def _is_link(self, path: str) -> bool:
        """Returns whether a path is a link, or may be one."""
        try:
            return self._resolver.is_link(path)
        except StoreRefused:
            return True

    def named(self, paths: Iterable[str]) -> Mapping[str, Why]:
        """Returns files that may not be deleted by their paths alone, and why."""
        outside = {path: Why.OUTSIDE for path in paths if not self.covers(path)}
        half_seen = (p for p in paths if p not in outside and self._half_seen.holds(p))
        return outside | dict.fromkeys(half_seen, Why.HALF_SEEN)

    def covers(self, path: str) -> bool:
        """Returns whether a file is under a root, by its path alone."""
        return not is_odd(path) and claim_prefix(path).startswith(self._prefixes)


@dataclass(frozen=True, slots=True)
class _RootFolder:
    """Checks that hold for each file directly in a folder: few folders have thousands of files.

    Attributes:
        is_covered: Its path is under a root. If it is not, a file in it may still be a root.
        leads_out: A local folder that resolves to outside all roots, or cannot be resolved.
        leads_into_half_seen: A local folder that resolves to a half-seen location.
    """

    is_covered: bool
    leads_out: bool
    leads_into_half_seen: bool


class _Look:
    """Resolves local paths as they are now, once per folder."""

    def __init__(
        self,
        roots: Sequence[str],
        prefixes: tuple[str, ...],
        resolver: PathResolver,
        half_seen: HalfSeenPlaces,
    ) -> None:
        self._half_seen = half_seen
        self._roots = roots
        self._prefixes = prefixes
        self._resolver = resolver
        self._folders: dict[str, _RootFolder] = {}

    def folder_of(self, path: str) -> _RootFolder:
        """Returns the folder of a file, as it was when it was first resolved."""
        name = path.rpartition("/")[0]
        folder = self._folders.get(name)
        if folder is None or not name:  # without a folder, the path alone decides
            covered = bool(name) and claim_prefix(name).startswith(self._prefixes)
            folder = _RootFolder(
                covered, *(self._leads(name) if is_local(path) else (False, False))
            )
            self._folders[name] = folder
        return folder

    def _leads(self, folder: str) -> tuple[bool, bool]:
        """Returns whether a local folder resolves to outside all roots, or to half-seen files."""
        try:
            real = self._resolver.real_path(folder)
        except StoreRefused:
            return True, False
        return not claim_prefix(real).startswith(self._real_roots), self._half_seen.holds(real)

    @cached_property
    def _real_roots(self) -> tuple[str, ...]:
        local = (root for root in self._roots if is_local(root))
        return tuple(claim_prefix(self._resolver.real_path(root)) for root in local)
