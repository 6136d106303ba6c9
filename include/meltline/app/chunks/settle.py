"""Resolves drops of unknown status: shows the evidence, and records an operator's answer.

`chunks settle` calls it. Runs defer such chunks and never decide, so it is not part of `run`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from meltline.app.chunks.flags import chunked_table
from meltline.app.chunks.lookups import ChunkedTable, HotTable
from meltline.app.chunks.replication.synced_table import read_synced
from meltline.app.chunks.rollups.refresh import change_rollup
from meltline.app.chunks.tracking import Tracking, chunk_lock, tracking_of
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus, DropStatus
from meltline.domain.chunks.main_history import answered, resettled
from meltline.domain.chunks.ranges import merged
from meltline.domain.chunks.rollup import Rollup, dropped_ranges
from meltline.domain.chunks.sync import TrackedTable
from meltline.domain.errors import CommitConflict, UsageInvalid
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.domain.safe_text import quote
from meltline.domain.units import counted
from meltline.ports import ChunkFileReader


class DropAnswer(StrEnum):
    """An operator's answer for chunks whose last drop has an unknown status."""

    UNDONE = "undone"
    """Main was rolled back: hot has all rows of the chunks, and cold has a copy of them."""
    IN_FORCE = "in-force"
    """Cold alone has the dropped rows; hot has rows that arrived later."""

    @property
    def standing(self) -> DropStatus:
        """The status that the ledger records for this answer."""
        return DropStatus.UNDONE if self is DropAnswer.UNDONE else DropStatus.IN_FORCE


@dataclass(frozen=True)
class DoubtfulChunk:
    """A chunk whose last drop has an unknown status, with the evidence for either answer.

    Attributes:
        dropped_at: When it was dropped last.
        dropped_rows: How many rows left hot then.
        hot_rows: How many hot has now, row deletes not subtracted; `cold_rows` cold likewise.
    """

    chunk: str
    dropped_at: datetime | None
    drop_plan: str
    dropped_rows: int
    hot_rows: int
    cold_rows: int


def doubtful_chunks(context: ReadContext, name: TableName) -> list[DoubtfulChunk]:
    """Returns a table's chunks that wait for an operator's answer, by name. Changes nothing.

    Raises:
        NotChunked: The table is not split into chunks.
        MeltlineError: Hot, cold or the ledger cannot be read.
    """
    table = chunked_table(context, name)
    tracking = tracking_of(context, table, dry_run=True)
    hot = _hot_rows(context, tracking)
    chunks = _doubtful(tracking, hot)
    cold = _cold_rows(context, table, tracking) if chunks else {}
    return [
        DoubtfulChunk(
            chunk.name,
            chunk.dropped_at,
            chunk.drop_plan,
            chunk.dropped_rows,
            hot[chunk.name],
            cold.get(chunk.name, 0),
        )
        for chunk in chunks
    ]


def settle_drops(
    context: ReadContext,
    name: TableName,
    answer: DropAnswer,
    reason: str,
    only: Collection[str] = (),
) -> Sequence[str]:
    """Records an operator's answer for the last drop of each chunk of unknown status.

    A chunk whose last drop is undone may have an earlier one, which is the next question.

    Args:
        context: Where the table and its ledger are.
        name: The table.
        answer: The operator's answer.
        reason: Why, for the audit.
        only: Restricts the answer to these chunks; none is all.

    Returns:
        The chunks, by name.

    Raises:
        NotChunked: The table is not split into chunks.
        UsageInvalid: Hot has fewer rows of a chunk than cold, and it was not named: if its drop is
            not undone, cold would lose the only copy.
        CommitConflict: Main, or its chunks, have moved on meanwhile.
    """
    table = chunked_table(context, name)
    with chunk_lock(context, table.state.uuid):
        tracking = tracking_of(context, table)
        hot = _hot_rows(context, tracking)
        chunks = [c for c in _doubtful(tracking, hot) if not only or c.name in only]
        if answer is DropAnswer.UNDONE and not only:
            _require_back(name, chunks, hot, _cold_rows(context, table, tracking))
        settled = [_settled(chunk, answer.standing) for chunk in chunks]
        if HotTable.load(context, name).state.current_snapshot_id != tracking.table.judged:
            raise CommitConflict(
                f"main of {name} has moved on while it was looked at",
                object=str(name),
                expected=f"snapshot {tracking.table.judged}",
                found="another one",
                next="look at the evidence again, and answer again",
            )
        context.control.chunks.advance(tracking.table, tracking.table, settled)
    names = [chunk.name for chunk in settled]
    if answer is DropAnswer.UNDONE:
        _aggregate_anew(context, tracking.table, names)
    if names:
        audit(context, "chunks settle", str(name), reason, f"{answer}: {', '.join(names)}")
    return names


