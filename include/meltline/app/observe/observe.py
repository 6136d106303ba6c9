"""Observe: list every catalog, load one metadata object per table, ingest what is new.

Completeness is checked on the way; whatever cannot be read, or does not
add up, keeps its table and its group out, and what was last known of it stays referenced.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from meltline.app.catalog.dropped import let_go_tables
from meltline.app.catalog.management import never_read, vouched_for
from meltline.app.catalog.metadata import load_concurrently, remembered_states
from meltline.app.catalog.registrations import comes_of, forerunners, known_table
from meltline.app.catalog.tables import ObservedTable, is_ledger, observed_table
from meltline.app.ground.audit_log import AuditTrail
from meltline.app.ground.tombstones import take_back
from meltline.app.observe.changed_lists import forget_changed_lists, still_changed
from meltline.app.observe.ingest import ingest_snapshots
from meltline.app.observe.known_registrations import forgotten, recognised
from meltline.app.observe.ref_check import still_changed_heads
from meltline.app.observe.stale_registrations import left_behind
from meltline.app.services import RunContext
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.drop.drops import LET_GO
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.iceberg.files import FileKind, SideFile
from meltline.domain.iceberg.locations import OwnerIndex, Ownership, claim_prefix, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.places import places_in
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.domain.retention.snapshot_observations import next_sightings
from meltline.ports import CatalogEntry, CatalogListing, KnownTable, SnapshotKey


@dataclass(frozen=True)
class Observation:
    """What all catalogs held at one moment, as far as it could be read.

    Attributes:
        at: Wall clock.
        tables: The readable, complete ones.
        skipped: Why each unreadable one was left out, by name.
        blocked: Why nothing of a table may depart or be purged, by UUID; whole groups.
        purge_blocked: Why nothing may be deleted anywhere, empty when something may.
        indexed: Every snapshot the file ledger knows and that has not departed.
        live: Those that a table, as last read, still has.
        owners: Whose prefix a file lies under.
        groups: Tables that share files.
        ledger_uuids: The ledger's own tables: never planned.
        let_go: Dropped tables whose registration was taken away, by UUID: nothing of them is kept,
            and they own their files still.
        unchecked: Snapshots whose completeness could not be checked, as `table@id`.
        listings: What each catalog that could be listed holds.
        left_behind: Last states of names that tables have left and that none goes on from.
        read: Tables whose references are all known as they are today, by UUID.
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

    @property
    def held(self) -> frozenset[str]:
        """Tables under a hold, by UUID; one that was dropped under it is held all the same."""
        return frozenset(t.state.uuid for t in (*self.tables, *self.left_behind) if t.held)

    @property
    def dead(self) -> list[SnapshotKey]:
        """Known snapshots that no table has any more: expired by us or by another tool."""
        return sorted(self.indexed - self.live, key=lambda k: (k.table_uuid, k.snapshot_id))


def observe(context: RunContext) -> Observation:
    """Looks at everything once. Safe to repeat; a second look right away records nothing."""
    context.progress("observe: listing catalogs")
    now = context.clock.now()
    # Before any metadata is read: else a snapshot that another run expires meanwhile would look as
    # if it had come back, and its files would be taken back.
    indexed = context.files.snapshots.known()
    if indexed and not context.control.places.all():  # of a ledger from before places were noted
        context.control.places.add(context.files.references.places())
    listings, unlisted = _list_catalogs(context)
    entries = [pointer for listing in listings.values() for pointer in listing.entries]
    context.progress(f"observe: loading the metadata of {len(entries)} tables")
    loaded = _loaded(context, entries, indexed)
    states = [state for state in loaded.values() if isinstance(state, TableMetadata)]
    skipped = {e.name: s for e, s in loaded.items() if isinstance(s, MeltlineError)}
    ledger = {s.uuid for s in states if is_ledger(context, s.name)}
    _record_ownership(context, states, now)
    owners = OwnerIndex(context.control.registrations.ownerships())

    watched = [state for state in states if state.uuid not in ledger]
    ingested = ingest_snapshots(context, watched, indexed, owners)
    skipped.update(ingested.refused)
    indexed |= ingested.recorded
    readable = [state for state in watched if state.name not in skipped]
    _record_side_files(context, readable, now)
    _record_sightings(context, readable, now)
    previous = context.control.registrations.all()
    _record_tables(context, watched, skipped, ingested.unread, listings, previous, now)
    return _observation(
        context,
        now,
        listings,
        unlisted,
        readable,
        skipped,
        indexed,
        owners,
        ledger,
        ingested.unchecked,
    )


def _loaded(
    context: RunContext, entries: Sequence[CatalogEntry], indexed: Collection[SnapshotKey]
) -> dict[CatalogEntry, TableMetadata | MeltlineError]:
    """Every table, each as the registration it is; the ledger's own are none of them."""
    loaded = remembered_states(context, entries)
    own = {pointer: loaded[pointer] for pointer in entries if is_ledger(context, pointer.name)}
    watched = {pointer: loaded[pointer] for pointer in entries if pointer not in own}
    return own | recognised(context, watched, indexed)


