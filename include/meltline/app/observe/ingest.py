"""Ingests unseen snapshots: reads their manifest lists and manifests, and verifies the totals.

Observe calls it. A manifest is read once: incrementally along main's linear history where possible,
completely otherwise.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from meltline.app.observe.manifest_lists import (
    ListedSnapshot,
    contradictory,
    incomplete,
    read_lists,
    refuse_changed,
)
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.owner_guards import trusted_tables
from meltline.app.safety.tombstones import take_back
from meltline.app.services import RunContext
from meltline.domain.errors import MeltlineError, MetadataUnreadable
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.completeness import Totals, Verdict, check_totals
from meltline.domain.iceberg.files import (
    DepartureState,
    ManifestFile,
    ManifestOutcome,
    SnapshotRecord,
)
from meltline.domain.iceberg.linear_history import IndexedHead, SnapshotDelta, main_line, steps_of
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.metadata_parser import equal_ids
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.path_aliases import places_in
from meltline.ports import (
    IngestRequest,
    ObjectReader,
    PlaceLedger,
    SnapshotKey,
)


@dataclass(frozen=True)
class TableLine:
    """A table with new commits, and the part of main's linear history that is to be read.

    Attributes:
        tip: The newest snapshot that was read incrementally; None if the history begins here.
        ahead: Main's history from the indexed head on, or all of it, oldest first.
    """

    state: TableMetadata
    tip: IndexedHead | None
    ahead: Sequence[Snapshot]

    def seen_before(self, indexed: Collection[SnapshotKey]) -> list[tuple[TableMetadata, Snapshot]]:
        """Returns indexed snapshots whose lists must be read again: the head, and fully read ones.

        Fully read snapshots occur after the indexed head if a list between could not be read for a
        while.
        """
        uuid = self.state.uuid
        return [
            (self.state, snapshot)
            for snapshot in self.ahead
            if SnapshotKey(uuid, snapshot.snapshot_id) in indexed
        ]

    def steps(
        self, listed: Mapping[int, Sequence[ManifestFile]], owners: OwnerIndex
    ) -> Sequence[SnapshotDelta]:
        """Returns the deltas after the indexed head, as far as the table wrote the manifests.

        Manifests that a clone took over are read completely, once for all tables that have them.
        """
        tip = None if self.tip is None else self.tip.snapshot_id
        own = self.state.uuid
        return list(
            takewhile(
                lambda step: all(owners.owners(m.path) == (own,) for m in step.manifests),
                steps_of(self.ahead, listed, tip),
            )
        )

    def totals(
        self, steps: Sequence[SnapshotDelta], outcomes: Mapping[str, ManifestOutcome]
    ) -> Mapping[int, tuple[int, int]]:
        """Returns live files and bytes after each delta, by the changes that were read."""
        files, size = (self.tip.live_files, self.tip.live_bytes) if self.tip else (0, 0)
        live_totals: dict[int, tuple[int, int]] = {}
        for step in steps:
            for manifest in step.manifests:
                outcome = outcomes[manifest.path]
                files += outcome.added
                files += outcome.existing if step.is_first else -outcome.deleted
                size += outcome.bytes_added - outcome.bytes_removed
            live_totals[step.snapshot.snapshot_id] = (files, size)
        return live_totals


def lines_that_moved(
    states: Sequence[TableMetadata],
    moved_uuids: Collection[str],
    tips: Mapping[str, IndexedHead],
    indexed: Collection[SnapshotKey],
) -> dict[str, TableLine]:
    """Returns the linear histories that can begin or continue, by UUID.

    A table under two names has two histories. A table that was only read in full so far has no
    indexed head to continue from.
    """
    names = Counter(state.uuid for state in states)
    read_wholly = {key.table_uuid for key in indexed} - tips.keys()
    unfit = read_wholly | {uuid for uuid, count in names.items() if count > 1}
    lines = (
        TableLine(state, tips.get(state.uuid), _after_tip(main_line(state), tips.get(state.uuid)))
        for state in states
        if state.uuid in moved_uuids and state.uuid not in unfit
    )
    return {line.state.uuid: line for line in lines if line.ahead}


def _after_tip(line: Sequence[Snapshot], tip: IndexedHead | None) -> Sequence[Snapshot]:
    if tip is None:
        return line
    ids = [snapshot.snapshot_id for snapshot in line]
    return line[ids.index(tip.snapshot_id) :] if tip.snapshot_id in ids else ()


def as_far_as_told(
    steps: Sequence[SnapshotDelta], outcomes: Mapping[str, ManifestOutcome]
) -> Sequence[SnapshotDelta]:
    """Returns the deltas before the first whose manifests are ambiguous."""
    return list(
        takewhile(lambda step: not any(outcomes[m.path].ambiguity for m in step.manifests), steps)
    )


@dataclass(frozen=True)
class Ingested:
    """Result of ingesting.

    Attributes:
        recorded: Snapshots that are indexed now.
        refused: Tables that could not be read completely, and why.
        unread: Those of the refused tables with an unreadable list or manifest: its files are
            unknown. The others were read completely, and contradict themselves.
        unchecked: Snapshots without totals to verify their completeness, as `table@id`.
    """

    recorded: frozenset[SnapshotKey]
    refused: Mapping[TableName, MeltlineError]
    unread: frozenset[TableName]
    unchecked: tuple[str, ...]


@dataclass(frozen=True)
class _Read:
    """Result of reading the manifests of one observation.

    Attributes:
        outcomes: The outcome of each manifest that was read, by path. A failed incremental read
            counts, even if a full read for another snapshot succeeded a moment later.
        counts: ADDED, EXISTING and DELETED entries of all manifests that were ever read in full, by
            path.
        totals: Live files and bytes of the snapshots that were read incrementally now, by table and
            snapshot id, along each linear history.
    """

    outcomes: Mapping[str, ManifestOutcome]
    counts: Mapping[str, tuple[int, int, int]]
    totals: Mapping[SnapshotKey, tuple[int, int]]


def ingest_snapshots(
    context: RunContext,
    states: Sequence[TableMetadata],
    indexed: set[SnapshotKey],
    owners: OwnerIndex,
) -> Ingested:
    """Reads unseen snapshots once, and records those that were completely readable."""
    unseen = _unseen(states, indexed)
    if not unseen:
        return Ingested(frozenset(), {}, frozenset(), ())
    # Linear history relies on the counts of lists, and those of trusted tables may be wrong.
    trusted = trusted_tables(context.control.decisions, states)
    moved_uuids = {state.uuid for state, _ in unseen} - trusted
    lines = lines_that_moved(states, moved_uuids, context.files.snapshots.tips(), indexed)
    context.progress(f"observe: reading {len(unseen)} new manifest lists")
    listed, refused = read_lists(context.store, context.manifests, unseen)
    unread = set(refused)
    before = list(chain.from_iterable(line.seen_before(indexed) for line in lines.values()))
    # They are indexed, whether or not they can be read: only a linear history needs them.
    listed_before, _ = read_lists(context.store, context.manifests, before)
    index, incidents = context.files.snapshots, context.control.incidents
    listed_before = refuse_changed(index, incidents, context.clock, listed_before, refused)
    read = _read_manifests(context, listed, listed_before, lines, owners)
    again = [reading for reading in listed_before if reading.key in read.totals]
    unread |= {reading.state.name for reading in listed if _unread(reading, read.outcomes)}
    return _record(context, [*listed, *again], read, refused, unread, owners, trusted)


def _unseen(
    states: Iterable[TableMetadata], indexed: Collection[SnapshotKey]
) -> list[tuple[TableMetadata, Snapshot]]:
    return [
        (state, snapshot)
        for state in states
        for snapshot in state.snapshots.values()
        if SnapshotKey(state.uuid, snapshot.snapshot_id) not in indexed
    ]


def _read_manifests(
    context: RunContext,
    listed: Sequence[ListedSnapshot],
    before: Sequence[ListedSnapshot],
    lines: Mapping[str, TableLine],
    owners: OwnerIndex,
) -> _Read:
    """Reads the changes along each linear history, and all other new manifests in full."""
    steps = _steps(lines, (*listed, *before), owners)
    changed = _ingest(
        context,
        [
            IngestRequest(uuid, step.manifests, _homes(lines[uuid].state, owners), step)
            for uuid, of_table in steps.items()
            for step in of_table
        ],
    )
    totals = {
        SnapshotKey(uuid, snapshot_id): total
        for uuid, line in lines.items()
        for snapshot_id, total in line.totals(as_far_as_told(steps[uuid], changed), changed).items()
    }
    wholly, counts = _read_wholly(
        context, [reading for reading in listed if reading.key not in totals], owners
    )
    failed = {path: outcome for path, outcome in changed.items() if outcome.error}
    return _Read(changed | wholly | failed, counts, totals)


def _steps(
    lines: Mapping[str, TableLine], listed: Iterable[ListedSnapshot], owners: OwnerIndex
) -> Mapping[str, Sequence[SnapshotDelta]]:
    """Returns the deltas along each linear history, by table."""
    by_table: dict[str, dict[int, Sequence[ManifestFile]]] = {uuid: {} for uuid in lines}
    for reading in listed:
        if reading.state.uuid in lines:
            by_table[reading.state.uuid][reading.snapshot.snapshot_id] = reading.manifests
    return {uuid: line.steps(by_table[uuid], owners) for uuid, line in lines.items()}


def _read_wholly(
    context: RunContext, listed: Sequence[ListedSnapshot], owners: OwnerIndex
) -> tuple[dict[str, ManifestOutcome], dict[str, tuple[int, int, int]]]:
    """Reads manifests that were never read in full; returns outcomes, and the counts of all."""
    by_path: dict[str, tuple[TableMetadata, ManifestFile]] = {}
    for reading in listed:
        for manifest in reading.manifests:
            by_path.setdefault(manifest.path, (reading.state, manifest))
    before = context.files.manifests.counted(list(by_path))
    unread = [by_path[at] for at in sorted(by_path.keys() - before.keys())]
    states = {state.uuid: state for state, _ in unread}
    requests = grouped(unread, lambda pair: pair[0].uuid)
    outcomes = _ingest(
        context,
        [
            IngestRequest(uuid, tuple(m for _, m in pairs), _homes(states[uuid], owners))
            for uuid, pairs in requests.items()
        ],
    )
    read = {path: outcome.counts for path, outcome in outcomes.items() if not outcome.error}
    return outcomes, {**before, **read}


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
    listed: Sequence[ListedSnapshot],
    read: _Read,
    refused: dict[TableName, MeltlineError],
    unread: set[TableName],
    owners: OwnerIndex,
    trusted: Collection[str],
) -> Ingested:
    outcomes = read.outcomes
    verdicts = _verdicts(listed, read, trusted)
    for reading, verdict in verdicts:
        if verdict.problem:
            refused.setdefault(reading.state.name, _unreadable(reading, outcomes, verdict.problem))
            if not reading.manifests:  # no writer ends a list after its header
                unread.add(reading.state.name)
    records = list(_complete(verdicts, read.totals))
    _note_places(context.control.places, context.store, records, outcomes.values())
    new = _sharing(listed, outcomes, owners) - set(context.control.registrations.sharing())
    if new:
        context.control.registrations.add_sharing(sorted(new))
    # Snapshots are recorded last. After a kill before that, the next run searches again for
    # returned files and for the tables that share them.
    _take_back(context, records, outcomes.keys())
    context.files.snapshots.record(records)
    recorded = frozenset(SnapshotKey(r.table_uuid, r.snapshot_id) for r in records)
    unchecked = (reading for reading, verdict in verdicts if not verdict.checked)
    names = tuple(f"{reading.state.name}@{reading.snapshot.snapshot_id}" for reading in unchecked)
    return Ingested(recorded, refused, frozenset(unread), names)


def _complete(
    verdicts: Iterable[tuple[ListedSnapshot, Verdict]],
    totals: Mapping[SnapshotKey, tuple[int, int]],
) -> Iterator[SnapshotRecord]:
    """Yields the records of complete snapshots, oldest first."""
    broken: set[str] = set()  # histories with a snapshot that is not recorded: they end before it
    for reading, verdict in verdicts:
        live = totals.get(reading.key)
        if live is None:
            if not verdict.problem:
                yield reading.record
            continue
        if verdict.problem:
            broken.add(reading.state.uuid)
        if reading.state.uuid not in broken:
            files, size = live
            yield replace(reading.record, by_changes=True, live_files=files, live_bytes=size)


def _note_places(
    places: PlaceLedger,
    store: ObjectReader,
    records: Sequence[SnapshotRecord],
    outcomes: Iterable[ManifestOutcome],
) -> None:
    """Records the folders of new files, because path aliases into these folders are checked."""
    paths = [record.manifest_list for record in records if record.manifest_list]
    paths += {manifest.path for record in records for manifest in record.manifests}
    new = places_in(paths, store.links_among)
    places.add(new.union(*(outcome.places for outcome in outcomes)))


def _verdicts(
    listed: Iterable[ListedSnapshot], read: _Read, trusted: Collection[str]
) -> list[tuple[ListedSnapshot, Verdict]]:
    """Returns each snapshot, oldest first, with the verdict on its completeness.

    Args:
        listed: The snapshots.
        read: The result of reading their manifests.
        trusted: Tables whose totals and counts are known to be wrong, by UUID.
    """
    readings = sorted(listed, key=lambda reading: reading.snapshot.sequence_number)
    totals = {
        (reading.state.name, reading.snapshot.snapshot_id): Totals.of(
            reading.manifests, read.outcomes
        )
        for reading in readings
    }
    return [(reading, _verdict(reading, read, totals, trusted)) for reading in readings]


def _verdict(
    reading: ListedSnapshot,
    read: _Read,
    totals: Mapping[tuple[TableName, int], Totals],
    trusted: Collection[str],
) -> Verdict:
    """Returns whether a snapshot was read completely, as far as its totals and counts show."""
    if bad := _unread(reading, read.outcomes):
        return Verdict(checked=True, problem=bad.error)
    if reading.snapshot.snapshot_id in reading.state.namesakes:
        return Verdict(checked=True, problem="another snapshot has its id")
    if reading.state.uuid in trusted and reading.manifests:
        return Verdict(checked=True)
    for manifest in reading.manifests:
        counts = read.counts.get(manifest.path)
        if counts and (problem := manifest.contradiction(counts)):
            return Verdict(checked=True, problem=problem)
    name, snapshot = reading.state.name, reading.snapshot
    parent = totals.get((name, snapshot.parent_id or -1))
    return check_totals(snapshot, totals[name, snapshot.snapshot_id], parent)


def _unread(
    reading: ListedSnapshot, outcomes: Mapping[str, ManifestOutcome]
) -> ManifestOutcome | None:
    """Returns the first manifest of a snapshot that could not be read."""
    read = (outcomes.get(manifest.path) for manifest in reading.manifests)
    return next((outcome for outcome in read if outcome and outcome.error), None)


def _unreadable(
    reading: ListedSnapshot, outcomes: Mapping[str, ManifestOutcome], problem: str
) -> MetadataUnreadable:
    if bad := _unread(reading, outcomes):
        return incomplete(reading.state, reading.snapshot, bad.path, problem)
    if reading.manifests and reading.snapshot.snapshot_id in reading.state.namesakes:
        return equal_ids(reading.state)
    if reading.manifests:
        return contradictory(reading.state, reading.snapshot, problem)
    return incomplete(reading.state, reading.snapshot, reading.snapshot.manifest_list, problem)


def _take_back(
    context: RunContext, records: Sequence[SnapshotRecord], read: Collection[str]
) -> None:
    """Cancels departures of files that are referenced again, before anything depends on them.

    A file can return in three ways, and the check of each costs only what is new. A manifest that
    was just read references a file again. A departed snapshot is in a table's metadata again, with
    its files. A new snapshot references a manifest that no other snapshot had any more. If such a
    file becomes unreferenced once more, its failsafe starts then.
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
    # Manifest lists last: afterwards those snapshots are known, and their files are not searched.
    take_back(
        context.files.departures, AuditTrail.of(context), sorted(back), "its snapshot is back"
    )


def _sharing(
    listed: Sequence[ListedSnapshot], outcomes: Mapping[str, ManifestOutcome], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Returns pairs of tables that share files: one references files in the other's location."""
    paths = {manifest.path for reading in listed for manifest in reading.manifests}
    owners_of = {
        path: frozenset(owners.owners(path)).union(o.owners if (o := outcomes.get(path)) else ())
        for path in paths
    }
    return set[tuple[str, str]]().union(
        *(_shared_with(reading, owners_of, owners) for reading in listed)
    )


def _shared_with(
    reading: ListedSnapshot, owners_of: Mapping[str, frozenset[str]], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Returns edges to the owners of all files of the snapshot, as far as it could be read."""
    uuid = reading.state.uuid
    owner_uuids = set(owners.owners(reading.snapshot.manifest_list))
    owner_uuids.update(*(owners_of[manifest.path] for manifest in reading.manifests))
    return {(min(uuid, owner), max(uuid, owner)) for owner in owner_uuids if owner != uuid}
