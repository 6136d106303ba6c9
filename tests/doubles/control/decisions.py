"""Decisions, the epochs that they raised, and incidents, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from meltline.domain.epochs import Epoch, newest_confirmed
from meltline.domain.iceberg.names import TableName
from meltline.ports import DisownedTime, GuardKind, GuardRecord, Incident, VouchedFile
from tests.doubles.control.database import MemoryDatabase
from tests.doubles.control.locks import MemoryLockRows


@dataclass
class MemoryDecisions:
    """The port `Decisions`."""

    database: MemoryDatabase
    locks: MemoryLockRows
    words: list[DisownedTime] = field(default_factory=list)
    vouched_files: dict[TableName, VouchedFile] = field(default_factory=dict)
    guard_records: dict[tuple[str, GuardKind], GuardRecord] = field(default_factory=dict)

    def disowned_times(self) -> Sequence[DisownedTime]:
        with self.database.reading():
            return list(self.words)

    def disown_time(self, word: DisownedTime) -> bool:
        with self.database.reading():
            if self.database.newest != word.recorded:
                return False
            self.database.newest = word.at
            self.words.append(word)
            self.locks.free_to_come()
            return True

    def vouched(self) -> Sequence[VouchedFile]:
        with self.database.reading():
            return [self.vouched_files[table] for table in sorted(self.vouched_files)]

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        with self.database.writing():
            self.vouched_files.update({file.table: file for file in files})

    def forget_vouched(self, table: TableName) -> bool:
        with self.database.writing():
            return self.vouched_files.pop(table, None) is not None

    def guards(self) -> Sequence[GuardRecord]:
        with self.database.reading():
            return [self.guard_records[key] for key in sorted(self.guard_records)]

    def save_guard(self, record: GuardRecord) -> None:
        with self.database.writing():
            self.guard_records[record.table_uuid, record.kind] = record

    def forget_guard(self, table_uuid: str, kind: GuardKind) -> None:
        with self.database.writing():
            self.guard_records.pop((table_uuid, kind), None)


@dataclass
class MemoryEpochs:
    """The port `EpochLedger`."""

    database: MemoryDatabase
    rows: dict[str, Epoch] = field(default_factory=dict)

    def since(self, number: int | None = None) -> Sequence[Epoch]:
        with self.database.reading():
            epochs = sorted(self.rows.values(), key=lambda epoch: (epoch.number, epoch.nonce))
            first = newest_confirmed(epochs) if number is None else number
            return [epoch for epoch in epochs if epoch.number >= first]

    def add(self, epoch: Epoch) -> None:
        with self.database.writing():
            self.rows[epoch.nonce] = epoch

    def confirm(self, nonce: str) -> None:
        with self.database.writing():
            self.rows[nonce] = replace(self.rows[nonce], confirmed=True)

    def has(self, why: str) -> bool:
        with self.database.reading():
            return any(epoch.why == why and epoch.confirmed for epoch in self.rows.values())


@dataclass
class MemoryIncidents:
    """The port `IncidentLedger`."""

    database: MemoryDatabase
    rows: dict[str, Incident] = field(default_factory=dict)

    def all(self) -> Sequence[Incident]:
        with self.database.reading():
            return sorted(self.rows.values(), key=lambda i: (i.at, i.id))

    def add(self, incidents: Sequence[Incident]) -> None:
        with self.database.writing():
            for incident in incidents:
                self.rows.setdefault(incident.id, incident)

    def end(self, ids: Sequence[str]) -> None:
        with self.database.writing():
            for id in ids:
                self.rows.pop(id, None)
