"""Detects torn heads: a manifest list or manifest is gone, or shorter than it was.

The index still has the files of such a head, so no step of ours would fail; but no engine can read
the table. A run checks the heads that moved since the last one, and a seventh of the others.
`meltline doctor --deep` checks all. A check costs a read of the list and a size for each manifest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zlib import crc32

from meltline.app.catalog.metadata import load_concurrently, load_if_readable
from meltline.app.catalog.recovery_hints import recovery_of
from meltline.app.safety.audit import audit
from meltline.app.safety.incidents import end_incidents, standing_incidents
from meltline.app.services import ReadContext, RunContext
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.table_metadata import MAIN, Snapshot, TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import Incident, KnownTable, ManifestReader, ObjectReader, SnapshotKey

KIND = "HeadTorn"
_NIGHTS = 7
_SHOWN = 3


@dataclass(frozen=True)
class HeadFiles:
    """Compares the metadata files of heads with the store.

    Attributes:
        lengths: Recorded lengths of manifest lists.
    """

    store: ObjectReader
    manifests: ManifestReader
    lengths: Mapping[SnapshotKey, int] = field(default_factory=dict)

    def torn(self, uuid: str, snapshot: Snapshot) -> list[str]:
        """Describes the missing or too short files of a snapshot; empty if there are none."""
        try:
            sizes = self._sizes(SnapshotKey(uuid, snapshot.snapshot_id), snapshot)
        except MeltlineError as unreadable:
            return [f"{unreadable.object}: {unreadable.found or unreadable.message}"]
        paths = sorted(sizes)
        stats = zip(paths, self.store.stats(paths), strict=True)
        return [
            f"{path}: {'missing' if stat.file is None else f'{stat.file.bytes} bytes'}"
            f"{f' of {sizes[path]}' if sizes[path] else ''}"
            for path, stat in stats
            if not stat.error and (stat.file is None or stat.file.bytes < sizes[path])
        ]

    def _sizes(self, key: SnapshotKey, snapshot: Snapshot) -> dict[str, int]:
        """Returns the least size of each file; 0 for inline manifests, whose size is unknown."""
        at, length = snapshot.manifest_list, self.lengths.get(key, 0)
        if not at:
            return dict.fromkeys(snapshot.inline_manifests, 0)
        try:
            content = self.store.read(at)
        except FileNotFoundError:
            return {at: length}
        if len(content) < length:
            return {at: length}
        return {manifest.path: manifest.bytes for manifest in self.manifests.read_list(at, content)}


@dataclass(frozen=True)
class TornHead:
    """A head of a branch with missing or torn files.

    Attributes:
        files: Descriptions of the missing or torn files.
        next: The last good metadata file, and the command that restores it.
    """

    state: TableMetadata
    branch: str
    snapshot: Snapshot
    files: Sequence[str]
    next: str

    @property
    def object(self) -> str:
        """Names the snapshot, with its table."""
        return f"{self.state.name}@{self.snapshot.snapshot_id}"

    @property
    def message(self) -> str:
        """Describes the damage."""
        more = f", and {len(self.files) - _SHOWN} more" if len(self.files) > _SHOWN else ""
        return f"the head of {self.branch} cannot be read: {'; '.join(self.files[:_SHOWN])}{more}"


def torn_heads(files: HeadFiles, states: Sequence[TableMetadata]) -> list[TornHead]:
    """Returns every branch of some tables whose head has missing or torn files."""
    heads = [pair for state in states for pair in _heads(state)]
    distinct = {tuple(snapshot.as_written): (state, snapshot) for state, _, snapshot in heads}
    broken = load_concurrently(lambda pair: files.torn(pair[0].uuid, pair[1]), [*distinct.values()])
    torn = dict(zip(distinct, broken, strict=True))
    return [
        TornHead(state, branch, snapshot, lines, _way_back(files, state, branch))
        for state, branch, snapshot in heads
        if (lines := torn[tuple(snapshot.as_written)])
    ]


def _heads(state: TableMetadata) -> Iterator[tuple[TableMetadata, str, Snapshot]]:
    for branch, snapshot_id in state.heads.items():
        if snapshot_id in state.snapshots and not is_dropped_name(state.name.namespace):
            yield state, branch, state.snapshots[snapshot_id]


def _way_back(files: HeadFiles, state: TableMetadata, branch: str) -> str:
    """Finds the newest metadata file in which the branch was intact, and how to restore it."""
    tried = {state.heads[branch]}
    for at in reversed(state.metadata_log):
        earlier = load_if_readable(files.store, state.name, at)
        head = earlier.heads.get(branch) if earlier else None
        if earlier is None or head is None or head in tried or head not in earlier.snapshots:
            continue
        tried.add(head)
        if not files.torn(state.uuid, earlier.snapshots[head]):
            return f"restore the files; {at} is the last good metadata file: " + (
                f"`meltline rollback {quote(state.name)} --to {quote(head)}`"
                if branch == MAIN and head in state.snapshots
                else f"point {branch} back at snapshot {head}"
                if head in state.snapshots
                else recovery_of(f"{state.name}@{head}")
            )
    return "restore the files; no metadata file of its log has a head that can be read"


# --- in a run -------------------------------------------------------------------------------------


def note_torn(
    context: RunContext, states: Iterable[TableMetadata], before: Iterable[KnownTable]
) -> bool:
    """Checks the heads that are due. Returns whether an incident was raised.

    Args:
        context: The ports.
        states: Every readable table.
        before: Registrations as the last observation recorded them.
    """
    seen = {(row.uuid, row.name): row.metadata_location for row in before}
    now = context.clock.now()
    # New tables have just been read.
    old = [state for state in states if (state.uuid, state.name) in seen]
    due = [
        state
        for state in old
        if seen[state.uuid, state.name] != state.metadata_location or is_due(state.uuid, now)
    ]
    torn = torn_heads(_head_files(context, due), due)
    if torn:
        context.control.incidents.add([_incident(context, head) for head in torn])
        for head in torn:
            audit(context, "incident", head.object, "files of a head are torn", head.message)
    return bool(torn)


def is_due(uuid: str, now: datetime) -> bool:
    """Returns whether a table is due tonight: one night of seven, shifted by one each week.

    With weekly runs, different tables are then due each time.
    """
    day = now.toordinal()
    return (crc32(uuid.encode()) + day + day // _NIGHTS) % _NIGHTS == 0


def still_torn(
    context: RunContext, states: Sequence[TableMetadata], *, ended: Collection[str]
) -> dict[str, str]:
    """Checks torn heads again. Returns why tables are kept, by registration.

    An incident is over once the files are intact, or no branch has the snapshot as its head.
    """
    standing = standing_incidents(context.control.incidents, KIND)
    uuids = {incident.table_uuid for incident in standing}
    its = [state for state in states if state.uuid in uuids]
    torn = {_id(head) for head in torn_heads(_head_files(context, its), its)}
    over = {state.uuid for state in its}.union(ended)
    return end_incidents(
        context.control.incidents,
        standing,
        lambda incident: incident.id not in torn and incident.table_uuid in over,
    )


def _head_files(context: RunContext, states: Iterable[TableMetadata]) -> HeadFiles:
    keys = [
        SnapshotKey(s.uuid, snapshot.snapshot_id) for s in states for _, _, snapshot in _heads(s)
    ]
    recorded = context.files.snapshots.reachable_sets(keys)
    lengths = {key: its.length for key, its in recorded.items()}
    return HeadFiles(context.store, context.manifests, lengths)


def _id(head: TornHead) -> str:
    return f"{KIND} {head.state.uuid} {head.branch} {head.snapshot.snapshot_id}"


def _incident(context: ReadContext, head: TornHead) -> Incident:
    return Incident(
        id=_id(head),
        kind=KIND,
        object=head.object,
        table=str(head.state.name),
        table_uuid=head.state.uuid,
        at=context.clock.now(),
        message=head.message,
        next=head.next,
    )
