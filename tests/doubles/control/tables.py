"""Registrations, places and observations, in memory."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from meltline.domain.deletion.foreign_owners import AllowedOwner, ForeignSign, sign_order
from meltline.domain.deletion.withheld import Withheld, order
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports import KnownTable, RememberedMetadata
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryRegistrations:
    """The port `RegistrationLedger`."""

    database: MemoryDatabase
    rows: dict[tuple[str, TableName], KnownTable] = field(default_factory=dict)
    owners: set[Ownership] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)

    def all(self) -> Sequence[KnownTable]:
        with self.database.reading():
            return sorted(self.rows.values(), key=lambda table: (table.name, table.uuid))

    def open(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        with self.database.writing():
            uuids = {uuid for uuid, _ in self.rows}
            opened: list[KnownTable] = []
            for table in tables:
                if table.uuid not in uuids:
                    uuids.add(table.uuid)
                    opened.append(table)
            self.rows.update({(table.uuid, table.name): table for table in opened})
            return opened

    def save(self, tables: Sequence[KnownTable]) -> None:
        with self.database.writing():
            self.rows.update({(table.uuid, table.name): table for table in tables})

    def ownerships(self) -> Sequence[Ownership]:
        with self.database.reading():
            return sorted(self.owners, key=lambda o: (o.prefix, o.table_uuid))

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        with self.database.writing():
            self.owners.update(ownerships)

    def sharing(self) -> Sequence[tuple[str, str]]:
        with self.database.reading():
            return sorted(self.pairs)

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        with self.database.writing():
            self.pairs.update((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])


@dataclass
class MemoryPlaces:
    """The port `PlaceLedger`."""

    database: MemoryDatabase
    rows: frozenset[str] = frozenset()
    files_withheld: dict[str, Sequence[Withheld]] = field(default_factory=dict)
    half_seen_by: dict[str, str] = field(default_factory=dict)

    def all(self) -> frozenset[str]:
        with self.database.reading():
            return self.rows

    def add(self, places: Iterable[str]) -> None:
        with self.database.writing():
            self.rows |= frozenset(places)

    def half_seen(self) -> Mapping[str, str]:
        with self.database.reading():
            return dict(self.half_seen_by)

    def add_half_seen(self, places: Mapping[str, str]) -> None:
        with self.database.writing():
            self.half_seen_by = {**places, **self.half_seen_by}

    def withheld(self) -> Sequence[Withheld]:
        with self.database.reading():
            return [file for _, files in sorted(self.files_withheld.items()) for file in files]

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        with self.database.writing():
            self.files_withheld[step] = sorted(files, key=order)


@dataclass
class MemoryForeignOwners:
    """The port `ForeignOwnerLedger`."""

    database: MemoryDatabase
    found: dict[str, list[ForeignSign]] = field(default_factory=dict)
    said: dict[str, AllowedOwner] = field(default_factory=dict)

    def signs(self) -> Sequence[ForeignSign]:
        with self.database.reading():
            return sorted(chain.from_iterable(self.found.values()), key=sign_order)

    def allowed(self) -> Sequence[AllowedOwner]:
        with self.database.reading():
            return [self.said[id] for id in sorted(self.said)]

    def save_signs(self, roots: Collection[str], signs: Sequence[ForeignSign]) -> None:
        with self.database.writing():
            self.found.update({root: [] for root in roots})
            for sign in signs:
                self.found.setdefault(sign.root, []).append(sign)

    def allow(self, owner: AllowedOwner) -> None:
        with self.database.writing():
            self.said[owner.id] = owner

    def disallow(self, id: str) -> bool:
        with self.database.writing():
            return self.said.pop(id, None) is not None


@dataclass
class MemoryObservations:
    """The port `ObservationLedger`."""

    database: MemoryDatabase
    seen: dict[str, dict[int, SnapshotObservation]] = field(default_factory=dict)
    remembered: dict[str, RememberedMetadata] = field(default_factory=dict)

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        with self.database.reading():
            return {
                uuid: dict(of_table)
                for uuid, of_table in self.seen.items()
                if uuids is None or uuid in uuids
            }

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
        with self.database.writing():
            for uuid, of_table in sightings.items():
                if of_table:
                    self.seen.setdefault(uuid, {}).update(of_table)

    def documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        with self.database.reading():
            return {at: self.remembered[at] for at in locations if at in self.remembered}

    def save_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        with self.database.writing():
            every = self.remembered | {document.location: document for document in documents}
            self.remembered = {at: saved for at, saved in every.items() if at in set(current)}
