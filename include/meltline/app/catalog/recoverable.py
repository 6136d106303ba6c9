"""Finds a metadata file that still describes an expired snapshot or a dropped table.

`recover`, and the hints in errors, call it. A dropped table past its retention is still registered
among the dropped ones until its drop is finalized: its own metadata describes it. An expired
snapshot is described by the metadata file that the expiration replaced, as long as that file waits
in failsafe.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.catalog.dropped import DroppedTable, dropped_tables
from meltline.app.catalog.metadata import load_concurrently, load_if_readable
from meltline.app.catalog.registrations import load_standing
from meltline.app.safety.purge_vetoes import files_of, veto_for
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.drop.drops import LET_GO, is_dropped_name
from meltline.domain.errors import MeltlineError, RecoveryImpossible, UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import CatalogListing, KnownTable, ObjectReader, PlanReader, RegistrationReader

REACH = "`meltline branch`, `meltline tag` and `meltline rollback` reach it"


@dataclass(frozen=True)
class Description:
    """A metadata file that still describes a snapshot."""

    state: TableMetadata
    snapshot: Snapshot


@dataclass(frozen=True)
class _Source:
    """A possible source for the description of a snapshot.

    Attributes:
        since: Orders several sources: when the table was as it is described.
        uuid: The registration that it describes.
        ids: The snapshots that it can describe.
        origin: The table as it is registered among the dropped ones, or the plan that expired them.
    """

    since: datetime
    uuid: str
    ids: Collection[int]
    origin: TableMetadata | Plan


def describe(context: ReadContext, name: TableName, snapshot_id: int | None) -> Description:
    """Returns the newest description of a snapshot, of any table that has or had the name.

    Args:
        context: Has its catalog.
        name: The table's name.
        snapshot_id: The snapshot; None for a dropped table's last, or the newest that expired.

    Raises:
        UsageInvalid: A table still has the snapshot, or can be undropped.
        RecoveryImpossible: No metadata file describes it any more, or no run has observed its drop.
    """
    listing = context.catalogs[name.catalog].listing()
    all_dropped = dropped_tables(context, listing)
    dropped = [table for table in all_dropped if table.drop.object.table_name == name]
    rows = context.control.registrations.all()
    lost = _lost(rows, name, listing, all_dropped)
    uuids = _uuids_of(rows, name, dropped)
    if snapshot_id is None:
        _require_noticed(name, lost)
    else:
        is_free = listing.of(name) is None  # else no undrop can restore it under its name
        _require_expired(context, name, dropped if is_free else (), snapshot_id)
    over = [table for table in dropped if not table.drop.is_restorable(context.clock.now())]
    expirations = list(_expirations(context.control.plans, uuids))
    sources = [*expirations, *_standing(over, expirations)]
    description = _newest_of(
        context.control.registrations, context.store, name, sources, snapshot_id
    )
    if description is None and snapshot_id is not None:
        description = _in_logs(context, [r for r in rows if r.uuid in uuids], name, snapshot_id)
    if description is None:
        _require_noticed(name, lost)
        raise _nothing_describes(name, snapshot_id, has_sources=bool(sources))
    return description


def _in_logs(
    context: ReadContext, rows: Iterable[KnownTable], name: TableName, snapshot_id: int
) -> Description | None:
    """Returns the newest description in tables' metadata logs, as for a vanished commit."""
    for row in rows:
        seen = load_if_readable(context.store, name, row.metadata_location)
        for start in filter(None, (_standing_state(context, row), seen)):
            for at in (start.metadata_location, *reversed(start.metadata_log)):
                state = load_if_readable(context.store, name, at)
                is_its = state is not None and state.table_uuid == row.table_uuid
                if state and is_its and (snapshot := state.snapshots.get(snapshot_id)):
                    return Description(replace(state, uuid=row.uuid), snapshot)
    return None


def _nothing_describes(
    name: TableName, snapshot_id: int | None, *, has_sources: bool
) -> RecoveryImpossible:
    subject = str(name) if snapshot_id is None else f"{name}@{snapshot_id}"
    return RecoveryImpossible(
        f"nothing describes {subject} any more",
        object=subject,
        expected="a snapshot that Meltline has expired and that waits in failsafe, or that a "
        "metadata file of the table's log has",
        found="no metadata file that has it" if has_sources else "no expiration by Meltline",
        next="`meltline storage` and `meltline explain` show what is there",
    )


