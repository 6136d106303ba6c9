"""Plans purges: departures past their failsafe that nothing references at planning time.

The lifecycle, `gated_plans` and the dry run of the CLI call it. It is apart from `purge.py`, which
deletes and checks every file again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from uuid import uuid4

from meltline.app.archive.cold_withheld import without_proof
from meltline.app.catalog.registrations import heirs
from meltline.app.expire.plan_expiration import untouchable
from meltline.app.observe.held_back import leading_out, needed_elsewhere, note_withheld, withheld
from meltline.app.observe.observe import Observation
from meltline.app.ownership.departed_objects import left_alone
from meltline.app.ownership.foreign_owners import NamedFiles, contested_paths, first_look
from meltline.app.ownership.roots import gone_outside_tables
from meltline.app.purge.approvals import Approvals
from meltline.app.purge.left_objects import note_left
from meltline.app.purge.post_delete_check import ObservedReferences, PurgeIncidents, tend_incidents
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.purge_vetoes import WantedFiles, settle_wanted_back, wanted_files
from meltline.app.safety.stored_plans import PlannedFiles, end_plan, end_refused, store_plans
from meltline.app.safety.tombstones import take_back
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState, plan_digest, plan_id
from meltline.domain.deletion.withheld import Why
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import selected
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import (
    ControlLedger,
    FileLedger,
    KnownTable,
    PlaceLedger,
    PlanItems,
    PlanLedger,
    SnapshotKey,
)

_NOT_BEGUN = (PlanState.PLANNED, PlanState.PASSED, PlanState.REFUSED)


def plan_purge(
    context: RunContext,
    observation: Observation,
    *,
    run_id: str,
    as_of: datetime,
    tables: tuple[str, ...] = (),
    only: Collection[str] | None = None,
    dry_run: bool = False,
    departing: Sequence[Departure] = (),
    approving: bool = False,
) -> list[PlannedFiles]:
    """Plans departures past `due_at` that nothing references now, one plan for each owner table.

    A file that is referenced again is cancelled, with an audit row: it is an incident, not a
    deletion. `only` names owners by UUID; None is all of them. `departing` is what a dry run
    expects to have departed by then: a file without failsafe is purged by the same run that records
    its departure. `approving`: an operator approves what this run purges, so plans that wait for an
    approval are planned as well.
    """
    if observation.purge_blocked:
        context.progress(f"plan purge: nothing anywhere: {observation.purge_blocked}")
        return []
    control, files = context.control, context.files
    # A preview of a future day shows what will be due by then.
    now = max(context.clock.now(), as_of) if dry_run else context.clock.now()
    vetoed = _vetoed(context, observation, dry_run=dry_run)  # before departures: it cancels some
    due = _due(files, control, observation, vetoed, now, look_again=dry_run)
    owners = _owners(observation, tables, only)
    anew = owners.keys() if approving else ()
    awaited = _awaited(context, run_id, anew, is_run=only is None and not dry_run)
    leftovers = left_alone(context, due)
    staying = awaited.union(departure.path for departure in leftovers)
    due = [departure for departure in due if departure.path not in staying]
    due = _without_gone(context, due, is_stored=not dry_run)
    due += [departure for departure in departing if departure.due_at <= now]
    by_owner = _not_held_back(
        observation,
        _by_owner(observation, control.registrations.all(), due),
        outside_of=partial(leading_out, context),
        needed_of=partial(needed_elsewhere, context, observation, keys=vetoed.keys),
        unproved_of=partial(without_proof, context),
        contested_of=partial(_contested, context, observation, is_stored=not dry_run),
        places=None if tables or dry_run or only is not None else control.places,
    )
    plans = []
    for owner in sorted(by_owner.keys() & owners.keys()):
        table = owners[owner]
        if waits_for := _waits_for(observation, vetoed, owner):
            context.progress(f"plan purge: {table.name}: files wait in failsafe: {waits_for}")
        else:
            plans.append(_plan(table, by_owner[owner], run_id, as_of, context.clock.now()))
    if dry_run:
        return plans
    note_left(context.control, leftovers)
    stored = store_plans(context, plans)
    if only is None:
        is_settled = _settled(observation, vetoed, owners)
        end_refused(control.plans, PlanKind.PURGE, stored, is_settled)
    return stored


def _vetoed(context: RunContext, observation: Observation, *, dry_run: bool) -> WantedFiles:
    """Ends vetoes and incidents that are over, then returns the files of the other vetoes."""
    store, manifests, vetoes = context.store, context.manifests, context.control.vetoes
    if dry_run:
        return wanted_files(store, manifests, vetoes.all())
    _cancel_guarded(context, observation)
    files, incidents = context.files, PurgeIncidents.of(context)
    observed = ObservedReferences(observation, files.references)
    tend_incidents(incidents, context.control.plans, files.items, observed)
    return settle_wanted_back(vetoes, store, manifests, files.departures, AuditTrail.of(context))


def _cancel_guarded(context: RunContext, observation: Observation) -> None:
    """Cancels waiting departures of tables whose owners forbid deletions by now.

    Once the setting is removed, the next expiration plan finds the files again.
    """
    guarded = {t.state.uuid: t for t in observation.tables if t.owner_guard}
    if not guarded:
        return
    departures = context.files.departures
    waiting = departures.in_states(frozenset({DepartureState.FAILSAFE}))
    by_owner = grouped((d for d in waiting if d.owner in guarded), lambda d: d.owner)
    for owner, rows in sorted(by_owner.items()):
        why = f"the owner of {guarded[owner].state.name} set {guarded[owner].owner_guard}=false"
        take_back(departures, AuditTrail.of(context), sorted(d.path for d in rows), why)


def _due(
    files: FileLedger,
    control: ControlLedger,
    observation: Observation,
    vetoed: WantedFiles,
    now: datetime,
    *,
    look_again: bool,
) -> list[Departure]:
    """Returns departures past their failsafe that have no veto and no purge in progress.

    Departures that are referenced again were cancelled during the observation. A dry run has no
    gate, so it checks again.
    """
    due = files.departures.in_states(frozenset({DepartureState.FAILSAFE}), due_by=now)
    held = {d.path for d in due if location_key(d.path) in vetoed.keys}
    if look_again:
        held |= files.references.among([d.path for d in due], observation.dead)
    held.update(control.claims.paths())
    held |= _open_purges(control.plans, files.items)
    return [departure for departure in due if departure.path not in held]


def _without_gone(
    context: RunContext, due: Sequence[Departure], *, is_stored: bool
) -> list[Departure]:
    """Leaves out files outside every table that their writer has deleted.

    No purge would notice, because none plans these files. `is_stored` says whether it is recorded.
    """
    absent = gone_outside_tables(context, [departure.path for departure in due])
    if absent and is_stored:
        waiting, now = {d.path: d for d in due}, context.clock.now()
        rows = [
            replace(waiting[path], state=DepartureState.DELETED, recorded_at=now)
            for path in sorted(absent)
        ]
        context.files.departures.record({f"gone-{uuid4()}": rows})
    return [departure for departure in due if departure.path not in absent]


def _awaited(context: RunContext, run_id: str, anew: Collection[str], *, is_run: bool) -> set[str]:
    """Returns files of purges that wait for an approval: another plan would request it again.

    Args:
        context: The ports to read them from.
        run_id: The id of the planning run.
        anew: Owners whose purges an operator approves in this run: waiting plans are made again.
        is_run: Whether a run plans, which also ends requests that are over.
    """
    awaited = Approvals.of(context).awaited()
    waiting = [plan for plan in awaited if plan.table_uuid not in anew]
    if is_run and awaited:
        overtaken = end_overtaken(context.files, context.control, waiting)
        waiting = [plan for plan in waiting if plan.id not in overtaken]
        for plan in awaited:
            if plan.table_uuid in anew and plan.run_id != run_id:
                end_plan(context.control.plans, plan, "a run that a person approves plans it anew")
    if waiting:
        context.progress(f"plan purge: {len(waiting)} plans wait for approval, with their files")
    return _paths(context.files.items.of([plan.id for plan in waiting])) if waiting else set()


def _settled(
    observation: Observation, vetoed: WantedFiles, owners: Collection[str]
) -> Callable[[Plan], bool]:
    """Tests whether a plan's table was planned without a reason to wait, or no longer exists."""
    return lambda plan: (
        not _waits_for(observation, vetoed, plan.table_uuid)
        if plan.table_uuid in owners
        else plan.table_uuid not in observation.names
    )


