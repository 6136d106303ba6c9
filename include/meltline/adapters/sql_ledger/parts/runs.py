"""Stores runs, the stop switch, statements, the audit trail, and storage day by day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import JSON, cast, delete, func, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.refusals import only_run
from meltline.adapters.sql_ledger.rows import THE_ROW, insert_new, rows_in, to_row
from meltline.adapters.sql_ledger.tables import decision_tables, schema
from meltline.domain.arming import Arming
from meltline.domain.deletion.plan import PlanTotals
from meltline.domain.deletion.storage import StorageRow
from meltline.ports import AuditEntry, RunRecord, StatementRecord, StopSwitch


@dataclass(frozen=True)
class RunRows:
    """The port `RunLog`."""

    database: Database

    def start(self, run: RunRecord) -> None:
        self.database.add(schema.runs, [to_row(run)])

    def finish(self, run: RunRecord) -> None:
        ended = update(schema.runs).where(schema.runs.c.id == run.id)
        with self.database.writing() as connection:
            insert_new(connection, schema.runs, [to_row(run)])
            connection.execute(ended.values(ended_at=run.ended_at, summary=run.summary))

    def newest(
        self, limit: int | None, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[RunRecord]:
        c = schema.runs.c
        query = select(schema.runs).order_by(c.started_at.desc(), c.seq.desc()).limit(limit)
        if since is not None:
            query = query.where(c.started_at >= since)
        if until is not None:
            query = query.where(c.started_at < until)
        return self.database.records(RunRecord, query)

    def get(self, id_or_prefix: str) -> RunRecord:
        if id_or_prefix == "last":
            runs = self.newest(1)
        else:
            c = schema.runs.c
            begins = func.substr(c.id, 1, len(id_or_prefix)) == id_or_prefix
            # The run with this exact id first: other ids may begin with it.
            query = select(schema.runs).where(begins).order_by(func.length(c.id), c.id).limit(5)
            runs = self.database.records(RunRecord, query)
        return only_run(id_or_prefix, runs)

    def plan_totals(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[PlanTotals]]:
        c = schema.plans.c
        totals: dict[str, list[PlanTotals]] = {id: [] for id in run_ids}
        with self.database.reading() as connection:
            # SQLite stores a list as text; Postgres needs a cast.
            is_text = connection.dialect.name == "sqlite"
            listed = c.snapshots if is_text else cast(c.snapshots, JSON)
            sums = (func.json_array_length(listed), c.files, c.bytes)
            query = select(c.run_id, c.kind, c.state, func.count(), *map(func.sum, sums))
            query = query.group_by(c.run_id, c.kind, c.state).order_by(c.kind, c.state)
            for row in rows_in(connection, query, c.run_id, run_ids):
                run_id, kind, state, *numbers = tuple(row)
                totals[run_id].append(PlanTotals(kind, state, *map(int, numbers)))
        return totals


@dataclass(frozen=True)
class SwitchRow:
    """The port `SwitchLedger`."""

    database: Database

    def stopped(self) -> StopSwitch | None:
        return self.database.record(StopSwitch, select(schema.stop_switch))

    def set(self, switch: StopSwitch | None) -> None:
        if switch is None:
            self.database.change(delete(schema.stop_switch))
        else:
            self.database.save(schema.stop_switch, [{"id": THE_ROW, **to_row(switch)}])

    def arming(self) -> Arming | None:
        return self.database.record(Arming, select(decision_tables.arming))

    def arm(self, arming: Arming | None) -> None:
        if arming is None:
            self.database.change(delete(decision_tables.arming))
        else:
            self.database.save(decision_tables.arming, [{"id": THE_ROW, **to_row(arming)}])


@dataclass(frozen=True)
class StatementRows:
    """The port `StatementLog`."""

    database: Database

    def save(self, statement: StatementRecord) -> None:
        self.database.save(schema.statements, [to_row(statement)])

    def get(self, id: str) -> StatementRecord | None:
        query = select(schema.statements).where(schema.statements.c.id == id)
        return self.database.record(StatementRecord, query)


@dataclass(frozen=True)
class AuditRows:
    """The port `AuditLog`."""

    database: Database

    def add(self, *records: AuditEntry) -> None:
        if records:
            with self.database.writing() as connection:
                connection.execute(insert(schema.audit), [to_row(record) for record in records])

    def entries(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        query = select(schema.audit).order_by(schema.audit.c.at, schema.audit.c.seq)
        if object:
            query = query.where(schema.audit.c.object == object)
        if since is not None:
            query = query.where(schema.audit.c.at >= since)
        return self.database.records(AuditEntry, query)


@dataclass(frozen=True)
class StorageRows:
    """The port `StorageHistory`."""

    database: Database

    def save(self, day: str, rows: Sequence[StorageRow]) -> None:
        self.database.save(schema.storage, [{"day": day, **to_row(row)} for row in rows])

    def of(self, day: str) -> Sequence[StorageRow]:
        query = select(schema.storage).where(schema.storage.c.day == day)
        rows = self.database.records(StorageRow, query)
        return sorted(rows, key=lambda row: (row.table, row.table_uuid))
