"""Incidents that are not over."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, in_parts, insert_new, to_row
from meltline.adapters.sql_ledger.tables import schema
from meltline.ports import Incident


@dataclass(frozen=True)
class IncidentRows:
    """The port `IncidentLedger`."""

    database: Database

    def all(self) -> Sequence[Incident]:
        table = schema.incidents
        with self.database.reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.at, table.c.id)).all()
        return [from_row(Incident, row) for row in rows]

    def add(self, incidents: Sequence[Incident]) -> None:
        rows = [to_row(incident) for incident in sorted(incidents, key=lambda i: i.id)]
        with self.database.writing() as connection:
            insert_new(connection, schema.incidents, rows)

    def end(self, ids: Sequence[str]) -> None:
        table = schema.incidents
        with self.database.writing() as connection:
            for part in in_parts(sorted(ids)):
                connection.execute(delete(table).where(table.c.id.in_(part)))
