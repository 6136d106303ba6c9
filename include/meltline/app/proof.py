"""The gate's own look at the world: catalogs, metadata and manifests read afresh.

It shares no query and no keep-set code with the planner. It starts from the other end: whatever
remains in any table's metadata, and what that refers to.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.membership import vouched_for
from meltline.app.metadata import load_states
from meltline.app.services import Services
from meltline.domain.errors import CatalogUnlistable, MeltlineError, MetadataMissing
from meltline.domain.locations import OwnerIndex, Ownership, claim_prefix, location_key
from meltline.domain.names import TableName
from meltline.domain.objects import ObjectName
from meltline.domain.policy import ACCOUNT
from meltline.domain.table import TableState
from meltline.ports import CatalogEntry, CatalogListing, ProofResult, ProofSnapshot, SnapshotKey


@dataclass(frozen=True)
class World:
    """What every catalog holds right now, as far as it can be read.

    Attributes:
        states: Every readable table, those that left their catalog included.
        listings: By catalog.
        unreadable: Why something could not be read, by table UUID (empty UUID: not known whose).
    """

    states: tuple[TableState, ...]
    listings: Mapping[str, CatalogListing]
    unreadable: Mapping[str, tuple[str, ...]]

    def of(self, uuid: str, name: TableName) -> TableState | None:
        """The table of that UUID and name."""
        return next((s for s in self.states if s.uuid == uuid and s.name == name), None)

    def levels(self, state: TableState, ledger: str) -> list[tuple[str, Mapping[str, str]]]:
        """The table's properties and those of its namespaces and the account, nearest first."""
        listing = self.listings.get(state.name.catalog)
        namespaces = listing.namespaces if listing else {}
        parts = state.name.namespace
        around = [
            (str(ObjectName(state.name.catalog, parts[:n])), namespaces.get(parts[:n], {}))
            for n in range(len(parts), 0, -1)
        ]
        return [
            (str(state.name), state.properties),
            *around,
            (ACCOUNT, namespaces.get((ledger,), {})),
        ]


def look_afresh(services: Services) -> World:
    """Lists every catalog and loads every table again, the ones that left their catalog too."""
    listings: dict[str, CatalogListing] = {}
    unreadable: dict[str, list[str]] = {}
    for catalog in services.catalogs.values():
        try:
            listings[catalog.name] = catalog.listing()
        except CatalogUnlistable as refused:
            unreadable.setdefault("", []).append(f"{catalog.name}: {refused.found}")
    listed = {entry.name: entry for listing in listings.values() for entry in listing.entries}
    known = services.control.tables()
    entries = list(listed.values())
    gone = [t for t in known if t.status == "gone" or t.name.catalog not in listings]
    entries += [CatalogEntry(table.name, table.metadata_location) for table in gone]
    uuids = {table.metadata_location: table.uuid for table in known}
    uuids |= {(str(t.name)): t.uuid for t in known if t.status != "gone"}
    detached = vouched_for(services)
    loaded = load_states(services.store, entries)
    present = set(listed.values())  # by name and place: an old name may be another table's now
    states = [s for e, s in loaded.items() if isinstance(s, TableState) and e in present]
    here = {state.uuid for state in states}
    for entry, state in loaded.items():
        if isinstance(state, TableState):
            # Under another name now: a table that was renamed is not one that was dropped.
            if entry not in present and not any(s.continues(state) for s in states):
                states.append(state)
            continue
        moved = entry not in present and uuids.get(entry.metadata_location) in here
        if moved and isinstance(state, MetadataMissing):
            continue  # its old name's metadata file has gone, and the table is there
        uuid = uuids.get(entry.metadata_location) or uuids.get(str(entry.name), "")
        if uuid or str(entry.name) not in detached:
            unreadable.setdefault(uuid, []).append(f"{entry.name}: {state.message}")
    return World(tuple(states), listings, {k: tuple(v) for k, v in unreadable.items()})


@dataclass(frozen=True)
class Proof:
    """A world and what reading its files has shown about some planned paths.

    Attributes:
        referenced: Planned paths that something remaining refers to, and what that is.
        lost_by_heads: Planned paths that a head refers to.
        errors: Why something could not be read, by table UUID.
        totals: Live files and bytes of each remaining snapshot, from the files.
        remaining: What was proved against.
    """

    world: World
    result: ProofResult
    referenced: Mapping[str, str]
    lost_by_heads: frozenset[str]
    errors: Mapping[str, tuple[str, ...]]
    totals: Mapping[SnapshotKey, tuple[int, int]]
    remaining: tuple[ProofSnapshot, ...]

    def most_live_bytes(self, table_uuid: str) -> int:
        """The bytes of the table's largest remaining snapshot: at least these remain."""
        sizes = (size for key, (_, size) in self.totals.items() if key.table_uuid == table_uuid)
        return max(sizes, default=0)

    def metadata_bytes(self, table_uuid: str) -> int:
        """The bytes of manifests and manifest lists that remain of a table."""
        of_table = [one for one in self.remaining if one.table_uuid == table_uuid]
        paths = {one.manifest_list for one in of_table}
        paths.update(m for one in of_table for m in self.result.manifests.get(one.key, ()))
        return sum(self.result.sizes.get(path, 0) for path in paths)