def last_state(context: ReadContext, table: DroppedTable) -> Description | None:
    """Returns the description of a dropped table's last state; None if none is left."""
    name = table.drop.object.table_name
    plans = _expirations(context.control.plans, {table.state.uuid})
    expirations = [source for source in plans if source.since >= table.drop.at]
    return _newest_of(
        context.control.registrations,
        context.store,
        name,
        [*expirations, *_standing([table], expirations)],
        None,
    )


def _newest_of(
    registrations: RegistrationReader,
    store: ObjectReader,
    name: TableName,
    sources: Sequence[_Source],
    snapshot_id: int | None,
) -> Description | None:
    # At equal times, the registered table is preferred: it is listed last.
    for source in reversed(sorted(sources, key=lambda source: source.since)):
        if snapshot_id is not None and snapshot_id not in source.ids:
            continue
        origin = source.origin
        state = (
            _state_before(registrations, store, name, origin)
            if isinstance(origin, Plan)
            else origin
        )
        snapshot = _described(state, source.ids, snapshot_id) if state else None
        if state and snapshot:
            return Description(state, snapshot)
    return None


def _described(
    state: TableMetadata, ids: Iterable[int], snapshot_id: int | None
) -> Snapshot | None:
    """Returns the requested snapshot; without one main's head, or the newest."""
    if snapshot_id is not None:
        return state.snapshots.get(snapshot_id)
    head = state.current_snapshot_id
    return max(
        (state.snapshots[number] for number in ids if number in state.snapshots),
        key=lambda s: (s.snapshot_id == head, s.committed_at, s.snapshot_id),
        default=None,
    )


def _standing(tables: Sequence[DroppedTable], expirations: Sequence[_Source]) -> Iterator[_Source]:
    """Yields dropped tables as sources: later than their expirations, unless those took main."""
    for table in tables:
        state, since = table.state, [table.drop.at]
        if MAIN in state.refs:
            since += [source.since for source in expirations if source.uuid == state.uuid]
        yield _Source(max(since), state.uuid, state.snapshots.keys(), state)


def _expirations(plans: PlanReader, uuids: Iterable[str]) -> Iterator[_Source]:
    states = [PlanState.APPLIED, PlanState.APPLYING]
    for uuid in sorted(uuids):
        for plan in plans.find(table_uuid=uuid, states=states):
            if plan.kind is PlanKind.EXPIRE and plan.snapshots:
                yield _Source(plan.created_at, uuid, plan.snapshots, plan)


def _state_before(
    registrations: RegistrationReader, store: ObjectReader, name: TableName, plan: Plan
) -> TableMetadata | None:
    """Returns the table before an expiration, if that metadata file still exists."""
    rows = [table for table in registrations.all() if table.uuid == plan.table_uuid]
    lineage = {row.table_uuid for row in rows}  # a reused path may have another table's
    for at in dict.fromkeys((plan.committed_base, plan.base_location)):
        state = load_if_readable(store, name, at) if at else None
        if state is not None and state.table_uuid in lineage:
            return replace(state, uuid=plan.table_uuid)
    return None


def _lost(
    rows: Sequence[KnownTable],
    name: TableName,
    listing: CatalogListing,
    dropped: Iterable[DroppedTable],
) -> list[KnownTable]:
    """Returns tables that had a name and have none now: their last state is unknown."""
    stands = {
        row.uuid
        for row in rows
        if row.status == LET_GO or row.name.catalog != name.catalog or listing.of(row.name)
    }
    stands |= {table.state.uuid for table in dropped}
    return [row for row in rows if row.name == name and row.uuid not in stands]


def _require_noticed(name: TableName, lost: Sequence[KnownTable]) -> None:
    """Refuses while the last state of a table that had the name is unknown.

    Otherwise an older state would be restored instead, without a warning.
    """
    if not lost:
        return
    unseen = any(not row.is_ended for row in lost)
    raise RecoveryImpossible(
        f"nobody knows the last state of {name}",
        object=str(name),
        expected="a table that stands among the dropped ones, in its last state",
        found="it left its catalog after the last observation"
        if unseen
        else "it left its catalog, and more than one file, or none, may be its last",
        next="`meltline observe` notices that, then ask again"
        if unseen
        else "`meltline doctor` says why (table_gone) and what to do; or name a snapshot",
    )


