"""Ingest: unseen snapshots' manifest lists, unseen manifests, and whether they add up."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.ground.audit_log import AuditTrail
from meltline.app.ground.tombstones import take_back
from meltline.app.observe.changed_lists import changed_lists
from meltline.app.observe.linear_history import TableLine, as_far_as_told, lines_that_moved
from meltline.app.services import RunContext
from meltline.domain.errors import MeltlineError, MetadataUnreadable
from meltline.domain.iceberg.completeness import Totals, Verdict, check_totals
from meltline.domain.iceberg.files import (
    DepartureState,
    ManifestFile,
    ManifestOutcome,
    SnapshotRecord,
)
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.places import places_in
from meltline.ports import IngestRequest, ProofSnapshot, SnapshotKey


@dataclass(frozen=True)
class Ingested:
    """What ingesting came to.

    Attributes:
        recorded: Snapshots that are known now.
        refused: Tables that could not be read completely, and why.
        unread: Those of them of which a list or a manifest could not be read at all: what it names
            is unknown. Of the others all was read, and contradicts itself.
        unchecked: Snapshots with nothing to check their completeness against, as `table@id`.
    """

    recorded: frozenset[SnapshotKey]
    refused: Mapping[TableName, MeltlineError]
    unread: frozenset[TableName]
    unchecked: tuple[str, ...]


@dataclass(frozen=True)
class _Listed:
    state: TableMetadata
    snapshot: Snapshot
    reachable: ReachableSet
    manifests: tuple[ManifestFile, ...]

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
            self.reachable.length if snapshot.manifest_list else 0,
            self.manifests,
            snapshot.sequence_number,
            list_sha256=self.reachable.sha256,
        )


@dataclass(frozen=True)
class _Read:
    """What came of reading the manifests of a look.

    Attributes:
        outcomes: Of each manifest that was read, by its path. Where its changes could not be read,
            that counts, also if it could be read wholly for another snapshot a moment later.
        totals: Live files and bytes of the snapshots that are known by their changes now, by
            table and snapshot id, along each line.
    """

    outcomes: Mapping[str, ManifestOutcome]
    totals: Mapping[SnapshotKey, tuple[int, int]]


def ingest_snapshots(
    context: RunContext,
    states: Sequence[TableMetadata],
    indexed: set[SnapshotKey],
    owners: OwnerIndex,
) -> Ingested:
    """Reads what is unseen, once, and records the snapshots of which everything was readable."""
    unseen = [
        (state, snapshot)
        for state in states
        for snapshot in state.snapshots.values()
        if SnapshotKey(state.uuid, snapshot.snapshot_id) not in indexed
    ]
    if not unseen:
        return Ingested(frozenset(), {}, frozenset(), ())
    moved_uuids = {state.uuid for state, _ in unseen}
    lines = lines_that_moved(states, moved_uuids, context.files.snapshots.tips(), indexed)
    context.progress(f"observe: reading {len(unseen)} new manifest lists")
    refused: dict[TableName, MeltlineError] = {}
    listed = _read_lists(context, unseen, refused)
    unread = set(refused)
    before = [
        (line.state, snapshot) for line in lines.values() for snapshot in line.seen_before(indexed)
    ]
    listed_before = _read_lists(context, before, {})  # they are known: only a line needs them
    listed_before = _refuse_changed(context, listed_before, refused)
    read = _read_manifests(context, listed, listed_before, lines, owners)
    again = [reading for reading in listed_before if _key(reading) in read.totals]
    unread |= {reading.state.name for reading in listed if _unread(reading, read.outcomes)}
    return _record(context, [*listed, *again], read, refused, frozenset(unread), owners)


def _read_lists(
    context: RunContext,
    snapshots: Sequence[tuple[TableMetadata, Snapshot]],
    refused: dict[TableName, MeltlineError],
) -> list[_Listed]:
    """Reads each reachable set once, however many tables have it."""
    places = {snapshot.as_written: (state, snapshot) for state, snapshot in snapshots}
    read = load_concurrently(lambda pair: _read_list(context, *pair), list(places.values()))
    answers = dict(zip(places, read, strict=True))
    listed = []
    for state, snapshot in snapshots:
        answer = answers[snapshot.as_written]
        if isinstance(answer, _Listed):
            listed.append(replace(answer, state=state, snapshot=snapshot))
        else:
            refused.setdefault(state.name, answer)
    return listed


def _refuse_changed(
    context: RunContext, listed: Sequence[_Listed], refused: dict[TableName, MeltlineError]
) -> list[_Listed]:
    """Those of lists that were read before that still say what they said then."""
    places = {_key(reading): _place(reading) for reading in listed}
    names = {reading.state.uuid: str(reading.state.name) for reading in listed}
    read = {_key(reading): reading.reachable for reading in listed}
    index, incidents = context.files.snapshots, context.control.incidents
    changed = changed_lists(index, incidents, context.clock, read, places, names)
    for reading in listed:
        if error := changed.get(_key(reading)):
            refused.setdefault(reading.state.name, error)
    return [reading for reading in listed if _key(reading) not in changed]


def _place(reading: _Listed) -> ProofSnapshot:
    lists = (reading.snapshot.manifest_list, reading.snapshot.inline_manifests)
    return ProofSnapshot(reading.state.uuid, reading.snapshot.snapshot_id, *lists)


def _key(reading: _Listed) -> SnapshotKey:
    return SnapshotKey(reading.state.uuid, reading.snapshot.snapshot_id)


def _read_list(
    context: RunContext, state: TableMetadata, snapshot: Snapshot
) -> _Listed | MeltlineError:
    try:
        if snapshot.manifest_list:
            content = context.store.read(snapshot.manifest_list)
            manifests = context.manifests.read_list(snapshot.manifest_list, content)
            return _Listed(state, snapshot, ReachableSet.of_list(content), manifests)
        contents = [(path, context.store.read(path)) for path in snapshot.inline_manifests]
        inline = (ManifestFile(at, len(held), added_snapshot_id=None) for at, held in contents)
        return _Listed(state, snapshot, ReachableSet.of_manifests(contents), tuple(inline))
    except FileNotFoundError:
        return _incomplete(state, snapshot, snapshot.manifest_list, "the manifest list is missing")
    except MeltlineError as error:
        return _incomplete(state, snapshot, error.object, error.found or error.message)


def _incomplete(
    state: TableMetadata, snapshot: Snapshot, path: str, problem: str
) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"{state.name}: snapshot {snapshot.snapshot_id} cannot be read completely: {problem}",
        object=path,
        expected="every manifest list and manifest readable, with rows as its list counts them",
        found=problem,
        next="restore the file, or expire or roll back that snapshot with another engine",
    )


def _read_manifests(
    context: RunContext,
    listed: Sequence[_Listed],
    before: Sequence[_Listed],
    lines: Mapping[str, TableLine],
    owners: OwnerIndex,
) -> _Read:
    """Reads the changes along each line, and all other new manifests wholly."""
    by_table: dict[str, dict[int, Sequence[ManifestFile]]] = {uuid: {} for uuid in lines}
    for reading in (*listed, *before):
        if reading.state.uuid in lines:
            by_table[reading.state.uuid][reading.snapshot.snapshot_id] = reading.manifests
    steps = {uuid: line.steps(by_table[uuid], owners) for uuid, line in lines.items()}
    changed = _ingest(
        context,
        [
            IngestRequest(uuid, step.manifests, _homes(lines[uuid].state, owners), step)
            for uuid, of_table in steps.items()
            for step in of_table
        ],
    )
    steps = {uuid: as_far_as_told(of_table, changed) for uuid, of_table in steps.items()}
    on_lines = {
        SnapshotKey(uuid, step.snapshot.snapshot_id)
        for uuid, of_table in steps.items()
        for step in of_table
    }
    wholly = _read_wholly(
        context, [reading for reading in listed if _key(reading) not in on_lines], owners
    )
    totals = {
        SnapshotKey(uuid, snapshot_id): total
        for uuid, of_table in steps.items()
        for snapshot_id, total in lines[uuid].totals(of_table, changed).items()
    }
    failed = {path: outcome for path, outcome in changed.items() if outcome.error}
    return _Read(changed | wholly | failed, totals)


def _read_wholly(
    context: RunContext, listed: Sequence[_Listed], owners: OwnerIndex
) -> dict[str, ManifestOutcome]:
    by_path: dict[str, tuple[TableMetadata, ManifestFile]] = {}
    for reading in listed:
        for manifest in reading.manifests:
            by_path.setdefault(manifest.path, (reading.state, manifest))
    states: dict[str, TableMetadata] = {}
    requests: dict[str, list[ManifestFile]] = {}
    for path in sorted(context.files.manifests.unread(list(by_path))):
        state, manifest = by_path[path]
        states[state.uuid] = state
        requests.setdefault(state.uuid, []).append(manifest)
    return _ingest(
        context,
        [
            IngestRequest(uuid, tuple(manifests), _homes(states[uuid], owners))
            for uuid, manifests in requests.items()
        ],
    )


def _ingest(context: RunContext, requests: Sequence[IngestRequest]) -> dict[str, ManifestOutcome]:
    count = sum(len(request.manifests) for request in requests)
    if not count:
        return {}
    context.progress(f"observe: reading {count} new manifests, once")
    outcomes = context.files.manifests.ingest(requests, context.control.registrations.ownerships())
    return {outcome.path: outcome for outcome in outcomes}


def _homes(state: TableMetadata, owners: OwnerIndex) -> tuple[str, ...]:
    folders = (location.rstrip("/") + "/" for location in state.owned_locations)
    return tuple(folder for folder in folders if owners.is_sole(folder, state.uuid))


def _record(
    context: RunContext,
    listed: Sequence[_Listed],
    read: _Read,
    refused: dict[TableName, MeltlineError],
    unread: frozenset[TableName],
    owners: OwnerIndex,
) -> Ingested:
    outcomes = read.outcomes
    records: list[SnapshotRecord] = []
    unchecked: list[str] = []
    sharing: set[tuple[str, str]] = set()
    owners_of = {
        path: frozenset(owners.owners(path)).union(o.owners if (o := outcomes.get(path)) else ())
        for path in {manifest.path for reading in listed for manifest in reading.manifests}
    }
    totals = {
        (reading.state.name, reading.snapshot.snapshot_id): Totals.of(reading.manifests, outcomes)
        for reading in listed
    }
    broken: set[str] = set()  # lines with a snapshot that is not recorded: nothing goes on from it
    for reading in sorted(listed, key=lambda reading: reading.snapshot.sequence_number):
        live = read.totals.get(_key(reading))
        verdict = _verdict(reading, outcomes, totals)
        if not verdict.checked:
            unchecked.append(f"{reading.state.name}@{reading.snapshot.snapshot_id}")
        sharing |= _shared_with(reading, owners_of, owners)
        if verdict.problem:
            refused.setdefault(reading.state.name, _unreadable(reading, outcomes, verdict.problem))
            broken |= {reading.state.uuid} if live else set()
        elif live is None:
            records.append(reading.record)
        elif reading.state.uuid not in broken:
            files, size = live
            records.append(
                replace(reading.record, by_changes=True, live_files=files, live_bytes=size)
            )
    _note_places(context, records, outcomes.values())
    new = sharing - set(context.control.registrations.sharing())
    if new:
        context.control.registrations.add_sharing(sorted(new))
    # Snapshots last: a kill before that makes the next run look for what is back, and for whose
    # files they name, once more.
    _take_back(context, records, outcomes.keys())
    context.files.snapshots.record(records)
    recorded = frozenset(SnapshotKey(r.table_uuid, r.snapshot_id) for r in records)
    return Ingested(recorded, refused, unread, tuple(unchecked))


def _note_places(
    context: RunContext, records: Sequence[SnapshotRecord], outcomes: Iterable[ManifestOutcome]
) -> None:
    """Remembers where what is new refers to: by whatever name, those files are needed."""
    paths = [record.manifest_list for record in records if record.manifest_list]
    paths += {manifest.path for record in records for manifest in record.manifests}
    places = places_in(paths, context.store.is_link)
    context.control.places.add(places.union(*(outcome.places for outcome in outcomes)))


def _verdict(
    reading: _Listed,
    outcomes: Mapping[str, ManifestOutcome],
    totals: Mapping[tuple[TableName, int], Totals],
) -> Verdict:
    """Whether a snapshot was read completely, as far as anything tells."""
    if bad := _unread(reading, outcomes):
        return Verdict(checked=True, problem=bad.error)
    name, snapshot = reading.state.name, reading.snapshot
    parent = totals.get((name, snapshot.parent_id or -1))
    return check_totals(snapshot, totals[name, snapshot.snapshot_id], parent)


def _unread(reading: _Listed, outcomes: Mapping[str, ManifestOutcome]) -> ManifestOutcome | None:
    """The first of a snapshot's manifests that could not be read."""
    read = (outcomes.get(manifest.path) for manifest in reading.manifests)
    return next((outcome for outcome in read if outcome and outcome.error), None)


