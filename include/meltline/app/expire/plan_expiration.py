"""Plans expirations: which snapshots and refs expire, and which files depart with them.

It computes the retained snapshots, then the expired snapshots and refs, then the files that depart,
and stores a plan. The lifecycle, `gated_plans`, `drop/finalize.py` and the CLI call it. It changes
no table; `expire.py` commits the plans.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from types import MappingProxyType

from meltline.app.catalog.tables import Foreseen, TableRetention, keep_sets, retention_of
from meltline.app.expire.catching_up import Planned, first_portions
from meltline.app.expire.departing_files import departing_files, with_past_owners
from meltline.app.observe.held_back import note_withheld, outside_roots, withheld
from meltline.app.observe.observe import Observation
from meltline.app.safety.stored_plans import PlannedFiles, end_refused, is_over, store_plans
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, plan_digest, plan_id
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.locations import claim_prefix, is_odd
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.retention.policy import AccountPolicy, Retention
from meltline.ports import (
    DepartingFile,
    Neighbourhood,
    PlaceLedger,
    SnapshotKey,
)


def plan_expiration(
    context: RunContext,
    observation: Observation,
    *,
    run_id: str,
    as_of: datetime,
    tables: tuple[str, ...] = (),
    only: Collection[TableName] | None = None,
    everywhere: bool = False,
    dry_run: bool = False,
    foreseen: Foreseen = MappingProxyType({}),
) -> list[PlannedFiles]:
    """Plans each managed, readable table that was selected; empty plans are left out.

    `only` narrows them further. `everywhere` searches every table and all of its history for other
    references to a file, not just where one may exist (`Neighbourhood`). `foreseen` are copies that
    a preview assumes to exist.
    """
    context.progress("plan expire: deciding which snapshots are kept")
    control = context.control
    retentions = keep_sets(context, observation.tables, as_of, foreseen)
    targets = _targets(observation, retentions, tables, only)
    planning = _Planning(
        context,
        observation,
        run_id,
        as_of,
        everywhere,
        places=None if tables or dry_run or only is not None else control.places,
    )
    planned = planning.plans(retentions, targets)

    def bytes_of(smaller: Callable[[Sequence[TableRetention]], list[TableRetention]]) -> Planned:
        tried = replace(planning, places=None).plans(smaller(retentions), smaller(targets))
        return {each.plan.table: each.plan.bytes for each in tried}

    whole = [each.plan for each in planned]
    portions = first_portions(context, observation, targets, whole, bytes_of)
    if portions.counts:
        planned = planning.plans(portions.of(retentions), portions.of(targets))
    plans = [_noted(each, portions.sentences.get(each.plan.table, "")) for each in planned]
    if dry_run:
        return plans
    stored = store_plans(context, plans)
    if only is None:
        looked_at = {target.state.uuid for target in targets}
        is_settled = is_over(control.registrations.all(), looked_at)
        end_refused(control.plans, PlanKind.EXPIRE, stored, is_settled)
    return stored


@dataclass(frozen=True)
class _Planning:
    """Inputs that all expirations of one planning share.

    Attributes:
        places: The ledger that remembers the files left out; None if it is not to.
    """

    context: RunContext
    observation: Observation
    run_id: str
    as_of: datetime
    everywhere: bool
    places: PlaceLedger | None

    def plans(
        self, retentions: Sequence[TableRetention], targets: Sequence[TableRetention]
    ) -> list[PlannedFiles]:
        """Returns a plan for each target from which something leaves."""
        context, observation = self.context, self.observation
        candidates = _candidates(observation, retentions, targets)
        context.progress(f"plan expire: {len(candidates)} snapshots leave; finding their files")
        within = None if self.everywhere else _neighbourhood(observation, targets, candidates)
        departing = departing_files(
            context.files, context.control.plans, observation, targets, candidates, within
        )
        observation = with_past_owners(context, observation, departing)
        assigned = _inside_roots(
            observation,
            _assign(observation, targets, _of_hot(departing, context.config.archives)),
            outside_of=partial(outside_roots, context),
            places=self.places,
        )
        now = context.clock.now()
        plans = [
            _plan(t, assigned.get(t.state.name, ()), candidates, self.run_id, self.as_of, now)
            for t in targets
        ]
        return [planned for planned in plans if not planned.plan.is_empty]


def _noted(planned: PlannedFiles, note: str) -> PlannedFiles:
    """Adds a note to a plan that explains why it takes only a part of what is due."""
    return replace(planned, plan=replace(planned.plan, note=note)) if note else planned


def _targets(
    observation: Observation,
    retentions: Sequence[TableRetention],
    tables: tuple[str, ...],
    only: Collection[TableName] | None,
) -> list[TableRetention]:
    """Selects the tables to plan. A hold keeps all files, even those that others expired."""
    return [
        target
        for target in retentions
        if target.table.managed
        and not target.table.held
        and target.state.uuid not in {*observation.blocked, *observation.obstacles}
        and selected(target.state.name, tables)
        and (only is None or target.state.name in only)
    ]


def _of_hot(files: list[DepartingFile], archives: Iterable[str]) -> list[DepartingFile]:
    """Leaves out files of the archive, even if a hot table references them (I-8)."""
    prefixes = tuple(map(claim_prefix, archives))
    if not prefixes:
        return files
    return [f for f in files if not claim_prefix(f.path).startswith(prefixes)]


def _candidates(
    observation: Observation,
    retentions: Sequence[TableRetention],
    targets: Sequence[TableRetention],
) -> list[SnapshotKey]:
    """Snapshots that this plan or another tool expires, and that no registration keeps.

    If one metadata file is registered under two names, a snapshot leaves only when every
    registration expires it.
    """
    planned = {target.state.uuid for target in targets}
    expired = {
        SnapshotKey(target.state.uuid, snapshot_id)
        for target in targets
        for snapshot_id in target.keeps.expired
    }
    dying = _losing_files(observation, planned)
    vanished = {key for key in observation.dead if key.table_uuid in dying}
    leaving = (expired | vanished) - _staying(observation, retentions, targets)
    return sorted(leaving)


def _staying(
    observation: Observation,
    retentions: Sequence[TableRetention],
    targets: Sequence[TableRetention],
) -> set[SnapshotKey]:
    """Retained snapshots, and all snapshots of registrations that are not planned."""
    planned = {target.state.name for target in targets}
    others = [table for table in observation.tables if table.state.name not in planned]
    kept = {
        SnapshotKey(retention.state.uuid, snapshot_id)
        for retention in retentions
        for snapshot_id in retention.keeps.reasons
    }
    return kept | {
        SnapshotKey(table.state.uuid, snapshot_id)
        for table in (*others, *observation.left_behind)
        for snapshot_id in table.state.snapshots
    }


def _losing_files(observation: Observation, planned: Collection[str]) -> set[str]:
    """Tables whose dead snapshots keep no files any more, by UUID.

    These are the planned ones, and tables without a plan that share files with them: what such a
    clone no longer references is its owner's to delete. A hold keeps also what others have expired.
    """
    ours = {table.state.uuid for table in observation.tables if table.managed}
    clones = {
        uuid
        for uuid in observation.read - ours - observation.held - observation.blocked.keys()
        if not observation.groups.members(uuid).isdisjoint(planned)
    }
    return clones | set(planned) | observation.let_go.keys()


def _neighbourhood(
    observation: Observation, targets: Sequence[TableRetention], candidates: Sequence[SnapshotKey]
) -> Neighbourhood:
    """Returns where a candidate's file may be referenced again: its groups, and how far back."""
    leaving: dict[str, set[int]] = {}
    for key in candidates:
        leaving.setdefault(key.table_uuid, set()).add(key.snapshot_id)
    tables, groups = (*observation.tables, *observation.left_behind), observation.groups
    registrations = Counter(table.state.uuid for table in tables)
    alone = {uuid for uuid in leaving if registrations[uuid] == 1 == len(groups.members(uuid))}
    linear = {
        target.state.uuid
        for target in targets
        if target.state.uuid in alone
        and leaving[target.state.uuid] <= target.state.snapshots.keys()
        and target.state.is_linear
    }
    return Neighbourhood(groups.together(leaving), frozenset(linear))