def _by_owner(
    observation: Observation, registered: Sequence[KnownTable], due: Sequence[Departure]
) -> dict[str, list[Departure]]:
    """Groups departures by their owner, without those that may not be touched now."""
    hands_off = untouchable(observation)
    heir_of = heirs(registered, [table.state for table in observation.tables])
    by_owner: dict[str, list[Departure]] = {}
    for departure in due:
        heir = heir_of.get(departure.owner, departure.owner)
        owners = observation.owners.owners_or(departure.path, (heir,))
        if not hands_off.intersection(owners):
            owner = heir if heir in owners else departure.owner
            by_owner.setdefault(owner, []).append(departure)
    return by_owner


def _not_held_back(
    observation: Observation,
    by_owner: Mapping[str, Sequence[Departure]],
    *,
    outside_of: Callable[[Sequence[str]], Mapping[str, Why]],
    needed_of: Callable[[Sequence[str]], Mapping[str, str]],
    unproved_of: Callable[[Mapping[str, Sequence[Departure]]], Collection[str]],
    contested_of: Callable[[Sequence[str]], Mapping[str, str]],
    places: PlaceLedger | None,
) -> dict[str, list[Departure]]:
    """Leaves out files that must stay although nothing references them by their own path.

    Args:
        observation: The tables' names and ownership.
        by_owner: The due departures.
        outside_of: Returns the files outside the roots, with the reason.
        needed_of: Returns the files that may be needed by a path alias, with the alias.
        unproved_of: Returns the departures without a proof that cold has them.
        contested_of: Returns the files that foreign owners may need, with the owner.
        places: The ledger that remembers the files left out; None if it is not to.
    """
    due = list(chain.from_iterable(by_owner.values()))
    outside = outside_of([d.path for d in due])
    needed = needed_of([d.path for d in due if d.path not in outside])
    free = _without(by_owner, outside.keys() | needed.keys())
    unproved = dict.fromkeys(unproved_of(free), Why.UNPROVED)
    contested = contested_of([d.path for rows in free.values() for d in rows])
    if places is not None:
        refused = {**outside, **unproved, **dict.fromkeys(contested, Why.FOREIGN)}
        names, owners = observation.names, observation.owners
        rows = withheld("purge", names, owners, due, refused, {**needed, **contested})
        note_withheld(places, "purge", rows)
    return _without(free, {*unproved, *contested})


