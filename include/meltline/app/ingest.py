"""Ingest: unseen snapshots' manifest lists, unseen manifests, and whether they add up."""

from collections.abc import Mapping, Sequence
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
    outcomes = _ingest_manifests(services, listed)
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


def _ingest_manifests(services: Services, listed: Sequence[_Listed]) -> dict[str, ManifestOutcome]:
    wanted: dict[str, tuple[str, ManifestRef]] = {}
    for found in listed:
        for manifest in found.manifests:
            wanted.setdefault(manifest.path, (found.state.uuid, manifest))
    unknown = services.files.unknown_manifests(list(wanted))
    requests: dict[str, list[ManifestRef]] = {}
    for path in sorted(unknown):
        uuid, manifest = wanted[path]
        requests.setdefault(uuid, []).append(manifest)
    if unknown:
        services.progress(f"observe: reading {len(unknown)} new manifests, once")
    outcomes = services.files.ingest(
        [IngestRequest(uuid, tuple(manifests)) for uuid, manifests in requests.items()],
        services.control.ownerships(),
    )
    return {outcome.path: outcome for outcome in outcomes}


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
    totals = {
        (found.state.name, found.snapshot.snapshot_id): Totals.of(found.manifests, outcomes)
        for found in listed
    }
    for found in listed:
        uuid, snapshot = found.state.uuid, found.snapshot
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
        sharing |= _shared_with(found, outcomes, owners)
        if problem:
            path = bad.path if bad else snapshot.manifest_list
            refused.setdefault(found.state.name, _incomplete(found.state, snapshot, path, problem))
            continue
        records.append(
            SnapshotRecord(
                uuid,
                snapshot.snapshot_id,
                snapshot.committed_at,
                snapshot.parent_id,
                snapshot.manifest_list,
                found.bytes,
                found.manifests,
            )
        )
    services.files.record_snapshots(records)
    _take_back(services, records)
    new = sharing - set(services.control.sharing())
    if new:
        services.control.add_sharing(sorted(new))
    recorded = frozenset(SnapshotKey(r.table_uuid, r.snapshot_id) for r in records)
    return Ingested(recorded, refused, tuple(unchecked))


def _take_back(services: Services, records: Sequence[SnapshotRecord]) -> None:
    """A snapshot that had departed is in a table's metadata again, and so are its files.

    Its list first, which makes the snapshot known again; then what the index says it refers to.
    When they leave once more, their failsafe counts from then.
    """
    lists = [record.manifest_list for record in records if record.manifest_list]
    back = take_back(services, lists, "its snapshot is back")
    if not back:
        return
    returned = {
        SnapshotKey(record.table_uuid, record.snapshot_id)
        for record in records
        if record.manifest_list in back
    }
    waiting = [d.path for d in services.files.departures(frozenset({DepartureState.FAILSAFE}))]
    others = services.files.known_snapshots() - returned
    dead = sorted(others, key=lambda key: (key.table_uuid, key.snapshot_id))
    needed = sorted(services.files.referenced_now(waiting, dead))
    take_back(services, needed, "its snapshot is back")


def _shared_with(
    found: _Listed, outcomes: Mapping[str, ManifestOutcome], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Edges to the owners of everything the snapshot names, as far as it could be read."""
    uuid = found.state.uuid
    others: set[str] = set(owners.owners(found.snapshot.manifest_list))
    for manifest in found.manifests:
        others.update(owners.owners(manifest.path))
        if outcome := outcomes.get(manifest.path):
            others.update(outcome.owners)
    return {(min(uuid, other), max(uuid, other)) for other in others if other != uuid}
