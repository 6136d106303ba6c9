"""The SQL (JDBC) catalog that Spark and PyIceberg share, read and changed row by row.

Its rows alone give the current metadata file of every table, so an unchanged table costs no file
read. Never creates the catalog's database tables: a missing catalog is an error, not an empty one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, create_engine, delete, select, update
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from meltline.adapters.catalogs.connection_errors import no_answer, unlistable
from meltline.adapters.catalogs.sql_rows import (
    EXISTS,
    Moved,
    Moves,
    Properties,
    dotted,
    is_table,
    lacks_views,
    reflect,
    row_of,
)
from meltline.adapters.catalogs.table_commits import (
    a_view,
    commit_edit,
    fate_unknown,
    no_table,
    not_as_expected,
    require_writable,
)
from meltline.adapters.catalogs.table_renames import (
    MoveStep,
    Namespaces,
    commit_moves,
    first_files,
    name_taken,
    registrable,
)
from meltline.config.load import CatalogConfig
from meltline.domain.clock import Clock, WallClock
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    MetadataFiles,
    NewTable,
    OtherOwner,
    TableEdit,
    TableMove,
)
from meltline.retries import until_done

_EXPECTED = "a database with the tables iceberg_tables and iceberg_namespace_properties"
_CONNECTS_WITHIN = 30  # seconds; a restart of the server may take as long


def may_migrate(config: CatalogConfig) -> bool:
    """Returns whether an engine that asks for schema version V1 would alter existing tables.

    By default an engine keeps V1 where it finds it, and uses V0 for a new catalog. An unknown
    version counts as V0: Meltline never changes a catalog in passing.
    """
    engine = open_database(config.uri)
    try:
        if _is_absent(engine):
            return False
        with engine.connect() as connection:
            return lacks_views(connection)
    except SQLAlchemyError:
        return True
    finally:
        engine.dispose()


def open_database(uri: str) -> Engine:
    """Creates the engine for a catalog's database, and opens nothing yet.

    Pings a pooled connection before using it again: a server that was restarted meanwhile does not
    make the catalog unlistable.
    """
    url = make_url(uri)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername.startswith("sqlite"):
        arguments = {"timeout": 30}
    else:
        arguments = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECTS_WITHIN}
    return create_engine(url, connect_args=arguments, hide_parameters=True, pool_pre_ping=True)


def _is_absent(engine: Engine) -> bool:
    database = engine.url.database
    return engine.dialect.name == "sqlite" and not (database and Path(database).is_file())


class SqlTables:
    """A SQL catalog.

    Args:
        config: Its configuration, with the database's URI.
        store: The store of its tables' metadata files.
        clock: Dates commits. Real even in a sandbox: engines refuse metadata whose commits lie in
            the future.
    """

    def __init__(
        self, config: CatalogConfig, store: MetadataFiles, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._store = store
        self._clock = clock or WallClock()
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def observe_only(self) -> bool:
        return self._config.observe_only

    @property
    def hindrance(self) -> str:
        """Returns an empty text: a SQL catalog can always be changed. See the port."""
        return ""

    def close(self) -> None:
        """Closes the pooled connections."""
        if self._engine is not None:
            self._engine.dispose()

    def listing(self) -> CatalogListing:
        """Returns all tables and namespaces, from one read transaction.

        Raises:
            CatalogUnlistable: The database or its tables do not exist, or cannot be read.
        """
        try:
            with self._begin() as connection:
                tables, properties = reflect(connection)
                rows = self._rows(connection, tables)
                entries = [self._catalog_entry(row) for row in rows if is_table(row)]
                namespaces = self._namespaces(connection, properties)
        except MeltlineError:
            raise
        except Exception as error:
            raise self._silent(error) from error
        for listed in entries:
            for depth in range(1, len(listed.name.namespace) + 1):
                namespaces.setdefault(listed.name.namespace[:depth], {})
        return CatalogListing(tuple(sorted(entries, key=lambda e: e.name)), namespaces)

    def other_owners(self) -> Sequence[OtherOwner]:
        """Returns the views of Java's clients, which share a database table with tables.

        See the port.
        """
        try:
            with self._begin() as connection:
                tables, _ = reflect(connection)
                rows = self._rows(connection, tables)
                return [_owner(self.name, row) for row in rows if not is_table(row)]
        except MeltlineError:
            raise
        except Exception as error:
            raise self._silent(error) from error

    def _rows(self, connection: Connection, tables: Table) -> Sequence[Mapping[Any, Any]]:
        ours = select(tables).where(tables.c.catalog_name == self._config.catalog_name)
        return connection.execute(ours).mappings().all()

    def _silent(self, error: Exception) -> CatalogUnlistable:
        return no_answer(self.name, _EXPECTED, getattr(error, "orig", None) or error)

    def _unlistable(self, reason: str) -> CatalogUnlistable:
        return unlistable(self.name, _EXPECTED, reason, "check its uri and database")

    def _begin(self) -> Any:
        if self._engine is None:
            self._engine = open_database(self._config.uri)
        if _is_absent(self._engine):
            # SQLite would create an empty catalog, in which every table is gone.
            raise self._unlistable(f"no database file at {self._engine.url.database}")
        return self._engine.begin()

    def _catalog_entry(self, row: Mapping[Any, Any]) -> CatalogEntry:
        name = _name_of(self.name, row)
        if not row["metadata_location"]:
            raise self._unlistable(f"no metadata location for {name}")
        return CatalogEntry(name, row["metadata_location"])

    def _namespaces(
        self, connection: Connection, properties: Table
    ) -> dict[tuple[str, ...], dict[str, str]]:
        namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        rows = connection.execute(
            select(properties).where(properties.c.catalog_name == self._config.catalog_name)
        ).mappings()
        for row in rows:
            texts = namespaces.setdefault(tuple(row["namespace"].split(".")), {})
            if row["property_key"] != EXISTS:
                texts[row["property_key"]] = row["property_value"] or ""
        return namespaces

    def location(self, name: TableName) -> str:
        """Returns a table's current metadata file.

        Raises:
            TableNotFound: The catalog has no such table.
        """
        try:
            with self._begin() as connection:
                tables, _ = reflect(connection)
                rows = connection.execute(select(tables).where(*self._row_of(tables, name)))
                row = rows.mappings().first()
        except SQLAlchemyError as error:
            raise self._silent(error) from error
        if row is not None and not is_table(row):
            raise a_view(name)
        if row is not None and row["metadata_location"]:
            return str(row["metadata_location"])
        raise no_table(self.name, name)

    def edit_table(self, name: TableName, edit: TableEdit) -> str:
        """Changes a table's metadata, unknown fields kept, and swaps it in. See the port."""
        require_writable(self)
        return commit_edit(self, self._store, name, edit, self._clock)

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        self.edit_table(name, lambda document: document.set_properties(updates, removals))

    def swap(self, name: TableName, base: str, new: str) -> bool:
        """Points a table at a new metadata file if its current one is still the base.

        Raises:
            CommitConflict: The database failed, and the outcome is unknown.
        """
        try:
            with self._begin() as connection:
                tables, _ = reflect(connection)
                done = connection.execute(
                    update(tables)
                    .where(*self._row_of(tables, name), tables.c.metadata_location == base)
                    .values(metadata_location=new, previous_metadata_location=base)
                )
                return bool(done.rowcount == 1)
        except SQLAlchemyError as failure:
            raise fate_unknown(name, type(failure).__name__) from failure

    def move(
        self,
        moves: Sequence[TableMove],
        *,
        create: Namespaces | None = None,
        remove: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Renames tables in one transaction. See the port."""
        require_writable(self)
        commit_moves(self, self._store, moves, create or {}, remove, self._clock)

    def apply(
        self, steps: Sequence[MoveStep], create: Namespaces, remove: Sequence[tuple[str, ...]]
    ) -> bool:
        """Moves rows in one transaction. See `table_renames.Rows`.

        Raises:
            CommitConflict: The database failed, and the outcome is unknown.
        """
        try:
            with self._begin() as connection:
                Moves(connection, self._config.catalog_name, self.name).apply(steps, create, remove)
        except (Moved, IntegrityError):  # another process inserted the namespace's row meanwhile
            return False
        except SQLAlchemyError as failure:
            subject = steps[0].source if steps else TableName(self.name, (), "")
            raise fate_unknown(subject, type(failure).__name__) from failure
        return True

    def register(
        self, name: TableName, metadata_location: str, edit: TableEdit | None = None
    ) -> None:
        """Registers a metadata file under a name. See the port.

        Raises:
            CommitConflict: The database failed, and the outcome is unknown.
        """
        require_writable(self)
        with registrable(self._store, name, metadata_location, edit, self._clock) as location:
            self._insert({name: location}, {})

    def create(
        self, tables: Sequence[NewTable], namespaces: Namespaces | None = None
    ) -> Mapping[TableName, str]:
        """Registers new tables in one transaction. See the port."""
        require_writable(self)
        with first_files(self._store, tables, self._clock) as at:
            self._insert(at, namespaces or {})
        return at

    def _insert(self, at: Mapping[TableName, str], namespaces: Namespaces) -> None:
        subject = next(iter(at), TableName(self.name, (), ""))

        def attempt() -> bool | None:
            try:
                with self._begin() as connection:
                    Moves(connection, self._config.catalog_name, self.name).create(at, namespaces)
            except IntegrityError:  # another process inserted the namespace's row meanwhile
                return None
            except SQLAlchemyError as failure:
                raise fate_unknown(subject, type(failure).__name__) from failure
            return True

        if not until_done(attempt):
            raise name_taken(subject)

    def unregister(self, name: TableName, metadata_location: str) -> bool:
        """Deletes a table's row if its metadata file is still the given one. See the port."""
        require_writable(self)
        with self._begin() as connection:
            tables, _ = reflect(connection)
            where = (*self._row_of(tables, name), tables.c.metadata_location == metadata_location)
            return bool(connection.execute(delete(tables).where(*where)).rowcount == 1)

    def _row_of(self, tables: Table, name: TableName) -> tuple[Any, Any, Any]:
        return row_of(tables, self._config.catalog_name, name)

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        """Sets and removes properties of a namespace in one transaction. See the port."""
        require_writable(self)
        changes = {**dict.fromkeys(removals), **updates}
        try:
            with self._begin() as connection:
                _, properties = reflect(connection)
                rows = Properties(connection, properties, self._config.catalog_name, namespace)
                rows.require(expected or {})
                absent = {key for key, text in (expected or {}).items() if text is None}
                for key, text in changes.items():
                    if key in absent and text is not None:
                        rows.insert({key: text})  # the primary key decides a race
                    else:
                        rows.put(key, text)
                rows.put(EXISTS, "true")
        except IntegrityError as raced:
            raise not_as_expected(dotted(namespace), ", ".join(changes), None, "another") from raced


def _name_of(catalog: str, row: Mapping[Any, Any]) -> TableName:
    return TableName(catalog, tuple(row["table_namespace"].split(".")), row["table_name"])


def _owner(catalog: str, row: Mapping[Any, Any]) -> OtherOwner:
    kind, at = str(row["iceberg_type"]).lower(), str(row["metadata_location"] or "")
    return OtherOwner(_name_of(catalog, row), kind, metadata_location=at)
