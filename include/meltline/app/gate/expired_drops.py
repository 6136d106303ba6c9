"""The gate's own word on dropped tables whose time is up: only of those may a whole table go.

It takes nothing from the plan but its name and date, and nothing from the planner. That no other
table refers to a planned file is for the gate's proof, which knows no exception (TT-45).
"""

from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.retention.holds import is_held
from meltline.ports import CatalogEntry


def has_ended(services: RunContext, world: LiveCatalogs, plan: Plan) -> bool:
    """Whether a plan is for a dropped table whose frozen retention has ended.

    All of this must hold, by the catalog and the metadata file as the gate has just read them:

    * the hot catalog lists the table among the dropped ones, and at the metadata that was read;
    * that metadata says what was dropped and when, and the retention that was frozen then has
      ended by the plan's `as_of` and by the wall clock, so that no undrop is possible any more;
    * nobody has leased a snapshot of it or wants one back, and no hold lies on it, on the
      namespaces that it was dropped from, or on the account.
    """
    state = world.of(plan.table_uuid, plan.table)
    listing = world.listings.get(services.config.hot)
    if state is None or listing is None or not is_dropped_name(state.name.namespace):
        return False
    if listing.of(state.name) != CatalogEntry(state.name, state.metadata_location):
        return False
    drop, now = read_drop(state.name.catalog, state.properties), services.clock.now()
    if drop is None or not drop.is_over(min(plan.as_of, now)):
        return False
    busy = {lease.table_uuid for lease in services.control.leases.active(now)}
    busy |= {veto.table_uuid for veto in services.control.vetoes.all()}
    levels = world.levels(state, services.config.ledger_namespace)
    held = any(is_held(properties, now) for _, properties in levels)
    return not held and state.uuid not in busy
