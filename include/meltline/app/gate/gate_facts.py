"""Evidence: one row of facts per plan, for the gate's expectations (PX-4)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from meltline.app.archive.cold_facts import ColdFacts
from meltline.app.catalog.live_catalogs import fresh_owners, ledger_uuids, look_afresh
from meltline.app.catalog.tables import remembered
from meltline.app.gate.cold_evidence import expire_facts
from meltline.app.gate.cold_purge_evidence import purge_facts
from meltline.app.gate.expired_drops import has_ended
from meltline.app.gate.needed_snapshots import cut_off, planned_unread, promised_since
from meltline.app.gate.plan_bases import Base, differing_heads, read_bases
from meltline.app.gate.proof import Leaving, Proof, prove
from meltline.app.observe.held_back import leading_out, outside_roots
from meltline.app.safety.departed_objects import DepartedObjects
from meltline.app.safety.other_names import OtherNames, needed_by_other_names
from meltline.app.safety.protected_files import metadata_keys, protected_among
from meltline.app.services import RunContext
from meltline.domain.deletion.gate import GateFacts
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState, plan_digest
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.domain.retention.policy import Retention, effective_retention
from meltline.ports import SnapshotKey

_EXAMPLES = 5
_HISTORY = 10
_ENOUGH_HISTORY = 3  # growth says nothing while a table has fewer earlier plans


@dataclass(frozen=True)
class _Case:
    """A plan and what is known about it."""

    plan: Plan
    files: Sequence[PlannedFile]
    proof: Proof
    owners: OwnerIndex
    groups: Groups
    protected: Collection[str]
    ledger: "_LedgerFacts"
    cold: ColdFacts
    elsewhere: Mapping[str, str]


@dataclass(frozen=True)
class _LedgerFacts:
    """What expirations are held against, asked once for all of them: each question is a job.

    Attributes:
        unknown: Planned paths that the index has never heard of.
        indexed: Live files and bytes of heads, by the index.
        distinct: Bytes of the distinct live files that remain of tables that lose much, by UUID.
        policies: What the control ledger remembers of policies, by object.
        bases: What each plan was made on, by its id.
    """

    unknown: Collection[str] = ()
    indexed: Mapping[SnapshotKey, tuple[int, int]] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bases: Mapping[str, Base] = field(default_factory=dict)


def collect_evidence(services: RunContext, plans: Sequence[Plan]) -> list[GateFacts]:
    """Evidence for some plans of one kind or both; one fresh look serves them all."""
    if not plans:
        return []
    items = services.files.items.of([plan.id for plan in plans])
    world = look_afresh(services)
    own = ledger_uuids(services, world)
    leaving = {
        SnapshotKey(plan.table_uuid, snapshot_id)
        for plan in plans
        if plan.kind is PlanKind.EXPIRE
        for snapshot_id in plan.snapshots
    }
    leaving -= _kept_by_other_registrations(world.states, plans)
    released = {(plan.table, sid) for plan in plans for sid in plan.snapshots}
    since = _read_since(services, plans)
    paths = sorted({file.path for files in items.values() for file in files})
    purged = sorted({f.path for p in plans if p.kind is PlanKind.PURGE for f in items[p.id]})
    names = OtherNames.now(services)
    all_names = sorted({*paths, *(name for path in purged for name in names.of(path))})
    proof = prove(services, world, Leaving(leaving, released), all_names, own, since)
    elsewhere = needed_by_other_names(
        names, purged, lambda candidates: proof.referenced.keys() & candidates
    )
    owners, groups = fresh_owners(services, world), Groups(services.control.registrations.sharing())
    ledger = _ledger_facts(services, proof, [p for p in plans if p.kind is PlanKind.EXPIRE], paths)
    protected = metadata_keys(proof.world.states)
    departed = services.files.departures.in_states(frozenset(DepartureState), paths=paths)
    claimed = services.control.claims.paths()
    cold = expire_facts(services, world, [p for p in plans if p.kind is PlanKind.EXPIRE], items)
    departures = {departure.path: departure for departure in departed}
    evidence = []
    for plan in plans:
        files = items[plan.id]
        copies = cold.get(plan.id) or purge_facts(services, world, plan, files, departures)
        case = _Case(plan, files, proof, owners, groups, protected, ledger, copies, elsewhere)
        if plan.kind is PlanKind.EXPIRE:
            evidence.append(_expire_evidence(services, case))
        else:
            evidence.append(_purge_evidence(services, case, departures, claimed))
    return evidence


def _read_since(services: RunContext, plans: Sequence[Plan]) -> datetime | None:
    """From when on the files read for earlier proofs count; None: all are read again."""
    limits, gates = services.config.limits, services.config.gates
    if any(plan.bytes > limits.full_proof_above for plan in plans):
        return None
    return services.clock.now() - gates.full_proof_every


def _ledger_facts(
    services: RunContext, proof: Proof, plans: Sequence[Plan], paths: Sequence[str]
) -> _LedgerFacts:
    if not plans:
        return _LedgerFacts()
    bases = read_bases(services, proof.world, plans)
    heads = {
        SnapshotKey(plan.table_uuid, head)
        for plan in plans
        if (state := proof.world.of(plan.table_uuid, plan.table))
        for head in bases[plan.id].checked_heads(plan, state)
    }
    limit = services.config.limits.max_delete_ratio
    losing = {p.table_uuid for p in plans if _ratio(p, _remains(proof, p)) > limit}
    remaining = [s for s in proof.remaining if s.table_uuid in losing]
    return _LedgerFacts(
        unknown=services.files.references.unknown(paths),
        indexed=services.files.snapshots.live_totals(sorted(heads)),
        distinct=services.proofs.distinct_bytes(remaining) if remaining else {},
        policies=services.control.policies.all(),
        bases=bases,
    )


def _remains(proof: Proof, plan: Plan) -> int:
    """Bytes that surely remain: at least those of the largest remaining snapshot."""
    state = proof.world.of(plan.table_uuid, plan.table)
    metadata = proof.metadata_bytes(plan.table_uuid) + (state.metadata_bytes if state else 0)
    return metadata + proof.most_live_bytes(plan.table_uuid)


def _ratio(plan: Plan, remains: int) -> float:
    return plan.bytes / max(1, plan.bytes + remains)


def _delete_ratio(case: _Case) -> float:
    """The part of a table's bytes that departs.

    The largest remaining snapshot shows that at least so much remains; only where that does not
    already keep the ratio within its limit, the distinct files of all that remain are summed up.
    """
    plan, proof = case.plan, case.proof
    remains = _remains(proof, plan)
    if plan.table_uuid in case.ledger.distinct:
        remains += case.ledger.distinct[plan.table_uuid] - proof.most_live_bytes(plan.table_uuid)
    return _ratio(plan, remains)


def _kept_by_other_registrations(
    states: Sequence[TableMetadata], plans: Sequence[Plan]
) -> set[SnapshotKey]:
    """Snapshots that a second registration of the same table still has."""
    planned = {(plan.table_uuid, plan.table): set(plan.snapshots) for plan in plans}
    return {
        SnapshotKey(state.uuid, snapshot_id)
        for state in states
        for snapshot_id in state.snapshots.keys() - planned.get((state.uuid, state.name), set())
    }


def _row(plan: Plan, measures: Mapping[str, Collection[str] | int | float | bool]) -> GateFacts:
    facts: dict[str, int | float | bool | str] = {}
    examples: dict[str, tuple[str, ...]] = {}
    for fact, measure in measures.items():
        if isinstance(measure, (bool, int, float)):
            facts[fact] = measure
        else:
            facts[fact] = len(measure)
            examples[fact] = tuple(sorted(measure)[:_EXAMPLES])
    return GateFacts(plan.id, plan.digest, plan.kind, facts, examples)


def _expire_evidence(services: RunContext, case: _Case) -> GateFacts:
    plan, proof = case.plan, case.proof
    state = proof.world.of(plan.table_uuid, plan.table)
    planned, base = set(plan.snapshots), case.ledger.bases[plan.id]
    staying = (
        named_head
        for named_head in (state.heads if state else {}).items()
        if named_head[0] not in plan.refs
    )
    heads = {head for _, head in staying}
    # Of a dropped table whose time is up all goes, as a person has decided; of no other.
    ended = has_ended(services, proof.world, plan)
    paths = {file.path for file in case.files}
    remaining_refs = {
        ref.snapshot_id: ref.name
        for ref in (state.refs.values() if state else ())
        if ref.name not in plan.refs
    }
    leased = {
        lease.snapshot_id
        for lease in services.control.leases.active(services.clock.now())
        if lease.table_uuid == plan.table_uuid
    }
    measures: dict[str, Collection[str] | int | float | bool] = {
        **_common_facts(services, case),
        "planned_heads": _text(planned & heads),
        "planned_ref_targets": [remaining_refs[sid] for sid in planned & remaining_refs.keys()],
        "planned_main": int(MAIN in plan.refs and not ended),
        "planned_young_refs": _young_refs(state, plan, ended=ended),
        "planned_held": _text(planned) if state and _held(services, case, state) else [],
        "planned_leased": _text(planned & leased),
        "planned_unread": _text(planned_unread(state, plan)),
        "planned_in_window": [] if ended else _text(_still_promised(services, case, state)),
        "planned_writer_walks": [] if ended else _text(_missed_by_writers(services, case, state)),
        "planned_not_in_metadata": _text(
            planned - (state.snapshots.keys() & base.snapshots if state else set())
        ),
        "planned_unknown": paths & set(case.ledger.unknown),
        "head_files_lost": paths & proof.lost_by_heads,
        "delete_ratio": 0.0 if ended else _delete_ratio(case),
        "growth": 0.0 if ended else _growth(services, plan),
        "head_totals_differ": _differing_heads(case, state),
        "manifests_read": len(proof.scan.live_files),
    }
    return _row(plan, measures)


def _common_facts(
    services: RunContext, case: _Case
) -> dict[str, Collection[str] | int | float | bool]:
    plan, proof = case.plan, case.proof
    paths = [file.path for file in case.files]
    digest = plan_digest(plan.table_uuid, plan.snapshots, plan.refs, case.files)
    members = case.groups.members(plan.table_uuid) | {file.owner for file in case.files}
    blind = {"", *members} if plan.kind is PlanKind.PURGE else members
    outside = leading_out if plan.kind is PlanKind.PURGE else outside_roots
    return {
        "digest_matches": digest == plan.digest and len(case.files) == plan.files,
        "planned_referenced": [p for p in paths if p in proof.referenced]
        + [f"{p}, maybe the same as {case.elsewhere[p]}" for p in paths if p in case.elsewhere],
        "planned_unowned": [
            f.path for f in case.files if f.owner not in case.owners.owners(f.path)
        ],
        "planned_outside_roots": outside(services, paths).keys(),
        "planned_protected": protected_among(paths, case.protected, services.config.archives),
        "unreadable": [
            *(error for uuid in blind for error in proof.errors.get(uuid, ())),
            *(base.error for base in [case.ledger.bases.get(plan.id)] if base and base.error),
        ],
        **case.cold.as_facts(),
        "tables_read": len(proof.world.states),
    }


def _text(ids: Collection[int]) -> list[str]:
    return [str(snapshot_id) for snapshot_id in sorted(ids)]


def _held(services: RunContext, case: _Case, state: TableMetadata) -> bool:
    levels = case.proof.world.levels(state, services.config.ledger_namespace)
    return any(is_held(properties, services.clock.now()) for _, properties in levels)


def _held_owners(services: RunContext, case: _Case) -> set[str]:
    """Owners of planned files on whose group a hold lies: nothing of it may be purged."""
    world, groups = case.proof.world, case.groups
    owners = {file.owner for file in case.files} | {case.plan.table_uuid}
    return {
        owner
        for owner in owners
        if any(
            _held(services, case, state)
            for uuid in groups.members(owner)
            for state in world.registrations(uuid)
        )
    }


def _young_refs(state: TableMetadata | None, plan: Plan, *, ended: bool) -> list[str]:
    """Planned refs that plain Iceberg would not let go yet, or that are not there.

    Of a dropped table whose time is up (`ended`) branches go at any age; tags have one still.
    """
    young = []
    for name in plan.refs:
        ref = state.refs.get(name) if state else None
        if state is None or ref is None:
            young.append(name)
            continue
        if ended and ref.is_branch:
            continue
        default = state.properties.get("history.expire.max-ref-age-ms", "")
        limit = ref.max_ref_age_ms
        if limit is None and default.isdecimal():
            limit = int(default)
        age = plan.as_of - state.snapshots[ref.snapshot_id].committed_at
        if limit is None or age <= timedelta(milliseconds=limit):
            young.append(name)
    return young


def _still_promised(services: RunContext, case: _Case, state: TableMetadata | None) -> set[int]:
    """Planned snapshots that answered for some instant of the window, found from the log alone."""
    if state is None or is_dropped_name(state.name.namespace):
        return set(case.plan.snapshots)  # a dropped table's all, until its time is up
    window = _policy(services, case, state).window
    planned = set(case.plan.snapshots)
    if window is None:
        return planned
    return planned & promised_since(state, case.plan.refs, case.plan.as_of - window)


def _policy(services: RunContext, case: _Case, state: TableMetadata) -> Retention:
    levels = case.proof.world.levels(state, services.config.ledger_namespace)
    remembered_policy = remembered(case.ledger.policies, levels, state.uuid)
    return effective_retention(services.config.account, levels, remembered_policy)


def _missed_by_writers(services: RunContext, case: _Case, state: TableMetadata | None) -> set[int]:
    """Planned snapshots between a branch's head and the mark of a writer that still counts."""
    if state is None:
        return set()
    since = case.plan.as_of - _policy(services, case, state).writer_keep
    return cut_off(state, frozenset(case.plan.snapshots), case.plan.refs, since)