def _assign(
    observation: Observation, targets: Sequence[TableRetention], departing: Sequence[DepartingFile]
) -> dict[TableName, list[PlannedFile]]:
    """Gives each departing file to one plan: its owner's if that exists, else the first one.

    Some files are never assigned: files of a table that Meltline cannot manage, files with
    ambiguous paths, and files that the engine deletes. A file under a table that is under a hold,
    has opted out, or has left its catalog and is not kept yet, does depart: it could not be found
    again later. No purge takes it until that ends. Files under no table depart as well, with the
    tables that named them; no purge takes them outside of the storage roots.
    """
    planned = {target.state.uuid: target.state for target in reversed(targets)}
    owner_of = _departing_owners(observation)
    assigned: dict[TableName, list[PlannedFile]] = {}
    for file in departing:
        owners = observation.owners.owners_or(file.path, planned.keys() & set(file.table_uuids))
        owner = owner_of(file.path, owners)
        if owner is None:
            continue
        # Its owner's plan if that table loses the file too, else the first other plan.
        takers = (*sorted(file.table_uuids, key=owner.__ne__), owner, *owners)
        state = next((planned[uuid] for uuid in takers if uuid in planned), None)
        if state is None:
            continue  # its owner is not planned today, or was finalized
        if file.kind == FileKind.METADATA and state.engine_deletes_metadata:
            continue
        row = PlannedFile(file.path, FileKind(file.kind), file.bytes, owner)
        assigned.setdefault(state.name, []).append(row)
    return assigned


