"""What happened: runs, the stop switch, statements, the audit trail, and storage day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import THE_ROW, from_row, insert_new, to_row, upsert
from meltline.adapters.sql_ledger.tables import schema
from meltline.domain.deletion.storage import StorageRow
from meltline.ports import AuditEntry, RunRecord, StatementRecord, StopSwitch


@dataclass(frozen=True)
class RunRows:
    """The port `RunLog`."""

    database: Database

    def start(self, run: RunRecord) -> None:
        with self.database.writing() as connection:
            insert_new(connection, schema.runs, [to_row(run)])

    def finish(self, run: RunRecord) -> None:
        ended = update(schema.runs).where(schema.runs.c.id == run.id)
        with self.database.writing() as connection:
            insert_new(connection, schema.runs, [to_row(run)])
            connection.execute(ended.values(ended_at=run.ended_at, summary=run.summary))

    def newest(self, limit: int) -> Sequence[RunRecord]:
        latest = (schema.runs.c.started_at.desc(), schema.runs.c.seq.desc())
        with self.database.reading() as connection:
            rows = connection.execute(select(schema.runs).order_by(*latest).limit(limit)).all()
        return [from_row(RunRecord, row) for row in rows]


@dataclass(frozen=True)
class SwitchRow:
    """The port `SwitchLedger`."""

    database: Database

    def stopped(self) -> StopSwitch | None:
        with self.database.reading() as connection:
            row = connection.execute(select(schema.stop_switch)).first()
        return None if row is None else from_row(StopSwitch, row)

    def set(self, switch: StopSwitch | None) -> None:
        with self.database.writing() as connection:
            if switch is None:
                connection.execute(delete(schema.stop_switch))
            else:
                row = {"id": THE_ROW, **to_row(switch)}
                upsert(connection, schema.stop_switch, [row])


@dataclass(frozen=True)
class StatementRows:
    """The port `StatementLog`."""

    database: Database

    def save(self, statement: StatementRecord) -> None:
        with self.database.writing() as connection:
            upsert(connection, schema.statements, [to_row(statement)])

    def get(self, id: str) -> StatementRecord | None:
        query = select(schema.statements).where(schema.statements.c.id == id)
        with self.database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else from_row(StatementRecord, row)


@dataclass(frozen=True)
class AuditRows:
    """The port `AuditLog`."""

    database: Database

    def add(self, record: AuditEntry) -> None:
        with self.database.writing() as connection:
            connection.execute(insert(schema.audit), to_row(record))

    def entries(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        query = select(schema.audit).order_by(schema.audit.c.at, schema.audit.c.seq)
        if object:
            query = query.where(schema.audit.c.object == object)
        if since is not None:
            query = query.where(schema.audit.c.at >= since)
        with self.database.reading() as connection:
            return [from_row(AuditEntry, row) for row in connection.execute(query)]


@dataclass(frozen=True)
class StorageRows:
    """The port `StorageHistory`."""

    database: Database

    def save(self, day: str, rows: Sequence[StorageRow]) -> None:
        with self.database.writing() as connection:
            upsert(connection, schema.storage, [{"day": day, **to_row(r)} for r in rows])

    def of(self, day: str) -> Sequence[StorageRow]:
        query = select(schema.storage).where(schema.storage.c.day == day)
        with self.database.reading() as connection:
            rows = [from_row(StorageRow, row) for row in connection.execute(query)]
        return sorted(rows, key=lambda row: (row.table, row.table_uuid))