def _growth(services: RunContext, plan: Plan) -> float:
    earlier = [
        previous.bytes
        for previous in services.control.plans.find(
            table_uuid=plan.table_uuid, states=[PlanState.APPLIED]
        )
        if previous.kind is plan.kind and previous.id != plan.id and previous.bytes
    ][:_HISTORY]
    if len(earlier) < _ENOUGH_HISTORY:
        return 0.0
    return plan.bytes / max(1.0, median(earlier))


def _differing_heads(case: _Case, state: TableMetadata | None) -> list[str]:
    if state is None:
        return ["the table is not there"]
    base = case.ledger.bases[case.plan.id]
    return list(differing_heads(case.plan, base, state, case.proof.totals, case.ledger.indexed))


def _purge_evidence(
    services: RunContext,
    case: _Case,
    departures: Mapping[str, Departure],
    claimed: Mapping[str, str],
) -> GateFacts:
    plan, now = case.plan, services.clock.now()
    ours = [departures[file.path] for file in case.files if file.path in departures]
    waiting = {d.path: d for d in ours if d.state is DepartureState.FAILSAFE}
    # A plan that was begun has deleted some of its files already; those are not deleted twice.
    is_begun = plan.state is PlanState.APPLYING
    done = {d.path for d in ours if is_begun and d.state is DepartureState.DELETED}
    not_due = [
        file.path
        for file in case.files
        if file.path in waiting
        and (file.due_at is None or max(waiting[file.path].due_at, file.due_at) > now)
    ]
    measures: dict[str, Collection[str] | int | float | bool] = {
        **_common_facts(services, case),
        "planned_not_due": not_due,
        "planned_not_in_failsafe": [
            f.path for f in case.files if f.path not in waiting and f.path not in done
        ],
        "planned_young_orphans": DepartedObjects.of(services, waiting).young_orphans(),
        "planned_held": _held_owners(services, case),
        "planned_claimed": [f.path for f in case.files if claimed.get(f.path, plan.id) != plan.id],
    }
    return _row(plan, measures)
