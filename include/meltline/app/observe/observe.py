"""Observes all catalogs: loads one metadata file per table, and ingests new snapshots.

Each step that plans starts with an observation. Completeness is checked on the way. A table that is
unreadable or contradicts itself is left out with its sharing group, and its last known references
stay.

A renamed table continues under its new name. A second registration with commits of its own does
not, nor does a table that another tool dropped. Either may be registered again: so the references
of its last metadata stay, and so does a hold on it.

A materialized view's source snapshots are leased, because an incremental refresh reads what
followed them. If one is gone, the refresh has to read everything again. Trino names them in the
summary of the storage table's snapshot.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.listings import ListedCatalogs, list_catalogs
from meltline.app.catalog.management import (
    claim_unmanaged,
    detached_with_reason,
    held_by_group,
    holding_back,
)
from meltline.app.catalog.metadata import Loaded, metadata_of, remembered_states
from meltline.app.catalog.registrations import LastSeen, load_last_seen
from meltline.app.catalog.tables import ObservedTable, is_ledger, observed_table, observed_tables
from meltline.app.observe.changed_lists import forget_changed_lists, still_changed
from meltline.app.observe.drop_evidence import record_drops_of_tables
from meltline.app.observe.ingest import ingest_snapshots
from meltline.app.observe.known_registrations import forgotten, recognised
from meltline.app.observe.losses.torn_heads import still_torn
from meltline.app.observe.losses.vanished_commits import (
    moved_tables,
    note_vanished,
    still_vanished,
)
from meltline.app.observe.open_commits import Obstacle, obstacles, unproven_commits
from meltline.app.observe.recording import (
    record_ownership,
    record_registrations,
    record_side_files,
    record_sightings,
)
from meltline.app.observe.ref_check import still_changed_heads
from meltline.app.ownership.half_seen import half_seen_now, record_half_seen
from meltline.app.services import RunContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.drop.drops import LET_GO, is_dropped_name
from meltline.domain.errors import (
    CatalogUnlistable,
    FormatUnsupported,
    MeltlineError,
    MetadataMissing,
)
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote_all
from meltline.ports import CatalogEntry, CatalogListing, KnownTable, Lease, LeaseLedger, SnapshotKey


@dataclass(frozen=True)
class Observation:
    """The content of all catalogs at one moment, as far as it could be read.

    Attributes:
        at: Wall clock.
        tables: The readable, complete tables.
        skipped: Errors of the tables that were left out, by name.
        blocked: Why no file of a table may depart or be purged, by UUID; whole groups.
        purge_blocked: Why nothing may be deleted anywhere; empty if deletion is allowed.
        indexed: Every snapshot in the file ledger that has not departed.
        live: Indexed snapshots that a table, as last read, still has.
        owners: Owners of locations.
        groups: Tables that share files.
        ledger_uuids: The ledger's own tables: never planned.
        let_go: Dropped tables whose drop is finalized, by UUID. Nothing keeps their files, but they
            still own them.
        unchecked: Snapshots whose completeness could not be checked, as `table@id`.
        listings: The content of each catalog that could be listed.
        left_behind: Last states under names that tables have left and that no other state
            continues.
        read: Tables whose current references are all known, by UUID.
        obstacles: Why a table's snapshots cannot be expired, by UUID.
        detached: Skipped tables that an operator has detached, and the reasons.
        doubted: Skipped tables that were read in full and contradict themselves. The index lacks
            their contradictory snapshots.
    """

    at: datetime
    tables: tuple[ObservedTable, ...]
    skipped: Mapping[TableName, MeltlineError]
    blocked: Mapping[str, str]
    purge_blocked: str
    indexed: frozenset[SnapshotKey]
    live: frozenset[SnapshotKey]
    owners: OwnerIndex
    groups: Groups
    ledger_uuids: frozenset[str]
    let_go: Mapping[str, KnownTable] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    listings: Mapping[str, CatalogListing] = field(default_factory=dict)
    names: Mapping[str, TableName] = field(default_factory=dict)
    left_behind: tuple[ObservedTable, ...] = ()
    read: frozenset[str] = frozenset()
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict)
    detached: Mapping[TableName, str] = field(default_factory=dict)
    doubted: tuple[TableMetadata, ...] = ()

    @cached_property
    def held(self) -> frozenset[str]:
        """Tables under a hold, by UUID, including those that were dropped under one."""
        return frozenset(t.state.uuid for t in (*self.tables, *self.left_behind) if t.held)

    @cached_property
    def dead(self) -> list[SnapshotKey]:
        """Indexed snapshots that no table has any more: expired by us or by another tool."""
        return sorted(self.indexed - self.live, key=lambda k: (k.table_uuid, k.snapshot_id))


def observe(context: RunContext, concluded: Collection[str] = ()) -> Observation:
    """Observes all catalogs once. Safe to repeat: a second observation right away records nothing.

    Args:
        context: The ports.
        concluded: Plans whose commits were proven just now, and are not recorded as applied yet.
    """
    context.progress("observe: listing catalogs")
    now, registrations = context.clock.now(), context.control.registrations
    # Before any metadata is read. Otherwise a snapshot that another run expires concurrently would
    # look as if it had returned, and departures of its files would be cancelled.
    indexed = context.files.snapshots.known()
    if indexed and not context.control.places.all():  # for a new control ledger
        context.control.places.add(context.files.references.places())
    catalogs = list_catalogs(context.catalogs.values())
    context.progress(f"observe: loading the metadata of {len(catalogs.entries)} tables")
    before = moved_tables(context, catalogs.entries)
    loaded = _loaded(context, catalogs.entries, indexed)
    states = metadata_of(loaded.values())
    ledger = frozenset(state.uuid for state in states if is_ledger(context, state.name))
    record_ownership(registrations, states, now)
    claim_unmanaged(context, loaded, now)
    half_seen = half_seen_now(context.config, registrations, catalogs.listings, states)
    record_half_seen(context.control.places, half_seen)
    owners = OwnerIndex(registrations.ownerships())

    watched = [state for state in states if state.uuid not in ledger]
    ingested = ingest_snapshots(context, watched, indexed, owners)
    skipped = {**_unloaded(loaded), **ingested.refused}
    readable = [state for state in watched if state.name not in skipped]
    doubted = [s for s in watched if s.name in skipped and s.name not in ingested.unread]
    record_side_files(context, readable, now)
    record_sightings(context.control, readable, now)
    record_drops_of_tables(context, readable)
    note_vanished(context, before, watched)
    record_registrations(
        registrations, watched, catalogs.listings, now, skipped=skipped, unread=ingested.unread
    )
    lease_sources(context.control.leases, readable, now)
    return _observation(
        context,
        now,
        catalogs,
        readable,
        skipped,
        indexed=indexed | ingested.recorded,
        unchecked=ingested.unchecked,
        owners=owners,
        ledger=ledger,
        concluded=concluded,
        doubted=tuple(doubted),
    )


def _loaded(
    context: RunContext, entries: Sequence[CatalogEntry], indexed: Collection[SnapshotKey]
) -> Loaded:
    """Loads every table with its registration, except the ledger's own tables."""
    observations = context.control.observations
    loaded = remembered_states(context.catalogs, context.store, observations, entries)
    own = {pointer: loaded[pointer] for pointer in entries if is_ledger(context, pointer.name)}
    watched = {pointer: loaded[pointer] for pointer in entries if pointer not in own}
    return {**own, **recognised(context, watched, indexed)}