def _unreadable(
    reading: _Listed, outcomes: Mapping[str, ManifestOutcome], problem: str
) -> MetadataUnreadable:
    bad = _unread(reading, outcomes)
    path = bad.path if bad else reading.snapshot.manifest_list
    return _incomplete(reading.state, reading.snapshot, path, problem)


def _take_back(
    context: RunContext, records: Sequence[SnapshotRecord], read: Collection[str]
) -> None:
    """What waits in failsafe and is referred to again is taken back, before anything counts on it.

    Three ways back, and each costs what is new: a manifest that was just read names a file again;
    a snapshot that had departed is in a table's metadata again, and so are its files; a new
    snapshot names a manifest that no other snapshot had any more. When such a file leaves once
    more, its failsafe counts from then.
    """
    lists = [record.manifest_list for record in records if record.manifest_list]
    departed = frozenset({DepartureState.FAILSAFE, DepartureState.DELETED})
    back = {
        departure.path for departure in context.files.departures.in_states(departed, paths=lists)
    }
    returned = [record for record in records if record.manifest_list in back]
    fresh = [record for record in records if record.manifest_list not in back]
    paths = {manifest.path for record in returned for manifest in record.manifests}
    paths |= context.files.snapshots.forgotten_manifests(fresh, read)
    paths |= set(read)
    take_back(
        context.files.departures,
        AuditTrail.of(context),
        sorted(context.files.references.waiting_in(sorted(paths))),
        "it is referred to again",
    )
    # Their lists last: from then on those snapshots are known, and nobody looks for their files.
    take_back(
        context.files.departures, AuditTrail.of(context), sorted(back), "its snapshot is back"
    )


def _shared_with(
    reading: _Listed, owners_of: Mapping[str, frozenset[str]], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Edges to the owners of everything the snapshot names, as far as it could be read."""
    uuid = reading.state.uuid
    owner_uuids = set(owners.owners(reading.snapshot.manifest_list))
    owner_uuids.update(*(owners_of[manifest.path] for manifest in reading.manifests))
    return {(min(uuid, owner), max(uuid, owner)) for owner in owner_uuids if owner != uuid}
