"""Observed tables: metadata, inherited properties and retained snapshots.

The planner, the gates and most commands read tables in this form.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.safety.owner_guards import OwnerGuards
from meltline.app.safety.server_probe import unmanaged_reason
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.archive.archive import Validity
from meltline.domain.archive.cold import ColdPolicy, chosen, cold_policy
from meltline.domain.drop.drops import Drop, is_dropped_name, levels_of, read_drop
from meltline.domain.errors import MeltlineError, TableNotFound
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ACCOUNT, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.domain.retention.policy import (
    TRANSIENT,
    AccountPolicy,
    Levels,
    Remembered,
    Retention,
    effective_retention,
    is_enabled,
)
from meltline.domain.retention.retained_snapshots import KeepRequest, KeepSet, keep_set
from meltline.domain.retention.stated_policies import Stated, with_stated
from meltline.ports import CatalogListing


@dataclass(frozen=True)
class ObservedTable:
    """A readable, complete table and its inherited properties, most specific first.

    Attributes:
        state: Its metadata.
        levels: Its properties, then those of its namespaces and of the account.
        managed: Whether Meltline may change it.
        held: Whether a hold on it, or on a namespace of it, is in force by the wall clock. A hold
            that has ended no longer counts at the next observation.
        drop: The record of its drop; None if it is not dropped.
        opted_out: Whether it is unmanaged only because it was opted out.
        owner_guard: The property by which its owner forbids deletions; empty if none does.
        stated: The settings of its catalog's policy store; None if the store is not asked.
    """

    state: TableMetadata
    levels: tuple[tuple[str, Mapping[str, str]], ...]
    managed: bool
    held: bool
    drop: Drop | None = None
    opted_out: bool = False
    owner_guard: str = ""
    stated: Stated | None = None


@dataclass(frozen=True)
class TableRetention:
    """A table, its policy and its retained snapshots."""

    table: ObservedTable
    retention: Retention
    keeps: KeepSet

    @property
    def state(self) -> TableMetadata:
        """The table's metadata."""
        return self.table.state


def is_ledger(context: ReadSources, name: TableName) -> bool:
    """Returns whether it is one of the file ledger's own tables."""
    config = context.config
    return name.catalog == config.hot and name.namespace == (config.ledger_namespace,)


@dataclass(frozen=True)
class Everywhere:
    """All readable tables of all catalogs.

    Attributes:
        listings: The content of each catalog that can be listed.
        states: The tables, without the file ledger's own.
        unreadable: Names of catalogs and tables that could not be read.
    """

    listings: Mapping[str, CatalogListing]
    states: Sequence[TableMetadata]
    unreadable: Sequence[str]


def look_everywhere(context: ReadContext) -> Everywhere:
    """Reads each table's metadata, and collects the names of unreadable tables."""
    listed = list_catalogs(context.catalogs.values())
    entries = [pointer for pointer in listed.entries if not is_ledger(context, pointer.name)]
    loaded = load_tables(context, entries)
    unread = [str(at.name) for at, answer in loaded.items() if isinstance(answer, MeltlineError)]
    states = metadata_of(loaded.values())
    return Everywhere(listed.listings, states, sorted([*listed.unlisted, *unread]))


def observed_tables(
    context: ReadSources,
    states: Sequence[TableMetadata],
    listings: Mapping[str, CatalogListing],
    *,
    anew: bool = False,
) -> list[ObservedTable]:
    """Combines tables with their inherited properties and policies; sorts them by name.

    Args:
        context: Has their catalogs and policy stores.
        states: The tables.
        listings: The listings of their catalogs.
        anew: Whether policy stores are asked now, because the caller is about to act on the answer.
    """
    guards = OwnerGuards.read(context.control.decisions)
    tables = [
        _beside_its_properties(context, state, listings[state.name.catalog], guards.of(state))
        for state in sorted(states, key=lambda state: state.name)
    ]
    stated: dict[TableName, Stated] = {}
    for catalog, store in context.policy_stores.items():
        names = [t.state.name for t in tables if t.state.name.catalog == catalog and t.managed]
        asked = [n for n in names if _may_state(context, n) and listings[catalog].of(n)]
        stated |= store.of(asked, anew=anew) if asked else {}
    return [replace(table, stated=stated.get(table.state.name)) for table in tables]


