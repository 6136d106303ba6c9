"""Stores operators' decisions that apply until they are revoked, and the epochs they start."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.parts.locks import LockRows
from meltline.adapters.sql_ledger.rows import to_row
from meltline.adapters.sql_ledger.tables import decision_tables as tables
from meltline.adapters.sql_ledger.tables.decision_tables import epochs
from meltline.adapters.sql_ledger.tables.schema import marks
from meltline.domain.epochs import Epoch
from meltline.domain.iceberg.names import TableName
from meltline.ports import DisownedTime, GuardKind, GuardRecord, VouchedFile


@dataclass(frozen=True)
class DecisionRows:
    """The port `Decisions`."""

    database: Database
    locks: LockRows

    def disowned_times(self) -> Sequence[DisownedTime]:
        query = select(tables.disowned_times).order_by(tables.disowned_times.c.seq)
        return self.database.records(DisownedTime, query)

    def disown_time(self, word: DisownedTime) -> bool:
        newest = update(marks).where(marks.c.newest == word.recorded).values(newest=word.at)
        with self.database.writing(marked=False) as connection:
            if not connection.execute(newest).rowcount:
                return False
            connection.execute(insert(tables.disowned_times), to_row(word))
            self.locks.free_to_come(connection)
        return True

    def vouched(self) -> Sequence[VouchedFile]:
        files = self.database.records(VouchedFile, select(tables.vouched))
        return sorted(files, key=lambda file: file.table)

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        self.database.save(tables.vouched, [to_row(file) for file in files])

    def forget_vouched(self, table: TableName) -> bool:
        of_table = tables.vouched.c.table == table
        return bool(self.database.change(delete(tables.vouched).where(of_table)))

    def guards(self) -> Sequence[GuardRecord]:
        records = self.database.records(GuardRecord, select(tables.guards))
        return sorted(records, key=lambda record: (record.table_uuid, record.kind))

    def save_guard(self, record: GuardRecord) -> None:
        self.database.save(tables.guards, [to_row(record)])

    def forget_guard(self, table_uuid: str, kind: GuardKind) -> None:
        guards = tables.guards
        one = (guards.c.table_uuid == table_uuid) & (guards.c.kind == kind)
        self.database.change(delete(guards).where(one))


@dataclass(frozen=True)
class EpochRows:
    """The port `EpochLedger`."""

    database: Database

    def since(self, number: int | None = None) -> Sequence[Epoch]:
        newest = select(func.coalesce(func.max(epochs.c.number), 0)).where(epochs.c.confirmed)
        first = newest.scalar_subquery() if number is None else number
        query = select(epochs).where(epochs.c.number >= first)
        return self.database.records(Epoch, query.order_by(epochs.c.number, epochs.c.nonce))

    def add(self, epoch: Epoch) -> None:
        self.database.change(insert(epochs).values(to_row(epoch)))

    def confirm(self, nonce: str) -> None:
        self.database.change(update(epochs).where(epochs.c.nonce == nonce).values(confirmed=True))

    def has(self, why: str) -> bool:
        query = select(epochs.c.nonce).where(epochs.c.why == why, epochs.c.confirmed).limit(1)
        with self.database.reading() as connection:
            return connection.execute(query).first() is not None
