"""Registrations of tables, and the folders and files that belong, or belonged, to them."""

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
"""A table of which something could not be read; one that was read wholly and contradicts itself."""

ENDED = ("gone", LET_GO)
"""The status of a registration that no catalog has under its name any more."""


@dataclass(frozen=True)
class KnownTable:
    """What the control ledger remembers of a registration of a table.

    Attributes:
        uuid: The registration's id.
        status: `live`, `unreadable` or `contradictory` (error says why), `gone` from every
            catalog, or `let go`: its retention as a dropped table has ended, and its registration
            was taken away.
        observed_at: When it was last seen as a whole; of one that is gone, when that was noticed.
        incomplete: Whether some of its references have never been recorded.
        table_uuid: Iceberg's UUID; other registrations may have the same.
        newest: Main's head when the table was last seen, as `id location of its list`; empty
            where it had none. It proves the lineage of a table whose log was cut meanwhile.
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
        """Whether something is wrong with it, so that nothing of its group is touched."""
        return self.status in (UNREADABLE, CONTRADICTORY)

    @property
    def is_ended(self) -> bool:
        """Whether no catalog has the registration under its name any more."""
        return self.status in ENDED


class RegistrationReader(Protocol):
    """Registrations, which folders each owns, and which of them share files."""

    def all(self) -> Sequence[KnownTable]:
        """Every one ever seen, by name: one that was renamed has been seen under both names."""
        ...

    def ownerships(self) -> Sequence[Ownership]:
        """Every prefix ever owned, with its owners."""
        ...

    def sharing(self) -> Sequence[tuple[str, str]]:
        """Pairs of tables that share, or ever shared, files; the smaller id first."""
        ...


class RegistrationLedger(RegistrationReader, Protocol):
    """Opens registrations, and remembers what is new of them."""

    def open(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        """Stores registrations that are new; returns those whose id nobody had before.

        An id is given once, whoever else asks for it at the same moment.
        """
        ...

    def save(self, tables: Sequence[KnownTable]) -> None:
        """Stores what is known now, one row per id and name: two names can share an id."""
        ...

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        """Adds what is new; `at` is when it was first seen. Ownership is never taken away."""
        ...

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Adds pairs, in either order; a table and itself is no pair."""
        ...


class PlaceReader(Protocol):
    """Where files lie, and what lies there although nothing refers to it."""

    def all(self) -> frozenset[str]:
        """Where files lie, or ever lay, that a table referred to (`domain.places`)."""
        ...

    def half_seen(self) -> Mapping[str, str]:
        """Where a catalog shows, or ever showed, only a part of what is needed, and which one."""
        ...

    def withheld(self) -> Sequence[Withheld]:
        """What the last plans of each kind kept although nothing refers to it."""
        ...


class PlaceLedger(PlaceReader, Protocol):
    """Remembers places, and what is withheld there."""

    def add(self, places: Iterable[str]) -> None:
        """Adds what is new; a place is never taken away."""
        ...

    def add_half_seen(self, places: Mapping[str, str]) -> None:
        """Adds what is new, by place the catalog; a place is never taken away."""
        ...

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        """Stores what a step kept; what it kept before is forgotten."""
        ...


class ForeignOwnerReader(Protocol):
    """Signs that somebody whom no catalog shows uses a folder."""

    def signs(self) -> Sequence[ForeignSign]:
        """What the last look at each folder found, by folder; `SignKind.SEEN` says it was one."""
        ...

    def allowed(self) -> Sequence[AllowedOwner]:
        """Owners that people have said to be known and gone, by id."""
        ...


class ForeignOwnerLedger(ForeignOwnerReader, Protocol):
    """Remembers signs, and what people say of them."""

    def save_signs(self, roots: Collection[str], signs: Sequence[ForeignSign]) -> None:
        """Stores what a look at some folders found; what was found there before is forgotten."""
        ...

    def allow(self, owner: AllowedOwner) -> None:
        """Stores that an owner is known and gone; the same id again replaces it."""
        ...

    def disallow(self, id: str) -> bool:
        """Takes that away; False where it was never said."""
        ...