def _may_state(context: ReadSources, name: TableName) -> bool:
    """Returns whether a policy store is asked about a table: not for a dropped or own one."""
    return not is_ledger(context, name) and not is_dropped_name(name.namespace)


def observed_table(
    context: ReadSources, state: TableMetadata, listing: CatalogListing, *, anew: bool = False
) -> ObservedTable:
    """Does the same as `observed_tables`, for one table."""
    (table,) = observed_tables(context, [state], {state.name.catalog: listing}, anew=anew)
    return table


def _beside_its_properties(
    context: ReadSources, state: TableMetadata, listing: CatalogListing, owner_guard: str
) -> ObservedTable:
    """Combines a table with the properties of its namespaces and of the account."""
    namespace = state.name.namespace
    around = levels_around(context, ObjectName(state.name.catalog, namespace), listing)
    before = levels_of(state.name, state.properties, listing.namespaces)
    levels = [(str(state.name), state.properties), *before, *around]
    dropped = is_dropped_name(namespace)
    drop = read_drop(state.name.catalog, state.properties) if dropped else None
    ours = (
        state.name.catalog == context.config.hot
        and not context.catalogs[state.name.catalog].observe_only
        and state.name not in listing.hidden
        and not unmanaged_reason(context.config, state.name.catalog, listing)
        and (drop is not None or not dropped)
        and not context.catalogs[state.name.catalog].hindrance  # asked last: it may take a while
    )
    profile = context.config.account.profile
    enabled = is_enabled(levels, default=profile.auto_maintenance)
    now = context.clock.now()
    held = any(is_held(properties, now) for _, properties in levels)
    ours = ours and not owner_guard  # files that the owner protects do not even become unreferenced
    return ObservedTable(
        state,
        tuple(levels),
        ours and enabled,
        held,
        drop,
        opted_out=ours and not enabled,
        owner_guard=owner_guard,
    )


def levels_around(context: ReadSources, name: ObjectName, listing: CatalogListing) -> Levels:
    """Returns properties of a namespace, its outer ones and the account, most specific first."""
    depths = range(len(name.namespace), 0, -1)
    around = [ObjectName(name.catalog, name.namespace[:depth]) for depth in depths]
    levels = [(str(level), listing.namespaces.get(level.namespace, {})) for level in around]
    account = listing.namespaces.get((context.config.ledger_namespace,), {})
    return [*levels, (ACCOUNT, account)]


def remembered(policies: Mapping[str, Mapping[str, str]], levels: Levels, uuid: str) -> Remembered:
    """Returns the earlier policies around a table that the ledger recorded."""
    own = policies.get(uuid, {})
    values = {name: policies[name] for name, _ in levels[1:] if name in policies}
    born = own.get(TRANSIENT)
    return Remembered({**values, levels[0][0]: own}, None if born is None else born == "true")


def retention_of(
    account: AccountPolicy, table: ObservedTable, policies: Mapping[str, Mapping[str, str]]
) -> Retention:
    """Returns a table's policy, with the ledger's `policies`; a dropped table's is frozen."""
    if table.drop is not None:
        return table.drop.retention(account.reader_grace)
    remembered_policy = remembered(policies, table.levels, table.state.uuid)
    retention = effective_retention(account, table.levels, remembered_policy)
    return with_stated(account, table.levels, retention, table.stated)


def read_tables(context: ReadSources) -> list[ObservedTable]:
    """Reads every readable table of every catalog that can be listed, without ingesting it."""
    return listed_tables(
        context, {name: catalog.listing() for name, catalog in context.catalogs.items()}
    )


def listed_tables(
    context: ReadSources, listings: Mapping[str, CatalogListing]
) -> list[ObservedTable]:
    """Reads every readable table in the listings, by catalog name, without ingesting it."""
    entries = [pointer for listing in listings.values() for pointer in listing.entries]
    ours = load_tables(context, [e for e in entries if not is_ledger(context, e.name)])
    return observed_tables(context, metadata_of(ours.values()), listings)


