"""Rollups: tables of aggregates by time bucket that outlive their source.

`app/chunks/rollups` refreshes them, and `grammar` parses their queries. This module decides which
buckets are stale (LT-27 to LT-30).
"""

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
"""The same: the table's own snapshot after the last refresh."""
NO_SNAPSHOT = -1
"""Value of both for a table without a snapshot."""
ROLLUP_COMMIT = "meltline.rollup"
"""In the summary of a refresh's own commits: the source's snapshot up to which it refreshes."""
TABLE_PREFIX = "_rollup_"
"""Prefix of the table of a rollup that was declared by its name alone, as in LakeTS."""
PARTS = ("__sum", "__count")
"""Suffixes of the two columns that an average is also stored as: its sum and its count."""


@dataclass(frozen=True)
class RollupQuery:
    """A parsed and checked aggregation by buckets.

    Attributes:
        text: The original text.
        sql: The same for Spark, over a view named `SOURCE_VIEW`.
        source: The table's name as written, in parts.
        bucket_column: Name of the bucket.
        time_column: The column whose times are bucketed.
        width: Length of the buckets.
        columns: Columns of its result, in order.
        averages: Columns of averages, whose parts follow all other columns.
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
    """A declared rollup in the ledger; its table records the position of its refresh.

    Attributes:
        id: Identifies it in answers only.
        name: The name that users give it; it is unique.
        table: Its own table; `table_uuid` is its registration.
        source: The source's last known name; `source_uuid` its registration.
        query: The aggregation as it was written.
        width: Length of its buckets, in LakeTS's notation.
        bucket_column: Their name in its table.
        depends_on: Rollups that are refreshed before it.
        invalidated: Ranges that a user marked to be aggregated again; whole buckets, merged.
        missed: Frozen buckets whose source has changed since: they keep their last values, which no
            refresh corrects.
        last_refreshed_at: When a refresh ended last, with or without changes.
        problem: Why the last one failed; empty if it did not.
        realtime_view: Full name of the view that includes rows after its newest bucket; empty for
            none.
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
        """Length of its buckets."""
        return BucketWidth.parse(self.width)


def rollup_exists(name: str) -> NameConflict:
    """Builds the error for a name that another rollup has."""
    return NameConflict(
        f"there is a rollup {name} already",
        object=name,
        expected="a name of its own",
        found="another rollup",
        next="choose another name; `meltline rollups list` has those that there are",
    )


@dataclass(frozen=True)
class StaleBuckets:
    """Buckets that a refresh aggregates again.

    Attributes:
        ranges: Whole buckets in order; None is every one that is not frozen.
        frozen: Buckets whose source has left hot: they are never aggregated again (LT-30).
        missed: Frozen buckets among those that changed.
    """

    ranges: tuple[TimeRange, ...] | None
    frozen: tuple[TimeRange, ...]
    missed: tuple[TimeRange, ...] = ()


def changed_ranges(changes: Iterable[SnapshotChange]) -> list[TimeRange] | None:
    """Returns the times whose rows some commits may have changed; None means all.

    Compactions change no row. A file whose partition holds no time may have rows of any time. Rows
    without a time are in no bucket, but a removed partition field holds no time either.
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
    """Computes the buckets to aggregate again.

    Args:
        width: Length of the buckets.
        changed: Times whose rows may have changed; None is all.
        invalidated: Times that a user marked.
        dropped: Times whose rows hot no longer has completely. A bucket that reaches into one is
            frozen, since its remaining rows would give it another value.
    """
    frozen = width.whole(dropped)
    if changed is None:
        return StaleBuckets(None, tuple(frozen))
    touched = width.whole((*changed, *invalidated))
    return StaleBuckets(
        tuple(without(touched, frozen)), tuple(frozen), tuple(common(touched, frozen))
    )


def dropped_ranges(layout: ChunkLayout, names: Collection[str]) -> list[TimeRange]:
    """Returns the times of some chunks, in order."""
    return merged(times for name in names if (times := layout.range(name)) is not None)


def incomplete_buckets(
    width: BucketWidth, chunks: Iterable[Chunk], cutoff: datetime
) -> Mapping[str, TimeRange]:
    """Returns chunks with a bucket that ends after the cutoff, by name.

    Such a bucket would be frozen while rows of it may still arrive.
    """
    reaching = {}
    for chunk in chunks:
        if chunk.range is not None and (bucket := width.around(chunk.range)).end > cutoff:
            reaching[chunk.name] = bucket
    return reaching


def in_order(rollups: Iterable[Rollup]) -> list[Rollup]:
    """Sorts rollups, each after its dependencies.

    Raises:
        RollupInvalid: Their dependencies form a circle, which no declaration allows.
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
    """Selects rollups over some registrations, and over these rollups, transitively."""
    chosen: list[Rollup] = []
    bases = set(sources)
    for rollup in in_order(rollups):
        if rollup.source_uuid in bases:
            chosen.append(rollup)
            bases.add(rollup.table_uuid)
    return chosen


def with_dependencies(rollups: Sequence[Rollup], name: str) -> list[Rollup]:
    """Selects a rollup and all its dependencies."""
    by_name = {rollup.name: rollup for rollup in rollups}
    needed, names = set[str](), [name]
    while names:
        rollup = by_name.get(names.pop())
        if rollup is not None and rollup.name not in needed:
            needed.add(rollup.name)
            names += rollup.depends_on
    return [rollup for rollup in rollups if rollup.name in needed]
