"""Records observed tables in the ledgers: ownership, side files, observations, registrations.

Observe calls it after tables were read; later runs compare the catalogs with these records.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from meltline.app.catalog.metadata import load_concurrently, load_states
from meltline.app.catalog.registrations import comes_of, forerunners, known_table
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.tombstones import take_back
from meltline.app.services import RunContext
from meltline.domain.drop.drops import LET_GO
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import FileKind, SideFile
from meltline.domain.iceberg.locations import Ownership, claim_prefix, location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.path_aliases import places_in
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.domain.retention.snapshot_observations import next_sightings
from meltline.ports import (
    CONTRADICTORY,
    UNREADABLE,
    CatalogEntry,
    CatalogListing,
    ControlLedger,
    KnownTable,
    RegistrationLedger,
)

Sightings = dict[int, SnapshotObservation]


def record_ownership(
    registrations: RegistrationLedger, states: Sequence[TableMetadata], now: datetime
) -> None:
    """Records tables' locations, and those of registrations whose metadata they continue."""
    ownerships = {
        Ownership(claim_prefix(location), state.uuid)
        for state in states
        for location in state.owned_locations
    }
    before = forerunners(registrations.all(), states)
    ownerships |= {
        Ownership(o.prefix, heir)
        for o in registrations.ownerships()
        for heir in before.get(o.table_uuid, ())
    }
    _add_ownerships(registrations, ownerships, now)


def record_past_ownership(context: RunContext, states: Iterable[TableMetadata]) -> None:
    """Records locations that tables had between two observations, by their metadata logs.

    A location that contains a whole root was set by mistake, and is ignored.
    """
    logged = {
        CatalogEntry(state.name, path): state for state in states for path in state.metadata_log
    }
    loaded = load_states(context.store, logged)
    past = [(logged[at], then) for at, then in loaded.items() if isinstance(then, TableMetadata)]
    ownerships = {
        Ownership(claim_prefix(location), state.uuid)
        for state, then in past
        if then.table_uuid == state.table_uuid
        for location in then.owned_locations
    }
    roots = [claim_prefix(root) for root in context.config.roots]
    narrow = {o for o in ownerships if not any(root.startswith(o.prefix) for root in roots)}
    _add_ownerships(context.control.registrations, narrow, context.clock.now())


def _add_ownerships(
    registrations: RegistrationLedger, ownerships: Collection[Ownership], now: datetime
) -> None:
    new = set(ownerships).difference(registrations.ownerships())
    if new:
        registrations.add_ownerships(sorted(new, key=lambda o: (o.prefix, o.table_uuid)), now)


def side_files_of(state: TableMetadata) -> Iterable[SideFile]:
    """Yields the files that table metadata references directly, and its own; 0 bytes if unknown."""
    yield SideFile(state.uuid, state.metadata_location, FileKind.METADATA, state.metadata_bytes)
    for path in state.metadata_log:
        yield SideFile(state.uuid, path, FileKind.METADATA, 0)
    for file in state.statistics:
        yield SideFile(state.uuid, file.path, FileKind.STATISTICS, file.bytes, file.snapshot_id)


def record_side_files(context: RunContext, states: Iterable[TableMetadata], now: datetime) -> None:
    """Records statistics and metadata files: nothing lists them once a table forgets them."""
    new = _unseen(context.files.side_files.known(), states)
    if not new:
        return
    store = context.store
    sizes = load_concurrently(lambda file: file.bytes or store.size(file.path), new)
    files = [
        replace(file, bytes=size)
        for file, size in zip(new, sizes, strict=True)
        if size is not None  # the engine deleted it already
    ]
    paths = [file.path for file in files]
    context.control.places.add(places_in(paths, store.links_among))
    context.files.side_files.record(files, now)
    # A departed one can be referenced again, for example if an older metadata file is registered.
    why = "a table's metadata names it again"
    take_back(context.files.departures, AuditTrail.of(context), paths, why)


def _unseen(seen: Iterable[SideFile], states: Iterable[TableMetadata]) -> list[SideFile]:
    """Returns new files that tables reference, each once per table."""
    keys = {(file.table_uuid, location_key(file.path)) for file in seen}
    new: dict[tuple[str, str], SideFile] = {}
    for state in states:
        for file in side_files_of(state):
            new.setdefault((file.table_uuid, location_key(file.path)), file)
    return [file for key, file in new.items() if key not in keys]


