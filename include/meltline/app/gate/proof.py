"""The gate's own proof: planned files against all remaining snapshots, read from their manifests.

`collect_evidence` calls it. It shares no query and no retention code with the planner. It starts
from the other end: everything that remains in any table's metadata, and its references.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from meltline.app.catalog.live_catalogs import LiveCatalogs, ledger_uuids
from meltline.app.catalog.management import vouched_for
from meltline.app.gate.sources import GateSources
from meltline.app.observe.changed_lists import changed_lists
from meltline.app.safety.owner_guards import trusted_tables
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, ProofResult, ProofSnapshot, SnapshotKey


@dataclass(frozen=True)
class Proof:
    """Result of reading all remaining files: what references the planned paths.

    Attributes:
        referenced: Planned paths with a remaining reference, and the referrer.
        lost_by_heads: Planned paths that a head references.
        errors: Why something could not be read, by table UUID.
        totals: Live files and bytes of each remaining snapshot, from the files.
        remaining: The snapshots that were read.
        trusted: Tables whose totals and counts are ignored, by UUID.
    """

    world: LiveCatalogs
    scan: ProofResult
    referenced: Mapping[str, str]
    lost_by_heads: frozenset[str]
    errors: Mapping[str, tuple[str, ...]]
    totals: Mapping[SnapshotKey, tuple[int, int]]
    remaining: tuple[ProofSnapshot, ...]
    trusted: frozenset[str] = frozenset()

    def most_live_bytes(self, table_uuid: str) -> int:
        """Returns the bytes of the table's largest remaining snapshot: at least these remain."""
        of_table = self._by_table.get(table_uuid, ())
        return max(
            (self.totals[snapshot.key][1] for snapshot in of_table if snapshot.key in self.totals),
            default=0,
        )

    def metadata_bytes(self, table_uuid: str) -> int:
        """Returns the bytes of the table's remaining manifests and manifest lists."""
        of_table = self._by_table.get(table_uuid, ())
        paths = {snapshot.manifest_list for snapshot in of_table}
        paths.update(m for snapshot in of_table for m in self.scan.manifests.get(snapshot.key, ()))
        return sum(self.scan.sizes.get(path, 0) for path in paths)

    @cached_property
    def _by_table(self) -> Mapping[str, Sequence[ProofSnapshot]]:
        """Remaining snapshots by table; cached, because the gate asks once for each plan."""
        by_uuid: dict[str, list[ProofSnapshot]] = {}
        for snapshot in self.remaining:
            by_uuid.setdefault(snapshot.table_uuid, []).append(snapshot)
        return by_uuid


@dataclass(frozen=True)
class Leaving:
    """The snapshots that some plans remove.

    Attributes:
        snapshots: Snapshots that no name of their table has afterwards.
        released: By name: a name's statistics of a snapshot leave with its own entry for it, even
            if another name of the table keeps the snapshot.
    """

    snapshots: Collection[SnapshotKey]
    released: Collection[tuple[TableName, int]]

    @classmethod
    def by(cls, plans: Sequence[Plan], states: Sequence[TableMetadata]) -> "Leaving":
        """Returns what plans remove, without snapshots in another registration of the table."""
        leaving = {
            SnapshotKey(plan.table_uuid, snapshot_id)
            for plan in plans
            if plan.kind is PlanKind.EXPIRE
            for snapshot_id in plan.snapshots
        }
        planned = {(plan.table_uuid, plan.table): set(plan.snapshots) for plan in plans}
        kept = {
            SnapshotKey(state.uuid, snapshot_id)
            for state in states
            for snapshot_id in state.snapshots.keys() - planned.get((state.uuid, state.name), set())
        }
        released = {(plan.table, snapshot_id) for plan in plans for snapshot_id in plan.snapshots}
        return cls(leaving - kept, released)


