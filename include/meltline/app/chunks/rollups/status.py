"""Status of rollups, without an engine.

`rollups list`, the pages and LakeTS's functions call it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.chunks.lookups import ChunkedTable, HotTable, chunked_tables
from meltline.app.chunks.rollups.rollup_snapshot import RollupLook
from meltline.app.services import ReadContext
from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import Rollup, in_order
from meltline.domain.errors import MeltlineError
from meltline.ports import ChunkFileReader


@dataclass(frozen=True)
class RollupLine:
    """Status of one rollup.

    Attributes:
        watermark: The begin of its newest bucket, or of its hour; None if it has none, or it is
            unknown.
        buckets: The times of its buckets; for buckets shorter than an hour, their hours.
        lag: How many commits of its source it lacks; None if unknown.
        dirty: How many buckets the next refresh reads; None is all that are not frozen.
        frozen: The times of buckets that are frozen, in order.
        missed: How many frozen buckets had rows that arrived too late for them.
        order: Its position in the refresh order, from 1 on.
        problem: Why it cannot be refreshed, or was not; empty without a problem.
    """

    rollup: Rollup
    order: int
    watermark: datetime | None = None
    buckets: tuple[TimeRange, ...] = ()
    lag: int | None = None
    dirty: int | None = None
    frozen: tuple[TimeRange, ...] = ()
    missed: int = 0
    problem: str = ""


def rollup_lines(context: ReadContext, rollups: Sequence[Rollup] | None = None) -> list[RollupLine]:
    """Returns rollups in refresh order; None is all of them."""
    chosen = context.control.rollups.all() if rollups is None else rollups
    sources = _sources(context, chosen)
    return [
        _line(context, rollup, place, sources.get(rollup.source_uuid))
        for place, rollup in enumerate(in_order(chosen), 1)
    ]


def _sources(context: ReadContext, rollups: Sequence[Rollup]) -> Mapping[str, ChunkedTable]:
    """Loads the sources of rollups once, by registration; each line reports its missing source."""
    uuids = {rollup.source_uuid for rollup in rollups}
    try:
        return {t.state.uuid: t for t in chunked_tables(context, only=sorted(uuids))}
    except MeltlineError:
        return {}


def _line(
    context: ReadContext, rollup: Rollup, order: int, source: ChunkedTable | None
) -> RollupLine:
    missed = rollup.buckets.count(rollup.missed)
    try:
        look = RollupLook.take(context, rollup, source)
        own = HotTable(look.own.state, context.store)
        stale, times = look.stale, _times(context.chunk_files, own, rollup)
        return RollupLine(
            rollup,
            order,
            watermark=max((span.start for span in times), default=None),
            buckets=tuple(rollup.buckets.whole(times)),
            lag=look.lag,
            dirty=None if stale.ranges is None else rollup.buckets.count(stale.ranges),
            frozen=stale.frozen,
            missed=missed,
            problem=rollup.problem,
        )
    except MeltlineError as error:
        return RollupLine(rollup, order, missed=missed, problem=rollup.problem or error.message)


def _times(files: ChunkFileReader, own: HotTable, rollup: Rollup) -> list[TimeRange]:
    """Returns the times of a rollup's files, by their partitions or their bounds."""
    head, document = own.state.current_snapshot, own.document
    if head is None:
        return []
    schema = next(s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"])
    field = next(f for f in schema["fields"] if f["name"] == rollup.bucket_column)
    layout = ChunkLayout(TimeColumn.of(field), rollup.buckets.partition)
    return [f.times.range for f in files.live(head, layout) if f.times.range]
