"""A Hive metastore's databases, and the connections to it.

It implements `Databases`; `hive` uses its connections for the tables' rows.
"""

import getpass
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from hive_metastore import ttypes as hive
from pyiceberg.catalog.hive import HiveCatalog

from meltline.adapters.catalogs.metastores.rows import Edit
from meltline.adapters.catalogs.table_renames import not_empty
from meltline.domain.iceberg.locations import location_key


class HiveConnections:
    """Connections to a metastore, one for each request, so that threads can share this object."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    def open(self) -> AbstractContextManager[Any]:
        """Opens one. No generator: it would write to Thrift's exceptions, which refuse that."""
        client: AbstractContextManager[Any] = HiveCatalog._create_hive_client(self._properties)
        return client


class HiveDatabases:
    """The port `Databases` over Hive.

    Args:
        catalog: Its name, for errors.
        connections: To the metastore.
        warehouse: Default parent of databases without a location; a default location is not
            reported as a property.
    """

    def __init__(self, catalog: str, connections: HiveConnections, warehouse: str) -> None:
        self._catalog = catalog
        self._connections = connections
        self._warehouse = warehouse.rstrip("/")

    def properties(self) -> dict[str, dict[str, str]]:
        with self._connections.open() as client:
            databases = [client.get_database(name) for name in client.get_all_databases()]
        return {str(database.name): self._properties(database) for database in databases}

    def _properties(self, database: Any) -> dict[str, str]:
        texts = dict(database.parameters or {})
        if database.description:
            texts["comment"] = database.description
        default = self._default(database.name)
        if database.locationUri and location_key(database.locationUri) != location_key(default):
            texts["location"] = database.locationUri
        return texts

    def _default(self, name: str) -> str:
        return f"{self._warehouse}/{name}.db" if self._warehouse else ""

    def make(self, database: str, properties: Mapping[str, str]) -> bool:
        entity = hive.Database(name=database, ownerName=getpass.getuser())
        try:
            with self._connections.open() as client:
                client.create_database(self._described(entity, properties))
        except hive.AlreadyExistsException:
            return False
        return True

    def change(self, database: str, edit: Edit) -> None:
        with self._connections.open() as client:
            present = client.get_database(database)
            properties = edit(self._properties(present))
            client.alter_database(database, self._described(present, properties))

    def _described(self, database: Any, properties: Mapping[str, str]) -> Any:
        fields = {"comment", "location"}
        database.parameters = {k: v for k, v in properties.items() if k not in fields}
        database.description = properties.get("comment")
        location = properties.get("location") or self._default(database.name)
        database.locationUri = location or database.locationUri
        return database

    def remove(self, database: str) -> None:
        with self._connections.open() as client:
            if database not in client.get_all_databases():
                return
            try:
                client.drop_database(database, False, False)
            except hive.InvalidOperationException as refused:
                raise not_empty(self._catalog, (database,), str(refused.message)) from refused
