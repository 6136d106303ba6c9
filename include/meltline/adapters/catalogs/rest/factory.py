"""Builds the adapters that need a REST server: committer, probes and policy stores.

`wiring` and `catalogs` import it only for REST catalogs, because PyIceberg is slow to import.
"""

from collections.abc import Mapping

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.polaris_policies import PolarisPolicies
from meltline.adapters.catalogs.rest.probe import RestProbe
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.clock import WallClock
from meltline.ports import Catalog


def rest_committer(hot: Catalog, store: ObjectStores) -> RestCommitter | None:
    """Returns the committer of expirations over REST; None if no server writes the metadata."""
    if not isinstance(hot, RestTables):
        return None
    return RestCommitter({hot.name: hot.protocol}, store, WallClock())


def server_probes_of(catalogs: Mapping[str, Catalog], store: ObjectStores) -> dict[str, RestProbe]:
    """Returns the probes that test the servers of REST catalogs."""
    return {
        name: RestProbe(catalog, store, store, WallClock())
        for name, catalog in catalogs.items()
        if isinstance(catalog, RestTables)
    }


def policy_stores_of(catalogs: Mapping[str, Catalog]) -> dict[str, PolarisPolicies]:
    """Returns the readers of policies that servers keep for their tables."""
    return {
        name: PolarisPolicies(catalog.protocol)
        for name, catalog in catalogs.items()
        if isinstance(catalog, RestTables)
    }