def _unloaded(loaded: Loaded) -> dict[TableName, MeltlineError]:
    """Returns the errors of tables that could not be loaded, by name."""
    return {
        pointer.name: error for pointer, error in loaded.items() if isinstance(error, MeltlineError)
    }


def _observation(
    context: RunContext,
    now: datetime,
    catalogs: ListedCatalogs,
    readable: Sequence[TableMetadata],
    skipped: Mapping[TableName, MeltlineError],
    *,
    indexed: set[SnapshotKey],
    unchecked: tuple[str, ...],
    owners: OwnerIndex,
    ledger: frozenset[str],
    concluded: Collection[str],
    doubted: tuple[TableMetadata, ...],
) -> Observation:
    """Combines what was read with what the ledgers know of tables that were not read."""
    tables, listings = context.control.registrations.all(), catalogs.listings
    let_go = let_go_tables(tables)
    groups = Groups(context.control.registrations.sharing())
    stale = left_behind(context, readable, listings, groups)
    states = [*readable, *(table.state for table in stale.tables)]
    reasons = _not_read(tables, skipped)
    incidents, snapshots = context.control.incidents, context.files.snapshots
    reasons |= still_changed(incidents, snapshots, context.store, states, ended=let_go.keys())
    reasons |= still_changed_heads(incidents, states, ended=let_go.keys())
    reasons |= still_vanished(context, tables, readable, ended=let_go)
    reasons |= still_torn(context, readable, ended=let_go.keys())
    reasons |= stale.unclear
    reasons |= unproven_commits(context.control.plans, context.config.catalogs, states, concluded)
    unread = [pointer for pointer in catalogs.entries if pointer.name in skipped]
    confined = held_by_group(context, tables, {p: skipped[p.name] for p in unread})
    free = [pointer for pointer in unread if pointer not in confined]
    # For tables that were not read today (unreadable, unlisted) everything known stays.
    read_uuids = {state.uuid for state in readable} | let_go.keys() | stale.fully_read
    fully_read = read_uuids - reasons.keys()
    observed = tuple(observed_tables(context, readable, listings))
    return Observation(
        at=now,
        tables=observed,
        skipped=skipped,
        blocked=groups.blocked(reasons | _unstated(observed)),
        purge_blocked=_purge_blocked(
            catalogs.unlisted,
            holding_back(context.control.decisions, context.store, tables, free),
            skipped,
        ),
        indexed=frozenset(indexed),
        live=_live(indexed, states, fully_read),
        owners=owners,
        groups=groups,
        ledger_uuids=ledger,
        let_go=let_go,
        unchecked=unchecked,
        listings=listings,
        names={table.uuid: table.name for table in tables},
        left_behind=stale.tables,
        read=frozenset(fully_read),
        obstacles=obstacles(context.config.catalogs, readable),
        detached=detached_with_reason(context.control.decisions, context.store, tables, unread),
        doubted=doubted,
    )


