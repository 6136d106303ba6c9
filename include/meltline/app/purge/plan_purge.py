"""Plan purge: departures past their failsafe that nothing refers to today."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from meltline.app.archive.cold_withheld import without_proof
from meltline.app.catalog.registrations import heirs
from meltline.app.expire.plan_expiration import untouchable
from meltline.app.ground.audit_log import AuditTrail
from meltline.app.ground.purge_vetoes import WantedFiles, settle_wanted_back, wanted_files
from meltline.app.ground.tombstones import take_back
from meltline.app.observe.held_back import leading_out, needed_elsewhere, note_withheld, withheld
from meltline.app.observe.observe import Observation
from meltline.app.purge.look_back import ObservedReferences, PurgeIncidents, tend_incidents
from meltline.app.safety.stored_plans import PlannedFiles, end_plan, end_refused, store_plans
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState, plan_digest, plan_id
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import selected
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import KnownTable, PlanItems, PlanLedger, SnapshotKey

_NOT_BEGUN = (PlanState.PLANNED, PlanState.PASSED, PlanState.REFUSED)


def plan_purge(
    services: RunContext,
    observation: Observation,
    *,
    run_id: str,
    as_of: datetime,
    tables: tuple[str, ...] = (),
    only: Collection[str] | None = None,
    dry_run: bool = False,
) -> list[PlannedFiles]:
    """Departures past `due_at` that nothing refers to today, one plan per owner table.

    What is referred to again is cancelled, with an audit row: it is an incident, not a deletion.
    `only` names owners by UUID; None is all of them.
    """
    if observation.purge_blocked:
        services.progress(f"plan purge: nothing anywhere: {observation.purge_blocked}")
        return []
    if not dry_run:
        observed = ObservedReferences(observation, services.files.references)
        tend_incidents(
            PurgeIncidents.of(services), services.control.plans, services.files.items, observed
        )
    # A preview of a day to come asks what will be due by then.
    now = max(services.clock.now(), as_of) if dry_run else services.clock.now()
    vetoed = _vetoed(services, dry_run=dry_run)  # it takes back what is settled: before the next
    due = services.files.departures.in_states(frozenset({DepartureState.FAILSAFE}), due_by=now)
    held = {d.path for d in due if location_key(d.path) in vetoed.keys}
    if dry_run:
        # What is referred to again was taken back as it was observed. Without a gate, look again.
        held |= services.files.references.among([d.path for d in due], observation.dead)
    held.update(services.control.claims.paths())  # what is being deleted already
    held |= _open_purges(services.control.plans, services.files.items)
    registered = services.control.registrations.all()
    by_owner = _free_by_owner(observation, registered, due, held)
    whole = not (tables or dry_run) and only is None
    by_owner = _not_held_back(services, observation, by_owner, vetoed, remember=whole)
    owners = _owners(observation)
    plans = []
    for owner, departures in sorted(by_owner.items()):
        table = owners.get(owner)
        if table is None or owner in observation.blocked or not selected(table.name, tables):
            continue
        if only is not None and owner not in only:
            continue
        if waits_for := _waits_for(observation, vetoed, owner):
            services.progress(f"plan purge: {table.name}: files wait in failsafe: {waits_for}")
            continue
        plans.append(_plan(table, departures, run_id, as_of, services.clock.now()))
    if dry_run:
        return plans
    stored = store_plans(services, plans)
    if only is None:

        def is_settled(plan: Plan) -> bool:
            owner = owners.get(plan.table_uuid)
            if owner is None or plan.table_uuid in observation.blocked:
                return owner is None and plan.table_uuid not in observation.names
            waits = _waits_for(observation, vetoed, plan.table_uuid)
            return selected(owner.name, tables) and not waits

        end_refused(services.control.plans, PlanKind.PURGE, stored, is_settled)
    return stored


def _vetoed(services: RunContext, *, dry_run: bool) -> WantedFiles:
    if dry_run:
        return wanted_files(services.store, services.manifests, services.control.vetoes.all())
    return settle_wanted_back(
        services.control.vetoes,
        services.store,
        services.manifests,
        services.files.departures,
        AuditTrail.of(services),
    )


def _free_by_owner(
    observation: Observation,
    registered: Sequence[KnownTable],
    due: Sequence[Departure],
    held: Collection[str],
) -> dict[str, list[Departure]]:
    """Departures that nobody holds or owns without being managed."""
    hands_off = untouchable(observation)
    heir_of = heirs(registered, [table.state for table in observation.tables])
    by_owner: dict[str, list[Departure]] = {}
    for departure in due:
        if departure.path in held:
            continue
        owners = observation.owners.owners(departure.path)
        if not hands_off.intersection(owners):
            heir = heir_of.get(departure.owner)
            owner = heir if heir in owners else departure.owner
            by_owner.setdefault(owner, []).append(departure)
    return by_owner


def _not_held_back(
    services: RunContext,
    observation: Observation,
    by_owner: Mapping[str, Sequence[Departure]],
    vetoed: WantedFiles,
    *,
    remember: bool,
) -> dict[str, list[Departure]]:
    """Leaves out what lies outside the roots, may be needed by another name, or is not in cold."""
    due = [departure for rows in by_owner.values() for departure in rows]
    outside = leading_out(services, [d.path for d in due])
    inside = [d.path for d in due if d.path not in outside]
    needed = needed_elsewhere(services, observation, inside, vetoed.keys)
    stays = outside.keys() | needed.keys()
    free = {o: [d for d in rows if d.path not in stays] for o, rows in by_owner.items()}
    unproved = dict.fromkeys(without_proof(services, free), Why.UNPROVED)
    if remember:
        refused = {**outside, **unproved}
        note_withheld(
            services.control.places, "purge", withheld("purge", observation, due, refused, needed)
        )
    proved = {o: [d for d in rows if d.path not in unproved] for o, rows in free.items()}
    return {owner: rows for owner, rows in proved.items() if rows}


def _owners(observation: Observation) -> dict[str, TableMetadata | KnownTable]:
    """Whose files may be purged, by UUID: managed tables, and dropped ones that were let go."""
    owners: dict[str, TableMetadata | KnownTable] = dict(observation.let_go)
    return owners | {t.state.uuid: t.state for t in observation.tables if t.managed}


def _waits_for(observation: Observation, vetoed: WantedFiles, owner: str) -> str:
    """What keeps all departures of an owner's group in failsafe, as long as it lasts."""
    members = observation.groups.members(owner)
    under_hold = sorted(
        str(observation.names.get(uuid, uuid)) for uuid in members & observation.held
    )
    blind = [vetoed.blind[uuid] for uuid in sorted(members & vetoed.blind.keys())]
    return "; ".join([f"{name} is under a hold" for name in under_hold] + blind)


