"""Defers drops of chunks whose rows are not in a rollup's buckets yet (ROLLUP_DIRTY).

The planner and the gate call it. The planner uses the stamps of the ledger, the gate the manifests
of each commit since the rollup's refresh. A chunk is evaluated by its own buckets, not by how far
the rollup is.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from meltline.app.chunks.lookups import ChunkedTable, HotTable
from meltline.app.chunks.rollups.rollup_snapshot import RollupLook
from meltline.app.chunks.rollups.rollup_table import RollupTable
from meltline.app.services import ReadSources
from meltline.domain.chunks.buckets import common, without
from meltline.domain.chunks.chunk import Chunk, Deferral
from meltline.domain.chunks.durability import Deferred
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import Rollup, incomplete_buckets
from meltline.domain.errors import MeltlineError


def dirty_chunks(
    context: ReadSources,
    hot: HotTable,
    every: Mapping[str, Chunk],
    chunks: Sequence[Chunk],
    cutoff: datetime | None,
) -> dict[str, Deferred]:
    """Returns the chunks with buckets that a rollup lacks, by name.

    Args:
        context: Where the rollups are.
        hot: The table.
        every: All of its chunks, as they are stamped.
        chunks: The chunks that would be dropped.
        cutoff: Up to when chunks are old enough; None if age does not count.
    """
    dirty: dict[str, Deferred] = {}
    for rollup in context.control.rollups.all([hot.state.uuid]):
        try:
            reasons = _reasons(context, rollup, hot, every, chunks, cutoff)
        except MeltlineError as error:
            reasons = {chunk.name: f"it cannot be told: {error}" for chunk in chunks}
        for name, reason in reasons.items():
            dirty[name] = Deferred(name, Deferral.ROLLUP_DIRTY, f"{rollup.name}: {reason}")
    return dirty


def _reasons(
    context: ReadSources,
    rollup: Rollup,
    hot: HotTable,
    every: Mapping[str, Chunk],
    chunks: Sequence[Chunk],
    cutoff: datetime | None,
) -> dict[str, str]:
    own, width = RollupTable.load(context, rollup), rollup.buckets
    frozen = width.whole(c.range for c in every.values() if c.was_dropped and c.range)
    open_chunks = [c for c in chunks if c.range and without([c.range], frozen)]
    since = hot.since(own.snapshot_id) if own.was_refreshed else None
    later = {None, *(snapshot.snapshot_id for snapshot in since or ())}
    written = [c.range for c in every.values() if c.last_write_snapshot in later]
    # Rows without a time may belong to any bucket; the gate assumes the same.
    if since is None or None in written or not own.is_as_left:
        return {c.name: "it has to be refreshed as a whole" for c in open_chunks}
    dirty = width.whole(times for times in (*written, *rollup.invalidated) if times)
    dirty = without(dirty, frozen)
    reasons = {
        chunk.name: "rows of its buckets were written since the last refresh"
        for chunk in open_chunks
        if chunk.range and common([chunk.range], dirty)
    }
    if cutoff is not None:
        for name, bucket in incomplete_buckets(width, open_chunks, cutoff).items():
            reasons[name] = f"its bucket goes on until {bucket.end:%Y-%m-%dT%H:%MZ}"
    return reasons


def chunks_not_rolled_up(
    context: ReadSources,
    table: ChunkedTable,
    planned: Mapping[str, TimeRange | None],
    cutoff: datetime | None,
) -> Collection[str]:
    """Returns planned chunks with rows that a rollup lacks, by the manifests of all later commits.

    Args:
        context: Where the rollups are.
        table: The table.
        planned: The chunks' times by name; None if they are unknown.
        cutoff: Up to when chunks are old enough; None if age does not count.

    Raises:
        MeltlineError: A rollup or a manifest cannot be read.
    """
    behind = {name for name, times in planned.items() if times is None}
    for rollup in context.control.rollups.all([table.state.uuid]):
        stale, width = RollupLook.take(context, rollup, table).stale, rollup.buckets
        for name, times in planned.items():
            if times is None or not without([times], stale.frozen):
                continue
            is_stale = stale.ranges is None or common([times], stale.ranges)
            if is_stale or (cutoff is not None and width.around(times).end > cutoff):
                behind.add(name)
    return behind
