"""Consistent snapshot of a rollup, its source and its own table, with its stale buckets.

Refresh, status, invalidation and the gate of drops call it. They share it, so each evaluates the
same state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meltline.app.chunks.late_data import dropped_on
from meltline.app.chunks.lookups import ChunkedTable, HotTable, chunked_tables, require_tracked
from meltline.app.chunks.rollups.rollup_table import RollupTable
from meltline.app.chunks.tracking import back_whole, changes_of
from meltline.app.observe.own_drops import own_drop
from meltline.app.services import ReadSources
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.chunks.rollup import (
    Rollup,
    StaleBuckets,
    changed_ranges,
    dropped_ranges,
    stale_buckets,
)
from meltline.domain.errors import RollupRefused
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import ChunkFileReader, PlanReader


@dataclass(frozen=True)
class RollupLook:
    """A rollup, its source and its own table at one time, with its stale buckets.

    Attributes:
        lag: How many commits of its source it lacks; None if unknown.
        stale: Own drops make nothing stale: their rows outlive the source here (LT-27).
    """

    rollup: Rollup
    source: ChunkedTable
    own: RollupTable
    lag: int | None
    stale: StaleBuckets

    @classmethod
    def take(
        cls, context: ReadSources, rollup: Rollup, source: ChunkedTable | None = None
    ) -> "RollupLook":
        """Reads the current state.

        Args:
            context: Where they are.
            rollup: The rollup.
            source: Its source, if already loaded; None loads it.

        Raises:
            RollupRefused: The source, or the rollup's own table, does not exist.
            MetadataUnreadable: A manifest cannot be read.
        """
        own = RollupTable.load(context, rollup)
        source = source or _source(context, rollup)
        hot = HotTable(source.state, context.store)
        since = hot.since(own.snapshot_id) if own.was_refreshed else None
        changed = None
        if since is not None and own.is_as_left:
            files, plans = context.chunk_files, context.control.plans
            changed = changed_ranges(_changes(files, plans, source, since))
        ranges = _gone(context, source, own)
        stale = stale_buckets(rollup.buckets, changed, rollup.invalidated, ranges)
        return cls(rollup, source, own, None if since is None else len(since), stale)

    @property
    def is_fresh(self) -> bool:
        """Whether the rollup is at the source's head, and no range is invalidated."""
        return self.lag == 0 and self.stale.ranges == ()


def _source(context: ReadSources, rollup: Rollup) -> ChunkedTable:
    for table in chunked_tables(context, only=[rollup.source_uuid]):
        return table
    raise RollupRefused(
        f"{rollup.source}, the source of rollup {rollup.name}, is not there or not readable",
        object=str(rollup.source),
        expected=f"the registration {rollup.source_uuid}",
        found="none that can be read",
        next="the rollup keeps its rows; `meltline doctor` names tables that cannot be read",
    )


def _changes(
    files: ChunkFileReader, plans: PlanReader, source: ChunkedTable, since: Sequence[Snapshot]
) -> list[SnapshotChange]:
    changes = changes_of(files, source.tracked.layout, since, 0)
    return [c for c in changes if own_drop(plans, c, source.state.uuid) is None]


def _gone(context: ReadSources, source: ChunkedTable, own: RollupTable) -> list[TimeRange]:
    """Times for which the source, or the rollup itself, no longer has all rows.

    This follows main's current state instead of the last walk. A full refresh thus sees a rollback
    that restores chunks; after the walk no refresh would.
    """
    ranges = []
    for state in (source.state, own.state):
        if dropped := dropped_on(context, state):
            layout, names = dropped
            chunks = context.control.chunks.of(state.uuid)
            tracked = require_tracked(context, state)
            back = back_whole(state, tracked, chunks)
            ranges += dropped_ranges(layout, {*names} - back)
    return ranges
