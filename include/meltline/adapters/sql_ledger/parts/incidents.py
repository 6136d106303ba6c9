"""Stores unresolved incidents."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import delete_in, to_row
from meltline.adapters.sql_ledger.tables import schema
from meltline.ports import Incident


@dataclass(frozen=True)
class IncidentRows:
    """The port `IncidentLedger`."""

    database: Database

    def all(self) -> Sequence[Incident]:
        table = schema.incidents
        return self.database.records(Incident, select(table).order_by(table.c.at, table.c.id))

    def add(self, incidents: Sequence[Incident]) -> None:
        rows = [to_row(incident) for incident in sorted(incidents, key=lambda i: i.id)]
        self.database.add(schema.incidents, rows)

    def end(self, ids: Sequence[str]) -> None:
        with self.database.writing() as connection:
            delete_in(connection, schema.incidents.c.id, ids)