def prove(
    sources: GateSources,
    world: LiveCatalogs,
    leaving: Leaving,
    planned: Sequence[str],
    since: datetime | None = None,
) -> Proof:
    """Searches for the planned paths in everything that remains without `leaving`.

    Files read for an earlier proof since `since` are not read again; None reads everything from the
    files: a full proof.
    """
    remaining = _remaining(sources, world, leaving.snapshots)
    sources.progress(f"gate: proving against {len(remaining)} remaining snapshots")
    scan = sources.proofs.prove(list(remaining.values()), planned, since)
    totals = _live_totals(scan, remaining)
    trusted = trusted_tables(sources.guards, world.states)
    errors = _errors(world, scan, totals, trusted)
    if unknown := _unknown(sources, world, scan, remaining):
        errors[""] = (*errors.get("", ()), *unknown)
    names = {state.uuid: str(state.name) for state in world.states}
    raised = changed_lists(
        sources.snapshots, sources.incidents, sources.clock, scan.lists, remaining, names
    )
    for key, changed in raised.items():
        errors[key.table_uuid] = (*errors.get(key.table_uuid, ()), changed.message)
    referenced = dict(_referenced(world, remaining.values(), scan, planned, leaving.released))
    referenced |= _by_index(sources, {*errors, *world.vanished}, world.lost, planned)
    return Proof(
        world=world,
        scan=scan,
        referenced=referenced,
        lost_by_heads=_lost_by_heads(world, scan),
        errors=errors,
        totals=totals,
        remaining=tuple(remaining.values()),
        trusted=trusted,
    )


def _remaining(
    sources: GateSources, world: LiveCatalogs, leaving: Collection[SnapshotKey]
) -> dict[SnapshotKey, ProofSnapshot]:
    """Returns every snapshot that remains without `leaving`, and those under a purge veto."""
    remaining: dict[SnapshotKey, ProofSnapshot] = {}
    own = ledger_uuids(sources.config, world)
    for state in world.states:
        for snapshot in () if state.uuid in own else state.snapshots.values():
            key = SnapshotKey(state.uuid, snapshot.snapshot_id)
            if key not in leaving:
                remaining[key] = ProofSnapshot(
                    state.uuid,
                    snapshot.snapshot_id,
                    snapshot.manifest_list,
                    snapshot.inline_manifests,
                )
    for veto in sources.vetoes.all():
        # It is needed although no table may have it now.
        key = SnapshotKey(veto.table_uuid, veto.snapshot_id)
        remaining[key] = ProofSnapshot(
            veto.table_uuid, veto.snapshot_id, veto.manifest_list, veto.inline_manifests
        )
    return remaining


def _live_totals(
    scan: ProofResult, remaining: Collection[SnapshotKey]
) -> dict[SnapshotKey, tuple[int, int]]:
    """Returns live files and bytes of each snapshot whose manifests were read."""
    return {
        key: (
            sum(scan.live_files.get(m, 0) for m in manifests),
            sum(scan.live_bytes.get(m, 0) for m in manifests),
        )
        for key, manifests in scan.manifests.items()
        if key in remaining
    }


def _errors(
    world: LiveCatalogs,
    scan: ProofResult,
    totals: Mapping[SnapshotKey, tuple[int, int]],
    trusted: Collection[str],
) -> dict[str, tuple[str, ...]]:
    """Returns read errors and contradictions, by table UUID."""
    errors = {uuid: list(messages) for uuid, messages in world.unreadable.items()}
    for uuid, messages in scan.errors.items():
        errors.setdefault(uuid, []).extend(messages)
    # A read error also explains a contradiction, so that is not reported.
    for uuid, message in (*_miscounted(scan, trusted), *_cut_short(world, scan, totals, trusted)):
        if uuid not in scan.errors:
            errors.setdefault(uuid, []).append(message)
    return {uuid: tuple(messages) for uuid, messages in errors.items()}


