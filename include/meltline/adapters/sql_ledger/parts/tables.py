"""Stores registrations, owned prefixes, sharing groups, file locations and foreign owners."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import delete_in, insert_first, to_row, upsert
from meltline.adapters.sql_ledger.tables import place_tables, schema
from meltline.domain.deletion.foreign_owners import AllowedOwner, ForeignSign, sign_order
from meltline.domain.deletion.withheld import Withheld, order
from meltline.domain.iceberg.locations import Ownership
from meltline.ports import KnownTable


@dataclass(frozen=True)
class RegistrationRows:
    """The port `RegistrationLedger`."""

    database: Database

    def all(self) -> Sequence[KnownTable]:
        tables = self.database.records(KnownTable, select(schema.tables))
        return sorted(tables, key=lambda table: (table.name, table.uuid))

    def open(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        opened: list[KnownTable] = []
        with self.database.writing() as connection:
            for table in tables:
                row = {"id": table.uuid, "table_uuid": table.table_uuid}
                # The key decides between two processes that request one id at the same time.
                if insert_first(connection, schema.entries, row):
                    opened.append(table)
            upsert(connection, schema.tables, [to_row(table) for table in opened])
        return opened

    def save(self, tables: Sequence[KnownTable]) -> None:
        self.database.save(schema.tables, [to_row(table) for table in tables])

    def ownerships(self) -> Sequence[Ownership]:
        owned = self.database.records(Ownership, select(schema.ownerships))
        return sorted(owned, key=lambda o: (o.prefix, o.table_uuid))

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        rows = [to_row(ownership) | {"first_seen_at": at} for ownership in ownerships]
        rows.sort(key=lambda row: (str(row["prefix"]), str(row["table_uuid"])))
        self.database.add(schema.ownerships, rows)

    def sharing(self) -> Sequence[tuple[str, str]]:
        pairs = schema.sharing.c
        with self.database.reading() as connection:
            rows = connection.execute(select(pairs.table_uuid, pairs.other_uuid)).all()
        return sorted((uuid, peer_uuid) for uuid, peer_uuid in rows)

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        ordered = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
        rows = [{"table_uuid": uuid, "other_uuid": peer_uuid} for uuid, peer_uuid in ordered]
        self.database.add(schema.sharing, rows)


@dataclass(frozen=True)
class PlaceRows:
    """The port `PlaceLedger`."""

    database: Database

    def all(self) -> frozenset[str]:
        with self.database.reading() as connection:
            return frozenset(connection.execute(select(place_tables.places.c.place)).scalars())

    def add(self, places: Iterable[str]) -> None:
        if rows := [{"place": place} for place in sorted(places)]:
            self.database.add(place_tables.places, rows)

    def half_seen(self) -> Mapping[str, str]:
        half_seen = place_tables.half_seen.c
        with self.database.reading() as connection:
            rows = connection.execute(select(half_seen.place, half_seen.catalog)).all()
        return {place: catalog for place, catalog in rows}

    def add_half_seen(self, places: Mapping[str, str]) -> None:
        if rows := [{"place": at, "catalog": catalog} for at, catalog in sorted(places.items())]:
            self.database.add(place_tables.half_seen, rows)

    def withheld(self) -> Sequence[Withheld]:
        files = self.database.records(Withheld, select(place_tables.withheld))
        return sorted(files, key=lambda file: (file.step, order(file)))

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        with self.database.writing() as connection:
            connection.execute(
                delete(place_tables.withheld).where(place_tables.withheld.c.step == step)
            )
            upsert(connection, place_tables.withheld, [to_row(file) for file in files])


@dataclass(frozen=True)
class ForeignOwnerRows:
    """The port `ForeignOwnerLedger`."""

    database: Database

    def signs(self) -> Sequence[ForeignSign]:
        signs = self.database.records(ForeignSign, select(place_tables.foreign_signs))
        return sorted(signs, key=sign_order)

    def allowed(self) -> Sequence[AllowedOwner]:
        owners = place_tables.allowed_owners
        return self.database.records(AllowedOwner, select(owners).order_by(owners.c.id))

    def save_signs(self, roots: Collection[str], signs: Sequence[ForeignSign]) -> None:
        table = place_tables.foreign_signs
        with self.database.writing() as connection:
            delete_in(connection, table.c.root, roots)
            upsert(connection, table, [to_row(sign) for sign in signs])

    def allow(self, owner: AllowedOwner) -> None:
        self.database.save(place_tables.allowed_owners, [to_row(owner)])

    def disallow(self, id: str) -> bool:
        one = place_tables.allowed_owners.c.id == id
        return bool(self.database.change(delete(place_tables.allowed_owners).where(one)))
