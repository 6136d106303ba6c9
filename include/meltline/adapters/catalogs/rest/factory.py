"""What is built where a server stands behind a catalog."""

from collections.abc import Mapping

from meltline.adapters.catalogs.rest.committer import RestCommitter
from meltline.adapters.catalogs.rest.polaris_policies import PolarisPolicies
from meltline.adapters.catalogs.rest.probe import RestProbe
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.clock import WallClock
from meltline.ports import Catalog


def rest_committer(hot: Catalog, store: ObjectStores) -> RestCommitter | None:
    """What commits expirations over the protocol; None where no server writes the metadata."""
    if not isinstance(hot, RestTables):
        return None
    return RestCommitter({hot.name: hot.protocol}, store, WallClock())


def server_probes_of(catalogs: Mapping[str, Catalog], store: ObjectStores) -> dict[str, RestProbe]:
    """What tries out the servers of those catalogs that have one."""
    return {
        name: RestProbe(catalog, store, store, WallClock())
        for name, catalog in catalogs.items()
        if isinstance(catalog, RestTables)
    }


def policy_stores_of(catalogs: Mapping[str, Catalog]) -> dict[str, PolarisPolicies]:
    """What reads the policies that servers keep beside their tables."""
    return {
        name: PolarisPolicies(catalog.protocol)
        for name, catalog in catalogs.items()
        if isinstance(catalog, RestTables)
    }
