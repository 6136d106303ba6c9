"""What a sweep needs: a listing held against the file ledger, and earlier sightings."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.orphans import (
    Inventory,
    OrphanCandidate,
    OrphanObservation,
    SweptPlaces,
)


class Listing(Protocol):
    """What a store, or an inventory of it, held at one moment."""

    @property
    def listed_at(self) -> datetime:
        """When it was begun, or when the inventory was written."""
        ...

    @property
    def files(self) -> int:
        """How many files a sweep looks at."""
        ...

    @property
    def unlisted(self) -> Mapping[str, str]:
        """Folders that could not be listed, and why."""
        ...

    @property
    def markers(self) -> Sequence[str]:
        """Folders of logs of other formats, with a slash at the end."""
        ...

    def strays(self) -> Sequence[OrphanCandidate]:
        """The files that nothing in the file ledger keeps, as the ledger is now.

        Kept is what a live entry, a manifest list, a snapshot or a side file names, of whatever
        snapshot, and what waits in failsafe. Two locations that hash alike may keep a file.
        """
        ...


class Sweeper(Protocol):
    """Lists the store, on executors where there are any, and remembers candidates."""

    def list_files(self, places: SweptPlaces, now: datetime) -> Listing:
        """Lists every folder that a sweep looks at; done when this returns."""
        ...

    def read_inventory(self, inventory: Inventory, places: SweptPlaces) -> Listing:
        """Takes an inventory's word instead; what lies outside the places is passed over.

        Raises:
            UsageInvalid: It cannot be read, or lacks a column.
        """
        ...

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        """The newest sighting of each, by the stray's path; those never seen are absent."""
        ...

    def record(self, sightings: Sequence[OrphanObservation]) -> None:
        """Appends sightings, in one commit; none is no commit."""
        ...

    def namesakes(self, paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Files that the ledger knows elsewhere under the same last name, by the path asked for."""
        ...
