"""What was decided about tables and holds until it is taken back."""

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, to_row
from meltline.adapters.sql_ledger.tables import decision_tables as tables
from meltline.adapters.sql_ledger.tables.schema import locks, marks
from meltline.domain.iceberg.names import TableName
from meltline.ports import DisownedTime, VouchedFile


class DecisionRows(Database):
    """The port `Decisions`."""

    def disowned_times(self) -> Sequence[DisownedTime]:
        """Every word that a recorded time was a wrong clock's, the oldest first."""
        wanted = select(tables.disowned_times).order_by(tables.disowned_times.c.seq)
        with self._reading() as connection:
            return [from_row(DisownedTime, row) for row in connection.execute(wanted)]

    def disown_time(self, word: DisownedTime) -> bool:
        """Stores a word, and has `newest_time` go back to it where it is still that time."""
        newest = update(marks).where(marks.c.newest == word.recorded).values(newest=word.at)
        to_come = update(locks).where(locks.c.since > int(self._lease_time() * 1000))
        with self._writing(marked=False) as connection:
            if not connection.execute(newest).rowcount:
                return False
            connection.execute(insert(tables.disowned_times), to_row(word))
            connection.execute(to_come.values(holder="", lease_until=0))
        return True

    def vouched(self) -> Sequence[VouchedFile]:
        """Every word that was given and not taken back, by table."""
        with self._reading() as connection:
            rows = connection.execute(select(tables.vouched)).all()
        return sorted((from_row(VouchedFile, row) for row in rows), key=lambda one: one.table)

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        """Stores words, all or none; a table's earlier word is replaced."""
        with self._writing() as connection:
            self._upsert(connection, tables.vouched, [to_row(one) for one in files])

    def forget_vouched(self, table: TableName) -> bool:
        """Takes a table's word back; False where there was none."""
        with self._writing() as connection:
            of_table = tables.vouched.c.table == table
            return bool(connection.execute(delete(tables.vouched).where(of_table)).rowcount)

    def lifted_guards(self) -> frozenset[str]:
        """Tables, by UUID, that share no file any more and were not cloned since."""
        with self._reading() as connection:
            found = connection.execute(select(tables.lifted_guards.c.table_uuid)).scalars()
            return frozenset(found)

    def save_lifted_guard(self, table_uuid: str) -> None:
        """Remembers that a table shares no file any more."""
        with self._writing() as connection:
            self._insert_new(connection, tables.lifted_guards, [{"table_uuid": table_uuid}])

    def forget_lifted_guard(self, table_uuid: str) -> None:
        """The table is about to share files again."""
        of_table = tables.lifted_guards.c.table_uuid == table_uuid
        with self._writing() as connection:
            connection.execute(delete(tables.lifted_guards).where(of_table))
