"""Catalogs: SQL ones read row by row, all others through PyIceberg."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError

from meltline.adapters.iceberg.sql_catalog import SqlTables
from meltline.config import CatalogConfig
from meltline.domain.errors import CatalogUnlistable
from meltline.domain.names import TableName
from meltline.ports import Catalog, CatalogEntry, CatalogListing, ObjectStore


def open_catalog(config: CatalogConfig, store: ObjectStore) -> Catalog:
    """The adapter for a configured catalog. Nothing is contacted yet."""
    return SqlTables(config, store) if config.type == "sql" else LoadedTables(config)


class LoadedTables:
    """A REST, Hive or Glue catalog: one load per table tells where its metadata lies."""

    def __init__(self, config: CatalogConfig) -> None:
        self._config = config
        self._open: PyIcebergCatalog | None = None

    @property
    def name(self) -> str:
        """The catalog's name in `meltline.yaml`."""
        return self._config.name

    @property
    def observe_only(self) -> bool:
        """Whether it is read for reachability and never changed."""
        return self._config.observe_only

    def _catalog(self) -> PyIcebergCatalog:
        if self._open is None:
            words = {
                "type": self._config.type,
                "uri": self._config.uri,
                "warehouse": self._config.warehouse,
                **self._config.properties,
            }
            self._open = load_catalog(self._config.name, **{k: v for k, v in words.items() if v})
        return self._open

    def listing(self) -> CatalogListing:
        """Every namespace level and table. See the port.

        Raises:
            CatalogUnlistable: Any part could not be listed, or a table could not be loaded.
        """
        try:
            return self._list()
        except Exception as odd:
            raise CatalogUnlistable(
                f"catalog {self.name} could not be listed completely",
                object=self.name,
                expected="every namespace and table",
                found=f"{type(odd).__name__}",
                next="nothing is deleted anywhere until it can be listed; look at the catalog",
            ) from odd

    def _list(self) -> CatalogListing:
        catalog = self._catalog()
        namespaces: dict[tuple[str, ...], Mapping[str, str]] = {}
        entries: list[CatalogEntry] = []
        waiting = list(catalog.list_namespaces())
        while waiting:
            namespace = tuple(waiting.pop())
            waiting.extend(catalog.list_namespaces(namespace))
            namespaces[namespace] = catalog.load_namespace_properties(namespace)
            for identifier in catalog.list_tables(namespace):
                table = catalog.load_table(identifier)
                name = TableName(self.name, namespace, identifier[-1])
                entries.append(CatalogEntry(name, table.metadata_location))
        return CatalogListing(tuple(sorted(entries, key=lambda e: e.name)), namespaces)

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Sets and removes table properties in one commit."""
        table = self._catalog().load_table((*name.namespace, name.name))
        with table.transaction() as transaction:
            if updates:
                transaction.set_properties(dict(updates))
            if removals:
                transaction.remove_properties(*removals)

    def set_namespace_properties(
        self, namespace: tuple[str, ...], updates: Mapping[str, str]
    ) -> None:
        """Sets properties on a namespace and creates it when it is not there."""
        catalog = self._catalog()
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        catalog.update_namespace_properties(namespace, updates=dict(updates))
