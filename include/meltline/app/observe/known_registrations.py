"""Identifies registrations by both ledgers: the control ledger and the file ledger.

Observe and `init` call it. The file ledger knows the paths of each registration's manifest lists.
They distinguish what Iceberg's UUID and the metadata log cannot: a table whose paths a tool
has rewritten is another registration, though its log continues. They also identify tables for a new
control ledger: copies must not swap their ids (decision 028).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from meltline.app.catalog.dropped import dropped_place
from meltline.app.catalog.listings import list_catalogs
from meltline.app.catalog.metadata import Loaded, load_states, metadata_of
from meltline.app.catalog.registrations import UNOBSERVED, goes_on, identified, known_table
from meltline.app.catalog.tables import is_ledger
from meltline.app.safety.incidents import end_incidents, standing_incidents
from meltline.app.services import RunContext
from meltline.domain.clock import Clock
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata, place_key
from meltline.ports import (
    FileLedger,
    Incident,
    IndexedSnapshots,
    KnownTable,
    RegistrationLedger,
    RegistrationReader,
    SideFileIndex,
    SnapshotKey,
)

FORGOTTEN = "RegistrationForgotten"
_PASSES = 5  # a table that is not one registration may then match another


def recognised(context: RunContext, loaded: Loaded, indexed: Collection[SnapshotKey]) -> Loaded:
    """Returns every table with the id of its registration, and stores new registrations.

    Args:
        context: The ports.
        loaded: The content of each catalog, as it was loaded, without the ledger's own tables.
        indexed: Snapshots in the file ledger.
    """
    _note_forgotten(context, take_up(context, metadata_of(loaded.values()), indexed))
    filed = {key.table_uuid for key in indexed}
    for _ in range(_PASSES):
        tables = identified(context, loaded, open_in=context, filed=filed)
        if not _told_apart(
            context.control.registrations, context.files.snapshots, metadata_of(tables.values())
        ):
            break
    return tables


def _note_forgotten(context: RunContext, keys: Iterable[SnapshotKey]) -> None:
    """Raises an incident for each registration in the file ledger that matches no table.

    Its files stay referenced, because it may still exist under an unknown name.
    """
    counts = Counter(key.table_uuid for key in keys)
    incidents = context.control.incidents
    new = [_incident(context.clock, uuid, counts[uuid]) for uuid in sorted(counts)]
    standing = standing_incidents(incidents, FORGOTTEN)
    if new:
        incidents.add(new)
    ids = {incident.id for incident in new}
    end_incidents(incidents, standing, lambda incident: incident.id not in ids)


def forgotten(registrations: RegistrationReader, snapshots: IndexedSnapshots) -> set[str]:
    """Returns registrations that the file ledger knows and the control ledger does not."""
    filed = {key.table_uuid for key in snapshots.known()}
    return filed - {row.uuid for row in registrations.all()}


def _incident(clock: Clock, uuid: str, snapshots: int) -> Incident:
    return Incident(
        id=f"{FORGOTTEN} {uuid}",
        kind=FORGOTTEN,
        object=uuid,
        table="",
        table_uuid=uuid,
        at=clock.now(),
        message=f"the file ledger knows {snapshots} snapshots of registration {uuid}, which the "
        "control ledger does not know and no table is: their files are kept",
        next="once every table can be read, `meltline observe --rebuild` forgets it, and a sweep "
        "finds its files",
    )


def take_up_all(context: RunContext) -> None:
    """Does the same as `take_up`, with all readable tables, for a new control ledger."""
    entries = list_catalogs(context.catalogs.values()).entries  # others: by the next observation
    tables = [pointer for pointer in entries if not is_ledger(context, pointer.name)]
    indexed = context.files.snapshots.known()
    take_up(context, metadata_of(load_states(context.store, tables).values()), indexed)


def take_up(
    context: RunContext, states: Sequence[TableMetadata], indexed: Collection[SnapshotKey]
) -> list[SnapshotKey]:
    """Assigns registrations that only the file ledger knows to the tables that match.

    A table matches if every manifest list is at the path where it was read, and its metadata
    belongs to that lineage: its UUID is the id, or its log contains a metadata file of the
    registration. If two match, the one with most of the snapshots wins. A table without a match is
    a new registration.

    Returns:
        Snapshots of registrations that match no table.
    """
    rows = context.control.registrations.all()
    ids = {row.uuid for row in rows}
    unclaimed = [key for key in indexed if key.table_uuid not in ids]
    if not unclaimed:
        return []
    new, now = _claims(context.files, _strangers(states, rows), unclaimed), context.clock.now()
    context.control.registrations.open(
        [known_table(replace(state, uuid=uuid), UNOBSERVED, now) for state, uuid in new]
    )
    given = {uuid for _, uuid in new}
    return [key for key in unclaimed if key.table_uuid not in given]


def _strangers(states: Iterable[TableMetadata], rows: Iterable[KnownTable]) -> list[TableMetadata]:
    """Returns tables that match no registration in the control ledger."""
    lineages = grouped(rows, lambda row: row.table_uuid)
    return [
        state
        for state in states
        if not any(goes_on(state, row) for row in lineages.get(state.table_uuid, ()))
    ]


def _claims(
    files: FileLedger, strangers: Sequence[TableMetadata], unclaimed: Iterable[SnapshotKey]
) -> list[tuple[TableMetadata, str]]:
    """Assigns tables to registrations, one to one."""
    by_name = {state.name: state for state in strangers}
    agreeing = _agreeing(files.snapshots, strangers, unclaimed)
    seen = _seen_metadata(files.side_files) if agreeing else {}
    fitting = [
        (_is_aside(by_name[name], uuid), -count, uuid != by_name[name].table_uuid, name, uuid)
        for (name, uuid), count in agreeing.items()
        if _is_of(by_name[name], uuid, seen)
    ]
    given: dict[str, TableName] = {}
    claimed_names: set[TableName] = set()
    for *_, name, uuid in sorted(fitting):
        if uuid not in given and name not in claimed_names:
            given[uuid] = name
            claimed_names.add(name)
    return [(by_name[name], uuid) for uuid, name in given.items()]


def _agreeing(
    snapshots: IndexedSnapshots,
    strangers: Sequence[TableMetadata],
    unclaimed: Iterable[SnapshotKey],
) -> Mapping[tuple[TableName, str], int]:
    """Counts the snapshots of a table in a registration, if all are at the same paths."""
    pairs = [(number, state) for state in strangers for number in state.snapshots]
    having = grouped(pairs, lambda pair: pair[0])
    uuids = {key.table_uuid for key in unclaimed if key.snapshot_id in having}
    agreeing: Counter[tuple[TableName, str]] = Counter()
    against: set[tuple[TableName, str]] = set()
    for key, place in snapshots.places(uuids):
        for _, state in having.get(key.snapshot_id, ()):
            pair = (state.name, key.table_uuid)
            if state.snapshots[key.snapshot_id].lies_at(place):
                agreeing[pair] += 1
            else:
                against.add(pair)
    return {pair: count for pair, count in agreeing.items() if pair not in against}


def _seen_metadata(side_files: SideFileIndex) -> Mapping[str, set[str]]:
    """Returns the observed metadata files of each registration."""
    seen: dict[str, set[str]] = {}
    for file in side_files.known():
        seen.setdefault(file.table_uuid, set()).add(location_key(file.path))
    return seen


def _is_of(state: TableMetadata, uuid: str, seen: Mapping[str, set[str]]) -> bool:
    """Returns whether metadata is in a registration's lineage: lists alone match clones too."""
    if uuid == state.table_uuid:
        return True
    log = {location_key(path) for path in (*state.metadata_log, state.metadata_location)}
    return not log.isdisjoint(seen.get(uuid, ()))


def _is_aside(state: TableMetadata, uuid: str) -> bool:
    """Returns False for the name of the dropped registration itself, which sorts first."""
    return state.name != dropped_place(uuid, state.name.catalog)


def _told_apart(
    registrations: RegistrationLedger, snapshots: IndexedSnapshots, states: Iterable[TableMetadata]
) -> bool:
    """Records in the control ledger which snapshots prove that a table is another registration.

    Returns:
        Whether any table was affected: all must then be identified again.
    """
    tables = {state.uuid: state.snapshots for state in states}
    elsewhere = {
        uuid: f"{number} {place_key(place)}"
        for (uuid, number), place in snapshots.places(tables)
        if (snapshot := tables[uuid].get(number)) and not snapshot.lies_at(place)
    }
    if not elsewhere:
        return False
    rows = [row for row in registrations.all() if row.uuid in elsewhere]
    registrations.save([replace(row, newest=elsewhere[row.uuid]) for row in rows])
    return True
