"""The sweep's port in memory, for tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.deletion.foreign_owners import marker_above
from meltline.domain.deletion.orphans import (
    Inventory,
    OrphanCandidate,
    OrphanObservation,
    SweptPlaces,
    is_passed_over,
)
from meltline.domain.errors import StoreRefused, UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import location_key
from meltline.ports import ObjectReader
from tests.doubles.file_tables import MemoryContents, MemoryTables


@dataclass(frozen=True)
class InventoryContent:
    """An inventory's rows and when it was written."""

    written_at: datetime
    rows: tuple[OrphanCandidate, ...]


@dataclass(frozen=True)
class MemoryListing:
    """The port `Listing` over files held in memory."""

    listed_at: datetime
    stored: tuple[OrphanCandidate, ...]
    unlisted: Mapping[str, str]
    ledger: MemoryTables
    markers: Sequence[str] = ()

    @property
    def files(self) -> int:
        """How many files a sweep looks at."""
        return len(self.stored)

    def strays(self) -> Sequence[OrphanCandidate]:
        """Those that nothing in the file ledger keeps now."""
        contents = self.ledger.contents()
        departed = {location_key(d.path): d for d in contents.departures}
        referenced = {location_key(path) for path in _named_by(contents)}
        strays = []
        for file in self.stored:
            key = location_key(file.path)
            before = departed.get(key)
            if before is None or before.state is DepartureState.CANCELLED:
                is_stray = key not in referenced
            else:
                is_stray = not before.is_on_its_way
            if is_stray:
                left_at = before.recorded_at if before else None
                strays.append(OrphanCandidate(file.path, file.bytes, file.modified_at, left_at))
        return strays


class MemorySweeper:
    """The port `Sweeper` over a store and a file ledger in memory; one object is one ledger."""

    def __init__(self, store: ObjectReader, ledger: MemoryTables) -> None:
        self._store = store
        self._ledger = ledger
        self._sightings: dict[str, OrphanObservation] = {}
        self.inventories: dict[str, InventoryContent] = {}
        self.commits = 0

    def list_files(self, places: SweptPlaces, now: datetime) -> MemoryListing:
        """Lists every folder that a sweep looks at."""
        files: list[OrphanCandidate] = []
        unlisted: dict[str, str] = {}
        for root in places.roots:
            try:
                files += [
                    OrphanCandidate(stored.path, stored.bytes, stored.modified_at)
                    for stored in self._store.list(root)
                ]
            except StoreRefused as refused:
                unlisted[root] = refused.message
        markers = sorted({marker_above(file.path.rpartition("/")[0]) for file in files} - {""})
        return MemoryListing(now, _sifted(files, places), unlisted, self._ledger, markers)

    def read_inventory(self, inventory: Inventory, places: SweptPlaces) -> MemoryListing:
        """Takes an inventory's word instead."""
        content = self.inventories.get(inventory.source)
        if content is None:
            raise UsageInvalid(
                f"the inventory {inventory.source} cannot be read",
                object=inventory.source,
                expected="one of the inventories put in here",
                found="none of that name",
                next="put it in",
            )
        sifted = _sifted(content.rows, places)
        return MemoryListing(content.written_at, sifted, {}, self._ledger)

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        """The newest sighting of each."""
        by_path = {stray.path: self._sightings.get(location_key(stray.path)) for stray in strays}
        return {path: sighting for path, sighting in by_path.items() if sighting is not None}

    def record(self, sightings: Sequence[OrphanObservation]) -> None:
        """Keeps sightings; the newest of each file counts."""
        for sighting in sightings:
            before = self._sightings.get(location_key(sighting.path), sighting)
            if sighting.listed_at >= before.listed_at:
                self._sightings[location_key(sighting.path)] = sighting
        self.commits += bool(sightings)

    def namesakes(self, paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Files that the ledger knows under the same last name."""
        by_name: dict[str, list[str]] = {}
        for path in _named_by(self._ledger.contents()):
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return {path: by_name.get(path.rpartition("/")[2], []) for path in paths}


def _named_by(contents: MemoryContents) -> Iterable[str]:
    """Everything that the index names alive, of whatever snapshot."""
    yield from (file.path for file in contents.entries)
    yield from (file.path for file in contents.manifests)
    yield from (file.path for file in contents.side_files)
    yield from (snapshot.manifest_list for snapshot in contents.snapshots if snapshot.manifest_list)


def _sifted(files: Iterable[OrphanCandidate], places: SweptPlaces) -> tuple[OrphanCandidate, ...]:
    sifted = []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        if not is_passed_over(name) and places.looks_at(folder + "/"):
            sifted.append(file)
    return tuple(sifted)