def _list_catalogs(
    context: RunContext,
) -> tuple[dict[str, CatalogListing], dict[str, CatalogUnlistable]]:
    listings: dict[str, CatalogListing] = {}
    unlisted: dict[str, CatalogUnlistable] = {}
    for catalog in context.catalogs.values():
        try:
            listings[catalog.name] = catalog.listing()
        except CatalogUnlistable as refused:
            unlisted[catalog.name] = refused
    return listings, unlisted


def _record_ownership(context: RunContext, states: Sequence[TableMetadata], now: datetime) -> None:
    """What tables own, and with it what those owned whose metadata files their logs name."""
    ownerships = {
        Ownership(claim_prefix(location), state.uuid)
        for state in states
        for location in state.owned_locations
    }
    recorded = set(context.control.registrations.ownerships())
    before = forerunners(context.control.registrations.all(), states)
    ownerships |= {
        Ownership(o.prefix, heir) for o in recorded for heir in before.get(o.table_uuid, ())
    }
    new = ownerships - recorded
    if new:
        context.control.registrations.add_ownerships(
            sorted(new, key=lambda o: (o.prefix, o.table_uuid)), now
        )


def _record_side_files(context: RunContext, states: Sequence[TableMetadata], now: datetime) -> None:
    """Remembers statistics and metadata files: nothing lists them once a table forgets them."""
    seen = {(file.table_uuid, location_key(file.path)) for file in context.files.side_files.known()}
    new: dict[tuple[str, str], SideFile] = {}
    for state in states:
        for file in side_files_of(state):
            key = (file.table_uuid, location_key(file.path))
            if key not in seen:
                new.setdefault(key, file)
    if not new:
        return
    sizes = load_concurrently(
        lambda file: file.bytes or context.store.size(file.path), list(new.values())
    )
    files = [
        SideFile(file.table_uuid, file.path, file.kind, size, file.snapshot_id)
        for file, size in zip(new.values(), sizes, strict=True)
        if size is not None  # the engine deleted it already
    ]
    context.control.places.add(places_in([f.path for f in files], context.store.is_link))
    context.files.side_files.record(files, now)
    # One that had departed is named again: an older metadata file was registered, say.
    take_back(
        context.files.departures,
        AuditTrail.of(context),
        [file.path for file in files],
        "a table's metadata names it again",
    )


def side_files_of(state: TableMetadata) -> Iterable[SideFile]:
    """The files that a metadata file names directly, itself included; 0 bytes where unknown."""
    yield SideFile(state.uuid, state.metadata_location, FileKind.METADATA, state.metadata_bytes)
    for path in state.metadata_log:
        yield SideFile(state.uuid, path, FileKind.METADATA, 0)
    for file in state.statistics:
        yield SideFile(state.uuid, file.path, FileKind.STATISTICS, file.bytes, file.snapshot_id)


def _record_sightings(context: RunContext, states: Sequence[TableMetadata], now: datetime) -> None:
    """Notes snapshots on side branches, and since when a snapshot is on no branch at all."""
    before = context.control.observations.sightings()
    looks = {
        (table.uuid, table.name): table.observed_at
        for table in context.control.registrations.all()
        if table.status == "live"
    }
    seen: dict[str, dict[int, SnapshotObservation]] = {}
    for state in states:
        old, of_table = before.get(state.uuid, {}), seen.setdefault(state.uuid, {})
        last_look = looks.get((state.uuid, state.name))
        for snapshot_id, sighting in next_sightings(state, old, last_look, now).items():
            earlier = of_table.get(snapshot_id)  # where a table is registered twice
            of_table[snapshot_id] = sighting if earlier is None else sighting.joined(earlier)
    changed: dict[str, dict[int, SnapshotObservation]] = {}
    for uuid, of_table in seen.items():
        old = before.get(uuid, {})
        new = {
            sid: sighting
            for sid, sighting in of_table.items()
            if sighting != old.get(sid, SnapshotObservation())
        }
        if new:
            changed[uuid] = new
    if changed:
        context.control.observations.save_sightings(changed)


def _record_tables(
    context: RunContext,
    states: Sequence[TableMetadata],
    skipped: Mapping[TableName, MeltlineError],
    unread: Collection[TableName],
    listings: Mapping[str, CatalogListing],
    previous: Sequence[KnownTable],
    now: datetime,
) -> None:
    # Once everything was read, what a table shares is known; until then it may need any file. So
    # may one with a new snapshot that nobody could read: `add_files` names files of any table.
    complete = {(table.uuid, table.name) for table in previous if not table.incomplete}
    rows = {
        (state.uuid, state.name): replace(
            known_table(state, "unreadable" if state.name in skipped else "live", now),
            error=skipped[state.name].message if state.name in skipped else "",
            incomplete=state.name in unread
            or (state.name in skipped and (state.uuid, state.name) not in complete),
        )
        for state in states
    }
    listed = {pointer.name for listing in listings.values() for pointer in listing.entries}
    for table in previous:
        if (table.uuid, table.name) in rows or table.name.catalog not in listings:
            continue
        if table.status == LET_GO and table.name not in listed:
            continue
        if table.name not in listed:
            rows[table.uuid, table.name] = _changed(_followed(table, states), "gone", "", now)
        elif table.name in skipped and table.status != "gone":
            rows[table.uuid, table.name] = _changed(
                table, "unreadable", skipped[table.name].message, now
            )
        else:  # another table stands under its name now
            rows[table.uuid, table.name] = _changed(_followed(table, states), "gone", "", now)
    context.control.registrations.save(list(rows.values()))


