"""Orphans: classifies unreferenced files under a table's prefixes, and decides when one may go.

A listing alone proves little: a file may belong to a write in progress (AR-11, AR-16). So a file
moves to failsafe only once it is old, and was seen unchanged in an earlier listing. A copy may keep
the time of its original, so age counts from the first observation if that is later. A file with an
unknown or implausible property is kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.locations import claim_prefix, is_odd, location_key, split_location
from meltline.domain.units import format_duration

FLOOR = timedelta(hours=24)
"""The shortest allowed minimum age: writes may last for hours (AR-11)."""

_TEMPORARY_FOLDER = "_temporary"
_METADATA = ".metadata.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # the time that stores return if they know none


@dataclass(frozen=True)
class Inventory:
    """A listing made by another tool: columns `path`, `size`, `modified`.

    Attributes:
        source: A Parquet file or folder, or an Iceberg table's name.
        is_table: Whether it is an Iceberg table.
    """

    source: str
    is_table: bool = False


@dataclass(frozen=True)
class SweepSettings:
    """When an unreferenced file may be treated as an orphan.

    Attributes:
        minimum_age: The minimum time since it was modified, by the store's clock, and since it was
            first seen, at the time of the listing.
        listings_apart: The minimum time since another listing that saw it unchanged.
        inventory_age: The maximum age of an inventory that replaces a listing.
    """

    minimum_age: timedelta = timedelta(days=3)
    listings_apart: timedelta = timedelta(hours=12)
    inventory_age: timedelta = timedelta(days=2)

    def __post_init__(self) -> None:
        if self.minimum_age < FLOOR:
            raise UsageInvalid(
                "a sweep with that minimum age could take files of a write that is under way",
                object="minimum age",
                expected=f"at least {format_duration(FLOOR)}",
                found=format_duration(self.minimum_age),
                next="give a longer one, or leave it out",
            )


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """A listed file that nothing in the file ledger keeps.

    Attributes:
        bytes: Its size; None if the listing has none.
        modified_at: By the store's clock; None if the listing has none.
        left_at: When its newest departure was recorded, if the file was deleted, cancelled,
            or kept by a purge before; None for a file that was never tombstoned.
    """

    path: str
    bytes: int | None
    modified_at: datetime | None
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OrphanObservation:
    """A candidate as an earlier listing showed it."""

    path: str
    bytes: int
    modified_at: datetime
    owner: str
    listed_at: datetime


class StrayVerdict(StrEnum):
    """The classification of an orphan candidate."""

    ORPHAN = "orphan"
    FIRST_SEEN = "seen for the first time"
    SEEN_RECENTLY = "first seen too recently"
    YOUNG = "young"
    ODD = "odd"


def verdict_on(
    stray: OrphanCandidate,
    sighting: OrphanObservation | None,
    listed_at: datetime,
    settings: SweepSettings,
) -> StrayVerdict:
    """Classifies a candidate: an orphan, or the reason why it is not one yet.

    Args:
        stray: The file in the current listing.
        sighting: The newest recorded observation; the first one, while the file is unchanged.
        listed_at: When the current listing began.
        settings: The minimum ages.
    """
    modified = stray.modified_at
    if modified is None or modified <= _EPOCH or is_odd(stray.path) or _may_be_folder(stray):
        return StrayVerdict.ODD
    if sighting is None or not _is_unchanged(stray, sighting):
        return StrayVerdict.FIRST_SEEN
    if sighting.listed_at > listed_at - settings.listings_apart:
        return StrayVerdict.SEEN_RECENTLY
    # A time in the future counts as young: the clocks disagree.
    if max(modified, sighting.listed_at) > listed_at - settings.minimum_age:
        return StrayVerdict.YOUNG
    return StrayVerdict.ORPHAN


def _may_be_folder(stray: OrphanCandidate) -> bool:
    """Whether its size is unknown, or it looks like an object store's empty folder."""
    is_empty = stray.bytes == 0 and "." not in stray.path.rpartition("/")[2]
    return stray.bytes is None or is_empty


def _is_unchanged(stray: OrphanCandidate, sighting: OrphanObservation) -> bool:
    # To the second: a listing and an inventory of one store differ below that.
    same_time = stray.modified_at is not None and (
        stray.modified_at.replace(microsecond=0) == sighting.modified_at.replace(microsecond=0)
    )
    # A file that was tombstoned after its observation, and exists now, is a new one.
    later = stray.left_at is None or sighting.listed_at > stray.left_at
    return same_time and later and stray.bytes == sighting.bytes


# --- names -----------------------------------------------------------------------------------