def find_table(tables: Sequence[ObservedTable], name: TableName) -> ObservedTable:
    """Returns the table with that name.

    Raises:
        TableNotFound: No readable table has that name.
    """
    for table in tables:
        if table.state.name == name:
            return table
    raise TableNotFound(
        f"no readable table {name}",
        object=str(name),
        expected=", ".join(str(table.state.name) for table in tables[:8]) or "a table",
        found=str(name),
        next="check the name; `meltline doctor` names tables that cannot be read",
    )


Foreseen = Mapping[str, frozenset[int]]
"""Snapshots that a preview assumes archived, by table UUID: the run would have copied them."""


def keep_sets(
    context: ReadContext,
    tables: Sequence[ObservedTable],
    as_of: datetime,
    foreseen: Foreseen = MappingProxyType({}),
) -> list[TableRetention]:
    """Returns the retained snapshots of each table."""
    return [
        TableRetention(table, retention, keep_set(request))
        for request, retention, table in keep_requests(context, tables, as_of, foreseen)
    ]


def keep_requests(
    context: ReadContext,
    tables: Sequence[ObservedTable],
    as_of: datetime,
    foreseen: Foreseen = MappingProxyType({}),
) -> Iterator[tuple[KeepRequest, Retention, ObservedTable]]:
    """Yields what retention depends on: current policies, leases and holds of each table."""
    sightings = context.control.observations.sightings({table.state.uuid for table in tables})
    policies = context.control.policies.all()
    leases = context.control.leases.active(context.clock.now())
    leased = grouped(leases, lambda lease: lease.table_uuid)
    # A drop is finalized as a whole, so not while a lease or a veto protects the table.
    busy = leased.keys() | {veto.table_uuid for veto in context.control.vetoes.all()}
    archived = archived_ids(context, tables)
    for table in tables:
        uuid = table.state.uuid
        retention = retention_of(context.config.account, table, policies)
        if context.longer_window is not None:
            retention = context.longer_window.over(table.state.name, retention)
        request = KeepRequest(
            state=table.state,
            as_of=as_of,
            window=retention.window,
            sightings=sightings.get(uuid, {}),
            leased=frozenset(lease.snapshot_id for lease in leased.get(uuid, ())),
            held=table.held,
            managed=table.managed,
            dropped=table.drop is not None,
            let_go=table.drop is not None and table.drop.is_over(as_of) and uuid not in busy,
            writer_keep=retention.writer_keep,
            turned_off=not retention.expires,
            least_snapshots=retention.least_snapshots,
            reader_grace=retention.reader_grace,
        )
        copied = archived.get(uuid, frozenset()) | foreseen.get(uuid, frozenset())
        pending = to_hand_over(context, table, request).keys() - copied
        yield replace(request, handoff_pending=frozenset(pending)), retention, table


def cold_policy_of(context: ReadContext, table: ObservedTable) -> ColdPolicy:
    """Returns the archive policy; a dropped table has that of its former namespace."""
    return cold_policy(context.config.account, table.levels)


def to_hand_over(
    context: ReadContext, table: ObservedTable, request: KeepRequest
) -> Mapping[int, Validity]:
    """Returns the snapshots that nothing keeps any more and that the policy archives.

    Snapshots that are already archived are included.
    """
    policy = cold_policy_of(context, table)
    if not (policy.is_on and table.managed):
        return {}
    keeps = keep_set(replace(request, handoff_pending=frozenset()))
    dropped_at = None if table.drop is None else table.drop.at
    return chosen(policy.cadence, request.state, keeps, dropped_at)


def archived_ids(
    context: ReadContext, tables: Sequence[ObservedTable]
) -> Mapping[str, frozenset[int]]:
    """Returns snapshots with a verified copy in cold, according to the ledger, by table UUID."""
    uuids = {t.state.uuid for t in tables if cold_policy_of(context, t).is_on}
    copies = context.control.archived.all(sorted(uuids)) if uuids else ()
    by_table = grouped(copies, lambda copy: copy.table_uuid)
    return {uuid: frozenset(copy.snapshot_id for copy in by_table[uuid]) for uuid in by_table}
