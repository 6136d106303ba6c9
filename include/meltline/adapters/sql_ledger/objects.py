"""Objects known to the ledger: tables, who owns which prefix, who shares files, sightings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import ASKED_AT_ONCE, from_row, in_parts, to_row
from meltline.adapters.sql_ledger.tables import place_tables, schema
from meltline.domain.deletion.withheld import Withheld, order
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports import KnownTable, Lease, PurgeVeto, RememberedMetadata, StatementRecord


class ObjectRows(Database):
    """Facts about the catalogs' objects that outlive one run."""

    def tables(self) -> Sequence[KnownTable]:
        """Every table ever seen, by name."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.tables)).all()
        return sorted((from_row(KnownTable, row) for row in rows), key=lambda t: (t.name, t.uuid))

    def open_entries(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        """Stores registrations that are new; returns those whose id nobody had before."""
        opened: list[KnownTable] = []
        with self._writing() as connection:
            for table in tables:
                row = {"id": table.uuid, "table_uuid": table.table_uuid}
                # The key decides between two who ask for one id at the same moment.
                if self._taken_first(connection, schema.entries, row):
                    opened.append(table)
            self._upsert(connection, schema.tables, [to_row(table) for table in opened])
        return opened

    def save_tables(self, tables: Sequence[KnownTable]) -> None:
        """Stores what is known now, one row per UUID and name: two names can share a UUID."""
        with self._writing() as connection:
            self._upsert(connection, schema.tables, [to_row(table) for table in tables])

    def ownerships(self) -> Sequence[Ownership]:
        """Every prefix ever owned, with its owners."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.ownerships)).all()
        found = (from_row(Ownership, row) for row in rows)
        return sorted(found, key=lambda o: (o.prefix, o.table_uuid))

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        """Adds what is new; `at` is when it was first seen. Ownership is never taken away."""
        rows = [to_row(one) | {"first_seen_at": at} for one in ownerships]
        rows.sort(key=lambda row: (str(row["prefix"]), str(row["table_uuid"])))
        with self._writing() as connection:
            self._insert_new(connection, schema.ownerships, rows)

    def sharing(self) -> Sequence[tuple[str, str]]:
        """Pairs of table UUIDs that share, or ever shared, files; the smaller one first."""
        pairs = schema.sharing.c
        with self._reading() as connection:
            rows = connection.execute(select(pairs.table_uuid, pairs.other_uuid)).all()
        return sorted((one, other) for one, other in rows)

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Adds pairs, in either order; a table and itself is no pair."""
        ordered = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
        rows = [{"table_uuid": one, "other_uuid": other} for one, other in ordered]
        with self._writing() as connection:
            self._insert_new(connection, schema.sharing, rows)

    def places(self) -> frozenset[str]:
        """Where files lie, or ever lay, that a table referred to."""
        with self._reading() as connection:
            return frozenset(connection.execute(select(place_tables.places.c.place)).scalars())

    def add_places(self, places: Iterable[str]) -> None:
        """Adds what is new; a place is never taken away."""
        if rows := [{"place": place} for place in sorted(places)]:
            with self._writing() as connection:
                self._insert_new(connection, place_tables.places, rows)

    def withheld(self) -> Sequence[Withheld]:
        """What the last plans of each kind kept although nothing refers to it."""
        with self._reading() as connection:
            rows = connection.execute(select(place_tables.withheld)).all()
        found = (from_row(Withheld, row) for row in rows)
        return sorted(found, key=lambda one: (one.step, order(one)))

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        """Stores what a step kept; what it kept before is forgotten."""
        with self._writing() as connection:
            connection.execute(
                delete(place_tables.withheld).where(place_tables.withheld.c.step == step)
            )
            self._upsert(connection, place_tables.withheld, [to_row(one) for one in files])

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        """What earlier observations remember, per table UUID and snapshot id."""
        wanted = select(schema.sightings)
        if uuids is not None and len(uuids) <= ASKED_AT_ONCE:
            wanted = wanted.where(schema.sightings.c.table_uuid.in_(uuids))
        with self._reading() as connection:
            rows = connection.execute(wanted).all()
        found: dict[str, dict[int, SnapshotObservation]] = {}
        for row in rows:
            found.setdefault(row.table_uuid, {})[row.snapshot_id] = from_row(
                SnapshotObservation, row
            )
        return found

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
        """Stores these; others stay as they are."""
        rows = [
            {"table_uuid": table_uuid, "snapshot_id": snapshot_id, **to_row(sighting)}
            for table_uuid, by_snapshot in sightings.items()
            for snapshot_id, sighting in by_snapshot.items()
        ]
        with self._writing() as connection:
            self._upsert(connection, schema.sightings, rows)

    def leases(self, now: datetime) -> Sequence[Lease]:
        """Leases that have not ended; in its last millisecond a lease still holds."""
        wanted = select(schema.leases).where(schema.leases.c.expires_at >= now)
        with self._reading() as connection:
            rows = connection.execute(wanted.order_by(schema.leases.c.id)).all()
        return [from_row(Lease, row) for row in rows]

    def save_lease(self, lease: Lease) -> None:
        """Stores a reader's lease, or its new end."""
        with self._writing() as connection:
            self._upsert(connection, schema.leases, [to_row(lease)])

    def renew_lease(self, id: str, now: datetime) -> Lease | None:
        """Makes a lease last its time anew; None where it has ended or is not there.

        The end is looked at in the same statement that moves it: a lease that was released
        meanwhile does not come back.
        """
        columns = schema.leases.c
        living = (columns.id == id, columns.expires_at >= now)
        with self._writing() as connection:
            row = connection.execute(select(schema.leases).where(*living)).first()
            if row is None:
                return None
            lease = from_row(Lease, row)
            renewed = replace(lease, expires_at=now + timedelta(milliseconds=lease.ttl_ms))
            moved = connection.execute(
                update(schema.leases).where(*living).values(expires_at=renewed.expires_at)
            )
            return renewed if moved.rowcount else None

    def remove_lease(self, id: str) -> bool:
        """Ends a lease at once; False where there was none."""
        with self._writing() as connection:
            gone = connection.execute(delete(schema.leases).where(schema.leases.c.id == id))
            return bool(gone.rowcount)

    def save_statement(self, statement: StatementRecord) -> None:
        """Stores a statement, or how far it has come."""
        with self._writing() as connection:
            self._upsert(connection, schema.statements, [to_row(statement)])

    def statement(self, id: str) -> StatementRecord | None:
        """What is known of a statement."""
        wanted = select(schema.statements).where(schema.statements.c.id == id)
        with self._reading() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else from_row(StatementRecord, row)

    def policies(self) -> Mapping[str, Mapping[str, str]]:
        """The newest policies that were in order, per object and property."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.policies)).all()
        found: dict[str, dict[str, str]] = {}
        for row in rows:
            found.setdefault(row.object, {})[row.key] = row.value
        return found

    def save_policies(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        """Stores these values, and forgets where one is None; others stay as they are."""
        rows = [
            {"object": name, "key": key, "value": value}
            for name, found in policies.items()
            for key, value in found.items()
        ]
        columns = schema.policies.c
        with self._writing() as connection:
            self._upsert(connection, schema.policies, [r for r in rows if r["value"] is not None])
            for row in rows:
                if row["value"] is None:
                    here = (columns.object == row["object"], columns.key == row["key"])
                    connection.execute(delete(schema.policies).where(*here))

    def metadata_documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        """Those of the metadata files that are remembered, by location."""
        table, found = schema.metadata_documents, {}
        with self._reading() as connection:
            for some in in_parts(locations):
                for row in connection.execute(select(table).where(table.c.location.in_(some))):
                    document = from_row(RememberedMetadata, row)
                    found[document.location] = document
        return found

    def save_metadata_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        """Remembers documents, and forgets those of files that are no longer current."""
        table = schema.metadata_documents
        with self._reading() as connection:
            known = set(connection.execute(select(table.c.location)).scalars())
        old = sorted(known.difference(current))
        if not documents and not old:
            return
        with self._writing() as connection:
            self._upsert(connection, table, [to_row(document) for document in documents])
            for some in in_parts(old):
                connection.execute(delete(table).where(table.c.location.in_(some)))

    def wanted_back(self) -> Sequence[PurgeVeto]:
        """Snapshots whose files are wanted and whose departures are not cancelled yet."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.wanted_back).order_by(schema.wanted_back.c.id))
            return [from_row(PurgeVeto, row) for row in rows]

    def add_wanted_back(self, wanted: PurgeVeto) -> None:
        """Stores a word for a snapshot; the same id again replaces it."""
        with self._writing() as connection:
            self._upsert(connection, schema.wanted_back, [to_row(wanted)])

    def settle_wanted_back(self, ids: Sequence[str]) -> None:
        """Forgets them: their departures are cancelled."""
        with self._writing() as connection:
            for id in ids:
                gone = schema.wanted_back.c.id == id
                connection.execute(delete(schema.wanted_back).where(gone))
