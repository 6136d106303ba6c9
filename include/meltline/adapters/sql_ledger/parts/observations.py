"""Stores snapshot observations and cached table metadata of earlier runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import (
    ASKED_AT_ONCE,
    delete_in,
    from_row,
    rows_in,
    to_row,
    upsert,
)
from meltline.adapters.sql_ledger.tables import schema
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports import RememberedMetadata


@dataclass(frozen=True)
class ObservationRows:
    """The port `ObservationLedger`."""

    database: Database

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        query = select(schema.sightings)
        if uuids is not None and len(uuids) <= ASKED_AT_ONCE:
            query = query.where(schema.sightings.c.table_uuid.in_(uuids))
        with self.database.reading() as connection:
            rows = connection.execute(query).all()
        by_table: dict[str, dict[int, SnapshotObservation]] = {}
        for row in rows:
            by_table.setdefault(row.table_uuid, {})[row.snapshot_id] = from_row(
                SnapshotObservation, row
            )
        return by_table

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
        rows = [
            {"table_uuid": table_uuid, "snapshot_id": snapshot_id, **to_row(sighting)}
            for table_uuid, by_snapshot in sightings.items()
            for snapshot_id, sighting in by_snapshot.items()
        ]
        self.database.save(schema.sightings, rows)

    def documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        table = schema.metadata_documents
        with self.database.reading() as connection:
            rows = rows_in(connection, select(table), table.c.location, locations)
            return {row.location: from_row(RememberedMetadata, row) for row in rows}

    def save_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        table = schema.metadata_documents
        with self.database.reading() as connection:
            locations = set(connection.execute(select(table.c.location)).scalars())
        old = locations.difference(current)
        if not documents and not old:
            return
        with self.database.writing() as connection:
            upsert(connection, table, [to_row(document) for document in documents])
            delete_in(connection, table.c.location, old)