def is_passed_over(name: str) -> bool:
    """Whether a sweep skips a file because of its name.

    Names that begin with `_` or `.` are hidden, as for Iceberg. An exception is `.NAME.tmp`, which
    file systems write just before a rename: if it is old, its writer is gone. Checksum files follow
    their file, and engines read a hint although no metadata references it.
    """
    if name[:1] in (".", "_"):
        return not name.endswith(".tmp")
    return name in ("", "version-hint.text")


def is_hidden_folder(name: str) -> bool:
    """Whether a sweep skips all files in a folder with this name, as Iceberg does.

    Not hidden are partitions of a column whose name begins with `_`, and `_temporary`, where
    Hadoop's committers leave the files of failed jobs.
    """
    if name == _TEMPORARY_FOLDER or (name.startswith("_") and "=" in name):
        return False
    return name.startswith((".", "_"))


class SweptPlaces:
    """The folders that a sweep lists: tables nest, and the longest matching prefix decides."""

    def __init__(self, swept: Iterable[str], owned: Iterable[str] = ()) -> None:
        """Takes the prefixes to sweep, and all other prefixes that a table owns."""
        self._swept = frozenset(swept)
        self._others = frozenset(owned) - self._swept

    @property
    def swept(self) -> tuple[str, ...]:
        """All prefixes to sweep, including those inside others."""
        return tuple(sorted(self._swept))

    @property
    def roots(self) -> tuple[str, ...]:
        """The prefixes to list: those that are inside no other."""
        return tuple(sorted(p for p in self._swept if not _is_within(p, self._swept)))

    def prefix_of(self, folder: str) -> str:
        """Returns the swept prefix that a folder's files belong to; empty if there is none."""
        at = claim_prefix(folder)
        while at and at not in self._swept and at not in self._others:
            at = parent_prefix(at)
        return at if at in self._swept else ""

    def looks_at(self, folder: str) -> bool:
        """Whether a sweep classifies the files directly in a folder."""
        prefix = self.prefix_of(folder)
        below = claim_prefix(folder)[len(prefix) :].split("/")
        return bool(prefix) and not any(map(is_hidden_folder, below))

    def may_lie_below(self, folder: str) -> bool:
        """Whether a sweep classifies any file below a folder, at any depth."""
        claim = claim_prefix(folder)
        return self.looks_at(folder) or any(prefix.startswith(claim) for prefix in self._swept)


def _is_within(prefix: str, owned: frozenset[str]) -> bool:
    at = parent_prefix(prefix)
    while at:
        if at in owned:
            return True
        at = parent_prefix(at)
    return False


def parent_prefix(prefix: str) -> str:
    """Returns the prefix one folder up, with its slash; empty above the authority."""
    root, _, below = prefix.partition("://")
    authority, _, path = below.partition("/")
    folder = path.rstrip("/").rpartition("/")[0]
    if not path:
        return ""
    return f"{root}://{authority}/{folder}/" if folder else f"{root}://{authority}/"


def kind_of(path: str) -> FileKind:
    """Guesses the kind of an unreferenced file from the names that Iceberg's writers use."""
    name = path.rpartition("/")[2]
    if is_metadata(path):
        return FileKind.METADATA
    if name.endswith(".avro"):
        if name.startswith("snap-"):
            return FileKind.MANIFEST_LIST
        return FileKind.MANIFEST if path.rpartition("/")[0].endswith("/metadata") else FileKind.DATA
    return FileKind.STATISTICS if name.endswith(".stats") else FileKind.DATA


def is_metadata(path: str) -> bool:
    """Whether a file is named like a metadata file."""
    name = path.rpartition("/")[2]
    return name.endswith(_METADATA) or f"{_METADATA}." in name


def is_below(path: str, prefixes: Sequence[str]) -> bool:
    """Whether a file lies under one of some prefixes, at any depth."""
    return claim_prefix(path).startswith(tuple(prefixes))


def same_place(path: str, claim: str) -> bool:
    """Whether two locations differ in scheme or authority alone (AR-10, Iceberg #4194)."""
    place, claimed = split_location(location_key(path)), split_location(location_key(claim))
    return place != claimed and place.path == claimed.path


def same_file_perhaps(path: str, prefix: str, claim: str) -> bool:
    """Whether a location may be an alias of a file under a prefix, for example through a link.

    That is so if it ends with the same path, from the name of the prefix's own folder on.
    """
    key, claimed, folder = location_key(path), location_key(claim), location_key(prefix).rstrip("/")
    tail = key[len(folder.rpartition("/")[0]) :]
    return key != claimed and key.startswith(folder + "/") and claimed.endswith(tail)
