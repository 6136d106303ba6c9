"""Opens the adapter of a configured catalog: SQL, metastore (Hive, Glue) or REST.

`wiring` calls it. SQL catalogs are read row by row, metastores through their own clients, REST
through PyIceberg; each client is imported only for a catalog that needs it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig, Config
from meltline.ports import Catalog, MetadataFiles, PolicyStore, ServerProbe

if TYPE_CHECKING:
    from meltline.adapters.catalogs.metastores.tables import MetastoreTables
    from meltline.adapters.catalogs.rest.tables import RestTables


def open_catalog(
    config: CatalogConfig, store: MetadataFiles
) -> "SqlTables | RestTables | MetastoreTables":
    """Returns the adapter for a configured catalog, and contacts nothing yet.

    Raises:
        SetupMissing: The package of its client is not installed.
    """
    if config.type == "sql":
        return SqlTables(config, store)
    if config.type in ("hive", "glue"):
        from meltline.adapters.catalogs.metastores.connect import (  # noqa: PLC0415 - its clients
            open_metastore,
        )

        return open_metastore(config, store)
    from meltline.adapters.catalogs.rest.tables import RestTables  # noqa: PLC0415 - PyIceberg

    return RestTables(config, store, store.vended if isinstance(store, ObjectStores) else None)


def policy_stores(config: Config, catalogs: Mapping[str, Catalog]) -> Mapping[str, PolicyStore]:
    """Returns the policy stores of the hot catalog's server; only hot tables are managed."""
    hot = config.hot
    if config.catalogs[hot].type != "rest":
        return {}
    from meltline.adapters.catalogs.rest.factory import (  # noqa: PLC0415 - PyIceberg
        policy_stores_of,
    )

    return policy_stores_of({hot: catalogs[hot]})


def server_probes(
    config: Config, catalogs: Mapping[str, Catalog], store: ObjectStores
) -> Mapping[str, ServerProbe]:
    """Returns the probes that test the servers of REST catalogs."""
    if not any(config.catalogs[name].type == "rest" for name in catalogs):
        return {}
    from meltline.adapters.catalogs.rest.factory import (  # noqa: PLC0415 - PyIceberg
        server_probes_of,
    )

    return server_probes_of(catalogs, store)