def _unstated(tables: Iterable[ObservedTable]) -> dict[str, str]:
    """Returns why a table's policy is unknown, by UUID: its policy store failed."""
    return {
        table.state.uuid: f"{table.stated.message} ({table.stated.found}): {table.stated.next}"
        for table in tables
        if isinstance(table.stated, MeltlineError)
    }


def _live(
    indexed: set[SnapshotKey], states: Sequence[TableMetadata], fully_read: Collection[str]
) -> frozenset[SnapshotKey]:
    """Returns indexed snapshots in current metadata, or of tables that were not read in full."""
    in_metadata = {SnapshotKey(s.uuid, snapshot_id) for s in states for snapshot_id in s.snapshots}
    unsure = (key for key in indexed if key.table_uuid not in fully_read)
    return frozenset(indexed & in_metadata).union(unsure)


def _not_read(
    tables: Sequence[KnownTable], skipped: Mapping[TableName, MeltlineError]
) -> dict[str, str]:
    """Returns why tables could not be read, by UUID."""
    return {
        table.uuid: f"{table.name}: {skipped[table.name].message}"
        for table in tables
        if table.name in skipped and table.status not in ("gone", LET_GO)
    }


def _purge_blocked(
    unlisted: Mapping[str, CatalogUnlistable],
    unread: Sequence[CatalogEntry],
    skipped: Mapping[TableName, MeltlineError],
) -> str:
    reasons = [f"{name}: {refused.found}" for name, refused in unlisted.items()]
    if reasons:
        return "a catalog could not be listed: " + "; ".join(reasons)
    if unread:
        names = ", ".join(str(pointer.name) for pointer in unread)
        return (
            f"tables that were never read completely may refer to any file: {names}; "
            + _ways_on(
                [p.name for p in unread],
                [p.name for p in unread if isinstance(skipped[p.name], FormatUnsupported)],
            )
        )
    return ""


def _ways_on(unread: Sequence[TableName], unmanaged: Sequence[TableName]) -> str:
    """Says what an operator can do; an unsupported format has no file to restore."""
    if not unmanaged:
        return (
            "`meltline doctor` names the files: restore them, or `meltline detach "
            f"{quote_all(map(str, unread))} --reason TEXT` where these need no file of another "
            "table"
        )
    return (
        f"`meltline detach {quote_all(map(str, unmanaged))} --reason TEXT` where these need no "
        "file of another table, or `unreadable: hold-group` in meltline.yaml: then only what "
        "lies at their locations waits, and a file of another table that they refer to may be "
        "deleted"
    )


def registrations(observation: Observation) -> Mapping[str, list[ObservedTable]]:
    """Groups tables by UUID: several if a metadata file was registered twice."""
    return grouped(observation.tables, lambda table: table.state.uuid)


def rebuild(context: RunContext) -> None:
    """Deletes the index of every readable table; the next observation reads it again.

    The index of registrations that the control ledger does not know is deleted as well.
    """
    readable = {
        table.uuid for table in context.control.registrations.all() if table.status == "live"
    }
    context.files.upkeep.rebuild(
        sorted(readable | forgotten(context.control.registrations, context.files.snapshots))
    )
    forget_changed_lists(context.control.incidents)


_UNLISTED = CatalogListing((), {})


@dataclass(frozen=True)
class LeftBehind:
    """Names that tables have left, as far as they affect current tables.

    Attributes:
        tables: Their last states, unless a current name continues them.
        fully_read: UUIDs of tables without a name whose last states could all be read.
        unclear: Why the references under a name are unknown, by UUID.
    """

    tables: tuple[ObservedTable, ...]
    fully_read: frozenset[str]
    unclear: Mapping[str, str]


