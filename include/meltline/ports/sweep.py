"""Protocols of a sweep: a listing compared with the file ledger, and earlier observations.

`app/orphans` calls them; `adapters/orphan_scan` implements them.
"""

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
    """The objects of a store at one moment, from the store or from an inventory."""

    @property
    def listed_at(self) -> datetime:
        """The start of the listing, or the time of the inventory."""
        ...

    @property
    def files(self) -> int:
        """The number of files that the sweep checks."""
        ...

    @property
    def unlisted(self) -> Mapping[str, str]:
        """Folders that could not be listed, and why."""
        ...

    @property
    def markers(self) -> Sequence[str]:
        """Log folders of other table formats, with a slash at the end."""
        ...

    def strays(self) -> Sequence[OrphanCandidate]:
        """Returns the files that the current file ledger does not keep: orphan candidates.

        The ledger keeps the files that a live entry, a manifest list, a snapshot or a side file
        names, in any snapshot, and files in failsafe. A hash collision of two locations keeps
        a file.
        """
        ...


class Sweeper(Protocol):
    """Lists the store, on executors if there are any, and stores observations of candidates."""

    def list_files(self, places: SweptPlaces, now: datetime) -> Listing:
        """Lists every folder of the sweep; complete when this returns."""
        ...

    def read_inventory(self, inventory: Inventory, places: SweptPlaces) -> Listing:
        """Reads an inventory instead of listing; objects outside the swept paths are left out.

        Raises:
            UsageInvalid: It cannot be read, or lacks a column.
        """
        ...

    def sightings(self, strays: Sequence[OrphanCandidate]) -> Mapping[str, OrphanObservation]:
        """Returns the newest observation of each candidate by path; new candidates are absent."""
        ...

    def record(self, sightings: Sequence[OrphanObservation]) -> None:
        """Appends observations in one commit; without observations nothing is committed."""
        ...

    def namesakes(self, paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Returns indexed files elsewhere with the same last name, by the given path."""
        ...
