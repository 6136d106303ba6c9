"""Resolves which snapshot was current when, by the snapshot log (TT-1, AR-41).

The result is never the nearest snapshot: an unknown time is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

from meltline.domain.errors import OutsideRetention, SnapshotNotFound
from meltline.domain.iceberg.table_metadata import SnapshotLogEntry, TableMetadata
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant


@dataclass(frozen=True)
class Point:
    """A point of a table's history: a snapshot, an instant, or, with neither, main's head."""

    snapshot_id: int | None = None
    at: datetime | None = None

    def resolve(self, state: TableMetadata, now: datetime) -> int:
        """Returns the snapshot that it resolves to.

        Raises:
            SnapshotNotFound: There is no such snapshot, or none at all.
            OutsideRetention: It is unknown which snapshot was current at that instant.
        """
        if self.snapshot_id is not None:
            return require_snapshot(state, self.snapshot_id)
        if self.at is not None:
            return current_at(state, self.at, now)
        if state.current_snapshot_id is not None:
            return state.current_snapshot_id
        raise SnapshotNotFound(
            f"{state.name} has no snapshot yet",
            object=str(state.name),
            expected="a table that somebody has written to",
            found="no snapshot on main",
            next="write to it first",
        )


def current_at(state: TableMetadata, at: datetime, now: datetime) -> int:
    """Returns main's head at an instant; a change at that instant is included.

    Raises:
        OutsideRetention: The log does not reach back to it, it is in the future, or it is no longer
            known which snapshot was current. The message names the window.
    """
    log = log_by_time(state)
    if not log:
        raise _outside(state, at, "no history", "a table that had a snapshot then")
    window = f"from {format_instant(log[0].at)} to {format_instant(now)}"
    if not log[0].at <= at <= now:
        problem = "a time to come" if at > now else "a time before the table's known history"
        raise _outside(state, at, problem, window)
    position = max(n for n, logged in enumerate(log) if logged.at <= at)
    snapshot_id = log[position].snapshot_id
    if snapshot_id not in state.snapshots or is_gap(state, position, at):
        raise _outside(state, at, "a gap in the table's history", window)
    return snapshot_id


def log_by_time(state: TableMetadata) -> Sequence[SnapshotLogEntry]:
    """Returns the snapshot log sorted by time, which is its order unless clocks differ.

    Iceberg 1.12 answers with the newest entry up to an instant
    (`SnapshotUtil.nullableSnapshotIdAsOfTime`), whatever its position in the log.
    """
    return sorted(state.snapshot_log, key=lambda entry: entry.at)


def is_gap(state: TableMetadata, position: int, at: datetime) -> bool:
    """Whether another snapshot than an entry of the log may have been current at an instant.

    A tool that removes entries from the middle of the log leaves the same snapshot twice in a row,
    or a successor whose parents since are not in the log. A log that does not end at main's head
    does not cover the time since.

    Args:
        state: The table.
        position: The position of the entry, by time (`log_by_time`).
        at: After that entry, and not after the next one.
    """
    log = log_by_time(state)
    if position + 1 == len(log):
        return state.current_snapshot_id != state.snapshot_log[-1].snapshot_id
    entry, following = log[position], log[position + 1]
    snapshot = state.snapshots.get(following.snapshot_id)
    if snapshot is None or snapshot.snapshot_id == entry.snapshot_id:
        return True
    if snapshot.parent_id is not None and snapshot.parent_id not in state.snapshots:
        return True
    if snapshot.committed_at != following.at:
        return False  # a branch was published: its commits were never main's before
    since = takewhile(
        lambda each: each.snapshot_id != entry.snapshot_id,
        islice(state.ancestry(snapshot.snapshot_id), 1, None),
    )
    return any(entry.at <= parent.committed_at < at for parent in since)


def require_snapshot(state: TableMetadata, snapshot_id: int) -> int:
    """Returns the snapshot's id, if the table has it.

    Raises:
        SnapshotNotFound: The table does not have it, or no longer.
    """
    if snapshot_id in state.snapshots:
        return snapshot_id
    newest = sorted(state.snapshots.values(), key=lambda s: s.committed_at, reverse=True)[:5]
    raise SnapshotNotFound(
        f"{state.name} has no snapshot {snapshot_id}",
        object=str(state.name),
        expected="one of " + ", ".join(str(s.snapshot_id) for s in newest) if newest else "any",
        found=f"{snapshot_id}: never there, or expired",
        next=f"`meltline explain {quote(state.name)}` lists what is there; an expired one is not",
    )


def _outside(state: TableMetadata, at: datetime, problem: str, window: str) -> OutsideRetention:
    return OutsideRetention(
        f"{state.name} cannot be read at {format_instant(at)}",
        object=str(state.name),
        expected=window,
        found=f"{format_instant(at)}: {problem}",
        next=f"choose a time {window}, or a snapshot of `meltline explain {quote(state.name)}`",
    )
