"""Ingest: unseen snapshots' manifest lists, unseen manifests, and whether they add up."""

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
    """A table that has moved, as far as its line may go on.

    Attributes:
        tip: The newest snapshot that is known by its changes; None where the line may begin.
        ahead: Main's history from the tip on, or all of it, oldest first.
    """

    state: TableMetadata
    tip: IndexedHead | None
    ahead: Sequence[Snapshot]

    def seen_before(self, indexed: Collection[SnapshotKey]) -> list[tuple[TableMetadata, Snapshot]]:
        """Snapshots whose lists have to be read again for it: the tip, and what was read wholly.

        The latter happens where a list on the way could not be read for a while.
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
        """The snapshots that go on from the tip, as far as the table wrote their manifests itself.

        What a clone took over is read wholly, once for all tables that have it.
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
        """Live files of each step's snapshot and their bytes, by what was read of its changes."""
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
    """Lines that may begin or go on, by UUID.

    A table that stands under two names has two histories; one that was read wholly so far has
    nothing to go on from.
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
    """The steps up to the first whose manifests do not tell its changes in a usable way."""
    return list(
        takewhile(lambda step: not any(outcomes[m.path].ambiguity for m in step.manifests), steps)
    )


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
class _Read:
    """What came of reading the manifests of a look.

    Attributes:
        outcomes: Of each manifest that was read, by its path. Where its changes could not be read,
            that counts, also if it could be read wholly for another snapshot a moment later.
        counts: ADDED, EXISTING and DELETED entries of all manifests that were read wholly, now or
            long ago, by path.
        totals: Live files and bytes of the snapshots that are known by their changes now, by
            table and snapshot id, along each line.
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
    """Reads what is unseen, once, and records the snapshots of which everything was readable."""
    unseen = _unseen(states, indexed)
    if not unseen:
        return Ingested(frozenset(), {}, frozenset(), ())
    # A line goes by what lists count: nobody believes that of tables whose manifests are trusted.
    trusted = trusted_tables(context.control.decisions, states)
    moved_uuids = {state.uuid for state, _ in unseen} - trusted
    lines = lines_that_moved(states, moved_uuids, context.files.snapshots.tips(), indexed)
    context.progress(f"observe: reading {len(unseen)} new manifest lists")
    listed, refused = read_lists(context.store, context.manifests, unseen)
    unread = set(refused)
    before = list(chain.from_iterable(line.seen_before(indexed) for line in lines.values()))
    # Those are known, whether or not they can be read: only a line needs them.
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
    """Reads the changes along each line, and all other new manifests wholly."""
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
    """What goes on along each line, by table."""
    by_table: dict[str, dict[int, Sequence[ManifestFile]]] = {uuid: {} for uuid in lines}
    for reading in listed:
        if reading.state.uuid in lines:
            by_table[reading.state.uuid][reading.snapshot.snapshot_id] = reading.manifests
    return {uuid: line.steps(by_table[uuid], owners) for uuid, line in lines.items()}


def _read_wholly(
    context: RunContext, listed: Sequence[ListedSnapshot], owners: OwnerIndex
) -> tuple[dict[str, ManifestOutcome], dict[str, tuple[int, int, int]]]:
    """What came of those that were never read wholly, and the counts of all that are now."""
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
            if not reading.manifests:  # nobody writes a list that ends after its header
                unread.add(reading.state.name)
    records = list(_complete(verdicts, read.totals))
    _note_places(context.control.places, context.store, records, outcomes.values())
    new = _sharing(listed, outcomes, owners) - set(context.control.registrations.sharing())
    if new:
        context.control.registrations.add_sharing(sorted(new))
    # Snapshots last: a kill before that makes the next run look for what is back, and for whose
    # files they name, once more.
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
    """What may be recorded, the oldest first."""
    broken: set[str] = set()  # lines with a snapshot that is not recorded: nothing goes on from it
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
    """Remembers where what is new refers to: by whatever name, those files are needed."""
    paths = [record.manifest_list for record in records if record.manifest_list]
    paths += {manifest.path for record in records for manifest in record.manifests}
    new = places_in(paths, store.links_among)
    places.add(new.union(*(outcome.places for outcome in outcomes)))


def _verdicts(
    listed: Iterable[ListedSnapshot], read: _Read, trusted: Collection[str]
) -> list[tuple[ListedSnapshot, Verdict]]:
    """Each snapshot, the oldest first, and whether it was read completely.

    Args:
        listed: The snapshots.
        read: What came of reading their manifests.
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
    """Whether a snapshot was read completely, as far as anything tells."""
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
    """The first of a snapshot's manifests that could not be read."""
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


def _sharing(
    listed: Sequence[ListedSnapshot], outcomes: Mapping[str, ManifestOutcome], owners: OwnerIndex
) -> set[tuple[str, str]]:
    """Pairs of tables that share files: one names what lies with the other."""
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
    """Edges to the owners of everything the snapshot names, as far as it could be read."""
    uuid = reading.state.uuid
    owner_uuids = set(owners.owners(reading.snapshot.manifest_list))
    owner_uuids.update(*(owners_of[manifest.path] for manifest in reading.manifests))
    return {(min(uuid, owner), max(uuid, owner)) for owner in owner_uuids if owner != uuid}
