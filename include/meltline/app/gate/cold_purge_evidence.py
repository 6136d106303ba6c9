"""Gate facts about copies in cold: for expirations compared with hot, for purges from cold alone.

`collect_evidence` calls it. Before a purge, hot's metadata has no trace of the snapshots any more,
so only cold can prove their copies. Expected in cold is every snapshot that an expiration behind
these departures removed, and that the ledger or the cold table lists as archived. If neither lists
a snapshot, nothing is required of it: the gate of its expiration passed while hot still showed what
the policy wanted.

It uses nothing of the handoff, of the planner's retention or of the ledger's records of copies. It
starts from the other end: the current policy and log, the cold catalog listed and its metadata read
again, its manifest lists and manifests compared with the originals (AR-30, AR-35, PX-4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from meltline.app.archive.cold_facts import ColdFacts, Side, noted
from meltline.app.archive.copy_proofs import unproved_copies
from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.gate.sources import GateSources
from meltline.app.ownership.departed_objects import DepartedObjects
from meltline.config.load import Config
from meltline.domain.archive.archive import COLD_OF, ArchivedSnapshot, read_archived
from meltline.domain.archive.cold import cold_policy
from meltline.domain.archive.cold_paths import mirrored, original_of
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.drop.drops import read_drop
from meltline.domain.errors import MeltlineError, PlanNotFound
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, PlannedFile
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.retention.profiles import Cadence
from meltline.ports import DepartedFiles, ListedCopy, ManifestPair, RowSample

_SAMPLES = 2
_STAMPS = {Cadence.DAILY: "%Y-%m-%d", Cadence.WEEKLY: "%G-%V", Cadence.MONTHLY: "%Y-%m"}


@dataclass
class _Case:
    """An expiration plan of a table with an archive policy, and the facts about its copies."""

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
    """Returns the defects of copies of expiring snapshots, by plan id."""
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
    """Checks the snapshots in cold, and then the copies of all planned files."""
    for case in cases:
        with noted(case.facts):
            _copy_check(sources, side, case)
    manifests = list({m.path: m for case in cases for m in case.manifests}.values())
    for plan_id, plan_facts in facts.items() if manifests else ():
        with noted(plan_facts):
            lacking = side.without_mirror(items[plan_id])
            if lacking:  # needed by any archived snapshot, whichever plan has them
                alive = side.copies.alive(manifests, lacking, of_copies=False)
                plan_facts.files_missing += sorted(alive)


def _case(config: Config, world: LiveCatalogs, plan: Plan, facts: ColdFacts) -> _Case | None:
    """Returns a plan's case; None if the policy archives nothing of the table."""
    state = world.of(plan.table_uuid, plan.table)
    if state is None:
        return None  # a missing table is refused for that reason
    policy = cold_policy(config.account, world.levels(state, config.ledger_namespace))
    if not policy.is_on:
        return None
    return _Case(plan, state, _expected(policy.cadence, state, plan), facts)


def _expected(cadence: Cadence, state: TableMetadata, plan: Plan) -> set[int]:
    """Returns planned snapshots that were the last of a day, week or month, by log and ancestry."""
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
    """Returns last snapshots without a log entry; the log is more precise than a child."""
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


def _copy_check(sources: GateSources, side: Side, case: _Case) -> None:
    """Compares each planned snapshot that is, or should be, in cold with hot."""
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
    """Compares the copies of snapshots with the originals: their paths and their content."""
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
    """Returns the name under which the history was archived; a dropped table's former name."""
    drop = read_drop(state.name.catalog, state.properties)
    return state.name if drop is None or not drop.object.table else drop.object.table_name


def _identity(snapshot: Snapshot) -> tuple[object, ...]:
    """Returns the fields that a copy shares with its snapshot."""
    return (snapshot.committed_at, snapshot.sequence_number, dict(snapshot.summary))


def _compare_manifests(sources: GateSources, side: Side, case: _Case, cold: TableMetadata) -> None:
    """Pairs both sides' manifests by path, and compares those that no earlier gate has compared."""
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
    """Returns each checked snapshot's manifests on one side; errors are recorded in the facts."""
    paths = {sid: state.snapshots[sid].manifest_list for sid in case.checked}
    listed = side.listed(sorted(set(paths.values())), case.facts, of_copies=of_copies)
    return {sid: listed[path] for sid, path in paths.items() if path in listed}


