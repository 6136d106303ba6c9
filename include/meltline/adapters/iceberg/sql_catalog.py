"""The SQL (JDBC) catalog that Spark and PyIceberg share, read and changed row by row.

Its rows alone say where every table stands, so that a table which has not moved costs no file
read. The tables are never created here: a catalog that is not there is an error, not an empty one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, MetaData, Table, create_engine, delete, insert, select, update
from sqlalchemy.engine import Engine, make_url

from meltline.config import CatalogConfig
from meltline.domain.clock import WallClock
from meltline.domain.errors import CatalogUnlistable, MeltlineError, TableNotFound
from meltline.domain.names import TableName
from meltline.domain.quantities import to_millis
from meltline.ports import CatalogEntry, CatalogListing, ObjectStore

_DEFAULT_LOG_LENGTH = 100


class SqlTables:
    """A SQL catalog."""

    def __init__(self, config: CatalogConfig, store: ObjectStore) -> None:
        self._config = config
        self._store = store
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """The catalog's name in `meltline.yaml`."""
        return self._config.name

    @property
    def observe_only(self) -> bool:
        """Whether it is read for reachability and never changed."""
        return self._config.observe_only

    def listing(self) -> CatalogListing:
        """All tables and namespaces, from one read transaction.

        Raises:
            CatalogUnlistable: The database or its tables are not there, or cannot be read.
        """
        try:
            with self._begin() as connection:
                tables, properties = _reflect(connection)
                rows = connection.execute(
                    select(tables).where(tables.c.catalog_name == self._config.catalog_name)
                ).mappings()
                entries = [self._entry(row) for row in rows if _is_table(row)]
                namespaces = self._namespaces(connection, properties)
        except MeltlineError:
            raise
        except Exception as odd:
            raise self._unlistable(f"{type(odd).__name__}") from odd
        for entry in entries:
            for depth in range(1, len(entry.name.namespace) + 1):
                namespaces.setdefault(entry.name.namespace[:depth], {})
        return CatalogListing(tuple(sorted(entries, key=lambda e: e.name)), namespaces)

    def _unlistable(self, found: str) -> CatalogUnlistable:
        return CatalogUnlistable(
            f"catalog {self.name} could not be listed completely",
            object=self.name,
            expected="a database with the tables iceberg_tables and iceberg_namespace_properties",
            found=found,
            next="nothing is deleted anywhere until it can be listed; check its uri and database",
        )

    def _begin(self) -> Any:
        if self._engine is None:
            url = make_url(self._config.uri)
            if url.drivername == "postgresql":
                url = url.set(drivername="postgresql+psycopg")
            arguments = {"timeout": 30} if url.drivername.startswith("sqlite") else {}
            self._engine = create_engine(url, connect_args=arguments, hide_parameters=True)
        database = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and not (database and Path(database).is_file()):
            # SQLite would make an empty catalog, in which every table is gone.
            raise self._unlistable(f"no database file at {database}")
        return self._engine.begin()

    def _entry(self, row: Mapping[Any, Any]) -> CatalogEntry:
        namespace = tuple(row["table_namespace"].split("."))
        name = TableName(self.name, namespace, row["table_name"])
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
            found = namespaces.setdefault(tuple(row["namespace"].split(".")), {})
            if row["property_key"] != "exists":  # the marker that a namespace without any has
                found[row["property_key"]] = row["property_value"] or ""
        return namespaces

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Sets and removes table properties: the metadata document edited, swapped by CAS."""

        def edit(document: dict[str, Any]) -> None:
            properties = document.setdefault("properties", {})
            properties.update(updates)
            for key in removals:
                properties.pop(key, None)

        self.edit_metadata(name, edit)

    def edit_metadata(self, name: TableName, edit: Callable[[dict[str, Any]], None]) -> str:
        """Changes a table's metadata without a JVM; unknown fields are kept.

        Returns:
            The new metadata file's location.

        Raises:
            TableNotFound: The catalog has no such table.
            MeltlineError: Somebody else committed meanwhile, three times in a row.
        """
        for _ in range(3):
            base = self._location(name)
            document = json.loads(self._store.read(base))
            edit(document)
            _append_to_log(document, base)
            new = _next_location(base)
            self._store.write(new, json.dumps(document).encode())
            if self._swap(name, base, new):
                return new
            self._store.delete([new])
        raise MeltlineError(
            f"{name} changed each time its metadata was to be swapped",
            object=str(name),
            expected="the table to stand still for a moment",
            found="three commits of others",
            next="run the command again",
        )

    def _location(self, name: TableName) -> str:
        for entry in self.listing().entries:
            if entry.name == name:
                return entry.metadata_location
        raise TableNotFound(
            f"catalog {self.name} has no table {name}",
            object=str(name),
            next="`meltline storage` lists the tables",
        )

    def _swap(self, name: TableName, base: str, new: str) -> bool:
        with self._begin() as connection:
            tables, _ = _reflect(connection)
            done = connection.execute(
                update(tables)
                .where(
                    tables.c.catalog_name == self._config.catalog_name,
                    tables.c.table_namespace == ".".join(name.namespace),
                    tables.c.table_name == name.name,
                    tables.c.metadata_location == base,
                )
                .values(metadata_location=new, previous_metadata_location=base)
            )
            return bool(done.rowcount == 1)

    def set_namespace_properties(
        self, namespace: tuple[str, ...], updates: Mapping[str, str]
    ) -> None:
        """Sets properties on a namespace and creates it when it is not there."""
        with self._begin() as connection:
            _, properties = _reflect(connection)
            for key, value in {"exists": "true", **updates}.items():
                row = {
                    "catalog_name": self._config.catalog_name,
                    "namespace": ".".join(namespace),
                    "property_key": key,
                }
                connection.execute(
                    delete(properties).where(
                        *(properties.c[column] == wanted for column, wanted in row.items())
                    )
                )
                connection.execute(insert(properties).values(**row, property_value=value))


def _is_table(row: Mapping[Any, Any]) -> bool:
    return row.get("iceberg_type") in (None, "", "TABLE")


def _reflect(connection: Connection) -> tuple[Table, Table]:
    metadata = MetaData()
    return (
        Table("iceberg_tables", metadata, autoload_with=connection),
        Table("iceberg_namespace_properties", metadata, autoload_with=connection),
    )


def _append_to_log(document: dict[str, Any], base: str) -> None:
    log = document.setdefault("metadata-log", [])
    log.append({"timestamp-ms": document["last-updated-ms"], "metadata-file": base})
    properties = document.get("properties") or {}
    length = int(properties.get("write.metadata.previous-versions-max", _DEFAULT_LOG_LENGTH))
    del log[: max(0, len(log) - max(1, length))]
    document["last-updated-ms"] = max(document["last-updated-ms"], to_millis(WallClock().now()))


def _next_location(base: str) -> str:
    folder, _, file = base.rpartition("/")
    version = file.split("-", 1)[0]
    number = int(version) + 1 if version.isdecimal() else 0
    return f"{folder}/{number:05d}-{uuid4()}.metadata.json"
