"""Protocols of table registrations, of their locations, and of foreign owners of folders.

Observation writes them; planning and gates read them. `adapters/sql_ledger` implements them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.foreign_owners import AllowedOwner, ForeignSign
from meltline.domain.deletion.withheld import Withheld
from meltline.domain.drop.drops import LET_GO
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName

UNREADABLE, CONTRADICTORY = "unreadable", "contradictory"
"""Statuses: a part of the table is unreadable; it was read completely and contradicts itself."""

ENDED = ("gone", LET_GO)
"""Statuses of a registration that no catalog has under its name any more."""


@dataclass(frozen=True)
class KnownTable:
    """A registration of a table, as the control ledger stores it.

    Attributes:
        uuid: The registration's id.
        status: `live`, `unreadable` or `contradictory` (error says why), `gone` from every
            catalog, or `let go`: its retention as a dropped table has ended, and its registration
            was removed.
        observed_at: When it was last observed completely; for one that is gone, when that was
            detected.
        incomplete: Whether some of its references have never been recorded.
        table_uuid: Iceberg's UUID; other registrations may have the same.
        newest: Main's head at the last observation, as `id location of its list`; empty if it
            had none. It proves the lineage of a table whose snapshot log was truncated meanwhile.
    """

    uuid: str
    name: TableName
    metadata_location: str
    location: str
    status: str
    observed_at: datetime
    error: str = ""
    incomplete: bool = False
    table_uuid: str = ""
    newest: str = ""

    @property
    def is_skipped(self) -> bool:
        """Whether it is unreadable or contradictory, so that its sharing group is skipped."""
        return self.status in (UNREADABLE, CONTRADICTORY)

    @property
    def is_ended(self) -> bool:
        """Whether no catalog has the registration under its name any more."""
        return self.status in ENDED


class RegistrationReader(Protocol):
    """Reads registrations, the folders that each owns, and which of them share files."""

    def all(self) -> Sequence[KnownTable]:
        """Returns every registration ever seen, by name; a renamed one appears under both names."""
        ...

    def ownerships(self) -> Sequence[Ownership]:
        """Returns every prefix that was ever owned, with its owners."""
        ...

    def sharing(self) -> Sequence[tuple[str, str]]:
        """Returns pairs of tables that share, or ever shared, files; the smaller id first."""
        ...


class RegistrationLedger(RegistrationReader, Protocol):
    """Opens registrations, and stores what changes about them."""

    def open(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        """Stores new registrations; returns those whose id was not taken before.

        An id is given once, even if two runs ask for it at the same moment.
        """
        ...

    def save(self, tables: Sequence[KnownTable]) -> None:
        """Stores the current state, one row per id and name: two names can share an id."""
        ...

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        """Adds new ownerships, first seen at `at`. Ownership is never removed."""
        ...

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Adds pairs, in either order; a pair of a table with itself is ignored."""
        ...


class PlaceReader(Protocol):
    """Reads the paths of referenced files, and the unreferenced files that are withheld there."""

    def all(self) -> frozenset[str]:
        """Returns paths of files that a table refers to, or ever did (`domain.places`)."""
        ...

    def half_seen(self) -> Mapping[str, str]:
        """Returns half-seen locations, now or ever, and the catalog of each."""
        ...

    def withheld(self) -> Sequence[Withheld]:
        """Returns the files that the last plans of each kind withheld although unreferenced."""
        ...


class PlaceLedger(PlaceReader, Protocol):
    """Stores paths of files, and the files that are withheld there."""

    def add(self, places: Iterable[str]) -> None:
        """Adds new paths; a path is never removed."""
        ...

    def add_half_seen(self, places: Mapping[str, str]) -> None:
        """Adds new half-seen locations with their catalogs; a location is never removed."""
        ...

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        """Stores the files that a step withheld; replaces those from before."""
        ...


class ForeignOwnerReader(Protocol):
    """Reads signs that a foreign owner, whom no catalog shows, uses a folder."""

    def signs(self) -> Sequence[ForeignSign]:
        """Returns the newest signs in each folder, by folder; `SignKind.SEEN` records the check."""
        ...

    def allowed(self) -> Sequence[AllowedOwner]:
        """Returns owners that an operator has declared known and gone, by id."""
        ...


class ForeignOwnerLedger(ForeignOwnerReader, Protocol):
    """Stores signs of foreign owners, and the operators' answers."""

    def save_signs(self, roots: Collection[str], signs: Sequence[ForeignSign]) -> None:
        """Stores the signs found in some folders; replaces earlier ones there."""
        ...

    def allow(self, owner: AllowedOwner) -> None:
        """Stores that an owner is known and gone; the same id again replaces it."""
        ...

    def disallow(self, id: str) -> bool:
        """Removes that answer; False if there was none."""
        ...