def _compared_before(
    sources: GateSources, side: Side, plan: Plan, cold: TableMetadata
) -> set[tuple[str, int]]:
    """Returns cold manifests that the gate of the table's last expiration has compared with hot.

    A manifest never changes. For a plan above the size for full proofs, all of them are compared.
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


_BYTES_SAMPLED = 3
_LOOKED_AT = 100  # files per portion; the sample is taken from them
_LARGEST_SAMPLE = 64 * 1024 * 1024  # bytes; a larger file is compared by size only


@dataclass
class _PurgedTable:
    """A table with files in a purge plan, and its snapshots that referenced these files.

    Attributes:
        copies: The ledger's records of their copies.
        manifests: The manifests of the copies, by path.
    """

    uuid: str
    snapshots: set[int]
    copies: dict[int, ArchivedSnapshot] = field(default_factory=dict)
    cold: TableMetadata | None = None
    manifests: Mapping[str, ListedCopy] = field(default_factory=dict)

    @property
    def archived(self) -> list[int]:
        """Its snapshots that should be in cold."""
        return sorted(self.snapshots & (self.copies.keys() | self.in_cold.keys()))

    @property
    def in_cold(self) -> Mapping[int, Snapshot]:
        """The snapshots of its cold table."""
        return self.cold.snapshots if self.cold else {}

    @property
    def names(self) -> list[TableName]:
        """The names under which it was archived."""
        return sorted({copy.table for copy in self.copies.values()})


def purge_facts(
    sources: GateSources,
    world: LiveCatalogs,
    files: Sequence[PlannedFile],
    departed: Mapping[str, Departure],
) -> ColdFacts:
    """Returns the defects of copies of snapshots that a purge plan's files belonged to."""
    facts = ColdFacts()
    tables = _purged_tables(sources, files, departed)
    required = any(table.copies for table in tables) or _has_policy(sources.config, world, tables)
    if not required and not sources.config.cold:
        return facts
    with noted(facts):
        side = sources.side()
        if not required:  # copies may have been made for tables that share the files
            unproved = unproved_copies(sources.copies, side, files, recorded_alone=True)
            facts.unproved += unproved.values()
            return facts
        planned = frozenset(file.path for file in files)
        stays = _Staying(sources.departures, side.tier.warehouse, planned)
        for table in tables:
            _check(side, table, stays, facts)
        facts.unproved += unproved_copies(sources.copies, side, files).values()
        _check_files(side, tables, files, sources.objects(departed), facts)
    return facts


def _purged_tables(
    sources: GateSources, files: Sequence[PlannedFile], departed: Mapping[str, Departure]
) -> list[_PurgedTable]:
    """Returns the tables and snapshots of the files, by the plans that expired them."""
    tables: dict[str, _PurgedTable] = {}
    for name in {departed[file.path].plan_id for file in files if file.path in departed}:
        try:
            plan = sources.plans.get(name)
        except PlanNotFound:
            continue  # files that no snapshot had: orphans, or the metadata of a dropped table
        if plan.id == name and plan.kind is PlanKind.EXPIRE:
            table = tables.setdefault(plan.table_uuid, _PurgedTable(plan.table_uuid, set()))
            table.snapshots.update(plan.snapshots, plan.gone_snapshots)
    for copy in sources.archived.all(sorted(tables)) if tables else ():
        if copy.snapshot_id in tables[copy.table_uuid].snapshots:
            tables[copy.table_uuid].copies[copy.snapshot_id] = copy
    return list(tables.values())


def _has_policy(config: Config, world: LiveCatalogs, tables: Sequence[_PurgedTable]) -> bool:
    """Returns whether cold must be read although the ledger has no copy: the record may be lost.

    If a table does not exist any more, its policy is unknown, so any configured cold is read.
    """
    uuids = {table.uuid for table in tables}
    states = [state for uuid in uuids for state in world.registrations(uuid)]
    if {state.uuid for state in states} != uuids:
        return bool(config.cold)
    return any(
        cold_policy(config.account, world.levels(state, config.ledger_namespace)).is_on
        for state in states
    )


@dataclass(frozen=True)
class _Staying:
    """Originals that wait in hot and that no plan in question deletes.

    Each run repairs their copies, or reports them, so their defects in cold block no other file.
    """

    departures: DepartedFiles
    warehouse: str
    planned: frozenset[str]

    def covers(self, copies: Sequence[str]) -> bool:
        """Returns whether all of some defective copies belong to such originals."""
        originals = {original_of(copy, self.warehouse) for copy in copies}
        if not originals or "" in originals or originals & self.planned:
            return False
        waiting = self.departures.in_states(
            frozenset({DepartureState.FAILSAFE}), paths=sorted(originals)
        )
        return originals <= {departure.path for departure in waiting if departure.is_on_its_way}


