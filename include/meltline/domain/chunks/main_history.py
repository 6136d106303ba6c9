"""Main's history in one metadata file, and the status of drops on it.

Tracking, the union read and the gate of expirations use it. A drop is in force, or undone, only by
proof: by the history, or by a record made while the history still showed it. Sequence numbers grow
along a history, so a commit in it that is older than a drop proves the drop undone. A larger number
proves nothing: the commit where a rollback left the old history may have expired.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from meltline.domain.chunks.chunk import UNKNOWN_DROP, Chunk, ChunkDrop, ChunkStatus, DropStatus
from meltline.domain.chunks.sync import DROP_PLAN, Position, TrackedTable
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata


@dataclass(frozen=True)
class MainLine:
    """Main's history, as far as a metadata file has it.

    Attributes:
        snapshots: Main's head and its ancestors, newest first.
        left_behind: Drops whose commit is known and descends from this history, but is not on it.
        beside: Commits that claim to be own drops and are not on this history, each with its
            ancestors: main was rolled back or replaced.
        is_judged: Whether it has the snapshot at which the ledger recorded drops last.
    """

    snapshots: Mapping[int, Snapshot]
    left_behind: frozenset[int] = frozenset()
    is_judged: bool = False
    beside: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, state: TableMetadata, judged: int | None, drops: Iterable[ChunkDrop] = ()
    ) -> "MainLine":
        """Reads the history of a table.

        Args:
            state: The table.
            judged: Main's head when the ledger recorded drops last.
            drops: The drops to evaluate.
        """
        head = state.current_snapshot_id
        line = {} if head is None else {s.snapshot_id: s for s in state.ancestry(head)}
        beside = {
            id: frozenset(earlier.snapshot_id for earlier in state.ancestry(id))
            for id, snapshot in state.snapshots.items()
            if DROP_PLAN in snapshot.summary and id not in line
        }
        left = {id for id, of in beside.items() if not of.isdisjoint(line)}
        fork_drops = {
            drop.snapshot_id
            for drop in drops
            if any(s.snapshot_id in line for s in state.ancestry(drop.snapshot_id))
        }
        return cls(line, frozenset((left | fork_drops) - line.keys()), judged in line, beside)

    def standing(self, drop: ChunkDrop) -> DropStatus:
        """Returns the status of a drop on this history."""
        if drop.snapshot_id == UNKNOWN_DROP:
            return drop.standing if self.is_judged else DropStatus.UNKNOWN
        if drop.snapshot_id in self.snapshots:
            return DropStatus.IN_FORCE
        if drop.snapshot_id in self.left_behind or self._began_before(drop):
            return DropStatus.UNDONE
        return drop.standing if self.is_judged else DropStatus.UNKNOWN

    def unrecorded(self, walked: Position | None, drops: Iterable[ChunkDrop]) -> set[int]:
        """Returns commits that claim to be own drops and were not walked yet.

        A walk follows this history. It never reaches commits after its end if main was rolled back
        or replaced since.
        """
        recorded, end = {drop.snapshot_id for drop in drops}, walked.snapshot_id if walked else None
        ahead = takewhile(lambda id: id != end, self.snapshots)
        news = {id for id in ahead if DROP_PLAN in self.snapshots[id].summary}
        left_out = {id for id, of in self.beside.items() if end is None or end in of}
        return (news | left_out) - recorded

    def _began_before(self, drop: ChunkDrop) -> bool:
        """Whether the history has a commit older than a drop; format 1 has no sequence numbers."""
        oldest = min((s.sequence_number for s in self.snapshots.values()), default=None)
        return oldest is not None and oldest <= drop.sequence_number > 0


def drops_of(chunks: Iterable[Chunk]) -> list[ChunkDrop]:
    """All drops of some chunks."""
    return [drop for chunk in chunks for drop in chunk.drops]


def with_standings(chunk: Chunk, line: MainLine) -> Chunk:
    """Records the status of a chunk's drops on a history.

    Main may be between two drops, with cold copied again after the later one. Cold's base then
    covers both, and it is unknown which rows hot had between them.
    """
    drops = tuple(replace(drop, standing=line.standing(drop)) for drop in chunk.drops)
    stood = replace(chunk, drops=drops)
    last = stood.last_drop
    if last is None or last.base is not None or _later_base(stood, last) is None:
        return stood
    unknown = replace(last, standing=DropStatus.UNKNOWN)
    return replace(stood, drops=tuple(unknown if drop == last else drop for drop in drops))


def _later_base(chunk: Chunk, drop: ChunkDrop) -> int | None:
    """The newest base of the drops after a given one; None if none has a base."""
    later = chunk.drops[chunk.drops.index(drop) + 1 :]
    return max((each.base for each in later if each.base is not None), default=None)


def on_line(chunk: Chunk, line: MainLine, since: ChunkDrop | None = None) -> Chunk:
    """Returns the chunk for a state of hot that the ledger's status may not describe.

    Rows of the chunk in hot are not considered. A drop of unknown status counts as in force.

    Args:
        chunk: The ledger's record.
        line: The state's history.
        since: A drop that the history has and the ledger has not recorded yet.
    """
    every = replace(chunk, drops=(*chunk.drops, *([since] if since else [])))
    stood = with_standings(every, line)
    status = ChunkStatus.DROPPED if stood.last_drop else ChunkStatus.ACTIVE
    return replace(stood, status=status)


def resettled(chunk: Chunk) -> Chunk:
    """Recomputes the chunk's status from its drops and its files in hot.

    If it is unknown whether its last drop is in force, and hot has no row of it, cold decides: from
    then on the drop is in force.
    """
    last = chunk.last_drop
    if last is None:  # `cold_base` stays: it identifies cold's record of the drop
        return replace(chunk, status=ChunkStatus.ACTIVE, tiered_at=None)
    if chunk.files or chunk.spans:
        is_unknown = last.standing is DropStatus.UNKNOWN
        status = ChunkStatus.UNKNOWN if is_unknown else ChunkStatus.REOPENED
        return replace(chunk, status=status)
    return replace(answered(chunk, DropStatus.IN_FORCE), status=ChunkStatus.DROPPED)


def answered(chunk: Chunk, standing: DropStatus) -> Chunk:
    """Records an answer for the chunk's last drop, if its status is unknown.

    If it is undone, the previous drop is the last one. Cold's rows of the chunk then change, so
    they are counted again.
    """
    last = chunk.last_drop
    if last is None or last.standing is not DropStatus.UNKNOWN:
        return chunk
    base = _later_base(chunk, last) if last.base is None else last.base
    after = replace(last, standing=standing, base=base)
    if standing is DropStatus.UNDONE:
        after = replace(after, rows=None, digest=None)
    return replace(chunk, drops=tuple(after if drop == last else drop for drop in chunk.drops))


def lost_drops(
    state: TableMetadata, table: TrackedTable, chunks: Iterable[Chunk], leaving: Iterable[int]
) -> list[int]:
    """Finds drops that become undecidable once some snapshots have expired.

    Either their status is not recorded as the history shows it, or the drops themselves are not.

    Args:
        state: The table as it is.
        table: The ledger's record.
        chunks: All of them, or the dropped ones.
        leaving: Snapshots that are to expire.
    """
    drops, expired = drops_of(chunks), frozenset(leaving)
    now = MainLine.of(state, table.judged, drops)
    remaining = {i: s for i, s in state.snapshots.items() if i not in expired}
    after = MainLine.of(replace(state, snapshots=remaining), table.judged, drops)
    lost = {drop.snapshot_id for drop in drops if now.standing(drop) != after.standing(drop)}
    return sorted(lost | (expired & now.unrecorded(table.walked, drops)))
