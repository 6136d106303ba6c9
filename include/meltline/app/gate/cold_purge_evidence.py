"""The gate's word on cold before a purge: hot's metadata has forgotten, cold alone can tell.

What should be there: every snapshot that an expiration behind these departures let go of, and that
the ledger or the cold table says was archived. Nothing is asked of a snapshot of which neither
says so: its own gate has passed it while hot could still tell what the policy wanted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import MeltlineError, PlanNotFound
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind, PlannedFile
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import DepartedFiles, ListedCopy

_BYTES_SAMPLED = 3
_LOOKED_AT = 100  # files at a time, of which so many are sampled
_LARGEST_SAMPLE = 64 * 1024 * 1024  # bytes; a larger file is compared by its size alone


@dataclass
class _PurgedTable:
    """A table of which a purge plan holds files, and its snapshots that these were part of.

    Attributes:
        copies: What the ledger says of their copies.
        manifests: Those of the copies, by path.
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
        """Those under which it was archived."""
        return sorted({copy.table for copy in self.copies.values()})


def purge_facts(
    sources: GateSources,
    world: LiveCatalogs,
    files: Sequence[PlannedFile],
    departed: Mapping[str, Departure],
) -> ColdFacts:
    """What is wrong with the copies of what a purge plan's files were part of."""
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
    """Which snapshots of which tables the files were part of, by the plans that let them go."""
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
    """Whether cold is to be asked although the ledger knows no copy: it may have been lost.

    Of a table that is nowhere any more nobody can tell what its policy was.
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
    """Originals that wait in hot and that no plan in question lets go.

    Each run mends their copies, or names them: what cold has lost of them holds up no other file.
    """

    departures: DepartedFiles
    warehouse: str
    planned: frozenset[str]

    def covers(self, copies: Sequence[str]) -> bool:
        """Whether some copies that are not as they should be are of such originals, all of them."""
        originals = {original_of(copy, self.warehouse) for copy in copies}
        if not originals or "" in originals or originals & self.planned:
            return False
        waiting = self.departures.in_states(
            frozenset({DepartureState.FAILSAFE}), paths=sorted(originals)
        )
        return originals <= {departure.path for departure in waiting if departure.is_on_its_way}


def _check(side: Side, table: _PurgedTable, stays: _Staying, facts: ColdFacts) -> None:
    """Holds a table's snapshots that should be in cold against what is there."""
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
    """The cold table's own word on its copies against the ledger's."""
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
    """Opens the manifests that these snapshots brought; the others must have their length."""
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
    """Planned files that a manifest of cold refers to must have their own copy."""
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
    """Holds a few copies against their originals once more, whatever anybody has recorded.

    Where another object lies under a path by now there is no original any more, and nothing is
    deleted there: as many are read as there are of which the object that departed is there.
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
