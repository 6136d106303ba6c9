"""What every part of the ledger stands on: transactions, readiness, and the newest time."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from meltline.access import Access
from meltline.adapters.sql_ledger.engine import WRITES, open_engine, scrubbed, shown
from meltline.adapters.sql_ledger.refusals import not_prepared
from meltline.adapters.sql_ledger.tables.schema import REVISION, current_revision, marks
from meltline.domain.clock import Clock
from meltline.domain.errors import SetupMissing

THE_ROW = 1
"""The key of tables that hold one row."""


class Database:
    """One ledger database.

    Attributes:
        where: The database, for people; holds no secret.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        lease_time: Callable[[], float] = time.time,
        access: Access = Access.OWNER,
    ) -> None:
        """Opens nothing yet.

        Args:
            url: SQLAlchemy URL of an SQLite file or a Postgres database.
            clock: Stamps writes, for `newest_time`; simulated in a sandbox.
            lease_time: Real time in seconds since 1970, for the leases of locks.
            access: Who may read and write a file that it makes.

        Raises:
            ConfigInvalid: The URL is neither.
        """
        self._engine = open_engine(url)
        self._clock = clock
        self._lease_time = lease_time
        self._access = access
        self._ready = False
        self.where = shown(self._engine.url)

    def close(self) -> None:
        """Closes the pooled connections."""
        self._engine.dispose()

    def prepare(self) -> None:
        """Creates or migrates the schema; does nothing the second time.

        Raises:
            SetupMissing: The database cannot be reached, or is of a newer Meltline.
        """
        # Alembic is slow to import, and only this needs it.
        from meltline.adapters.sql_ledger.migrate import (  # noqa: PLC0415
            create_sqlite_file,
            upgrade,
        )

        if file := self._file:
            try:
                create_sqlite_file(file, self._access)
            except Exception as failure:
                raise self._unreachable(failure) from failure
        with self._transaction(writes=True) as connection:
            upgrade(connection, self.where)
        self._ready = True

    def is_prepared(self) -> bool:
        """Whether the schema is there, in this version; never creates anything."""
        if self._ready:
            return True
        if self._file and not self._file.exists():
            return False
        with self._transaction(writes=False) as connection:
            self._ready = current_revision(connection) == REVISION
        return self._ready

    def generation(self) -> int:
        """The ledger's generation; 0 until one is set."""
        with self._reading() as connection:
            return int(connection.execute(select(marks.c.generation)).scalar_one())

    def set_generation(self, number: int) -> None:
        """Sets the generation: which ledger it is (docs/safety.md)."""
        with self._writing() as connection:
            connection.execute(update(marks).values(generation=number))

    def newest_time(self) -> datetime | None:
        """The newest time at which anything was written, by the injected clock."""
        with self._reading() as connection:
            newest: datetime | None = connection.execute(select(marks.c.newest)).scalar_one()
            return newest

    def database_now(self) -> datetime:
        """The database server's clock, to the millisecond; SQLite has the machine's."""
        with self._reading() as connection:
            if connection.dialect.name == "sqlite":
                iso = "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
                return datetime.fromisoformat(connection.execute(text(iso)).scalar_one())
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        moment = moment.astimezone(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._require_prepared()
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def _writing(self, *, marked: bool = True) -> Iterator[Connection]:
        """A transaction that writes. The mark comes last: whoever holds its row needs no other."""
        self._require_prepared()
        with self._transaction(writes=True) as connection:
            yield connection
            if marked:
                now = self._clock.now()
                older = or_(marks.c.newest.is_(None), marks.c.newest < now)
                connection.execute(update(marks).where(older).values(newest=now))

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        with self._connect() as connection:
            try:
                with connection.execution_options(**{WRITES: writes}).begin():
                    yield connection
            except (OperationalError, InterfaceError) as failure:
                # The cause is left out: a driver may quote the connection string.
                raise self._unreachable(failure.orig or failure) from None

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except DBAPIError as failure:
            raise self._unreachable(failure.orig or failure) from None

    def _require_prepared(self) -> None:
        if not self.is_prepared():
            raise not_prepared(self.where)

    def _unreachable(self, failure: BaseException) -> SetupMissing:
        return SetupMissing(
            f"the control ledger at {self.where} does not answer",
            object=self.where,
            expected="a database that can be opened and written",
            found=scrubbed(" ".join(str(failure).split()), self._engine.url),
            next="start the database, or correct `control` in meltline.yaml",
        )

    @property
    def _file(self) -> Path | None:
        """The SQLite file, None for a server."""
        url = self._engine.url
        return Path(url.database or "") if url.get_backend_name() == "sqlite" else None

    def _insert_new(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Inserts rows; those whose unique key is there already stay as they are."""
        if rows:
            connection.execute(_insert(connection, table).on_conflict_do_nothing(), rows)

    def _taken_first(self, connection: Connection, table: Table, row: Mapping[str, object]) -> bool:
        """Inserts a row; False where its key is there already, whoever wrote it first."""
        key = next(iter(table.primary_key))
        insert = _insert(connection, table).on_conflict_do_nothing().returning(key)
        return connection.execute(insert, row).first() is not None

    def _upsert(
        self, connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Inserts rows, or replaces those of the same primary key, in the order of their keys.

        Two writers that take rows in the same order never wait for each other in a circle.
        """
        keys = [column.name for column in table.primary_key]
        newest = {tuple(row[key] for key in keys): row for row in rows}
        if not newest:
            return
        insert = _insert(connection, table)
        values = {c.name: c for c in insert.excluded if c.name not in keys}
        statement = insert.on_conflict_do_update(index_elements=keys, set_=values)
        connection.execute(statement, [newest[key] for key in sorted(newest)])


def _insert(connection: Connection, table: Table) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)