def _check(side: Side, table: _PurgedTable, stays: _Staying, facts: ColdFacts) -> None:
    """Checks a table's snapshots that should be in cold."""
    try:
        table.cold = side.tables.of(table.uuid, table.names)
    except MeltlineError as error:
        facts.note(error)
    in_cold = table.in_cold
    facts.missing += [str(sid) for sid in table.archived if sid not in in_cold]
    if table.cold is None:
        return
    copies = [in_cold[sid] for sid in table.archived if sid in in_cold]
    facts.outside += side.leads_out(table.cold, copies)
    _check_recorded(table, facts)
    lists = side.listed([copy.manifest_list for copy in copies], facts, of_copies=True)
    table.manifests = {m.path: m for listed in lists.values() for m in listed}
    _check_manifests(side, table, stays, facts)


def _check_recorded(table: _PurgedTable, facts: ColdFacts) -> None:
    """Compares the cold table's own record of its copies with the ledger's."""
    assert table.cold is not None
    name = next((copy.table for copy in table.copies.values()), table.cold.name)
    by_cold = {copy.snapshot_id: copy for copy in read_archived(table.cold, name)}
    if table.cold.properties.get(COLD_OF) != table.uuid:
        facts.differing.append(f"{table.cold.name} holds the history of another table")
    for sid, archived in table.copies.items():
        own = by_cold.get(sid)
        if own is not None and (own.files, own.rows) != (archived.files, archived.rows):
            facts.differing.append(
                f"snapshot {sid}: {own.rows} rows in {own.files} files by cold, "
                f"{archived.rows} in {archived.files} by the ledger"
            )


def _check_manifests(side: Side, table: _PurgedTable, stays: _Staying, facts: ColdFacts) -> None:
    """Opens the manifests that these snapshots added; of the others only the length is checked."""
    archived = set(table.archived)
    brought = [m for m in table.manifests.values() if m.added_by in archived]
    for audited in side.copies.audit(brought, side.tier.warehouse):
        if not stays.covers([copy for copy, _ in audited.absent]):
            facts.differing += audited.problems
    older = [m for m in table.manifests.values() if m.added_by not in archived]
    sizes = load_concurrently(lambda manifest: side.tier.store.size(manifest.path), older)
    for manifest, size in zip(older, sizes, strict=True):
        if size != manifest.bytes:
            facts.unreadable.append(f"{manifest.path} has {size} bytes, not {manifest.bytes}")


def _check_files(
    side: Side,
    tables: Sequence[_PurgedTable],
    files: Sequence[PlannedFile],
    objects: DepartedObjects,
    facts: ColdFacts,
) -> None:
    """Requires a copy of each planned file that a manifest of cold references."""
    own = [f for f in files if not objects.is_swept(f.path)]
    manifests = [m for table in tables for m in table.manifests.values()]
    lacking = {mirrored(path, side.tier.warehouse): path for path in side.without_mirror(own)}
    if lacking and manifests:
        alive = side.copies.alive(manifests, list(lacking), of_copies=True)
        facts.files_missing += sorted(map(lacking.__getitem__, alive))
    _compare_bytes(side, [f for f in own if f.path not in lacking.values()], objects, facts)


def _compare_bytes(
    side: Side, files: Sequence[PlannedFile], departed: DepartedObjects, facts: ColdFacts
) -> None:
    """Compares a few copies with their originals byte by byte, whatever is recorded.

    If another object is at a path by now, the original is gone and nothing is deleted there. Then
    other files are sampled, whose departed object still exists.
    """
    data = [f for f in files if f.kind is FileKind.DATA and f.bytes <= _LARGEST_SAMPLE]
    paths, sampled = [f.path for f in data], list[str]()
    for start in range(0, len(paths), _LOOKED_AT):
        portion = paths[start : start + _LOOKED_AT]
        replaced = departed.replaced(portion)
        sampled += [path for path in portion if path not in replaced]
        if len(sampled) >= _BYTES_SAMPLED:
            break
    facts.rows_differ += side.copies.unequal(sampled[:_BYTES_SAMPLED], side.tier.warehouse)
