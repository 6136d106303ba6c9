"""Stores the last read policies, and the leases of readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, to_row, upsert
from meltline.adapters.sql_ledger.tables import schema
from meltline.ports import Lease


@dataclass(frozen=True)
class PolicyRows:
    """The port `PolicyLedger`."""

    database: Database

    def all(self) -> Mapping[str, Mapping[str, str]]:
        with self.database.reading() as connection:
            rows = connection.execute(select(schema.policies)).all()
        policies: dict[str, dict[str, str]] = {}
        for row in rows:
            policies.setdefault(row.object, {})[row.key] = row.value
        return policies

    def save(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        rows = [
            {"object": name, "key": key, "value": text}
            for name, settings in policies.items()
            for key, text in settings.items()
        ]
        columns = schema.policies.c
        with self.database.writing() as connection:
            upsert(connection, schema.policies, [r for r in rows if r["value"] is not None])
            for row in rows:
                if row["value"] is None:
                    where = (columns.object == row["object"], columns.key == row["key"])
                    connection.execute(delete(schema.policies).where(*where))


@dataclass(frozen=True)
class LeaseRows:
    """The port `LeaseLedger`."""

    database: Database

    def active(self, now: datetime) -> Sequence[Lease]:
        query = select(schema.leases).where(schema.leases.c.expires_at >= now)
        return self.database.records(Lease, query.order_by(schema.leases.c.id))

    def save(self, lease: Lease) -> None:
        self.database.save(schema.leases, [to_row(lease)])

    def renew(self, id: str, now: datetime) -> Lease | None:
        """Renews a lease for its full duration; returns None if it has ended or does not exist.

        The same statement checks and moves the end, so that a lease that was released meanwhile is
        not restored.
        """
        columns = schema.leases.c
        living = (columns.id == id, columns.expires_at >= now)
        with self.database.writing() as connection:
            row = connection.execute(select(schema.leases).where(*living)).first()
            if row is None:
                return None
            lease = from_row(Lease, row)
            renewed = replace(lease, expires_at=now + timedelta(milliseconds=lease.ttl_ms))
            answer = connection.execute(
                update(schema.leases).where(*living).values(expires_at=renewed.expires_at)
            )
            return renewed if answer.rowcount else None

    def remove(self, id: str) -> bool:
        return bool(self.database.change(delete(schema.leases).where(schema.leases.c.id == id)))