def record_sightings(
    control: ControlLedger, states: Iterable[TableMetadata], now: datetime
) -> None:
    """Records snapshots on side branches, and since when a snapshot is on no branch at all."""
    before = control.observations.sightings()
    looks = {
        (table.uuid, table.name): table.observed_at
        for table in control.registrations.all()
        if table.status == "live"
    }
    seen: dict[str, Sightings] = {}
    for state in states:
        last_look = looks.get((state.uuid, state.name))
        new = next_sightings(state, before.get(state.uuid, {}), last_look, now)
        seen[state.uuid] = _joined(seen.get(state.uuid, {}), new)
    changed = {
        uuid: rows for uuid, new in seen.items() if (rows := _changed(new, before.get(uuid, {})))
    }
    if changed:
        control.observations.save_sightings(changed)


def _joined(earlier: Sightings, new: Mapping[int, SnapshotObservation]) -> Sightings:
    """Merges the observations of two registrations of one table."""
    both = {sid: new[sid].joined(earlier[sid]) for sid in earlier.keys() & new.keys()}
    return {**earlier, **new, **both}


def _changed(new: Sightings, before: Mapping[int, SnapshotObservation]) -> Sightings:
    nothing = SnapshotObservation()
    return {sid: sighting for sid, sighting in new.items() if sighting != before.get(sid, nothing)}


def record_registrations(
    registrations: RegistrationLedger,
    states: Sequence[TableMetadata],
    listings: Mapping[str, CatalogListing],
    now: datetime,
    *,
    skipped: Mapping[TableName, MeltlineError],
    unread: Collection[TableName],
) -> None:
    """Records the status of each registration: those that were read, and those that are gone.

    Args:
        registrations: The ledger of registrations.
        states: The tables that could be loaded.
        listings: The content of each catalog that could be listed; for others nothing changes.
        now: Wall clock.
        skipped: Errors of tables that could not be read completely.
        unread: Skipped tables with a list or manifest that could not be read at all.
    """
    previous = registrations.all()
    seen = {(table.uuid, table.name): table for table in previous}
    # Once a table was read completely, its sharing is known; until then it may need any file. So
    # may one with a new unreadable snapshot: `add_files` references files of any table.
    complete = {key for key, table in seen.items() if not table.incomplete}
    rows = {}
    for state in states:
        key, error = (state.uuid, state.name), skipped.get(state.name)
        is_unsure = bool(state.namesakes) or (error is not None and key not in complete)
        incomplete = state.name in unread or is_unsure
        rows[key] = replace(known_table(state, "live", now), incomplete=incomplete)
        if error:
            status = UNREADABLE if state.name in unread else CONTRADICTORY
            rows[key] = _skipped(status, rows[key], error, seen.get(key))
    for table in previous:
        if (table.uuid, table.name) not in rows and _is_missed(table, listings):
            rows[table.uuid, table.name] = _missed(table, skipped.get(table.name), states, now)
    registrations.save(list(rows.values()))


def _is_missed(table: KnownTable, listings: Mapping[str, CatalogListing]) -> bool:
    """Returns whether a registration should be under its name; not if its drop is finalized."""
    listing = listings.get(table.name.catalog)
    return listing is not None and (table.status != LET_GO or listing.of(table.name) is not None)


def _missed(
    table: KnownTable, error: MeltlineError | None, states: Iterable[TableMetadata], now: datetime
) -> KnownTable:
    """Returns the row of a registration that was not read under its name.

    The table cannot be read, or it left the name, which is free now or has another table. In that
    case its row follows the table to its new name, because metadata logs are truncated.
    """
    if error and table.status != "gone":
        return _skipped(UNREADABLE, table, error, table)
    later = (state for state in states if state.uuid == table.uuid and comes_of(state, table))
    if state := next(later, None):
        table = replace(table, metadata_location=state.metadata_location)
    noticed_at = table.observed_at if table.status == "gone" else now
    return replace(table, status="gone", observed_at=noticed_at, error="")


def _skipped(
    status: str, table: KnownTable, error: MeltlineError, seen: KnownTable | None
) -> KnownTable:
    """Returns the row of an incomplete table, with the time of its last complete observation."""
    observed_at = seen.observed_at if seen else table.observed_at
    return replace(table, status=status, observed_at=observed_at, error=error.message)