def take_back_referenced(
    services: RunContext, plans: Sequence[Plan], dead: Sequence[SnapshotKey]
) -> list[Plan]:
    """Takes back, of refused purge plans, the files that the index knows to be referred to.

    Returns:
        Plans that had such files: they are stale, the rest of them is to be planned anew.
    """
    items = services.files.items.of([plan.id for plan in plans])
    paths = sorted({file.path for files in items.values() for file in files})
    held = services.files.references.among(paths, dead)
    take_back(
        services.files.departures, AuditTrail.of(services), sorted(held), "it is referred to again"
    )
    return [
        end_plan(services.control.plans, plan, "some of its files are needed again")
        for plan in plans
        if any(file.path in held for file in items[plan.id])
    ]


def end_overtaken(services: RunContext, plans: Sequence[Plan]) -> list[Plan]:
    """Ends purge plans some of whose files another run has purged, or is purging, since.

    Two runs may plan the same files at once. The slower one's plan names what is no longer its to
    purge; what it leaves is to be planned anew.

    Returns:
        Those that ended, now stale.
    """
    fresh = [plan for plan in plans if plan.kind is PlanKind.PURGE and plan.state in _NOT_BEGUN]
    if not fresh:
        return []
    items = services.files.items.of([plan.id for plan in fresh])
    paths = sorted({file.path for files in items.values() for file in files})
    purged = services.files.departures.in_states(frozenset({DepartureState.DELETED}), paths=paths)
    purging = {departure.path for departure in purged}
    purging |= _open_purges(services.control.plans, services.files.items)
    claimed = services.control.claims.paths()
    ended = []
    for plan in fresh:
        paths_of = [file.path for file in items[plan.id]]
        if any(path in purging or claimed.get(path, plan.id) != plan.id for path in paths_of):
            note = "another run purges some of what it planned"
            ended.append(end_plan(services.control.plans, plan, note))
    return ended


def _open_purges(ledger: PlanLedger, items: PlanItems) -> set[str]:
    """Files of purges that were begun and not finished: those are resumed, not planned again."""
    plans = [plan.id for plan in resumable(ledger) if plan.kind is PlanKind.PURGE]
    return {file.path for files in items.of(plans).values() for file in files}


def _plan(
    state: TableMetadata | KnownTable,
    departures: Sequence[Departure],
    run_id: str,
    as_of: datetime,
    now: datetime,
) -> PlannedFiles:
    table, owner, base = state.name, state.uuid, state.metadata_location
    files = tuple(
        PlannedFile(d.path, d.kind, d.bytes, d.owner, d.due_at)
        for d in sorted(departures, key=lambda d: d.path)
    )
    digest = plan_digest(owner, (), (), files)
    plan = Plan(
        id=plan_id(run_id, PlanKind.PURGE, table, digest),
        run_id=run_id,
        kind=PlanKind.PURGE,
        table=table,
        table_uuid=owner,
        digest=digest,
        as_of=as_of,
        created_at=now,
        base_location=base,
        files=len(files),
        bytes=sum(file.bytes for file in files),
    )
    return PlannedFiles(plan, files)


def resumable(ledger: PlanLedger) -> list[Plan]:
    """Plans of either kind that were begun and not finished."""
    return list(ledger.find(states=[PlanState.APPLYING]))
