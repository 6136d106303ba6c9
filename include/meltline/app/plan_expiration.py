"""Plan expiration: keep set → expired snapshots and refs → files that depart → a stored plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.observe import Observation, registrations, side_files_of
from meltline.app.services import Services
from meltline.app.tables import Kept, keep_sets
from meltline.domain.files import DepartureState, FileKind, PlannedFile
from meltline.domain.locations import is_odd, location_key
from meltline.domain.names import TableName, selected
from meltline.domain.plan import Plan, PlanKind, PlanState, plan_digest, plan_id
from meltline.domain.policy import Retention, effective_retention
from meltline.ports import DepartingFile, SnapshotKey


@dataclass(frozen=True)
class Planned:
    """A plan and what it is about to do to each file."""

    plan: Plan
    files: tuple[PlannedFile, ...]


def plan_expiration(
    services: Services,
    observation: Observation,
    *,
    run_id: str,
    as_of: datetime,
    tables: tuple[str, ...] = (),
    dry_run: bool = False,
) -> list[Planned]:
    """Plans every managed table that was selected and can be read; empty plans are left out."""
    services.progress("plan expire: deciding which snapshots are kept")
    kept = keep_sets(services, observation.tables, as_of)
    wanted = [
        found
        for found in kept
        if found.table.managed
        and found.table.state.uuid not in observation.blocked
        and selected(found.table.state.name, tables)
    ]
    candidates = _candidates(observation, kept, wanted)
    services.progress(f"plan expire: {len(candidates)} snapshots leave; finding their files")
    departing = list(services.files.departing(candidates))
    departing += _departing_side_files(services, observation, wanted)
    assigned = _assign(observation, wanted, departing)
    plans = []
    for found in wanted:
        planned = _plan(
            services, observation, found, assigned.get(found.table.state.name, []),
            candidates, run_id, as_of,
        )  # fmt: skip
        if not planned.plan.is_empty:
            plans.append(planned)
    return plans if dry_run else store_plans(services, plans)


def _candidates(
    observation: Observation, kept: Sequence[Kept], wanted: Sequence[Kept]
) -> list[SnapshotKey]:
    """Snapshots that leave, or left behind our back, and that nobody else keeps.

    Where one metadata file is registered under two names, a snapshot leaves only when every
    registration lets go of it.
    """
    stays = {
        SnapshotKey(found.table.state.uuid, snapshot_id)
        for found in kept
        for snapshot_id in found.keeps.reasons
    }
    names = {found.table.state.name for found in wanted}
    for uuid, tables in registrations(observation).items():
        for table in tables:
            if table.state.name not in names:
                stays.update(SnapshotKey(uuid, sid) for sid in table.state.snapshots)
    expired = {
        SnapshotKey(found.table.state.uuid, snapshot_id)
        for found in wanted
        for snapshot_id in found.keeps.expired
    }
    planned_uuids = {found.table.state.uuid for found in wanted}
    gone = {key for key in observation.dead if key.table_uuid in planned_uuids}
    leaving = (expired | gone) - stays
    return sorted(leaving, key=lambda key: (key.table_uuid, key.snapshot_id))


def _departing_side_files(
    services: Services, observation: Observation, wanted: Sequence[Kept]
) -> list[DepartingFile]:
    """Statistics and metadata files that no table's metadata names any more."""
    named = {
        location_key(file.path)
        for table in observation.tables
        for file in side_files_of(table.state)
    }
    # By name, not UUID: where a table is registered twice, one registration may keep a snapshot.
    leaving = {
        (found.table.state.name, snapshot_id)
        for found in wanted
        for snapshot_id in found.keeps.expired
    }
    expiring, staying = set[str](), set[str]()
    for table in observation.tables:
        for statistics in table.state.statistics:
            goes = (table.state.name, statistics.snapshot_id) in leaving
            (expiring if goes else staying).add(location_key(statistics.path))
    waiting = _described_by_waiting_departures(services)
    uuids = {found.table.state.uuid for found in wanted}
    departing = []
    for file in services.files.side_files():
        key = location_key(file.path)
        if file.table_uuid not in uuids or key in staying or key in waiting:
            continue
        if key not in named or key in expiring:
            departing.append(DepartingFile(file.path, file.kind, file.bytes, (file.table_uuid,)))
    return departing


