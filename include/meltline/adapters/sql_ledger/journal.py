"""What happened: runs, the stop switch, the audit trail, and storage day by day."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from meltline.adapters.sql_ledger.database import THE_ROW, Database
from meltline.adapters.sql_ledger.rows import from_row, to_row
from meltline.adapters.sql_ledger.tables import schema
from meltline.domain.deletion.storage import StorageRow
from meltline.ports import AuditEntry, RunRecord, StopSwitch


class Journal(Database):
    """Facts that people read afterwards (PX-13), and the one switch that they set."""

    def start_run(self, run: RunRecord) -> None:
        """Stores a run; one of the same id that is there already stays (a retry is no new run)."""
        with self._writing() as connection:
            self._insert_new(connection, schema.runs, [to_row(run)])

    def finish_run(self, run: RunRecord) -> None:
        """Stores a run's end and summary, and the run itself where it was never started."""
        ended = update(schema.runs).where(schema.runs.c.id == run.id)
        with self._writing() as connection:
            self._insert_new(connection, schema.runs, [to_row(run)])
            connection.execute(ended.values(ended_at=run.ended_at, summary=run.summary))

    def runs(self, limit: int) -> Sequence[RunRecord]:
        """The newest runs, newest first."""
        newest = (schema.runs.c.started_at.desc(), schema.runs.c.seq.desc())
        with self._reading() as connection:
            rows = connection.execute(select(schema.runs).order_by(*newest).limit(limit)).all()
        return [from_row(RunRecord, row) for row in rows]

    def stopped(self) -> StopSwitch | None:
        """Who holds back every destructive step, if anybody."""
        with self._reading() as connection:
            row = connection.execute(select(schema.stop_switch)).first()
        return None if row is None else from_row(StopSwitch, row)

    def set_stop(self, switch: StopSwitch | None) -> None:
        """Sets the switch, or with None lets everything go on."""
        with self._writing() as connection:
            if switch is None:
                connection.execute(delete(schema.stop_switch))
            else:
                row = {"id": THE_ROW, **to_row(switch)}
                self._upsert(connection, schema.stop_switch, [row])

    def add_audit(self, entry: AuditEntry) -> None:
        """Adds an entry; none is ever changed."""
        with self._writing() as connection:
            connection.execute(insert(schema.audit), to_row(entry))

    def audit(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        """Entries, oldest first, of one object or all, from `since` on."""
        wanted = select(schema.audit).order_by(schema.audit.c.at, schema.audit.c.seq)
        if object:
            wanted = wanted.where(schema.audit.c.object == object)
        if since is not None:
            wanted = wanted.where(schema.audit.c.at >= since)
        with self._reading() as connection:
            return [from_row(AuditEntry, row) for row in connection.execute(wanted)]

    def save_storage(self, day: str, rows: Sequence[StorageRow]) -> None:
        """Stores a day's totals (`YYYY-MM-DD`, UTC), one row per table; a later look replaces."""
        with self._writing() as connection:
            self._upsert(connection, schema.storage, [{"day": day, **to_row(r)} for r in rows])

    def storage(self, day: str) -> Sequence[StorageRow]:
        """A day's totals, by table name."""
        wanted = select(schema.storage).where(schema.storage.c.day == day)
        with self._reading() as connection:
            found = [from_row(StorageRow, row) for row in connection.execute(wanted)]
        return sorted(found, key=lambda row: (row.table, row.table_uuid))
