"""Manifest lists whose bytes are no longer those that were read when they were recorded.

Iceberg never changes a file. Where one has changed, something else has written there: a copy that
was made anew, a backup, a tool. What the index knows of that snapshot may be wrong then. So its
group is kept, by an incident that stands until the bytes are what was recorded, until no table
has the snapshot any more, or until a person has the index made anew.
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
    """How a snapshot's reachable set is written down now.

    Raises:
        FileNotFoundError: The list, or an inline manifest, is not there.
        StoreRefused: The store would not give it.
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
    """Holds lists against what is recorded of them, and raises an incident for each that differs.

    Args:
        index: What is recorded.
        incidents: Where they are raised.
        clock: By which they are dated.
        read: Lists as they were read just now.
        snapshots: Where each is written down.
        names: Tables' names, for people, by registration.
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
    """Looks again at lists that had changed. Returns why tables are kept, by registration.

    Args:
        incidents: Which lists had changed.
        snapshots: How each was when it was read.
        store: Where they lie.
        states: Tables that can be read, and what they were under names that they have left.
        ended: Registrations of which nothing is kept any more. What changed of one that was not
            read today, as of a catalog that could not be listed, has changed still.
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
    """Ends these incidents: the index is made anew, from what is written there now."""
    end_incidents(incidents, standing_incidents(incidents, KIND), lambda incident: True)


def _snapshots(
    states: Iterable[TableMetadata], uuids: Collection[str]
) -> Iterator[tuple[SnapshotKey, Snapshot]]:
    for state in states:
        for snapshot in state.snapshots.values() if state.uuid in uuids else ():
            yield SnapshotKey(state.uuid, snapshot.snapshot_id), snapshot


def _is_as_recorded(store: ObjectReader, snapshot: Snapshot, recorded: ReachableSet | None) -> bool:
    if recorded is None:
        return True  # its index is made anew
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
