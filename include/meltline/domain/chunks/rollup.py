"""A rollup: a table of aggregates by buckets of time that outlives its source (LT-27 to LT-30)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.chunks.buckets import BucketWidth, common, without
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.layout import ChunkLayout, SnapshotChange
from meltline.domain.chunks.ranges import TimeRange, merged
from meltline.domain.errors import NameConflict, RollupInvalid
from meltline.domain.iceberg.names import TableName

ROLLUP_OF = "meltline.rollup-of"
"""Property of a rollup's table: the registration that it aggregates."""
ROLLUP_SNAPSHOT = "meltline.rollup-snapshot"
"""The same: the source's snapshot up to which it is refreshed; committed with the rows."""
ROLLUP_HEAD = "meltline.rollup-head"
"""The same: the table's own snapshot that the last refresh has left."""
NO_SNAPSHOT = -1
"""What both say of a table that has none."""
ROLLUP_COMMIT = "meltline.rollup"
"""In the summary of a refresh's own commits: the source's snapshot up to which it goes."""
TABLE_PREFIX = "_rollup_"
"""Of the table of a rollup that was declared by its name alone, as the source calls it."""
PARTS = ("__sum", "__count")
"""What follows a column's name in those of its parts: an average is kept as sum and count too."""


@dataclass(frozen=True)
class RollupQuery:
    """An aggregation by buckets, read and checked.

    Attributes:
        text: As it was written.
        sql: The same for Spark, over a view that is called `SOURCE_VIEW`.
        source: The table's name as written, in parts.
        bucket_column: What the bucket is called.
        time_column: Whose times are put into buckets.
        width: How long these are.
        columns: Of its answer, in order.
        averages: Columns of averages, whose parts stand behind all other columns.
    """

    text: str
    sql: str
    source: tuple[str, ...]
    bucket_column: str
    time_column: str
    width: BucketWidth
    columns: tuple[str, ...]
    averages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rollup:
    """A declared rollup, as the ledger has it; up to where it is refreshed its table says.

    Attributes:
        id: Names it in answers, nowhere else.
        name: By which people call it; there is one of that name.
        table: Its own table; `table_uuid` is that table's registration.
        source: What it aggregates, when it was looked at last; `source_uuid` its registration.
        query: The aggregation as it was written.
        width: How long its buckets are, as the source writes it.
        bucket_column: What they are called in its table.
        depends_on: Rollups that are refreshed before it.
        invalidated: Ranges that a person said to aggregate anew; whole buckets, merged.
        missed: Frozen buckets whose source was changed since: they keep their last values, and no
            refresh will ever mend them.
        last_refreshed_at: When a refresh ended last, whether or not it found anything.
        problem: Why the last one failed; empty where it did not.
        realtime_view: The view that has rows after its newest bucket too, in full; empty for none.
    """

    id: int
    name: str
    table: TableName
    table_uuid: str
    source: TableName
    source_uuid: str
    query: str
    width: str
    bucket_column: str
    depends_on: tuple[str, ...]
    created_at: datetime
    who: str = ""
    invalidated: tuple[TimeRange, ...] = ()
    missed: tuple[TimeRange, ...] = ()
    last_refreshed_at: datetime | None = None
    problem: str = ""
    realtime_view: str = ""

    @property
    def buckets(self) -> BucketWidth:
        """How long its buckets are."""
        return BucketWidth.parse(self.width)


def rollup_exists(name: str) -> NameConflict:
    """Somebody has declared one of that name first."""
    return NameConflict(
        f"there is a rollup {name} already",
        object=name,
        expected="a name of its own",
        found="another rollup",
        next="choose another name; `meltline rollups list` has those that there are",
    )


@dataclass(frozen=True)
class StaleBuckets:
    """Which buckets a refresh aggregates anew.

    Attributes:
        ranges: These, whole buckets in order; None is every one that is not frozen.
        frozen: Buckets whose source has left hot: nobody aggregates them anew (LT-30).
        missed: Frozen ones among those that changed.
    """

    ranges: tuple[TimeRange, ...] | None
    frozen: tuple[TimeRange, ...]
    missed: tuple[TimeRange, ...] = ()


