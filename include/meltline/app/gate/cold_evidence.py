"""The gate's word on cold before an expiration: what is to leave hot is there, file for file.

It takes nothing from the handoff, from the keep set or from the ledger's facts about copies. It
starts from the other end: the policy and the log as they are now, the cold catalog listed and its
metadata read again, its manifest lists and manifests opened beside the originals (AR-30, AR-35,
PX-4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from meltline.app.archive.cold_facts import ColdFacts, Side, noted
from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.gate.sources import GateSources
from meltline.config.load import Config
from meltline.domain.archive.cold import cold_policy
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.drop.drops import read_drop
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.retention.profiles import Cadence
from meltline.ports import ListedCopy, ManifestPair, RowSample

_SAMPLES = 2
_STAMPS = {Cadence.DAILY: "%Y-%m-%d", Cadence.WEEKLY: "%G-%V", Cadence.MONTHLY: "%Y-%m"}


@dataclass
class _Case:
    """An expiration plan of a table with a cold policy, and what is found about it."""

    plan: Plan
    state: TableMetadata
    expected: set[int]
    facts: ColdFacts
    checked: list[int] = field(default_factory=list)
    manifests: list[ListedCopy] = field(default_factory=list)


def expire_facts(
    sources: GateSources,
    world: LiveCatalogs,
    plans: Sequence[Plan],
    items: Mapping[str, Sequence[PlannedFile]],
) -> Mapping[str, ColdFacts]:
    """What is wrong with the copies of what expirations let go of, by plan id."""
    facts = {plan.id: ColdFacts() for plan in plans}
    config = sources.config
    cases = [case for plan in plans if (case := _case(config, world, plan, facts[plan.id]))]
    try:
        if cases:
            _look_into_cold(sources, sources.side(), cases, items, facts)
    except MeltlineError as error:
        for case in cases:
            case.facts.missing += map(str, sorted(case.expected))
            case.facts.note(error)
    return facts


def _look_into_cold(
    sources: GateSources,
    side: Side,
    cases: Sequence[_Case],
    items: Mapping[str, Sequence[PlannedFile]],
    facts: Mapping[str, ColdFacts],
) -> None:
    """Looks for the snapshots, and then for the copies of all planned files."""
    for case in cases:
        with noted(case.facts):
            _check(sources, side, case)
    manifests = list({m.path: m for case in cases for m in case.manifests}.values())
    for plan_id, plan_facts in facts.items() if manifests else ():
        with noted(plan_facts):
            lacking = side.without_mirror(items[plan_id])
            if lacking:  # needed by any archived snapshot, whichever plan names them
                alive = side.copies.alive(manifests, lacking, of_copies=False)
                plan_facts.files_missing += sorted(alive)


def _case(config: Config, world: LiveCatalogs, plan: Plan, facts: ColdFacts) -> _Case | None:
    """A plan's case; None where the policy wants nothing of the table in cold."""
    state = world.of(plan.table_uuid, plan.table)
    if state is None:
        return None  # a table that is not there is refused for that
    policy = cold_policy(config.account, world.levels(state, config.ledger_namespace))
    if not policy.is_on:
        return None
    return _Case(plan, state, _expected(policy.cadence, state, plan), facts)


def _expected(cadence: Cadence, state: TableMetadata, plan: Plan) -> set[int]:
    """Planned snapshots that were the last of some day, week or month, by log and ancestry."""
    planned = set(plan.snapshots)
    if cadence is Cadence.ALL:
        return planned
    left = {head for name, head in state.heads.items() if name in plan.refs}
    return planned & (left | _last_by_log(cadence, state) | _last_by_children(cadence, state))


def _last_by_log(cadence: Cadence, state: TableMetadata) -> set[int]:
    return {
        log_entry.snapshot_id
        for log_entry, following in pairwise(state.snapshot_log)
        if _differ(cadence, log_entry.at, following.at)
    }


def _last_by_children(cadence: Cadence, state: TableMetadata) -> set[int]:
    """Of snapshots without a log entry: it tells when they ended, better than any child."""
    logged = {log_entry.snapshot_id for log_entry in state.snapshot_log}
    return {
        parent.snapshot_id
        for head in state.heads.values()
        for child, parent in pairwise(state.ancestry(head))
        if parent.snapshot_id not in logged
        and _differ(cadence, parent.committed_at, child.committed_at)
    }


def _differ(cadence: Cadence, first: datetime, second: datetime) -> bool:
    return first.strftime(_STAMPS[cadence]) != second.strftime(_STAMPS[cadence])


