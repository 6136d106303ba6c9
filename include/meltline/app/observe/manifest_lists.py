"""Reads manifest lists once each, and refuses those that changed since they were indexed.

Only ingest calls it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.observe.changed_lists import changed_lists
from meltline.domain.clock import Clock
from meltline.domain.errors import MeltlineError, MetadataUnreadable
from meltline.domain.iceberg.files import ManifestFile, SnapshotRecord
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import (
    IncidentAlarm,
    IndexedSnapshots,
    ManifestReader,
    ObjectReader,
    ProofSnapshot,
    SnapshotKey,
)


@dataclass(frozen=True)
class ListedSnapshot:
    """A snapshot of a table, and the manifests in its list."""

    state: TableMetadata
    snapshot: Snapshot
    reachable: ReachableSet
    manifests: tuple[ManifestFile, ...]

    @property
    def key(self) -> SnapshotKey:
        """The key of the snapshot in the file ledger."""
        return SnapshotKey(self.state.uuid, self.snapshot.snapshot_id)

    @property
    def record(self) -> SnapshotRecord:
        """Returns the snapshot's row for the file ledger."""
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


def read_lists(
    store: ObjectReader,
    manifests: ManifestReader,
    snapshots: Sequence[tuple[TableMetadata, Snapshot]],
) -> tuple[list[ListedSnapshot], dict[TableName, MeltlineError]]:
    """Reads each manifest list once for all tables that have it; returns errors by table."""
    places = {snapshot.as_written: (state, snapshot) for state, snapshot in snapshots}
    read = load_concurrently(
        lambda pair: _read_list(store, manifests, *pair), list(places.values())
    )
    answers = dict(zip(places, read, strict=True))
    listed: list[ListedSnapshot] = []
    refused: dict[TableName, MeltlineError] = {}
    for state, snapshot in snapshots:
        answer = answers[snapshot.as_written]
        if isinstance(answer, ListedSnapshot):
            listed.append(replace(answer, state=state, snapshot=snapshot))
        else:
            refused.setdefault(state.name, answer)
    return listed, refused


def refuse_changed(
    index: IndexedSnapshots,
    incidents: IncidentAlarm,
    clock: Clock,
    listed: Sequence[ListedSnapshot],
    refused: dict[TableName, MeltlineError],
) -> list[ListedSnapshot]:
    """Returns the lists without those that changed since they were indexed."""
    places = {
        r.key: ProofSnapshot(*r.key, r.snapshot.manifest_list, r.snapshot.inline_manifests)
        for r in listed
    }
    names = {reading.state.uuid: str(reading.state.name) for reading in listed}
    read = {reading.key: reading.reachable for reading in listed}
    changed = changed_lists(index, incidents, clock, read, places, names)
    for reading in listed:
        if error := changed.get(reading.key):
            refused.setdefault(reading.state.name, error)
    return [reading for reading in listed if reading.key not in changed]


def _read_list(
    store: ObjectReader, reader: ManifestReader, state: TableMetadata, snapshot: Snapshot
) -> ListedSnapshot | MeltlineError:
    try:
        if snapshot.manifest_list:
            content = store.read(snapshot.manifest_list)
            manifests = reader.read_list(snapshot.manifest_list, content)
            return ListedSnapshot(state, snapshot, ReachableSet.of_list(content), manifests)
        contents = [(path, store.read(path)) for path in snapshot.inline_manifests]
        inline = (ManifestFile(at, len(held), added_snapshot_id=None) for at, held in contents)
        return ListedSnapshot(state, snapshot, ReachableSet.of_manifests(contents), tuple(inline))
    except FileNotFoundError:
        return incomplete(state, snapshot, snapshot.manifest_list, "the manifest list is missing")
    except MeltlineError as error:
        return incomplete(state, snapshot, error.object, error.found or error.message)


def incomplete(
    state: TableMetadata, snapshot: Snapshot, path: str, problem: str
) -> MetadataUnreadable:
    """Returns the error of a table with a snapshot that cannot be read."""
    id = state.namesakes.get(snapshot.snapshot_id, snapshot.snapshot_id)
    return MetadataUnreadable(
        f"{state.name}: snapshot {id} cannot be read completely: {problem}",
        object=path,
        expected="every manifest list and manifest readable, with rows as its list counts them",
        found=problem,
        next="restore the file, or expire or roll back that snapshot with another engine",
    )


def contradictory(state: TableMetadata, snapshot: Snapshot, problem: str) -> MetadataUnreadable:
    """Returns the error of a table with a snapshot whose counts contradict its manifests."""
    return MetadataUnreadable(
        f"{state.name}: snapshot {snapshot.snapshot_id} contradicts itself: {problem}",
        object=snapshot.manifest_list,
        expected="totals and counts as its manifests have them",
        found=problem,
        next="have its writer correct the totals, or, where its rows are right, "
        f"`meltline trust {quote(state.name)} --manifests --reason TEXT`",
    )
