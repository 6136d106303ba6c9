"""External drops: detects tables that left their catalog without `meltline drop`, and keeps them.

The observe step calls it through `drop/finalize.py`. A registration that is gone under every name
was dropped. It was not dropped if the table was renamed, or if another registration continues it.
The table is registered among the dropped ones in its last state, so that its files stay referenced
and undrop works. The last state is the newest metadata file with its UUID whose log leads to the
last observed one, and that no other registration has. If two files qualify, or none, both are kept
and the operator is asked.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from meltline.app.catalog.commit import follow
from meltline.app.catalog.dropped import dropped_place
from meltline.app.catalog.metadata import (
    load_concurrently,
    load_if_readable,
    load_states,
    metadata_of,
)
from meltline.app.catalog.registrations import comes_of
from meltline.app.catalog.tables import observed_table, retention_of
from meltline.app.retention.policies import APPLIED
from meltline.app.safety.audit import audit
from meltline.app.safety.server_probe import unmanaged_reason
from meltline.app.services import ReadContext
from meltline.config.load import Config
from meltline.domain.drop.drops import Drop, is_dropped_name, read_drop
from meltline.domain.errors import MeltlineError, StoreRefused
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.policy import INFINITE, parse_days
from meltline.ports import (
    Catalog,
    CatalogEntry,
    CatalogListing,
    FolderReader,
    KnownTable,
    LedgerReader,
    ObjectReader,
)

_SUFFIX = ".metadata.json"
_MOST_FOLDERS = 1000  # empty ones, which file systems keep
_DEPARTED = (DepartureState.FAILSAFE, DepartureState.DELETED)


@dataclass(frozen=True)
class GoneTable:
    """A table that is gone under every name.

    Attributes:
        row: Its last registration in the ledger.
        state: Its last state; None if that is ambiguous or unknown.
        question: Why the last state is unknown, or why it cannot be kept as a dropped table.
    """

    row: KnownTable
    state: TableMetadata | None
    question: str = ""


def gone_tables(context: ReadContext) -> list[GoneTable]:
    """Finds every table that has left its catalog and is not among the dropped ones either."""
    rows = context.control.registrations.all()
    standing = [row for row in rows if row.status != "gone"]
    uuids = {row.uuid for row in standing}
    ended = grouped((row for row in rows if row.uuid not in uuids), lambda row: row.uuid)
    requests = []
    for _, last_rows in sorted(ended.items()):
        copies = _copies(context.store, last_rows, standing)
        if not any(_went_on(state, row) for state in copies for row in last_rows):
            requests.append((last_rows, copies))
    looks = load_concurrently(lambda request: _look(context, *request), requests)
    return list(filter(None, looks))


def _went_on(state: TableMetadata, row: KnownTable) -> bool:
    """Whether a registration continues the table of an older row.

    A registration whose drop precedes the last observation of the row's table does not: it was
    reset to an older state, and its retention counts from its own drop.
    """
    is_aside = is_dropped_name(state.name.namespace)
    drop = read_drop(state.name.catalog, state.properties) if is_aside else None
    was_over = drop is not None and drop.at < row.observed_at
    return comes_of(state, row) and not was_over


def _copies(
    store: ObjectReader, last_rows: Sequence[KnownTable], standing: Sequence[KnownTable]
) -> list[TableMetadata]:
    """Other registrations with the same Iceberg UUID: copies, and second names."""
    rows = [row for row in standing if row.table_uuid == last_rows[0].table_uuid]
    entries = [CatalogEntry(row.name, row.metadata_location) for row in rows]
    return metadata_of(load_states(store, entries).values())


def _look(
    context: ReadContext, rows: Sequence[KnownTable], copies: Sequence[TableMetadata]
) -> GoneTable | None:
    """Finds a table's last state; None if no file of it is left."""
    # The name that it left last; if it left two at once, the one among the dropped tables.
    row = max(rows, key=lambda row: (row.observed_at, is_dropped_name(row.name.namespace)))
    if question := _out_of_reach(context.config, context.catalogs, row):
        return GoneTable(row, None, question)
    try:
        candidates = last_states(context, rows, copies)
    except MeltlineError as error:
        return GoneTable(row, None, f"its metadata folder cannot be listed: {error.message}")
    if not candidates and _is_purged(context, row):
        return None
    if len(candidates) != 1:
        return GoneTable(row, None, _open_question(row, candidates))
    state = replace(candidates[0], name=row.name, uuid=row.uuid)
    if lost := _lost_lists(context.store, state):
        return GoneTable(row, None, f"an engine has deleted files of it, {lost[0]} for one")
    return GoneTable(row, state)