def _unknown(
    sources: GateSources,
    world: LiveCatalogs,
    scan: ProofResult,
    remaining: Mapping[SnapshotKey, ProofSnapshot],
) -> tuple[str, ...]:
    """Returns errors of current tables that were never read: their references are unknown.

    If the index has a snapshot, its references are known; without it they are not.
    """
    if not scan.errors:
        return ()
    standing = {pointer for listing in world.listings.values() for pointer in listing.entries}
    new = {key.table_uuid for key in remaining.keys() - sources.snapshots.known()}
    unread = new & scan.errors.keys()
    broken = {
        CatalogEntry(state.name, state.metadata_location): state.uuid
        for state in world.states
        if state.uuid in unread
    }
    present = broken.keys() & standing
    vouched = vouched_for(sources.vouched, sources.store, present)
    uuids = {broken[pointer] for pointer in present - vouched}
    return tuple(error for uuid in sorted(uuids) for error in scan.errors[uuid])


def _lost_by_heads(world: LiveCatalogs, scan: ProofResult) -> frozenset[str]:
    heads = {SnapshotKey(s.uuid, head) for s in world.states for head in s.heads.values()}
    return frozenset(
        path
        for key in heads & scan.manifests.keys()
        for manifest in scan.manifests[key]
        for path in scan.hits.get(manifest, ())
    )


def _miscounted(scan: ProofResult, trusted: Collection[str]) -> Iterable[tuple[str, str]]:
    """Yields manifests of untrusted tables whose lists have other entry counts than they have."""
    for uuid in scan.contradictions.keys() - trusted:
        yield from ((uuid, message) for message in scan.contradictions[uuid])


def _cut_short(
    world: LiveCatalogs,
    scan: ProofResult,
    totals: Mapping[SnapshotKey, tuple[int, int]],
    trusted: Collection[str],
) -> Iterable[tuple[str, str]]:
    """Yields snapshots whose lists have another number of live files than their own summaries.

    A manifest list that is truncated at a block boundary reads without an error. Of a trusted
    table, only an empty list is considered truncated.
    """
    for state in world.states:
        for snapshot in state.snapshots.values():
            key = SnapshotKey(state.uuid, snapshot.snapshot_id)
            files, _ = totals.get(key, (None, None))
            if files is None or (state.uuid in trusted and scan.manifests[key]):
                continue
            stated = [
                snapshot.summary.get(f"total-{kind}-files", "") for kind in ("data", "delete")
            ]
            if not all(total.isdecimal() for total in stated):
                continue
            if files != sum(map(int, stated)):
                problem = f"{files} live files, where its summary says {sum(map(int, stated))}"
                yield state.uuid, f"{state.name}@{snapshot.snapshot_id}: {problem}"


def _referenced(
    world: LiveCatalogs,
    remaining: Iterable[ProofSnapshot],
    scan: ProofResult,
    planned: Sequence[str],
    released: Collection[tuple[TableName, int]],
) -> Iterable[tuple[str, str]]:
    by_key = {location_key(path): path for path in planned}

    def naming(path: str, by: str) -> Iterable[tuple[str, str]]:
        if hit := by_key.get(location_key(path)):
            yield hit, by

    for manifest, hits in scan.hits.items():
        yield from ((path, manifest) for path in hits)
    for manifest in scan.live_files:
        yield from naming(manifest, "a manifest list")
    for snapshot in remaining:
        yield from naming(snapshot.manifest_list, f"snapshot {snapshot.snapshot_id}")
    for state in world.states:
        for path in (state.metadata_location, *state.metadata_log):
            yield from naming(path, f"metadata of {state.name}")
        for file in state.statistics:
            if (state.name, file.snapshot_id) not in released:
                yield from naming(file.path, f"statistics of {state.name}")


def _by_index(
    sources: GateSources,
    uuids: set[str],
    snapshots: Collection[SnapshotKey],
    planned: Sequence[str],
) -> dict[str, str]:
    """Returns references of what cannot be read now, by the last state in the index."""
    blind = uuids - {""}
    if not (blind or snapshots) or not planned:
        return {}
    indexed = sources.snapshots.known()
    dead = [key for key in indexed if key.table_uuid not in blind and key not in snapshots]
    if len(dead) == len(indexed):
        return {}
    hits = sources.references.among(planned, dead)
    return dict.fromkeys(hits, "a table that cannot be read now")
