"""Collects evidence: one row of facts per plan, for the gate's expectations (PX-4).

The gate calls it. One read of the catalogs serves all plans.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from meltline.app.catalog.live_catalogs import LiveCatalogs, fresh_owners
from meltline.app.gate.cases import Case, Measures, Surroundings
from meltline.app.gate.cold_purge_evidence import expire_facts, purge_facts
from meltline.app.gate.expire_evidence import LedgerFacts, expire_measures
from meltline.app.gate.proof import Leaving, prove
from meltline.app.gate.sources import GateSources
from meltline.app.ownership.foreign_owners import NamedFiles, contested_paths
from meltline.app.ownership.half_seen import half_seen_now, lying_in, place_in
from meltline.app.ownership.path_aliases import OtherNames, needed_by_other_names
from meltline.app.ownership.protected_files import metadata_keys
from meltline.domain.deletion.gate import GateFacts
from meltline.domain.deletion.half_seen import HalfSeenPlaces
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.units import format_size

_EXAMPLES = 5
_Items = Mapping[str, Sequence[PlannedFile]]


def collect_evidence(sources: GateSources, plans: Sequence[Plan]) -> list[GateFacts]:
    """Collects the facts of plans of any kind, from one new read of the catalogs."""
    if not plans:
        return []
    items = sources.items.of([plan.id for plan in plans])
    around = _surroundings(sources, sources.look(), plans, items)
    paths, world = _paths(plans, items), around.proof.world
    expirations = [plan for plan in plans if plan.kind is PlanKind.EXPIRE]
    facts = LedgerFacts.read(sources, around.proof, expirations, paths)
    departed = sources.departures.in_states(frozenset(DepartureState), paths=paths)
    departures = {departure.path: departure for departure in departed}
    claimed = sources.claims.paths()
    cold = expire_facts(sources, world, expirations, items)

    def measured(plan: Plan) -> Measures:
        files = items[plan.id]
        if plan.kind is PlanKind.EXPIRE:
            return expire_measures(Case(plan, files, cold[plan.id], around), facts)
        copies = purge_facts(sources, world, files, departures)
        return purge_measures(Case(plan, files, copies, around), departures, claimed)

    return [_row(plan, measured(plan)) for plan in plans]


def _paths(plans: Sequence[Plan], items: _Items) -> list[str]:
    return sorted({file.path for plan in plans for file in items[plan.id]})


def _surroundings(
    sources: GateSources, world: LiveCatalogs, plans: Sequence[Plan], items: _Items
) -> Surroundings:
    """Proves references for all plans, and collects owners, sharing and other names."""
    now, half_seen = sources.clock.now(), _half_seen(sources, world)
    purged = _paths([plan for plan in plans if plan.kind is PlanKind.PURGE], items)
    places, stores = sources.places.all(), sources.config.stores
    places |= set(map(place_in, half_seen.places))
    names = OtherNames(sources.store, sources.resolver, places, stores)
    sought = {*_paths(plans, items), *(name for path in purged for name in names.of(path))}
    leaving = Leaving.by(plans, world.states)
    proof = prove(sources, world, leaving, sorted(sought), _read_since(sources, plans))
    owners = fresh_owners(sources.registrations, world)
    foreign = NamedFiles(sources.folders, sources.owners, now, sources.config.storage_roots)
    return Surroundings(
        sources,
        now,
        proof,
        owners=owners,
        contested=contested_paths(foreign, owners, purged),
        groups=Groups(sources.registrations.sharing()),
        protected=metadata_keys(world.states),
        elsewhere=needed_by_other_names(
            names,
            purged,
            lambda candidates: (
                (proof.referenced.keys() & candidates)
                | lying_in(sources.store, half_seen, candidates)
            ),
        ),
        half_seen=half_seen,
    )


def _half_seen(sources: GateSources, world: LiveCatalogs) -> HalfSeenPlaces:
    """Returns half-seen locations, by current listings and by everything recorded."""
    places = half_seen_now(sources.config, sources.registrations, world.listings, world.states)
    return HalfSeenPlaces([*places, *sources.places.half_seen()])


def _read_since(sources: GateSources, plans: Sequence[Plan]) -> datetime | None:
    """Returns since when reads of earlier proofs count; None to read everything again."""
    limits, gates = sources.config.limits, sources.config.gates
    if any(plan.bytes > limits.full_proof_above for plan in plans):
        return None
    return sources.clock.now() - gates.full_proof_every


def _row(plan: Plan, measures: Measures) -> GateFacts:
    facts: dict[str, int | float | bool | str] = {}
    examples: dict[str, tuple[str, ...]] = {}
    for fact, measure in measures.items():
        if isinstance(measure, (bool, int, float)):
            facts[fact] = measure
        else:
            facts[fact] = len(measure)
            examples[fact] = tuple(sorted(measure)[:_EXAMPLES])
    subject = f"{plan.table}: {plan.files} files, {format_size(plan.bytes)}"
    return GateFacts(plan.id, plan.digest, plan.kind, facts, examples, subject)


def purge_measures(
    case: Case, departures: Mapping[str, Departure], claimed: Mapping[str, str]
) -> Measures:
    """Returns the facts about a purge.

    Args:
        case: The plan.
        departures: Of all planned files, by path.
        claimed: Paths that purges are deleting, and the plan of each.
    """
    plan, around = case.plan, case.around
    refused = around.roots.refused(case.paths)
    return {
        **case.common_measures(refused, case.errors({"", *case.members})),
        **_failsafe_measures(case, departures),
        "planned_held": _held_owners(case),
        "planned_guarded": case.owners & around.guarded,
        "planned_contested": [p for p in case.paths if p in around.contested],
        "planned_claimed": [p for p in case.paths if claimed.get(p, plan.id) != plan.id],
    }


def _failsafe_measures(case: Case, departures: Mapping[str, Departure]) -> Measures:
    """Returns facts about failsafe: whether the files are in it, and whether it has ended."""
    waiting = _in_state(DepartureState.FAILSAFE, case, departures)
    expected = set(waiting)
    if case.plan.state is PlanState.APPLYING:  # it has deleted some already, and will not again
        expected |= _in_state(DepartureState.DELETED, case, departures).keys()
    return {
        "planned_not_due": [
            file.path
            for file in case.files
            if file.path in waiting and not _is_due(file, waiting[file.path], case.around.now)
        ],
        "planned_not_in_failsafe": [path for path in case.paths if path not in expected],
        "planned_young_orphans": case.around.sources.objects(waiting).young_orphans(),
    }


def _in_state(
    state: DepartureState, case: Case, departures: Mapping[str, Departure]
) -> Mapping[str, Departure]:
    ours = {path: departures[path] for path in case.paths if path in departures}
    return {path: departure for path, departure in ours.items() if departure.state is state}


def _is_due(file: PlannedFile, departure: Departure, now: datetime) -> bool:
    """Returns whether a file's failsafe is over, both by the plan and by the ledger."""
    return file.due_at is not None and max(departure.due_at, file.due_at) <= now


def _held_owners(case: Case) -> set[str]:
    """Returns owners of planned files whose group is under a hold: nothing of it may be purged."""
    around = case.around
    return {
        owner for owner in case.owners if not around.held.isdisjoint(around.groups.members(owner))
    }