def _is_purged(context: ReadContext, row: KnownTable) -> bool:
    """Whether no file is left in any location of the table: an engine purged it with its drop."""
    ownerships = context.control.registrations.ownerships()
    owned = {row.location, *(o.prefix for o in ownerships if o.table_uuid == row.uuid)}
    try:
        return not any(_has_files(context.folders, folder) for folder in owned)
    except StoreRefused:
        return False


def _has_files(reader: FolderReader, folder: str) -> bool:
    """Whether a folder has files, or more folders than are worth listing."""
    folders = [folder]
    for _ in range(_MOST_FOLDERS):
        level = reader.level(folders.pop())
        folders += level.folders
        if level.files or level.names or not folders:
            return bool(level.files or level.names)
    return True


def _open_question(row: KnownTable, candidates: Sequence[TableMetadata]) -> str:
    if not candidates:
        return f"no metadata file leads back to the last one seen, {row.metadata_location}"
    paths = ", ".join(sorted(state.metadata_location for state in candidates))
    return f"more than one metadata file may be its last: {paths}"


def _lost_lists(store: ObjectReader, state: TableMetadata) -> list[str]:
    lists = [s.manifest_list for s in state.snapshots.values() if s.manifest_list]
    sizes = load_concurrently(store.size, lists)
    return [path for path, size in zip(lists, sizes, strict=True) if size is None]


def _out_of_reach(config: Config, catalogs: Mapping[str, Catalog], row: KnownTable) -> str:
    if row.name.catalog != config.hot or catalogs[config.hot].observe_only:
        return "its catalog is only observed"
    hot = config.catalogs[config.hot]
    if hot.server_commits and unmanaged_reason(config, hot.name, catalogs[hot.name].listing()):
        return "tables of its catalog are read, never changed"
    return "it was never read completely" if row.incomplete else ""


# --- the last state -------------------------------------------------------------------------------


def last_states(
    context: ReadContext, rows: Sequence[KnownTable], copies: Sequence[TableMetadata] = ()
) -> list[TableMetadata]:
    """Finds the metadata files that may be a table's last: normally exactly one.

    Args:
        context: The store of the table, and its departures.
        rows: The known registrations of the table, one per name.
        copies: Other registrations with its UUID: files that only they name are not its own.

    Raises:
        StoreRefused: A folder cannot be listed.
    """
    last_seen = {location_key(row.metadata_location) for row in rows}
    theirs = set[str]().union(*map(_line, copies)) - last_seen
    files = {
        at: state
        for row in rows
        for at, state in _later_files(context.store, row)
        if at not in theirs
    }
    for at in _set_back_from(context.reader, files, last_seen):
        del files[at]
    tips = _tips(files)
    # A newer file of this table that does not lead back means a broken chain: the state is unknown.
    return tips if any(last_seen <= _past(state, files) for state in tips) else []


def _set_back_from(
    reader: LedgerReader, files: Mapping[str, TableMetadata], last_seen: Collection[str]
) -> list[str]:
    """Later states that name a departed metadata file: the table continued without them."""
    later = {at: state for at, state in files.items() if at not in last_seen}
    paths = {
        path for state in later.values() for path in (*state.metadata_log, state.metadata_location)
    }
    departures = reader.departures((), *sorted(paths)) if paths else ()
    departed = {location_key(row.path) for row in departures if row.state in _DEPARTED}
    return [at for at, state in later.items() if departed & _line(state)]


