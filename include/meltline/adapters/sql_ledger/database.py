"""Ledger database: transactions, readiness, and the newest recorded time.

Every part of the ledger shares it.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    Select,
    Table,
    create_engine,
    event,
    func,
    make_url,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from meltline.adapters.sql_ledger.refusals import not_prepared
from meltline.adapters.sql_ledger.rows import R, from_row, insert_new, upsert
from meltline.adapters.sql_ledger.tables.schema import REVISION, current_revision, marks
from meltline.domain.clock import Clock
from meltline.domain.errors import ConfigInvalid, SetupMissing
from meltline.file_permissions import Access

BUSY_SECONDS = 30
WRITES = "meltline_writes"
"""Execution option of a connection that is about to write."""


def open_engine(url: str) -> Engine:
    """Creates an engine for a `control` URL, and opens nothing yet.

    Raises:
        ConfigInvalid: It is no URL of an SQLite file or a Postgres database.
    """
    parsed = _parse(url)
    return _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)


def shown(url: URL) -> str:
    """Formats a ledger's location for messages, without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{url.host or 'localhost'}{port}/{url.database or ''}"


def scrubbed(text: str, url: URL) -> str:
    """Removes the secrets of the URL from a driver's message, which may repeat them."""
    secrets = [url.password, url.query.get("password"), url.query.get("sslpassword")]
    for secret in secrets:
        if secret:
            text = text.replace(str(secret), "***")
    return text


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        backend = ""
    if backend in ("postgresql", "postgres") or (
        backend == "sqlite" and parsed.database not in (None, "", ":memory:")
    ):
        return parsed
    # The cause is left out: it can quote the part of the URL with the password.
    raise ConfigInvalid(
        "the control ledger's URL cannot be used",
        object="control",
        expected="sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        found=f"a URL of {backend}" if backend else "not a URL (not shown: it may hold a password)",
        next="correct `control` in meltline.yaml; percent-encode odd letters of the password",
    ) from None


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url.set(drivername="sqlite"), connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions on its own
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A reader that becomes a writer fails at once after a concurrent write: writers queue here.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres(url: URL) -> Engine:
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_size=2,  # the work and its lock's heartbeat
        connect_args={} if "connect_timeout" in url.query else {"connect_timeout": BUSY_SECONDS},
    )

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")

    return engine


class Database:
    """One ledger database.

    Attributes:
        where: The database, for messages; contains no secret.
        clock: Stamps writes.
    """

    def __init__(self, url: str, clock: Clock, access: Access = Access.OWNER) -> None:
        """Opens nothing yet.

        Args:
            url: SQLAlchemy URL of an SQLite file or a Postgres database.
            clock: Stamps writes, for `newest_time`; simulated in a sandbox.
            access: File permissions of a file that it creates.

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
            SetupMissing: The database cannot be reached, or belongs to a newer Meltline.
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
        """Returns whether the schema exists in this version; never creates anything."""
        if self._ready:
            return True
        if self._file and not self._file.exists():
            return False
        with self._transaction(writes=False) as connection:
            self._ready = current_revision(connection) == REVISION
        return self._ready

    def records(self, kind: type[R], query: Select[Any]) -> list[R]:
        """Returns the records of a query's rows, in their order."""
        with self.reading() as connection:
            return [from_row(kind, row) for row in connection.execute(query)]

    def record(self, kind: type[R], query: Select[Any]) -> R | None:
        """Returns the record of a query's first row; None if it has no row."""
        return next(iter(self.records(kind, query.limit(1))), None)

    def save(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Upserts rows by their primary key."""
        with self.writing() as connection:
            upsert(connection, table, rows)

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Inserts rows; existing keys keep their rows."""
        with self.writing() as connection:
            insert_new(connection, table, rows)

    def change(self, statement: Executable) -> int:
        """Executes a statement and returns how many rows it changed."""
        with self.writing() as connection:
            return connection.execute(statement).rowcount

    def generation(self) -> int:
        """Returns the ledger's generation; 0 until one is set."""
        with self.reading() as connection:
            return int(connection.execute(select(marks.c.generation)).scalar_one())

    def set_generation(self, number: int) -> None:
        """Sets the ledger's generation, which identifies it (docs/safety.md)."""
        self.change(update(marks).values(generation=number))

    def newest_time(self) -> datetime | None:
        """Returns the newest time of any write, by the injected clock."""
        with self.reading() as connection:
            newest: datetime | None = connection.execute(select(marks.c.newest)).scalar_one()
            return newest

    def now(self) -> datetime:
        """Returns the database server's time, to the millisecond; on SQLite the machine's."""
        with self.reading() as connection:
            if connection.dialect.name == "sqlite":
                iso = "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
                return datetime.fromisoformat(connection.execute(text(iso)).scalar_one())
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        moment = moment.astimezone(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens a transaction that only reads."""
        self._require_prepared()
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self, *, marked: bool = True) -> Iterator[Connection]:
        """Opens a transaction that writes.

        Updates the mark last: the holder of its row locks no other.
        """
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
        """The SQLite file; None for a server."""
        url = self._engine.url
        return Path(url.database or "") if url.get_backend_name() == "sqlite" else None
