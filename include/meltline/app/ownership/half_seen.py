"""Half-seen locations: nothing is deleted where a catalog shows only a part of its references.

Observe records them, planners read the record. Gates and rechecks also ask the catalogs, right
before files are deleted. A recorded location stays: a table may be gone from the one visible branch
while another branch still needs its files (decision 049).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from meltline.app.ownership.confinement import Confinement
from meltline.app.safety.server_probe import half_seen_by
from meltline.config.load import Config
from meltline.domain.deletion.half_seen import HalfSeenPlaces, is_place
from meltline.domain.deletion.withheld import MOVE_AWAY, Why
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import claim_prefix
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.path_aliases import place_of
from meltline.ports import (
    CatalogListing,
    ControlLedger,
    ObjectReader,
    PathResolver,
    PlaceLedger,
    PlaceReader,
    RegistrationReader,
)

_SHOWN = 5


def half_seen_now(
    config: Config,
    registrations: RegistrationReader,
    listings: Mapping[str, CatalogListing],
    states: Iterable[TableMetadata],
) -> dict[str, str]:
    """Returns the half-seen locations of all catalogs now, each with its catalog.

    Args:
        config: Has the catalogs' warehouses.
        registrations: Have every location that their tables ever had.
        listings: The listing of each catalog.
        states: Current tables; those of other catalogs are ignored.
    """
    blind = {name: places for name, at in listings.items() if (places := half_seen_by(config, at))}
    if not blind:
        return {}
    seen = [(place, name) for name, places in blind.items() for place in places]
    seen += [(config.catalogs[name].warehouse, name) for name in blind]
    for state in states:
        if (name := state.name.catalog) in blind:
            folder = state.metadata_location.rpartition("/")[0]
            seen += [(place, name) for place in (*state.owned_locations, folder)]
    whose = {row.uuid: row.name.catalog for row in registrations.all() if row.name.catalog in blind}
    owned = [own for own in registrations.ownerships() if own.table_uuid in whose]
    seen += [(own.prefix, whose[own.table_uuid]) for own in owned]
    return {claim_prefix(place): name for place, name in seen if is_place(place)}


def record_half_seen(places: PlaceLedger, seen: Mapping[str, str]) -> None:
    """Records half-seen locations, also as folders in which files may have aliases."""
    if new := {place: name for place, name in seen.items() if place not in places.half_seen()}:
        places.add(set(map(place_in, new)))
        places.add_half_seen(new)


def place_in(half_seen: str) -> str:
    """Returns the part of a half-seen location that can have another name (`domain.places`)."""
    return place_of(f"{half_seen}-")


def remembered_places(places: PlaceReader) -> HalfSeenPlaces:
    """Returns all half-seen locations ever recorded."""
    return HalfSeenPlaces(places.half_seen())


def misplaced_now(
    config: Config, resolver: PathResolver, control: ControlLedger
) -> Callable[[Iterable[str]], Mapping[str, Why]]:
    """Builds the check for deletes; it reads the recorded locations at each call."""
    return lambda paths: Confinement(
        config.roots, resolver, remembered_places(control.places)
    ).misplaced(paths)


def lying_in(store: ObjectReader, half_seen: HalfSeenPlaces, paths: Collection[str]) -> set[str]:
    """Returns paths in a half-seen location at which a file exists, or may exist.

    The caller's file may have such a path as an alias; if no file is at it, it has not.
    """
    return {path for path in paths if half_seen.holds(path) and _is_there(store, path)}


def _is_there(store: ObjectReader, path: str) -> bool:
    try:
        return store.size(path) is not None
    except StoreRefused:
        return True


def half_seen_notices(places: PlaceReader) -> list[str]:
    """Returns the notices of each run, a line for each catalog."""
    return [f"{name}: {text}; {MOVE_AWAY}" for name, text in half_seen_sentences(places)]


def half_seen_sentences(places: PlaceReader) -> Iterator[tuple[str, str]]:
    """Yields each catalog's half-seen locations in a sentence."""
    by_catalog: dict[str, list[str]] = {}
    for place, name in sorted(places.half_seen().items()):
        outer = by_catalog.setdefault(name, [])
        if not any(place.startswith(other) for other in outer):
            outer.append(place)
    for name, outer in by_catalog.items():
        more = f" and {len(outer) - _SHOWN} more" if len(outer) > _SHOWN else ""
        shown = ", ".join(outer[:_SHOWN])
        yield (
            name,
            "it shows, or showed, one of its branches only, so that nobody can tell which files "
            f"the others need: nothing is ever deleted in {shown}{more}",
        )
