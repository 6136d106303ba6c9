"""Ingest: unseen snapshots' manifest lists, unseen manifests, and whether they add up."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.departures import take_back
from meltline.app.metadata import at_once
from meltline.app.services import Services
from meltline.domain.completeness import Totals, check_totals
from meltline.domain.errors import MeltlineError, MetadataUnreadable
from meltline.domain.files import DepartureState, ManifestOutcome, ManifestRef, SnapshotRecord
from meltline.domain.locations import OwnerIndex
from meltline.domain.names import TableName
from meltline.domain.table import Snapshot, TableState
from meltline.ports import IngestRequest, SnapshotKey


@dataclass(frozen=True)
class Ingested:
    """What ingesting came to.

    Attributes:
        recorded: Snapshots that are known now.
        refused: Tables that could not be read completely, and why.
        unchecked: Snapshots with nothing to check their completeness against, as `table@id`.
    """

    recorded: frozenset[SnapshotKey]
    refused: Mapping[TableName, MeltlineError]
    unchecked: tuple[str, ...]


@dataclass(frozen=True)
class _Listed:
    state: TableState
    snapshot: Snapshot
    bytes: int
    manifests: tuple[ManifestRef, ...]

    @property
    def record(self) -> SnapshotRecord:
        """The snapshot as the file ledger keeps it."""
        snapshot = self.snapshot
        return SnapshotRecord(
            self.state.uuid,
            snapshot.snapshot_id,
            snapshot.committed_at,
            snapshot.parent_id,
            snapshot.manifest_list,
            self.bytes,
            self.manifests,
        )


def ingest_snapshots(
    services: Services, states: Sequence[TableState], known: set[SnapshotKey], owners: OwnerIndex
) -> Ingested:
    """Reads what is unseen, once, and records the snapshots of which everything was readable."""
    unseen = [
        (state, snapshot)
        for state in states
        for snapshot in state.snapshots.values()
        if SnapshotKey(state.uuid, snapshot.snapshot_id) not in known
    ]
    if not unseen:
        return Ingested(frozenset(), {}, ())
    services.progress(f"observe: reading {len(unseen)} new manifest lists")
    refused: dict[TableName, MeltlineError] = {}
    listed: list[_Listed] = []
    for (state, _), answer in zip(
        unseen, at_once(lambda one: _read_list(services, *one), unseen), strict=True
    ):
        if isinstance(answer, _Listed):
            listed.append(answer)
        else:
            refused.setdefault(state.name, answer)
    outcomes = _ingest_manifests(services, listed, owners)
    return _record(services, listed, outcomes, refused, owners)


def _read_list(
    services: Services, state: TableState, snapshot: Snapshot
) -> _Listed | MeltlineError:
    try:
        if snapshot.manifest_list:
            content = services.store.read(snapshot.manifest_list)
            manifests = services.manifests.read_list(snapshot.manifest_list, content)
            return _Listed(state, snapshot, len(content), manifests)
        sizes = [services.store.size(path) for path in snapshot.inline_manifests]
        return _Listed(
            state,
            snapshot,
            0,
            tuple(
                ManifestRef(path, size or 0, added_snapshot_id=None)
                for path, size in zip(snapshot.inline_manifests, sizes, strict=True)
            ),
        )
    except FileNotFoundError:
        return _incomplete(state, snapshot, snapshot.manifest_list, "the manifest list is missing")
    except MeltlineError as odd:
        return _incomplete(state, snapshot, odd.object, odd.found or odd.message)


def _incomplete(state: TableState, snapshot: Snapshot, path: str, found: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"{state.name}: snapshot {snapshot.snapshot_id} cannot be read completely: {found}",
        object=path,
        expected="every manifest list and manifest readable, with rows as its list counts them",
        found=found,
        next="restore the file, or expire or roll back that snapshot with another engine",
    )


def _ingest_manifests(
    services: Services, listed: Sequence[_Listed], owners: OwnerIndex
) -> dict[str, ManifestOutcome]:
    wanted: dict[str, tuple[TableState, ManifestRef]] = {}
    for found in listed:
        for manifest in found.manifests:
            wanted.setdefault(manifest.path, (found.state, manifest))
    unknown = services.files.unknown_manifests(list(wanted))
    states: dict[str, TableState] = {}
    requests: dict[str, list[ManifestRef]] = {}
    for path in sorted(unknown):
        state, manifest = wanted[path]
        states[state.uuid] = state
        requests.setdefault(state.uuid, []).append(manifest)
    if unknown:
        services.progress(f"observe: reading {len(unknown)} new manifests, once")
    outcomes = services.files.ingest(
        [
            IngestRequest(uuid, tuple(manifests), _homes(states[uuid], owners))
            for uuid, manifests in requests.items()
        ],
        services.control.ownerships(),
    )
    return {outcome.path: outcome for outcome in outcomes}


def _homes(state: TableState, owners: OwnerIndex) -> tuple[str, ...]:
    folders = (location.rstrip("/") + "/" for location in state.owned_locations)
    return tuple(folder for folder in folders if owners.is_sole(folder, state.uuid))


def _record(
    services: Services,
    listed: Sequence[_Listed],
    outcomes: Mapping[str, ManifestOutcome],
    refused: dict[TableName, MeltlineError],
    owners: OwnerIndex,
) -> Ingested:
    records: list[SnapshotRecord] = []
    unchecked: list[str] = []
    sharing: set[tuple[str, str]] = set()
    owners_of = {
        path: frozenset(owners.owners(path)).union(o.owners if (o := outcomes.get(path)) else ())
        for path in {manifest.path for found in listed for manifest in found.manifests}
    }
    totals = {
        (found.state.name, found.snapshot.snapshot_id): Totals.of(found.manifests, outcomes)
        for found in listed
    }
    for found in listed:
        snapshot = found.snapshot
        bad = next((o for m in found.manifests if (o := outcomes.get(m.path)) and o.error), None)
        problem = bad.error if bad else ""
        if not problem:
            verdict = check_totals(
                snapshot,
                totals[found.state.name, snapshot.snapshot_id],
                totals.get((found.state.name, snapshot.parent_id or -1)),
            )
            problem = verdict.problem
            if not verdict.checked:
                unchecked.append(f"{found.state.name}@{snapshot.snapshot_id}")
        sharing |= _shared_with(found, owners_of, owners)
        if problem:
            path = bad.path if bad else snapshot.manifest_list
            refused.setdefault(found.state.name, _incomplete(found.state, snapshot, path, problem))
            continue
        records.append(found.record)
    # Snapshots last: a kill before that makes the next run look for what is back once more.
    _take_back(services, records, outcomes.keys())
    services.files.record_snapshots(records)
    new = sharing - set(services.control.sharing())
    if new:
        services.control.add_sharing(sorted(new))
    recorded = frozenset(SnapshotKey(r.table_uuid, r.snapshot_id) for r in records)
    return Ingested(recorded, refused, tuple(unchecked))


def _take_back(
    services: Services, records: Sequence[SnapshotRecord], read: Collection[str]
) -> None:
    """What waits in failsafe and is referred to again is taken back, before anything counts on it.

    Three ways back, and each costs what is new: a manifest that was just read names a file again;
    a snapshot that had departed is in a table's metadata again, and so are its files; a new
    snapshot names a manifest that no other snapshot had any more. When such a file leaves once
    more, its failsafe counts from then.
    """
    lists = [record.manifest_list for record in records if record.manifest_list]
    departed = frozenset({DepartureState.FAILSAFE, DepartureState.DELETED})
    back = {found.path for found in services.files.departures(departed, paths=lists)}
    returned = [record for record in records if record.manifest_list in back]
    fresh = [record for record in records if record.manifest_list not in back]
    named = {manifest.path for record in returned for manifest in record.manifests}
    named |= services.files.forgotten_manifests(fresh, read)
    named |= set(read)
    take_back(services, sorted(services.files.waiting_in(sorted(named))), "it is referred to again")
    # Their lists last: from then on those snapshots are known, and nobody looks for their files.
    take_back(services, sorted(back), "its snapshot is back")


def _shared_with(
    found: _Listed, owners_of: Mapping[str, frozenset[str]], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Edges to the owners of everything the snapshot names, as far as it could be read."""
    uuid = found.state.uuid
    others = set(owners.owners(found.snapshot.manifest_list))
    others.update(*(owners_of[manifest.path] for manifest in found.manifests))
    return {(min(uuid, other), max(uuid, other)) for other in others if other != uuid}
