"""What was decided about tables and holds until it is taken back."""

from collections.abc import Sequence

from sqlalchemy import delete, select

from meltline.adapters.sql_ledger import schema
from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, to_row
from meltline.domain.names import TableName
from meltline.ports import VouchedFile


class DecisionRows(Database):
    """The port `Decisions`."""

    def vouched(self) -> Sequence[VouchedFile]:
        """Every word that was given and not taken back, by table."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.vouched)).all()
        return sorted((from_row(VouchedFile, row) for row in rows), key=lambda one: one.table)

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        """Stores words, all or none; a table's earlier word is replaced."""
        with self._writing() as connection:
            self._upsert(connection, schema.vouched, [to_row(one) for one in files])

    def forget_vouched(self, table: TableName) -> bool:
        """Takes a table's word back; False where there was none."""
        with self._writing() as connection:
            of_table = schema.vouched.c.table == table
            return bool(connection.execute(delete(schema.vouched).where(of_table)).rowcount)

    def lifted_guards(self) -> frozenset[str]:
        """Tables, by UUID, that share no file any more and were not cloned since."""
        with self._reading() as connection:
            found = connection.execute(select(schema.lifted_guards.c.table_uuid)).scalars()
            return frozenset(found)

    def save_lifted_guard(self, table_uuid: str) -> None:
        """Remembers that a table shares no file any more."""
        with self._writing() as connection:
            self._insert_new(connection, schema.lifted_guards, [{"table_uuid": table_uuid}])

    def forget_lifted_guard(self, table_uuid: str) -> None:
        """The table is about to share files again."""
        of_table = schema.lifted_guards.c.table_uuid == table_uuid
        with self._writing() as connection:
            connection.execute(delete(schema.lifted_guards).where(of_table))
