"""Finds commits of our chunk drops, including those that the ledger has not recorded yet.

Chunk tracking, replication and rollups call it, to distinguish own drops from other deletes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.domain.chunks.chunk import UNKNOWN_DROP, Chunk, ChunkDrop, DropStatus
from meltline.domain.chunks.layout import ChunkFile, SnapshotChange
from meltline.domain.chunks.main_history import MainLine, drops_of
from meltline.domain.chunks.sync import DROP_PLAN, TrackedTable
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import PlanNotFound
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import ChunkFileReader, PlanReader


def own_drop(plans: PlanReader, change: SnapshotChange, table_uuid: str) -> Plan | None:
    """Returns the plan that a commit carried out; None if the commit did anything else.

    The commit's own statement is not enough. It must have removed exactly the plan's files, by the
    plan's digest, and must have added no data.
    """
    try:
        id = change.summary.get(DROP_PLAN, "")
        plan = plans.current([id])[id] if id else None
    except PlanNotFound:
        return None
    if plan is None or plan.kind is not PlanKind.DROP_CHUNKS or plan.table_uuid != table_uuid:
        return None
    removed = [planned(f, table_uuid) for f in change.removed if f.kind is FileKind.DATA]
    is_same = not change.added and plan.digest_of(removed) == plan.digest
    return plan if is_same else None


def planned(file: ChunkFile, owner: str) -> PlannedFile:
    """Converts a chunk's file to an item of a plan."""
    return PlannedFile(file.path, file.kind, file.bytes, owner)


@dataclass(frozen=True)
class UnrecordedDrops:
    """Finds drops after the last recorded walk over a table's commits.

    A run may die, or main be replaced, after a drop is committed and before it is recorded.

    Attributes:
        table: The table as the ledger has it, with its chunks.
    """

    files: ChunkFileReader
    plans: PlanReader
    table: TrackedTable
    chunks: Mapping[str, Chunk]

    def on(self, state: TableMetadata, line: MainLine) -> Iterator[Chunk]:
        """Yields chunks with drops that a state's commits show, then those whose drop is unknown.

        Each has the drop as its newest. A plan's drop is unknown if three things are true: the plan
        was begun, main does not descend from its base any more, and no remaining snapshot can be
        its commit.

        Raises:
            MetadataUnreadable: A manifest cannot be read.
        """
        walked, uuid = self.table.walked, self.table.table_uuid
        for id in sorted(line.unrecorded(walked, drops_of(self.chunks.values()))):
            snapshot = state.snapshots[id]
            change = self.files.change(snapshot, self.table.layout, 0)
            plan = own_drop(self.plans, change, uuid)
            drop = ChunkDrop(id, snapshot.sequence_number, None)
            yield from self._of(plan, drop, snapshot.committed_at) if plan else ()
        if walked is None or walked.snapshot_id in line.snapshots:
            return
        told = {snapshot.summary.get(DROP_PLAN) for snapshot in state.snapshots.values()}
        for plan in self.plans.find(states=[PlanState.APPLYING], table_uuid=uuid):
            if plan.kind is PlanKind.DROP_CHUNKS and plan.id not in told:
                yield from self._of(plan, ChunkDrop(UNKNOWN_DROP, 0, None, DropStatus.UNKNOWN))

    def beside(self, state: TableMetadata) -> dict[str, Chunk]:
        """Returns chunks with drops that no walk over a state's main history will meet.

        Raises:
            MetadataUnreadable: A manifest cannot be read.
        """
        line = MainLine.of(state, self.table.judged, drops_of(self.chunks.values()))
        chunks = self.on(state, line)
        return {c.name: c for c in chunks if c.drops[-1].snapshot_id not in line.snapshots}

    def _of(self, plan: Plan, drop: ChunkDrop, at: datetime | None = None) -> Iterator[Chunk]:
        for name in plan.chunks:
            chunk = self.chunks.get(name)
            if chunk is not None and chunk.drop_plan != plan.id:
                base, rows, digest = chunk.cold_base, chunk.cold_rows, chunk.cold_digest
                noted = replace(drop, base=base, rows=rows, digest=digest)
                yield chunk.dropped_by(plan.id, noted, at)