def _doubtful(tracking: Tracking, hot: Mapping[str, int]) -> list[Chunk]:
    """Chunks that wait for an answer, by name; for chunks without rows in hot, cold decides."""
    chunks = sorted(tracking.chunks.items())
    return [chunk for name, chunk in chunks if not chunk.is_told and name in hot]


def _settled(chunk: Chunk, standing: DropStatus) -> Chunk:
    """Records the answer; a chunk not counted since a rollback keeps its status."""
    answer = answered(chunk, standing)
    return resettled(answer) if chunk.status is ChunkStatus.UNKNOWN else answer


def _require_back(
    name: TableName, chunks: Sequence[Chunk], hot: Mapping[str, int], cold: Mapping[str, int]
) -> None:
    """Raises UsageInvalid if hot has fewer rows of a chunk than cold."""
    fewer = [c.name for c in chunks if hot[c.name] < cold.get(c.name, 0)]
    if fewer:
        counts = ", ".join(f"{chunk} {hot[chunk]} of {cold[chunk]}" for chunk in fewer[:3])
        raise UsageInvalid(
            f"hot has fewer rows of {counted(len(fewer), 'chunk')} of {name} than cold: "
            "if these drops are in force, cold would lose the only copy",
            object=str(name),
            expected="all rows back in hot, or the chunks named",
            found=f"rows in hot: {counts}",
            next=f"`meltline chunks settle {quote(name)}` shows the evidence; `--chunks` names "
            "those that are undone",
        )


def _aggregate_anew(context: ReadContext, table: TrackedTable, chunks: Sequence[str]) -> None:
    """Invalidates the buckets of chunks: rollups aggregate rows that arrived while frozen."""
    times = dropped_ranges(table.layout, chunks)

    def change(rollup: Rollup) -> Rollup:
        buckets = rollup.buckets.whole(times)
        return replace(rollup, invalidated=tuple(merged((*rollup.invalidated, *buckets))))

    for rollup in context.control.rollups.all([table.table_uuid]):
        change_rollup(context.control.rollups, rollup.name, change)


def _hot_rows(context: ReadContext, tracking: Tracking) -> dict[str, int]:
    return _rows(context.chunk_files, tracking, tracking.hot.state.current_snapshot)


def _cold_rows(context: ReadContext, table: ChunkedTable, tracking: Tracking) -> dict[str, int]:
    if table.sync is None:
        return {}
    synced = read_synced(context, tracking.hot, table.sync)
    reader = context.cold_chunk_files
    assert reader is not None  # a cold tier is configured
    return _rows(reader, tracking, synced.state.current_snapshot if synced else None)


def _rows(files: ChunkFileReader, tracking: Tracking, head: Snapshot | None) -> dict[str, int]:
    """Rows by chunk; a file that spans several chunks counts for each."""
    layout, rows = tracking.table.layout, dict[str, int]()
    for file in files.live(head, layout) if head else ():
        for name in layout.names(file.times) or () if file.kind is FileKind.DATA else ():
            rows[name] = rows.get(name, 0) + file.rows
    return rows