def _departing_owners(
    observation: Observation,
) -> Callable[[str, Collection[str]], str | None]:
    """Returns a function that names a departing file's owner; None if it may not be deleted."""
    out = {t.state.uuid for t in observation.tables if t.opted_out}
    tables = (*observation.tables, *observation.left_behind)
    managed = {t.state.uuid for t in tables if t.managed} | observation.let_go.keys()
    passing = (observation.held | out) - observation.blocked.keys() - observation.ledger_uuids
    hands_off = untouchable(observation) - passing

    def owner_of(path: str, owners: Collection[str]) -> str | None:
        if is_odd(path) or hands_off.intersection(owners):
            return None
        ranked = chain(filter(managed.__contains__, owners), filter(out.__contains__, owners))
        return next(ranked, None)

    return owner_of


def _inside_roots(
    observation: Observation,
    assigned: Mapping[TableName, Sequence[PlannedFile]],
    *,
    outside_of: Callable[[Sequence[str]], Mapping[str, Why]],
    places: PlaceLedger | None,
) -> dict[TableName, Sequence[PlannedFile]]:
    """Leaves out all files of a plan if one of them lies under a table and outside the roots.

    All, because the manifest lists, which show the others, must not be deleted before them.
    `places` remembers what was left out; None if that is not to be.
    """
    files = list(chain.from_iterable(assigned.values()))
    owned = [file.path for file in files if observation.owners.owners(file.path)]
    outside = outside_of(owned)
    if places is not None:
        names, owners = observation.names, observation.owners
        note_withheld(places, "expire", withheld("expire", names, owners, files, outside))
    return {
        name: planned
        for name, planned in assigned.items()
        if not any(file.path in outside for file in planned)
    }


def untouchable(observation: Observation) -> set[str]:
    """Tables, under any name, whose files may neither depart nor be purged now."""
    uuids = {t.state.uuid for t in observation.tables if not t.managed} | observation.held
    return uuids | observation.blocked.keys() | observation.ledger_uuids


def _plan(
    target: TableRetention,
    files: Sequence[PlannedFile],
    candidates: Sequence[SnapshotKey],
    run_id: str,
    as_of: datetime,
    now: datetime,
) -> PlannedFiles:
    state, keeps = target.state, target.keeps
    ordered = tuple(sorted(files, key=lambda file: file.path))
    digest = plan_digest(state.uuid, keeps.expired, keeps.expired_refs, ordered)
    window = target.retention.window
    plan = Plan(
        id=plan_id(run_id, PlanKind.EXPIRE, state.name, digest),
        run_id=run_id,
        kind=PlanKind.EXPIRE,
        table=state.name,
        table_uuid=state.uuid,
        digest=digest,
        as_of=as_of,
        created_at=now,
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
    return PlannedFiles(plan, ordered)


def owner_retentions(
    account: AccountPolicy, policies: Mapping[str, Mapping[str, str]], observation: Observation
) -> Mapping[str, Retention]:
    """Each readable table's retention, by UUID; if two share a UUID, the longer failsafe."""
    retentions: dict[str, Retention] = {}
    for table in observation.tables:
        retention = retention_of(account, table, policies)
        before = retentions.get(table.state.uuid)
        if before is None or retention.failsafe > before.failsafe:
            retentions[table.state.uuid] = retention
    return retentions
