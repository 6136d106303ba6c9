"""Which snapshot was current when: by the snapshot log, never the nearest one (TT-1, AR-41)."""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.errors import OutsideRetention, SnapshotNotFound
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant


@dataclass(frozen=True)
class Point:
    """A point of a table's history: a snapshot, an instant, or, with neither, main's head."""

    snapshot_id: int | None = None
    at: datetime | None = None

    def resolve(self, state: TableMetadata, now: datetime) -> int:
        """The snapshot that it means.

        Raises:
            SnapshotNotFound: There is no such snapshot, or none at all.
            OutsideRetention: Nobody can tell what was current at that instant.
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
    """The snapshot that was main's head at an instant; a change at that instant is included.

    Raises:
        OutsideRetention: The log does not reach back to it, it has not come yet, or nobody can
            tell any more what was current then. The message names the window.
    """
    log = state.snapshot_log
    if not log:
        raise _outside(state, at, "no history", "a table that had a snapshot then")
    window = f"from {format_instant(log[0].at)} to {format_instant(now)}"
    if not log[0].at <= at <= now:
        problem = "a time to come" if at > now else "a time before the table's known history"
        raise _outside(state, at, problem, window)
    position = max(n for n, logged in enumerate(log) if logged.at <= at)
    snapshot_id = log[position].snapshot_id
    if snapshot_id not in state.snapshots or is_gap(state, position):
        raise _outside(state, at, "a gap in the table's history", window)
    return snapshot_id


def is_gap(state: TableMetadata, position: int) -> bool:
    """Whether something else may have been current after an entry of the log, before the next.

    A tool that removes snapshots from the middle of the log leaves the same snapshot twice in a
    row, or a successor whose parent is neither the entry before it nor anything that is still
    there. A log that does not end at main's head says nothing of the time since.
    """
    log = state.snapshot_log
    if position + 1 == len(log):
        return state.current_snapshot_id != log[-1].snapshot_id
    following = state.snapshots.get(log[position + 1].snapshot_id)
    if following is None or following.snapshot_id == log[position].snapshot_id:
        return True
    parent = following.parent_id
    return parent is not None and parent not in state.snapshots


def require_snapshot(state: TableMetadata, snapshot_id: int) -> int:
    """That very snapshot.

    Raises:
        SnapshotNotFound: The table does not have it, or has it no more.
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
