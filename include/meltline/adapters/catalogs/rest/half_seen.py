"""Nessie: a REST catalog that shows one of its own branches, and of a table one snapshot."""

from collections.abc import Mapping

from meltline.adapters.catalogs.rest.protocol import RestProtocol
from meltline.config.load import CatalogConfig
from meltline.domain.deletion.half_seen import is_place
from meltline.domain.errors import CatalogUnlistable

_NESSIE = "nessie.is-nessie-catalog"
_WAREHOUSES = ("warehouse", "default-base-location")


def half_seen_places(protocol: RestProtocol, config: CatalogConfig) -> tuple[str, ...]:
    """Where its tables may lie if the server is a Nessie; none where it shows all that there is.

    Asked for at each listing: behind an address may stand another server than before.

    Raises:
        CatalogUnlistable: It is one, and nobody says where its tables lie.
    """
    settings = protocol.settings(config.uri, config.warehouse)
    if not is_nessie(settings):
        return ()
    named = [settings.get(key, "") for key in _WAREHOUSES]
    places = tuple(filter(is_place, [*named, config.warehouse]))
    if not places:
        raise CatalogUnlistable(
            f"catalog {config.name} shows one branch only, and does not say where its tables lie",
            object=config.name,
            expected="a warehouse that is a location",
            found=f"{', '.join(filter(None, named)) or 'none'}",
            next=f"set catalogs.{config.name}.warehouse to where its tables lie: nothing there is "
            "ever deleted",
        )
    return places


def is_nessie(settings: Mapping[str, str]) -> bool:
    """Whether a server says so of itself."""
    return str(settings.get(_NESSIE, "")).lower() == "true"