def _tips(files: Mapping[str, TableMetadata]) -> list[TableMetadata]:
    """Metadata files that no other file continues."""
    logged = {at for state in files.values() for at in _log(state)}
    return [state for at, state in files.items() if at not in logged]


def _later_files(store: ObjectReader, row: KnownTable) -> Iterator[tuple[str, TableMetadata]]:
    """Reads the table's metadata files, except those with a lower number than the last one seen."""
    folder, _, last = row.metadata_location.rpartition("/")
    paths = [
        stored.path
        for stored in store.list(f"{folder}/")
        if stored.path.endswith(_SUFFIX) and _number(stored.path) >= _number(last)
    ]

    # Other files were truncated by a kill, or have a format that we leave alone: none is the last.
    states = load_concurrently(lambda path: load_if_readable(store, row.name, path), paths)
    for path, state in zip(paths, states, strict=True):
        if state is not None and state.table_uuid == row.table_uuid:
            yield location_key(path), state


def _number(path: str) -> int:
    version = path.rpartition("/")[2].partition("-")[0]
    return int(version) if version.isdecimal() else 0


def _log(state: TableMetadata) -> set[str]:
    return {location_key(path) for path in state.metadata_log}


def _line(state: TableMetadata) -> set[str]:
    return _log(state) | {location_key(state.metadata_location)}


def _past(state: TableMetadata, files: Mapping[str, TableMetadata]) -> set[str]:
    """Every metadata file that this one descends from, and itself; logs are cut, so by steps."""
    past: set[str] = set()
    waiting = {location_key(state.metadata_location)}
    while waiting:
        at = waiting.pop()
        past.add(at)
        if at in files:
            waiting |= _log(files[at]) - past
    return past


# --- keeping it as a dropped table ----------------------------------------------------------------


def keep_gone_table(
    context: ReadContext, gone_table: GoneTable, listing: CatalogListing
) -> TableName | None:
    """Registers a gone table among the dropped ones. Returns its name there; None if it cannot.

    One that was among them already, and was removed from there, keeps the facts of its drop.
    """
    state, row = gone_table.state, gone_table.row
    place = dropped_place(row.uuid, row.name.catalog)
    if state is None or any(pointer.name == place for pointer in listing.entries):
        return None
    was_dropped = is_dropped_name(row.name.namespace)
    fact = read_drop(row.name.catalog, state.properties) if was_dropped else None
    fact = fact or _noticed(context, row, state, listing)
    written = fact.written()
    context.registrars[row.name.catalog].register(
        place, state.metadata_location, lambda document: document.set_properties(written)
    )
    rows = [
        known_row for known_row in context.control.registrations.all() if known_row.uuid == row.uuid
    ]
    follow(
        context.control.registrations, [replace(state, name=known_row.name) for known_row in rows]
    )
    restored = f"{place}, metadata {state.metadata_location}"
    audit(context, "drop noticed", str(fact.object), detail=f"kept as {restored}")
    return place


def _noticed(
    context: ReadContext, row: KnownTable, state: TableMetadata, listing: CatalogListing
) -> Drop:
    """Builds the facts of an external drop; its time is the table's last observation."""
    name = ObjectName(row.name.catalog, row.name.namespace, row.name.name)
    policies = context.control.policies.all()
    named_state = replace(state, name=row.name)
    retention = retention_of(
        context.config.account, observed_table(context, named_state, listing), policies
    )
    # Its namespace may be gone too: the retention that applied at its last observation also counts.
    applied = parse_days(policies.get(row.uuid, {}).get(APPLIED, "0"))
    days = retention.days
    if INFINITE in (applied, days):
        days = INFINITE
    elif isinstance(applied, int) and isinstance(days, int):
        days = max(days, applied)
    return Drop(
        object=name,
        at=row.observed_at,
        retention_days=days,
        failsafe_days=retention.failsafe // timedelta(hours=24),
        batch=uuid4().hex[:12],
        noticed=True,
    )
