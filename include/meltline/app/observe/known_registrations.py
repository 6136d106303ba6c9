"""Tables as the registrations that both ledgers know, the control ledger and the file ledger.

The file ledger knows of each registration where its snapshots' manifest lists lay when they were
read. That tells apart what Iceberg's UUID and the log of metadata files do not: a table whose paths
were rewritten in place under a log that goes on has become another one. And it tells who is who
where the control ledger begins anew: copies may not swap their ids (decision 028).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from meltline.app.catalog.dropped import dropped_place
from meltline.app.catalog.metadata import load_states
from meltline.app.catalog.registrations import UNOBSERVED, goes_on, identified, known_table
from meltline.app.catalog.tables import is_ledger
from meltline.app.services import RunContext
from meltline.domain.errors import CatalogUnlistable, MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata, place_key
from meltline.ports import CatalogEntry, Incident, KnownTable, SnapshotKey

FORGOTTEN = "RegistrationForgotten"
_PASSES = 5  # a table may be told apart from one registration, and be taken for another then

Loaded = Mapping[CatalogEntry, TableMetadata | MeltlineError]


def recognised(
    context: RunContext, loaded: Loaded, indexed: Collection[SnapshotKey]
) -> dict[CatalogEntry, TableMetadata | MeltlineError]:
    """Every table with the id of its registration; those of new ones are stored.

    Args:
        context: The ports.
        loaded: What each catalog has, as it was loaded; none of the ledger's own.
        indexed: Snapshots that the file ledger knows.
    """
    _note_forgotten(context, take_up(context, _states(loaded), indexed))
    filed = {key.table_uuid for key in indexed}
    for _ in range(_PASSES):
        tables = identified(context, loaded, open_new=True, filed=filed)
        if not _told_apart(context, _states(tables)):
            break
    return tables


def _note_forgotten(context: RunContext, keys: Iterable[SnapshotKey]) -> None:
    """Names registrations that the file ledger knows and that no table was recognised as.

    What was read of them stays referred to: nobody can tell whether they stand somewhere.
    """
    counts = Counter(key.table_uuid for key in keys)
    standing = {
        incident.id for incident in context.control.incidents.all() if incident.kind == FORGOTTEN
    }
    new = [_incident(context, uuid, counts[uuid]) for uuid in sorted(counts)]
    if new:
        context.control.incidents.add(new)
    if over := sorted(standing - {incident.id for incident in new}):
        context.control.incidents.end(over)


def forgotten(context: RunContext) -> set[str]:
    """Registrations that the file ledger knows and the control ledger does not."""
    filed = {key.table_uuid for key in context.files.snapshots.known()}
    return filed - {row.uuid for row in context.control.registrations.all()}


def _incident(context: RunContext, uuid: str, snapshots: int) -> Incident:
    return Incident(
        id=f"{FORGOTTEN} {uuid}",
        kind=FORGOTTEN,
        object=uuid,
        table="",
        table_uuid=uuid,
        at=context.clock.now(),
        message=f"the file ledger knows {snapshots} snapshots of registration {uuid}, which the "
        "control ledger does not know and no table is: their files are kept",
        next="once every table can be read, `meltline observe --rebuild` forgets it, and a sweep "
        "finds its files",
    )


def take_up_all(context: RunContext) -> None:
    """Does so for all tables that can be read now, for a control ledger that begins anew."""
    entries: list[CatalogEntry] = []
    for catalog in context.catalogs.values():
        try:
            entries += catalog.listing().entries
        except CatalogUnlistable:
            continue  # the observation that can list it takes its tables up
    tables = [pointer for pointer in entries if not is_ledger(context, pointer.name)]
    indexed = context.files.snapshots.known()
    take_up(context, _states(load_states(context.store, tables)), indexed)


def take_up(
    context: RunContext, states: Sequence[TableMetadata], indexed: Collection[SnapshotKey]
) -> list[SnapshotKey]:
    """Gives registrations that only the file ledger knows back to the tables that they are.

    Of each such table every list lies where it was read, and its metadata is of that lineage: it
    has the UUID that is the id, or names a metadata file that was seen of the registration. Where
    two fit, that with most of the snapshots; whom nothing fits is a new registration.

    Returns:
        Snapshots of registrations that no table is.
    """
    rows = context.control.registrations.all()
    ids = {row.uuid for row in rows}
    unclaimed = [key for key in indexed if key.table_uuid not in ids]
    if not unclaimed:
        return []
    lineages: dict[str, list[KnownTable]] = {}
    for row in rows:
        lineages.setdefault(row.table_uuid, []).append(row)
    strangers = [
        state
        for state in states
        if not any(goes_on(state, row) for row in lineages.get(state.table_uuid, ()))
    ]
    new, now = _claims(context, strangers, unclaimed), context.clock.now()
    context.control.registrations.open(
        [known_table(replace(state, uuid=uuid), UNOBSERVED, now) for state, uuid in new]
    )
    given = {uuid for _, uuid in new}
    return [key for key in unclaimed if key.table_uuid not in given]


def _claims(
    context: RunContext, strangers: Sequence[TableMetadata], unclaimed: Iterable[SnapshotKey]
) -> list[tuple[TableMetadata, str]]:
    """Which stranger is which registration: each is one at most."""
    by_name = {state.name: state for state in strangers}
    agreeing = _agreeing(context, strangers, unclaimed)
    seen = _seen_metadata(context) if agreeing else {}
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
    context: RunContext, strangers: Sequence[TableMetadata], unclaimed: Iterable[SnapshotKey]
) -> Mapping[tuple[TableName, str], int]:
    """How many snapshots a table has of a registration, where each lies where it was read."""
    having: dict[int, list[TableMetadata]] = {}
    for state in strangers:
        for snapshot_id in state.snapshots:
            having.setdefault(snapshot_id, []).append(state)
    uuids = {key.table_uuid for key in unclaimed if key.snapshot_id in having}
    agreeing: Counter[tuple[TableName, str]] = Counter()
    against: set[tuple[TableName, str]] = set()
    for key, place in context.files.snapshots.places(uuids):
        for state in having.get(key.snapshot_id, ()):
            pair = (state.name, key.table_uuid)
            if state.snapshots[key.snapshot_id].lies_at(place):
                agreeing[pair] += 1
            else:
                against.add(pair)
    return {pair: count for pair, count in agreeing.items() if pair not in against}


def _seen_metadata(context: RunContext) -> Mapping[str, set[str]]:
    """The metadata files that were seen of each registration."""
    seen: dict[str, set[str]] = {}
    for file in context.files.side_files.known():
        seen.setdefault(file.table_uuid, set()).add(location_key(file.path))
    return seen


def _is_of(state: TableMetadata, uuid: str, seen: Mapping[str, set[str]]) -> bool:
    """Whether metadata is of a registration's lineage: a clone has the lists of its source, too."""
    if uuid == state.table_uuid:
        return True
    log = {location_key(path) for path in (*state.metadata_log, state.metadata_location)}
    return not log.isdisjoint(seen.get(uuid, ()))


def _is_aside(state: TableMetadata, uuid: str) -> bool:
    """False for the place of the dropped registration itself, which sorts before all else."""
    return state.name != dropped_place(uuid, state.name.catalog)


def _told_apart(context: RunContext, states: Iterable[TableMetadata]) -> bool:
    """Has the control ledger remember of registrations what shows that a table is none of them.

    Returns:
        Whether there was such a table: who is who is to be asked again.
    """
    tables = {state.uuid: state.snapshots for state in states}
    elsewhere = {
        uuid: f"{number} {place_key(place)}"
        for (uuid, number), place in context.files.snapshots.places(tables)
        if (snapshot := tables[uuid].get(number)) and not snapshot.lies_at(place)
    }
    if not elsewhere:
        return False
    rows = [row for row in context.control.registrations.all() if row.uuid in elsewhere]
    context.control.registrations.save([replace(row, newest=elsewhere[row.uuid]) for row in rows])
    return True


def _states(loaded: Loaded) -> list[TableMetadata]:
    return [state for state in loaded.values() if isinstance(state, TableMetadata)]