def prove(
    services: Services,
    world: World,
    leaving: Collection[SnapshotKey],
    planned: Sequence[str],
    ledger_uuids: Collection[str],
    since: datetime | None = None,
) -> Proof:
    """Looks for the planned paths in everything that remains once `leaving` has left.

    `since` says from when on files that were read for an earlier proof need not be read again;
    None reads everything from the files: a full proof.
    """
    remaining: dict[SnapshotKey, ProofSnapshot] = {}
    for state in world.states:
        for snapshot in () if state.uuid in ledger_uuids else state.snapshots.values():
            key = SnapshotKey(state.uuid, snapshot.snapshot_id)
            if key not in leaving:
                remaining[key] = ProofSnapshot(
                    state.uuid,
                    snapshot.snapshot_id,
                    snapshot.manifest_list,
                    snapshot.inline_manifests,
                )
    for wanted in services.control.wanted_back():
        # Somebody wants it although no table may have it now.
        key = SnapshotKey(wanted.table_uuid, wanted.snapshot_id)
        remaining[key] = ProofSnapshot(
            wanted.table_uuid, wanted.snapshot_id, wanted.manifest_list, wanted.inline_manifests
        )
    services.progress(f"gate: proving against {len(remaining)} remaining snapshots")
    result = services.proofs.prove(list(remaining.values()), planned, since)
    heads = {SnapshotKey(s.uuid, head) for s in world.states for head in s.heads.values()}
    referenced = dict(_referenced(world, remaining.values(), result, planned, leaving))
    errors = {uuid: list(found) for uuid, found in world.unreadable.items()}
    for uuid, found in result.errors.items():
        errors.setdefault(uuid, []).extend(found)
    totals = {
        key: (
            sum(result.live_files.get(m, 0) for m in result.manifests[key]),
            sum(result.live_bytes.get(m, 0) for m in result.manifests[key]),
        )
        for key in remaining.keys() & result.manifests.keys()
    }
    for uuid, odd in _cut_short(world, totals):
        errors.setdefault(uuid, []).append(odd)
    referenced |= _by_index(services, errors, planned)
    lost = {
        path
        for key in heads & result.manifests.keys()
        for manifest in result.manifests[key]
        for path in result.hits.get(manifest, ())
    }
    return Proof(
        world=world,
        result=result,
        referenced=referenced,
        lost_by_heads=frozenset(lost),
        errors={uuid: tuple(found) for uuid, found in errors.items()},
        totals=totals,
        remaining=tuple(remaining.values()),
    )


def _cut_short(
    world: World, totals: Mapping[SnapshotKey, tuple[int, int]]
) -> Iterable[tuple[str, str]]:
    """Snapshots whose lists name fewer live files, or more, than their own summaries say.

    A manifest list that ends early at the end of a block reads without an error.
    """
    for state in world.states:
        for snapshot in state.snapshots.values():
            files, _ = totals.get(SnapshotKey(state.uuid, snapshot.snapshot_id), (None, None))
            stated = [
                snapshot.summary.get(f"total-{kind}-files", "") for kind in ("data", "delete")
            ]
            if files is None or not all(total.isdecimal() for total in stated):
                continue
            if files != sum(map(int, stated)):
                found = f"{files} live files, where its summary says {sum(map(int, stated))}"
                yield state.uuid, f"{state.name}@{snapshot.snapshot_id}: {found}"


def _referenced(
    world: World,
    remaining: Iterable[ProofSnapshot],
    result: ProofResult,
    planned: Sequence[str],
    leaving: Collection[SnapshotKey],
) -> Iterable[tuple[str, str]]:
    wanted = {location_key(path): path for path in planned}

    def named(path: str, by: str) -> Iterable[tuple[str, str]]:
        if hit := wanted.get(location_key(path)):
            yield hit, by

    for manifest, hits in result.hits.items():
        yield from ((path, manifest) for path in hits)
    for manifest in result.live_files:
        yield from named(manifest, "a manifest list")
    for snapshot in remaining:
        yield from named(snapshot.manifest_list, f"snapshot {snapshot.snapshot_id}")
    for state in world.states:
        for path in (state.metadata_location, *state.metadata_log):
            yield from named(path, f"metadata of {state.name}")
        for file in state.statistics:
            if SnapshotKey(state.uuid, file.snapshot_id) not in leaving:
                yield from named(file.path, f"statistics of {state.name}")


def _by_index(
    services: Services, errors: Mapping[str, Collection[str]], planned: Sequence[str]
) -> dict[str, str]:
    """For tables that cannot be read now, what the index last knew of them stays referenced."""
    blind = {uuid for uuid in errors if uuid}
    if not blind or not planned:
        return {}
    known = services.files.known_snapshots()
    dead = [key for key in known if key.table_uuid not in blind]
    if len(dead) == len(known):
        return {}
    hits = services.files.referenced_now(planned, dead)
    return {path: "a table that cannot be read now" for path in hits}


def fresh_owners(services: Services, world: World) -> OwnerIndex:
    """Owners by today's metadata and by everything the ledger remembers."""
    now = [
        Ownership(claim_prefix(location), state.uuid)
        for state in world.states
        for location in state.owned_locations
    ]
    return OwnerIndex([*services.control.ownerships(), *now])


def ledger_uuids(services: Services, world: World) -> frozenset[str]:
    """UUIDs of the file ledger's own tables."""
    config = services.config
    return frozenset(
        state.uuid
        for state in world.states
        if state.name.catalog == config.hot and state.name.namespace == (config.ledger_namespace,)
    )


def refusal(error: MeltlineError) -> str:
    """An error in one line, for evidence."""
    return f"{error.message} ({error.found})" if error.found else error.message
