"""The gate's own word on dropped tables whose time is up: only of those may a whole table go.

It takes nothing from the plan but its name and date, and nothing from the planner. That no other
table refers to a planned file is for the gate's proof, which knows no exception (TT-45).
"""

from collections.abc import Collection
from datetime import datetime

from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.config.load import Config
from meltline.domain.deletion.plan import Plan
from meltline.domain.drop.drops import Drop, is_dropped_name, read_drop
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.ports import CatalogEntry, CatalogListing


def has_ended(
    config: Config,
    world: LiveCatalogs,
    state: TableMetadata,
    plan: Plan,
    busy: Collection[str],
    now: datetime,
) -> bool:
    """Whether a plan is for a dropped table whose frozen retention has ended.

    All of this must hold, by the catalog and the metadata file as the gate has just read them:

    * the hot catalog lists the table among the dropped ones, and at the metadata that was read;
    * that metadata says what was dropped and when, and the retention that was frozen then has
      ended by the plan's `as_of` and by the wall clock, so that no undrop is possible any more;
    * nobody has leased a snapshot of it or wants one back, and no hold lies on it, on the
      namespaces that it was dropped from, or on the account.

    Args:
        config: Which catalog is the hot one, and what stands for the account.
        world: The catalogs.
        state: The planned table, as it is there.
        plan: The plan.
        busy: Tables of which a snapshot is leased, or wanted back.
        now: By the wall clock.
    """
    drop = _listed_drop(world.listings.get(config.hot), state)
    if drop is None or not drop.is_over(min(plan.as_of, now)):
        return False
    levels = world.levels(state, config.ledger_namespace)
    held = any(is_held(properties, now) for _, properties in levels)
    return not held and state.uuid not in busy


def _listed_drop(listing: CatalogListing | None, state: TableMetadata) -> Drop | None:
    """What a table says of its drop, where a catalog lists it as it was read, and as dropped."""
    if listing is None or not is_dropped_name(state.name.namespace):
        return None
    if listing.of(state.name) != CatalogEntry(state.name, state.metadata_location):
        return None
    return read_drop(state.name.catalog, state.properties)
