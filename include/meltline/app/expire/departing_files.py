"""Computes which files depart by expirations.

These are files of expired snapshots that no other snapshot references, and side files that no
metadata names. `plan_expiration` calls it; which plan a file goes to is decided there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from meltline.app.catalog.tables import ObservedTable, TableRetention
from meltline.app.observe.observe import Observation
from meltline.app.observe.recording import record_past_ownership, side_files_of
from meltline.app.services import RunContext
from meltline.domain.deletion.orphans import is_metadata
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.iceberg.files import DepartureState, SideFile
from meltline.domain.iceberg.locations import OwnerIndex, location_key
from meltline.domain.iceberg.names import TableName
from meltline.ports import (
    DepartingFile,
    DepartureLog,
    FileLedger,
    Neighbourhood,
    PlanLedger,
    SnapshotKey,
)


def departing_files(
    files: FileLedger,
    plans: PlanLedger,
    observation: Observation,
    targets: Sequence[TableRetention],
    candidates: Sequence[SnapshotKey],
    within: Neighbourhood | None,
) -> list[DepartingFile]:
    """Returns files that only the candidates reference, and side files that no metadata names.

    Compared by path, whatever kind a file is recorded as: a statistics entry may name a live data
    file.
    """
    departing = files.references.departing(candidates, within)
    waiting = _described_by_waiting_departures(files.departures, plans)
    known = files.side_files.known()
    staying = _staying_side_files(known, waiting, observation, targets)
    side_files = _departing_side_files(known, staying, targets)
    dead = [*observation.dead, *candidates]
    alive = files.references.among([f.path for f in side_files if not is_metadata(f.path)], dead)
    listed = {location_key(file.path) for file in departing}
    return [
        *(
            file
            for file in _not_deleted(files.departures, departing, targets)
            if location_key(file.path) not in staying
        ),
        *(
            file
            for file in side_files
            if file.path not in alive and location_key(file.path) not in listed
        ),
    ]


def with_past_owners(
    context: RunContext, observation: Observation, departing: Iterable[DepartingFile]
) -> Observation:
    """Adds the past locations of tables if departing files lie under no table."""
    uuids = {
        uuid
        for file in departing
        if not observation.owners.owners(file.path)
        for uuid in file.table_uuids
    }
    states = [table.state for table in observation.tables if table.state.uuid in uuids]
    if not states:
        return observation
    record_past_ownership(context, states)
    return replace(observation, owners=OwnerIndex(context.control.registrations.ownerships()))


def _not_deleted(
    departures: DepartureLog,
    departing: Sequence[DepartingFile],
    targets: Sequence[TableRetention],
) -> list[DepartingFile]:
    """Leaves out files that were deleted long ago.

    A clone that Meltline does not manage keeps its own manifest lists. So the ledger knows its dead
    snapshots, and the files they referenced, for ever.
    """
    planned = {target.state.uuid for target in targets}
    clones = [file.path for file in departing if planned.isdisjoint(file.table_uuids)]
    if not clones:
        return list(departing)
    deleted = departures.in_states(frozenset({DepartureState.DELETED}), paths=clones)
    deleted_keys = {location_key(departure.path) for departure in deleted}
    deleted_keys |= {location_key(path) for path in departures.settled(clones)}
    return [file for file in departing if location_key(file.path) not in deleted_keys]


def _staying_side_files(
    files: Sequence[SideFile],
    waiting: Collection[str],
    observation: Observation,
    targets: Sequence[TableRetention],
) -> set[str]:
    """Keys of the statistics and metadata files that some table's metadata names, or may name.

    `waiting` are keys of the files that describe snapshots with files in failsafe.
    """
    # By name, not UUID: where a table is registered twice, one registration may keep a snapshot.
    leaving = {target.state.name: frozenset(target.keeps.expired) for target in targets}
    # Files that a dropped table names stay; so do all files of a table that is unreadable now.
    unread = {location_key(f.path) for f in files if f.table_uuid not in observation.read}
    named = _named_by(observation.tables, leaving) | _named_by(observation.left_behind, {})
    return named | unread | set(waiting)


def _departing_side_files(
    files: Sequence[SideFile], staying: Collection[str], targets: Sequence[TableRetention]
) -> list[DepartingFile]:
    """Returns the side files of planned tables that do not stay."""
    planned = {target.state.uuid for target in targets}
    return [
        DepartingFile(file.path, file.kind, file.bytes, (file.table_uuid,))
        for file in files
        if file.table_uuid in planned and location_key(file.path) not in staying
    ]


def _named_by(
    tables: Iterable[ObservedTable], leaving: Mapping[TableName, Collection[int]]
) -> set[str]:
    """Keys of the side files of tables, but for statistics of snapshots that leave them."""
    return {
        location_key(file.path)
        for table in tables
        for file in side_files_of(table.state)
        if file.snapshot_id not in leaving.get(table.state.name, ())
    }


def _described_by_waiting_departures(departures: DepartureLog, plans: PlanLedger) -> set[str]:
    """Metadata files that are the last to describe a snapshot whose files still wait.

    That is the file each expiration commit replaced: `recover` registers it.
    """
    waiting = departures.waiting_plans()
    return {
        location_key(plan.committed_base or plan.base_location)
        for plan in plans.find(states=[PlanState.APPLIED, PlanState.APPLYING])
        if plan.kind is PlanKind.EXPIRE and plan.id in waiting
    }
