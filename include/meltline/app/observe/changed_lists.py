"""Detects manifest lists whose content changed after they were indexed.

Observe and the gate's proof call it. Iceberg never changes a file. A changed one was overwritten by
something else: a new copy, a backup, a tool. The snapshot's index may then be wrong. So its
sharing group is kept, by an incident. It ends when the content is as recorded again, when no table
has the snapshot any more, or when an operator rebuilds the index.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from meltline.app.safety.incidents import end_incidents, standing_incidents
from meltline.domain.clock import Clock
from meltline.domain.errors import ListChanged, MeltlineError
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import (
    Incident,
    IncidentAlarm,
    IncidentLedger,
    IndexedSnapshots,
    ObjectReader,
    ProofSnapshot,
    SnapshotKey,
)

KIND = ListChanged.__name__


def read_reachable_set(
    store: ObjectReader, manifest_list: str, inline_manifests: Iterable[str]
) -> ReachableSet:
    """Reads the current digest of a snapshot's manifest list or inline manifests.

    Raises:
        FileNotFoundError: The list, or an inline manifest, does not exist.
        StoreRefused: The store refused the read.
    """
    if manifest_list:
        return ReachableSet.of_list(store.read(manifest_list))
    return ReachableSet.of_manifests((path, store.read(path)) for path in inline_manifests)


def changed_lists(
    index: IndexedSnapshots,
    incidents: IncidentAlarm,
    clock: Clock,
    read: Mapping[SnapshotKey, ReachableSet],
    snapshots: Mapping[SnapshotKey, ProofSnapshot],
    names: Mapping[str, str],
) -> Mapping[SnapshotKey, ListChanged]:
    """Compares lists with their records, and raises an incident for each that differs.

    Args:
        index: Has the records.
        incidents: Receives the incidents.
        clock: Dates them.
        read: The lists as they were read just now.
        snapshots: The location of each list.
        names: Tables' names, for messages, by registration.
    """
    recorded = index.reachable_sets(list(read))
    changed = {
        key: _changed(names.get(key.table_uuid, key.table_uuid), snapshots[key], recorded[key], now)
        for key, now in read.items()
        if key in recorded and now.differs_from(recorded[key])
    }
    at = clock.now()
    incidents.add(
        [
            Incident(
                id=_id(key),
                kind=KIND,
                object=error.object,
                table=names.get(key.table_uuid, ""),
                table_uuid=key.table_uuid,
                at=at,
                message=f"{error.message}: expected {error.expected}, found {error.found}",
                next=error.next,
            )
            for key, error in changed.items()
        ]
    )
    return changed


def still_changed(
    incidents: IncidentLedger,
    snapshots: IndexedSnapshots,
    store: ObjectReader,
    states: Sequence[TableMetadata],
    *,
    ended: Collection[str],
) -> dict[str, str]:
    """Checks changed lists again. Returns why tables are kept, by registration.

    Args:
        incidents: The open incidents.
        snapshots: The records of when each list was read.
        store: Has the lists.
        states: Readable tables, and last states under names that tables have left.
        ended: Registrations whose files are not kept any more. A table that was not read today,
            such as one in a catalog that could not be listed, keeps its incident.
    """
    standing = standing_incidents(incidents, KIND)
    uuids = {incident.table_uuid for incident in standing}
    present = {_id(key): (key, snapshot) for key, snapshot in _snapshots(states, uuids)}
    recorded = snapshots.reachable_sets([key for key, _ in present.values()])
    looked_at = {state.uuid for state in states}.union(ended)

    def is_over(incident: Incident) -> bool:
        if incident.id not in present:
            return incident.table_uuid in looked_at
        key, snapshot = present[incident.id]
        return _is_as_recorded(store, snapshot, recorded.get(key))

    return end_incidents(incidents, standing, is_over)


def forget_changed_lists(incidents: IncidentLedger) -> None:
    """Ends these incidents, because the index is rebuilt from the current content."""
    end_incidents(incidents, standing_incidents(incidents, KIND), lambda incident: True)


def _snapshots(
    states: Iterable[TableMetadata], uuids: Collection[str]
) -> Iterator[tuple[SnapshotKey, Snapshot]]:
    for state in states:
        for snapshot in state.snapshots.values() if state.uuid in uuids else ():
            yield SnapshotKey(state.uuid, snapshot.snapshot_id), snapshot


def _is_as_recorded(store: ObjectReader, snapshot: Snapshot, recorded: ReachableSet | None) -> bool:
    if recorded is None:
        return True  # its index is rebuilt
    try:
        now = read_reachable_set(store, snapshot.manifest_list, snapshot.inline_manifests)
    except (FileNotFoundError, MeltlineError):
        return False
    return not now.differs_from(recorded)


def _id(key: SnapshotKey) -> str:
    return f"{KIND} {key.table_uuid} {key.snapshot_id}"


def _changed(
    name: str, snapshot: ProofSnapshot, recorded: ReachableSet, now: ReachableSet
) -> ListChanged:
    place = snapshot.manifest_list or f"{name}@{snapshot.snapshot_id}"
    return ListChanged(
        f"{name}: {place} is not what it was when snapshot {snapshot.snapshot_id} was read",
        object=place,
        expected=f"{recorded.length} bytes, SHA-256 {recorded.sha256[:16]}…",
        found=f"{now.length} bytes, SHA-256 {now.sha256[:16]}…",
        next="nothing of its group goes: restore the file; or, if what is written there now is "
        "right, `meltline observe --rebuild`",
    )
