"""Computes the snapshot observations that a run records: side branches, and no branch at all.

The observe step records them in the ledger; `retained_snapshots` reads them in later runs.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise

from meltline.domain.iceberg.table_metadata import MAIN, TableMetadata
from meltline.domain.retention.retained_snapshots import SnapshotObservation


def next_sightings(
    state: TableMetadata,
    before: Mapping[int, SnapshotObservation],
    last_look: datetime | None,
    now: datetime,
) -> dict[int, SnapshotObservation]:
    """Returns the observation of each snapshot after an observation of the table.

    Args:
        state: The table's current state.
        before: The earlier observations.
        last_look: When the table was last observed; None if never.
        now: Wall clock.
    """
    side, held = set[int](), set[int]()
    for name, head in state.heads.items():
        line = {snapshot.snapshot_id for snapshot in state.ancestry(head)}
        held |= line
        side |= line if name != MAIN else set()
    sightings = {}
    for snapshot_id in state.snapshots:
        was = before.get(snapshot_id, SnapshotObservation())
        since = (
            None
            if snapshot_id in held
            else _off_branch_since(state, snapshot_id, was, last_look) or now
        )
        sightings[snapshot_id] = SnapshotObservation(
            since, was.was_on_branch or snapshot_id in side
        )
    return sightings


def _left_main(state: TableMetadata, snapshot_id: int) -> datetime | None:
    """Returns when main left a snapshot that it does not contain now, according to its log."""
    log = state.snapshot_log
    # A rollback may have made it main's head again, long after its commit.
    if ends := [end.at for head, end in pairwise(log) if head.snapshot_id == snapshot_id]:
        return max(ends)
    older = state.snapshots[snapshot_id].committed_at < log[0].at
    return log[0].at if older and log[-1].snapshot_id != snapshot_id else None


def _off_branch_since(
    state: TableMetadata, snapshot_id: int, was: SnapshotObservation, last_look: datetime | None
) -> datetime | None:
    """Returns since when a snapshot is on no branch, if that is known."""
    log = state.snapshot_log
    if was.unreferenced_since is None:
        return None if was.was_on_branch or not log else _left_main(state, snapshot_id)
    if log and last_look is not None and last_look < log[0].at:
        # The log was cleared since: main's states between that observation and the log's first
        # entry are unknown. (Our own commits cut it too, but never later than the observation
        # before them.)
        return max(was.unreferenced_since, log[0].at)
    return was.unreferenced_since