def changed_ranges(changes: Iterable[SnapshotChange]) -> list[TimeRange] | None:
    """The times whose rows some commits may have changed; None is all there are.

    Compactions change no row. A file whose partition tells no time may have rows of any: those
    without a time are in no bucket, but a partition field that was given up tells none either.
    """
    ranges: set[TimeRange] = set()
    for change in changes:
        if change.rewrites_only:
            continue
        for times in {file.times for file in (*change.added, *change.removed)}:
            if times.range is None:
                return None
            ranges.add(times.range)
    return merged(ranges)


def stale_buckets(
    width: BucketWidth,
    changed: Sequence[TimeRange] | None,
    invalidated: Iterable[TimeRange],
    dropped: Iterable[TimeRange],
) -> StaleBuckets:
    """What is to be aggregated anew.

    Args:
        width: How long the buckets are.
        changed: Times whose rows may have changed; None is all.
        invalidated: Those that a person names.
        dropped: Times of which hot has not all rows any more: a bucket that reaches into one is
            frozen, since what is left of its rows would make another value of it.
    """
    frozen = width.whole(dropped)
    if changed is None:
        return StaleBuckets(None, tuple(frozen))
    touched = width.whole((*changed, *invalidated))
    return StaleBuckets(
        tuple(without(touched, frozen)), tuple(frozen), tuple(common(touched, frozen))
    )


def dropped_ranges(layout: ChunkLayout, names: Collection[str]) -> list[TimeRange]:
    """The times of some chunks, in order."""
    return merged(times for name in names if (times := layout.range(name)) is not None)


def incomplete_buckets(
    width: BucketWidth, chunks: Iterable[Chunk], cutoff: datetime
) -> Mapping[str, TimeRange]:
    """Chunks with a bucket that reaches beyond what is old enough, by name.

    Such a bucket would be frozen while rows of it may still come.
    """
    reaching = {}
    for chunk in chunks:
        if chunk.range is not None and (bucket := width.around(chunk.range)).end > cutoff:
            reaching[chunk.name] = bucket
    return reaching


def in_order(rollups: Iterable[Rollup]) -> list[Rollup]:
    """Rollups, each after those that it depends on.

    Raises:
        RollupInvalid: They depend on each other in a circle, which nothing declares.
    """
    waiting = {rollup.name: rollup for rollup in sorted(rollups, key=lambda r: r.name)}
    ordered: list[Rollup] = []
    while waiting:
        ready = [r for r in waiting.values() if not waiting.keys() & set(r.depends_on)]
        if not ready:
            raise RollupInvalid(
                "rollups depend on each other in a circle",
                object=", ".join(waiting),
                expected="an order in which each comes after those it depends on",
                found="; ".join(f"{r.name} on {', '.join(r.depends_on)}" for r in waiting.values()),
                next="drop one of them, and declare it anew",
            )
        for rollup in ready:
            ordered.append(waiting.pop(rollup.name))
    return ordered


def above(rollups: Iterable[Rollup], sources: Collection[str]) -> list[Rollup]:
    """Rollups over some registrations, and over these rollups, and so on."""
    chosen: list[Rollup] = []
    bases = set(sources)
    for rollup in in_order(rollups):
        if rollup.source_uuid in bases:
            chosen.append(rollup)
            bases.add(rollup.table_uuid)
    return chosen


def with_dependencies(rollups: Sequence[Rollup], name: str) -> list[Rollup]:
    """A rollup and all that it depends on."""
    by_name = {rollup.name: rollup for rollup in rollups}
    needed, names = set[str](), [name]
    while names:
        rollup = by_name.get(names.pop())
        if rollup is not None and rollup.name not in needed:
            needed.add(rollup.name)
            names += rollup.depends_on
    return [rollup for rollup in rollups if rollup.name in needed]