def _check(sources: GateSources, side: Side, case: _Case) -> None:
    """Holds each planned snapshot that is in cold, and each that should be, against hot."""
    facts, cold = case.facts, None
    try:
        cold = side.tables.of(case.state.uuid, [_old_name(case.state)])
    except MeltlineError as error:
        facts.note(error)
    copies = cold.snapshots if cold else {}
    facts.missing += [str(sid) for sid in sorted(case.expected - copies.keys())]
    case.checked = [sid for sid in case.plan.snapshots if sid in copies]
    if cold is not None and case.checked:
        _compare(sources, side, case, cold)


def _compare(sources: GateSources, side: Side, case: _Case, cold: TableMetadata) -> None:
    """Holds the copies of snapshots against the snapshots: where they lie, and what they hold."""
    facts, state, copies = case.facts, case.state, cold.snapshots
    facts.outside += side.leads_out(cold, [copies[sid] for sid in case.checked])
    facts.differing += [
        f"snapshot {sid} is another one in {cold.name}"
        for sid in case.checked
        if _identity(copies[sid]) != _identity(state.snapshots[sid])
    ]
    _compare_manifests(sources, side, case, cold)
    ends = sorted(case.checked, key=lambda sid: (copies[sid].committed_at, sid))
    sampled = dict.fromkeys([ends[0], ends[-1]][:_SAMPLES])
    samples = [RowSample(state.name, cold.name, sid) for sid in sampled]
    facts.rows_differ += side.rows.differing(samples)


def _old_name(state: TableMetadata) -> TableName:
    """Under which name the history was handed over; of a dropped table, the one that it had."""
    drop = read_drop(state.name.catalog, state.properties)
    return state.name if drop is None or not drop.object.table else drop.object.table_name


def _identity(snapshot: Snapshot) -> tuple[object, ...]:
    """What a copy keeps of its snapshot."""
    return (snapshot.committed_at, snapshot.sequence_number, dict(snapshot.summary))


def _compare_manifests(sources: GateSources, side: Side, case: _Case, cold: TableMetadata) -> None:
    """Pairs the manifests of both sides by their paths, and opens what no gate has compared yet."""
    facts, warehouse = case.facts, side.tier.warehouse
    hot = _lists(side, case, case.state, of_copies=False)
    copied = _lists(side, case, cold, of_copies=True)
    compared = _compared_before(sources, side, case.plan, cold)
    pairs: dict[str, ManifestPair] = {}
    for sid in hot.keys() & copied.keys():
        copies = {manifest.path: manifest for manifest in copied[sid]}
        for manifest in hot[sid]:
            copy = copies.pop(mirrored(manifest.path, warehouse), None)
            if copy is None:
                facts.differing.append(f"snapshot {sid}: {manifest.path} has no copy")
            elif (copy.path, copy.bytes) not in compared:
                pairs[copy.path] = ManifestPair(manifest, copy)
        facts.differing += [f"snapshot {sid}: {path} has no original" for path in copies]
    case.manifests = list({m.path: m for listed in hot.values() for m in listed}.values())
    facts.differing += side.copies.differences(list(pairs.values()), warehouse)


def _lists(
    side: Side, case: _Case, state: TableMetadata, *, of_copies: bool
) -> dict[int, tuple[ListedCopy, ...]]:
    """The manifests of each checked snapshot on one side; what cannot be read is noted."""
    paths = {sid: state.snapshots[sid].manifest_list for sid in case.checked}
    listed = side.listed(sorted(set(paths.values())), case.facts, of_copies=of_copies)
    return {sid: listed[path] for sid, path in paths.items() if path in listed}


def _compared_before(
    sources: GateSources, side: Side, plan: Plan, cold: TableMetadata
) -> set[tuple[str, int]]:
    """Manifests of cold that the gate of the table's last expiration has held against hot's.

    A manifest never changes. A plan above the size for full proofs has all of them opened.
    """
    if plan.bytes > sources.config.limits.full_proof_above:
        return set()
    for applied in sources.plans.find(table_uuid=plan.table_uuid, states=[PlanState.APPLIED]):
        copies = [sid for sid in applied.snapshots if sid in cold.snapshots]
        if applied.kind is not PlanKind.EXPIRE or not copies:
            continue
        newest = max(copies, key=lambda sid: (cold.snapshots[sid].committed_at, sid))
        path = cold.snapshots[newest].manifest_list
        listed = side.copies.lists([path], of_copies=True)[path]
        return set() if isinstance(listed, str) else {(m.path, m.bytes) for m in listed}
    return set()