def _contested(
    context: RunContext, observation: Observation, paths: Sequence[str], *, is_stored: bool
) -> dict[str, str]:
    """Returns the files that foreign owners may need, with the owner, by path.

    A folder that was never scanned gets its first scan; `is_stored` says whether it counts.
    """
    if not paths:
        return {}
    check = NamedFiles.of(context)
    first = first_look(context, set(chain(*check.places_of(observation.owners, paths).values())))
    if is_stored and first:
        context.control.owners.save_signs({sign.root for sign in first}, first)
    return contested_paths(check, observation.owners, paths, first)


def _without(
    by_owner: Mapping[str, Sequence[Departure]], paths: Collection[str]
) -> dict[str, list[Departure]]:
    """Removes some paths from the departures; owners with none left are left out."""
    free = {o: [d for d in rows if d.path not in paths] for o, rows in by_owner.items()}
    return {owner: rows for owner, rows in free.items() if rows}


def _owners(
    observation: Observation, tables: tuple[str, ...], only: Collection[str] | None
) -> dict[str, TableMetadata | KnownTable]:
    """Returns the owners to plan, by UUID: managed tables, and dropped ones that are finalized."""
    owners: dict[str, TableMetadata | KnownTable] = dict(observation.let_go)
    owners |= {t.state.uuid: t.state for t in observation.tables if t.managed}
    return {
        uuid: table
        for uuid, table in owners.items()
        if uuid not in observation.blocked
        and selected(table.name, tables)
        and (only is None or uuid in only)
    }


def _waits_for(observation: Observation, vetoed: WantedFiles, owner: str) -> str:
    """Returns what keeps all departures of an owner's group in failsafe, as long as it lasts."""
    members = observation.groups.members(owner)
    under_hold = sorted(
        str(observation.names.get(uuid, uuid)) for uuid in members & observation.held
    )
    blind = [vetoed.blind[uuid] for uuid in sorted(members & vetoed.blind.keys())]
    return "; ".join([f"{name} is under a hold" for name in under_hold] + blind)


def take_back_referenced(
    files: FileLedger,
    plans: PlanLedger,
    trail: AuditTrail,
    refused: Sequence[Plan],
    dead: Sequence[SnapshotKey],
) -> list[Plan]:
    """Cancels files of refused purge plans that the index shows as referenced.

    Returns:
        Plans that had such files: they are stale, and the rest of their files is to be planned
            again.
    """
    items = files.items.of([plan.id for plan in refused])
    held = files.references.among(sorted(_paths(items)), dead)
    take_back(files.departures, trail, sorted(held), "it is referred to again")
    return [
        end_plan(plans, plan, "some of its files are needed again")
        for plan in refused
        if any(file.path in held for file in items[plan.id])
    ]


def end_overtaken(
    files: FileLedger, control: ControlLedger, plans: Sequence[Plan]
) -> dict[str, Plan]:
    """Ends purge plans with files that another run has purged, or is purging, since.

    Two runs may plan the same files at once. The slower run's plan then lists files that it may no
    longer purge. Its other files are to be planned again.

    Returns:
        The plans that ended, now stale, by their ids.
    """
    fresh = [plan for plan in plans if plan.kind is PlanKind.PURGE and plan.state in _NOT_BEGUN]
    if not fresh:
        return {}
    items = files.items.of([plan.id for plan in fresh])
    deleted = frozenset({DepartureState.DELETED})
    purged = files.departures.in_states(deleted, paths=sorted(_paths(items)))
    purging = {departure.path for departure in purged} | _open_purges(control.plans, files.items)
    claimed = control.claims.paths()

    def is_overtaken(plan: Plan) -> bool:
        paths = [file.path for file in items[plan.id]]
        return any(path in purging or claimed.get(path, plan.id) != plan.id for path in paths)

    note = "another run purges some of what it planned"
    return {p.id: end_plan(control.plans, p, note) for p in fresh if is_overtaken(p)}


def _open_purges(ledger: PlanLedger, items: PlanItems) -> set[str]:
    """Returns files of purges that were begun and not finished: these resume without a new plan."""
    plans = [plan.id for plan in resumable(ledger) if plan.kind is PlanKind.PURGE]
    return _paths(items.of(plans))


def _paths(items: Mapping[str, Sequence[PlannedFile]]) -> set[str]:
    return {file.path for files in items.values() for file in files}


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
    """Returns plans of either kind that were begun and not finished."""
    return list(ledger.find(states=[PlanState.APPLYING]))
