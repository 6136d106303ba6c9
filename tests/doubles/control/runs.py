"""Runs, the stop switch, statements, the audit and storage totals, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from meltline.adapters.sql_ledger.refusals import only_run
from meltline.domain.arming import Arming
from meltline.domain.deletion.plan import PlanTotals
from meltline.domain.deletion.storage import StorageRow
from meltline.ports import AuditEntry, PlanReader, RunRecord, StatementRecord, StopSwitch
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryRuns:
    """The port `RunLog`."""

    database: MemoryDatabase
    plans: PlanReader
    rows: dict[str, RunRecord] = field(default_factory=dict)

    def start(self, run: RunRecord) -> None:
        with self.database.writing():
            self.rows.setdefault(run.id, run)

    def finish(self, run: RunRecord) -> None:
        with self.database.writing():
            started = self.rows.get(run.id, run)
            self.rows[run.id] = replace(started, ended_at=run.ended_at, summary=run.summary)

    def newest(
        self, limit: int | None, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[RunRecord]:
        with self.database.reading():
            newest = sorted(reversed(self.rows.values()), key=lambda r: r.started_at, reverse=True)
        in_time = [
            run
            for run in newest
            if (since is None or run.started_at >= since)
            and (until is None or run.started_at < until)
        ]
        return in_time[:limit]

    def get(self, id_or_prefix: str) -> RunRecord:
        if id_or_prefix == "last":
            return only_run(id_or_prefix, self.newest(1))
        with self.database.reading():
            runs = [run for id, run in self.rows.items() if id.startswith(id_or_prefix)]
        return only_run(id_or_prefix, sorted(runs, key=lambda run: (len(run.id), run.id)))

    def plan_totals(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[PlanTotals]]:
        return {id: PlanTotals.of(self.plans.find(run_id=id) if id else ()) for id in run_ids}


@dataclass
class MemorySwitch:
    """The port `SwitchLedger`."""

    database: MemoryDatabase
    switch: StopSwitch | None = None
    armed: Arming | None = None

    def stopped(self) -> StopSwitch | None:
        with self.database.reading():
            return self.switch

    def set(self, switch: StopSwitch | None) -> None:
        with self.database.writing():
            self.switch = switch

    def arming(self) -> Arming | None:
        with self.database.reading():
            return self.armed

    def arm(self, arming: Arming | None) -> None:
        with self.database.writing():
            self.armed = arming


@dataclass
class MemoryStatements:
    """The port `StatementLog`."""

    database: MemoryDatabase
    rows: dict[str, StatementRecord] = field(default_factory=dict)

    def save(self, statement: StatementRecord) -> None:
        with self.database.writing():
            self.rows[statement.id] = statement

    def get(self, id: str) -> StatementRecord | None:
        with self.database.reading():
            return self.rows.get(id)


@dataclass
class MemoryAudit:
    """The port `AuditLog`."""

    database: MemoryDatabase
    rows: list[AuditEntry] = field(default_factory=list)

    def add(self, *records: AuditEntry) -> None:
        if records:
            with self.database.writing():
                self.rows.extend(records)

    def entries(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        with self.database.reading():
            records = [
                record
                for record in self.rows
                if object in ("", record.object) and (since is None or record.at >= since)
            ]
        return sorted(records, key=lambda record: record.at)


@dataclass
class MemoryStorage:
    """The port `StorageHistory`."""

    database: MemoryDatabase
    days: dict[str, dict[str, StorageRow]] = field(default_factory=dict)

    def save(self, day: str, rows: Sequence[StorageRow]) -> None:
        with self.database.writing():
            self.days.setdefault(day, {}).update({row.table_uuid: row for row in rows})

    def of(self, day: str) -> Sequence[StorageRow]:
        with self.database.reading():
            rows = self.days.get(day, {}).values()
            return sorted(rows, key=lambda row: (row.table, row.table_uuid))