def _described_by_waiting_departures(services: Services) -> set[str]:
    """Metadata files that are the last to describe a snapshot whose files still wait.

    That is the file each expiration commit replaced: `recover` registers it (design section 5).
    """
    waiting = {d.plan_id for d in services.files.departures(frozenset({DepartureState.FAILSAFE}))}
    return {
        location_key(plan.committed_base or plan.base_location)
        for plan in services.control.plans(states=[PlanState.APPLIED, PlanState.APPLYING])
        if plan.kind is PlanKind.EXPIRE and plan.id in waiting
    }


def _assign(
    observation: Observation, wanted: Sequence[Kept], departing: Sequence[DepartingFile]
) -> dict[TableName, list[PlannedFile]]:
    """Gives each departing file to one plan: its owner's if it is among them, else the first.

    Foreign files (owned by nobody, or by a table Meltline does not manage), odd paths and what
    the engine deletes itself are nobody's to delete.
    """
    by_uuid = {found.table.state.uuid: found.table for found in reversed(wanted)}
    managed = {t.state.uuid for t in observation.tables if t.managed}
    untouchable = {t.state.uuid for t in observation.tables if not t.managed}
    untouchable |= observation.blocked.keys() | observation.ledger_uuids
    assigned: dict[TableName, list[PlannedFile]] = {}
    for file in departing:
        owners = observation.owners.owners(file.path)
        owner = next((o for o in owners if o in managed), None)
        if owner is None or is_odd(file.path) or untouchable.intersection(owners):
            continue
        table = by_uuid[owner if owner in file.table_uuids else file.table_uuids[0]]
        if file.kind == FileKind.METADATA and table.state.engine_deletes_metadata:
            continue
        planned = PlannedFile(file.path, FileKind(file.kind), file.bytes, owner)
        assigned.setdefault(table.state.name, []).append(planned)
    return assigned


def _plan(
    services: Services,
    observation: Observation,
    found: Kept,
    files: Sequence[PlannedFile],
    candidates: Sequence[SnapshotKey],
    run_id: str,
    as_of: datetime,
) -> Planned:
    state, keeps = found.table.state, found.keeps
    ordered = tuple(sorted(files, key=lambda file: file.path))
    digest = plan_digest(state.uuid, keeps.expired, keeps.expired_refs, ordered)
    window = found.retention.window
    plan = Plan(
        id=plan_id(run_id, PlanKind.EXPIRE, state.name, digest),
        run_id=run_id,
        kind=PlanKind.EXPIRE,
        table=state.name,
        table_uuid=state.uuid,
        digest=digest,
        as_of=as_of,
        created_at=services.clock.now(),
        base_location=state.metadata_location,
        snapshots=keeps.expired,
        refs=keeps.expired_refs,
        gone_snapshots=tuple(
            key.snapshot_id
            for key in candidates
            if key.table_uuid == state.uuid and key.snapshot_id not in state.snapshots
        ),
        heads=state.heads,
        window_start=None if window is None else as_of - window,
        files=len(ordered),
        bytes=sum(file.bytes for file in ordered),
    )
    return Planned(plan, ordered)


def store_plans(services: Services, plans: Sequence[Planned]) -> list[Planned]:
    """Stores items first, then the headers (the crash protocol); a retry finds both."""
    services.files.store_items({planned.plan.id: planned.files for planned in plans})
    return [Planned(services.control.add_plan(p.plan), p.files) for p in plans]


def owner_retentions(services: Services, observation: Observation) -> Mapping[str, Retention]:
    """Each readable table's retention, by UUID; where two share a UUID, the longer failsafe."""
    found: dict[str, Retention] = {}
    for table in observation.tables:
        retention = effective_retention(services.config.account, table.levels)
        before = found.get(table.state.uuid)
        if before is None or retention.failsafe > before.failsafe:
            found[table.state.uuid] = retention
    return found