def left_behind(
    context: RunContext,
    readable: Sequence[TableMetadata],
    listings: Mapping[str, CatalogListing],
    groups: Groups,
) -> LeftBehind:
    """Reads the references of tables under the names that they have left.

    A table that shares no files and has left all its names is not read: nothing of it is planned.
    If metadata is missing, the index alone has the references.

    Args:
        context: The ports.
        readable: The current, readable tables.
        listings: The content of each catalog; without those that could not be listed.
        groups: Tables that share files.
    """
    standing = {state.uuid for state in readable}
    rows = context.control.registrations.all()
    let_go = let_go_tables(rows)
    needed = standing | let_go.keys()
    left = [
        row
        for row in rows
        if _has_left(row, listings) and (row.uuid in needed or len(groups.members(row.uuid)) > 1)
    ]
    ended = {row.uuid: let_go[row.uuid] for row in left if row.uuid in let_go}
    answers = load_last_seen(context.store, left)
    ends = load_last_seen(context.store, list(ended.values()))
    after = [*readable, *metadata_of(state for _, state in ends)]
    return LeftBehind(
        tables=tuple(
            observed_table(context, state, listings.get(state.name.catalog, _UNLISTED))
            for state in _ended(answers, after)
        ),
        fully_read=_fully_read(answers) - standing,
        unclear=_unclear(answers),
    )


def _has_left(row: KnownTable, listings: Mapping[str, CatalogListing]) -> bool:
    """Returns whether a table has left a name, or may have: its catalog could not be listed."""
    return row.status == "gone" or row.name.catalog not in listings


def _ended(
    answers: Iterable[LastSeen], after: Sequence[TableMetadata]
) -> Collection[TableMetadata]:
    """Returns last states that no other state continues, each metadata file once."""
    states = metadata_of(state for _, state in answers)
    later = grouped(after, lambda state: state.table_uuid)  # only an equal UUID can continue it
    return {
        state.metadata_location: state
        for state in states
        if not any(each.continues(state) for each in later.get(state.table_uuid, ()))
    }.values()


def _fully_read(answers: Iterable[LastSeen]) -> frozenset[str]:
    """Returns registrations that left all their names and were completely readable, by UUID."""
    uuids, doubtful = set(), set()
    for row, answer in answers:
        uuids.add(row.uuid)
        if row.status != "gone" or row.incomplete or isinstance(answer, MeltlineError):
            doubtful.add(row.uuid)
    return frozenset(uuids - doubtful)


def _unclear(answers: Iterable[LastSeen]) -> Mapping[str, str]:
    """Returns why references under a name are unknown; for missing metadata the index has them."""
    return {
        row.uuid: f"{row.name} ({row.status}): {answer.message}"
        for row, answer in answers
        if isinstance(answer, MeltlineError) and not isinstance(answer, MetadataMissing)
    }


_SOURCES = "dependsOnTables"
_LASTS = timedelta(days=7)
"""Lease duration of a source snapshot, since the view was last seen to need it."""


def lease_sources(leases: LeaseLedger, states: Sequence[TableMetadata], now: datetime) -> None:
    """Renews the lease on each snapshot that a materialized view was refreshed from.

    Args:
        leases: The ledger of leases.
        states: The tables of all catalogs, the views' storage tables among them.
        now: The wall clock's time.
    """
    by_name = {state.name: state for state in states}
    for view in states:
        if is_dropped_name(view.name.namespace):
            continue
        for name, snapshot_id in _sources(view):
            source = by_name.get(name)
            if source is not None and snapshot_id in source.snapshots:
                lease = Lease(
                    id=f"view-{view.uuid}-{source.uuid}",
                    table_uuid=source.uuid,
                    snapshot_id=snapshot_id,
                    expires_at=now + _LASTS,
                    table=str(name),
                    who=f"materialized view {view.name}",
                    ttl_ms=_LASTS // timedelta(milliseconds=1),
                )
                leases.save(lease)


def _sources(view: TableMetadata) -> Iterator[tuple[TableName, int]]:
    """Yields the tables that a view was refreshed from, with the snapshot of each.

    Trino writes `schema.table=snapshot`, separated by commas; a source without a snapshot, or of
    another connector, has no number.
    """
    snapshot = view.current_snapshot
    summary: Mapping[str, str] = snapshot.summary if snapshot is not None else {}
    for pair in summary.get(_SOURCES, "").split(","):
        place, _, number = pair.strip().rpartition("=")
        *namespace, table = place.split(".")
        if namespace and number.isdecimal():
            yield TableName(view.name.catalog, tuple(namespace), table), int(number)