def _followed(table: KnownTable, states: Sequence[TableMetadata]) -> KnownTable:
    """The row of a name that a table has left follows the table: metadata logs are cut one day."""
    for state in states:
        if state.uuid == table.uuid and comes_of(state, table):
            return replace(table, metadata_location=state.metadata_location)
    return table


def _changed(table: KnownTable, status: str, error: str, now: datetime) -> KnownTable:
    observed_at = table.observed_at if status == table.status else now
    return replace(table, status=status, observed_at=observed_at, error=error)


def _observation(
    context: RunContext,
    now: datetime,
    listings: Mapping[str, CatalogListing],
    unlisted: Mapping[str, CatalogUnlistable],
    readable: Sequence[TableMetadata],
    skipped: Mapping[TableName, MeltlineError],
    indexed: set[SnapshotKey],
    owners: OwnerIndex,
    ledger: set[str],
    unchecked: Sequence[str],
) -> Observation:
    tables = context.control.registrations.all()
    reasons = _not_read(tables, skipped)
    let_go = let_go_tables(tables)
    groups = Groups(context.control.registrations.sharing())
    stale = left_behind(context, readable, listings, groups)
    states = [*readable, *(table.state for table in stale.tables)]
    reasons |= still_changed(context, states, ended=let_go.keys())
    reasons |= still_changed_heads(context, states, ended=let_go.keys())
    entries = [pointer for listing in listings.values() for pointer in listing.entries]
    unread = [pointer for pointer in entries if pointer.name in skipped]
    unread = never_read(tables, unread)
    vouched = vouched_for(context.control.decisions, context.store, unread)
    unread = sorted(set(unread) - vouched, key=lambda pointer: pointer.name)
    reasons |= stale.unclear
    in_metadata = {SnapshotKey(s.uuid, snapshot_id) for s in states for snapshot_id in s.snapshots}
    # Of tables that were not read today (unreadable, unlisted) all that is known stays.
    read_uuids = {state.uuid for state in readable} | let_go.keys() | stale.fully_read
    fully_read = read_uuids - reasons.keys()
    live = {key for key in indexed if key.table_uuid not in fully_read} | (indexed & in_metadata)
    return Observation(
        at=now,
        tables=tuple(
            observed_table(context, state, listings[state.name.catalog])
            for state in sorted(readable, key=lambda state: state.name)
        ),
        skipped=skipped,
        blocked=groups.blocked(reasons),
        purge_blocked=_purge_blocked(unlisted, unread),
        indexed=frozenset(indexed),
        live=frozenset(live),
        owners=owners,
        groups=groups,
        ledger_uuids=frozenset(ledger),
        let_go=let_go,
        unchecked=tuple(unchecked),
        listings=listings,
        names={table.uuid: table.name for table in tables},
        left_behind=stale.tables,
        read=frozenset(fully_read),
    )


def _not_read(
    tables: Sequence[KnownTable], skipped: Mapping[TableName, MeltlineError]
) -> dict[str, str]:
    """Why tables could not be read, by UUID."""
    return {
        table.uuid: f"{table.name}: {skipped[table.name].message}"
        for table in tables
        if table.name in skipped and table.status not in ("gone", LET_GO)
    }


def _purge_blocked(
    unlisted: Mapping[str, CatalogUnlistable], unread: Sequence[CatalogEntry]
) -> str:
    reasons = [f"{name}: {refused.found}" for name, refused in unlisted.items()]
    if reasons:
        return "a catalog could not be listed: " + "; ".join(reasons)
    if unread:
        names = ", ".join(str(pointer.name) for pointer in unread)
        return (
            f"tables that were never read completely may refer to any file: {names}; "
            "`meltline doctor` says what to do"
        )
    return ""


def registrations(observation: Observation) -> Mapping[str, list[ObservedTable]]:
    """The tables of each UUID: more than one when a metadata file was registered twice."""
    by_uuid: dict[str, list[ObservedTable]] = {}
    for table in observation.tables:
        by_uuid.setdefault(table.state.uuid, []).append(table)
    return by_uuid


def rebuild(context: RunContext) -> None:
    """Forgets the index of every table that can be read; the next observation reads it again.

    Of registrations that nobody knows any more it is forgotten as well.
    """
    readable = {
        table.uuid for table in context.control.registrations.all() if table.status == "live"
    }
    context.files.upkeep.rebuild(sorted(readable | forgotten(context)))
    forget_changed_lists(context)