def _require_expired(
    context: ReadContext, name: TableName, dropped: Sequence[DroppedTable], snapshot_id: int
) -> None:
    """Refuses a snapshot that can be had without `recover`."""
    now = context.clock.now()
    for table in dropped:
        if table.drop.is_restorable(now) and snapshot_id in table.state.snapshots:
            raise _has_not_expired(
                table.state,
                snapshot_id,
                f"`meltline undrop {quote(table.drop.object)}` brings it back",
            )
    if state := standing_with(context, name, dropped, snapshot_id):
        raise _has_not_expired(state, snapshot_id, REACH)


def standing_with(
    context: ReadContext, name: TableName, dropped: Iterable[DroppedTable], snapshot_id: int
) -> TableMetadata | None:
    """Returns a current table with the snapshot, under any name; `recover` then refuses."""
    rows = context.control.registrations.all()
    uuids = _uuids_of(rows, name, dropped)
    for row in rows:
        state = _standing_state(context, row) if row.uuid in uuids else None
        if state and snapshot_id in state.snapshots:
            return state
    return None


def _uuids_of(
    rows: Iterable[KnownTable], name: TableName, dropped: Iterable[DroppedTable]
) -> set[str]:
    """Returns every registration that has or had a name, also the dropped tables' names."""
    return {row.uuid for row in rows if row.name == name} | {t.state.uuid for t in dropped}


def _standing_state(context: ReadContext, row: KnownTable) -> TableMetadata | None:
    """Returns a registration's current state; None if it has no name or cannot be read."""
    catalog = context.catalogs.get(row.name.catalog)
    if catalog is None or is_dropped_name(row.name.namespace):
        return None
    try:
        state = load_standing(context, row.name, catalog.location(row.name))
    except MeltlineError:
        return None
    return state if state.uuid == row.uuid else None


def _has_not_expired(state: TableMetadata, snapshot_id: int, ways: str) -> UsageInvalid:
    return UsageInvalid(
        f"snapshot {snapshot_id} has not expired",
        object=str(state.name),
        expected="a snapshot that is in failsafe",
        found=f"one that {state.name} still has",
        next=ways,
    )


# --- its files ------------------------------------------------------------------------------------


def look_for_files(context: ReadContext, description: Description) -> tuple[int, tuple[str, ...]]:
    """Counts a snapshot's files that exist, and returns those that do not.

    Raises:
        RecoveryImpossible: A manifest list or a manifest is gone, so its files are unknown.
    """
    veto = veto_for(context, description.state.uuid, description.snapshot, "recover")
    try:
        paths = sorted(files_of(context.store, context.manifests, veto))
    except (MeltlineError, FileNotFoundError) as error:
        raise RecoveryImpossible(
            f"snapshot {description.snapshot.snapshot_id} of {description.state.name}"
            " cannot be read",
            object=f"{description.state.name}@{description.snapshot.snapshot_id}",
            expected="its manifest list and every manifest",
            found=str(error),
            next="recover another snapshot; without its lists nobody knows what this one held",
        ) from error
    sizes = load_concurrently(context.store.size, paths)
    missing = tuple(path for path, size in zip(paths, sizes, strict=True) if size is None)
    return len(paths) - len(missing), missing


def safe_until(
    context: ReadContext, table: DroppedTable, description: Description
) -> datetime | None:
    """Returns until when no purge takes a file of a dropped table's last state.

    While the table is registered, none of them waits yet. Afterwards they wait together with their
    list.

    Returns:
        None if the time is unknown or over.
    """
    now = context.clock.now()
    if description.state is table.state:
        return now + table.drop.retention(context.config.account.reader_grace).failsafe
    snapshot = description.snapshot
    paths = [snapshot.manifest_list] if snapshot.manifest_list else snapshot.inline_manifests
    rows = [row for path in paths for row in context.reader.departures(frozenset(), path)]
    due = [row.due_at for row in rows if row.state is DepartureState.FAILSAFE]
    return min(due) if due and min(due) > now else None
