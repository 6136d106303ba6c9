"""Runs, the stop switch, the audit and storage totals, in memory: half of the control ledger."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from threading import RLock

from meltline.adapters.sql_ledger import refusals
from meltline.domain.clock import Clock
from meltline.domain.deletion.storage import StorageRow
from meltline.ports import AuditEntry, RunRecord, StopSwitch


class MemoryJournal:
    """What was run, decided and counted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = RLock()
        self._prepared = False
        self._newest: datetime | None = None
        self._runs: dict[str, RunRecord] = {}
        self._stop: StopSwitch | None = None
        self._audit: list[AuditEntry] = []
        self._storage: dict[str, dict[str, StorageRow]] = {}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._guard:
            if not self._prepared:
                raise refusals.not_prepared("memory")
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._reading():
            yield
            now = self._clock.now()
            self._newest = now if self._newest is None else max(self._newest, now)

    def start_run(self, run: RunRecord) -> None:
        with self._writing():
            self._runs.setdefault(run.id, run)

    def finish_run(self, run: RunRecord) -> None:
        with self._writing():
            started = self._runs.get(run.id, run)
            self._runs[run.id] = replace(started, ended_at=run.ended_at, summary=run.summary)

    def runs(self, limit: int) -> Sequence[RunRecord]:
        with self._reading():
            newest = sorted(reversed(self._runs.values()), key=lambda r: r.started_at, reverse=True)
            return newest[:limit]

    def stopped(self) -> StopSwitch | None:
        with self._reading():
            return self._stop

    def set_stop(self, switch: StopSwitch | None) -> None:
        with self._writing():
            self._stop = switch

    def add_audit(self, entry: AuditEntry) -> None:
        with self._writing():
            self._audit.append(entry)

    def audit(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]:
        with self._reading():
            found = [
                entry
                for entry in self._audit
                if object in ("", entry.object) and (since is None or entry.at >= since)
            ]
        return sorted(found, key=lambda entry: entry.at)

    def save_storage(self, day: str, rows: Sequence[StorageRow]) -> None:
        with self._writing():
            self._storage.setdefault(day, {}).update({row.table_uuid: row for row in rows})

    def storage(self, day: str) -> Sequence[StorageRow]:
        with self._reading():
            rows = self._storage.get(day, {}).values()
            return sorted(rows, key=lambda row: (row.table, row.table_uuid))
