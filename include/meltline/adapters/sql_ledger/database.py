"""Ledger database: transactions, readiness, and the newest recorded time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Executable, Select, Table, func, or_, select, text, update
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from meltline.adapters.sql_ledger.engine import WRITES, open_engine, scrubbed, shown
from meltline.adapters.sql_ledger.refusals import not_prepared
from meltline.adapters.sql_ledger.rows import R, from_row, insert_new, upsert
from meltline.adapters.sql_ledger.tables.schema import REVISION, current_revision, marks
from meltline.domain.clock import Clock
from meltline.domain.errors import SetupMissing
from meltline.file_permissions import Access


class Database:
    """One ledger database.

    Attributes:
        where: The database, for people; holds no secret.
        clock: Stamps writes.
    """

    def __init__(self, url: str, clock: Clock, access: Access = Access.OWNER) -> None:
        """Opens nothing yet.

        Args:
            url: SQLAlchemy URL of an SQLite file or a Postgres database.
            clock: Stamps writes, for `newest_time`; simulated in a sandbox.
            access: Who may read and write a file that it makes.

        Raises:
            ConfigInvalid: The URL is neither.
        """
        self._engine = open_engine(url)
        self.clock = clock
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
        """Whether the schema exists in this version; never creates anything."""
        if self._ready:
            return True
        if self._file and not self._file.exists():
            return False
        with self._transaction(writes=False) as connection:
            self._ready = current_revision(connection) == REVISION
        return self._ready

    def records(self, kind: type[R], query: Select[Any]) -> list[R]:
        """The records of a query's rows, in their order."""
        with self.reading() as connection:
            return [from_row(kind, row) for row in connection.execute(query)]

    def record(self, kind: type[R], query: Select[Any]) -> R | None:
        """The record of a query's first row; None where it has none."""
        return next(iter(self.records(kind, query.limit(1))), None)

    def save(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Stores rows, each replaces the one with its key."""
        with self.writing() as connection:
            upsert(connection, table, rows)

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Stores rows; those whose key is there already stay as they are."""
        with self.writing() as connection:
            insert_new(connection, table, rows)

    def change(self, statement: Executable) -> int:
        """Carries a statement out, and tells how many rows it changed."""
        with self.writing() as connection:
            return connection.execute(statement).rowcount

    def generation(self) -> int:
        """The ledger's generation; 0 until one is set."""
        with self.reading() as connection:
            return int(connection.execute(select(marks.c.generation)).scalar_one())

    def set_generation(self, number: int) -> None:
        """Sets the generation: which ledger it is (docs/safety.md)."""
        self.change(update(marks).values(generation=number))

    def newest_time(self) -> datetime | None:
        """The newest time at which anything was written, by the injected clock."""
        with self.reading() as connection:
            newest: datetime | None = connection.execute(select(marks.c.newest)).scalar_one()
            return newest

    def now(self) -> datetime:
        """The database server's clock, to the millisecond; SQLite has the machine's."""
        with self.reading() as connection:
            if connection.dialect.name == "sqlite":
                iso = "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
                return datetime.fromisoformat(connection.execute(text(iso)).scalar_one())
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        moment = moment.astimezone(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        self._require_prepared()
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self, *, marked: bool = True) -> Iterator[Connection]:
        """A transaction that writes. The mark comes last: whoever holds its row needs no other."""
        self._require_prepared()
        with self._transaction(writes=True) as connection:
            yield connection
            if marked:
                now = self.clock.now()
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
