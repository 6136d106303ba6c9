"""Resolves a point in a table's past to a snapshot (TT-26 to TT-32, DS-4, AR-28).

The snapshot log records what main's head was when. That also holds after rollbacks, and on quiet
tables, where the current snapshot of a point is older than the window. If the log was cut or
cleared (CREATE OR REPLACE clears it), the metadata file that was current decides. If neither proves
it, the result is an error: never the nearest snapshot, never an empty result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from meltline.domain.errors import (
    OutsideRetention,
    RefNotFound,
    StatementNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.iceberg.timeline import is_gap, log_by_time
from meltline.domain.retention.policy import INFINITE, Retention, parse_days
from meltline.domain.safe_text import quote
from meltline.domain.units import format_duration, format_instant

STATEMENT_ID = "meltline.statement-id"
"""The summary property of a snapshot that names the statement that made it."""


class PointSide(StrEnum):
    """Whether the change at the point itself is included (TT-27)."""

    AT = "at"
    BEFORE = "before"


@dataclass(frozen=True)
class Moment:
    """An instant."""

    at: datetime


@dataclass(frozen=True)
class StatementPoint:
    """A statement, by its id.

    Attributes:
        completed_at: When it ended, if the ledger knows; a statement that did not change the table,
            such as a query, means that instant.
    """

    id: str
    completed_at: datetime | None = None


@dataclass(frozen=True)
class TagPoint:
    """A tag: its snapshot is readable while the tag exists, whatever the window."""

    name: str


@dataclass(frozen=True)
class TravelPoint:
    """AT or BEFORE a moment, a statement or a tag."""

    side: PointSide
    to: Moment | StatementPoint | TagPoint


@dataclass(frozen=True)
class Resolved:
    """The state of main at a point.

    Attributes:
        snapshot_id: None if the table existed and nothing had been written to it yet.
        valid_from: Since when it was current, as far as is known.
        valid_to: Until when; None while it is current, or if unknown (a tag on a snapshot that
            main's history no longer names).
    """

    snapshot_id: int | None
    valid_from: datetime
    valid_to: datetime | None


@dataclass(frozen=True)
class Past:
    """A table with all inputs that its past is resolved from.

    Attributes:
        state: The table's current metadata.
        now: Wall clock.
        window: How far back it may be read; None is for ever. After a shorter retention was set it
            is still the longer one, until the next run (TT-21, C-15).
        read: Reads one of the table's earlier metadata files; returns None if it is not available.
    """

    state: TableMetadata
    now: datetime
    window: timedelta | None
    read: Callable[[str], TableMetadata | None]

    def require_readable(self, at: datetime) -> None:
        """Fails for an instant in the future, or outside the window.

        Raises:
            OutsideRetention: Names both ends of the window.
        """
        if at > self.now:
            raise self.outside(at, "a time to come")
        if self.window is not None and at < self.now - self.window:
            raise self.outside(at, "a time outside the retention")

    def outside(self, at: datetime, reason: str) -> OutsideRetention:
        """Builds the error that names the window."""
        name = self.state.name
        start = "the table's beginning"
        if self.window is not None:
            start = f"{format_instant(self.now - self.window)}, {format_duration(self.window)} back"
        return OutsideRetention(
            f"{name} cannot be read as of {format_instant(at)}: {reason}",
            object=str(name),
            expected=f"a time from {start}, to {format_instant(self.now)}",
            found=f"{format_instant(at)}: {reason}",
            next=f"choose a time in the window, or a tag; `meltline policy show {quote(name)}` "
            "says who set the window",
        )


def readable_window(retention: Retention, applied: str) -> timedelta | None:
    """Returns how far back a table may be read; None is for ever (C-15).

    Args:
        retention: Its policy.
        applied: The days that the last run applied, or `infinite`; empty before the first run.
    """
    days = parse_days(applied)
    if retention.window is None or days == INFINITE:
        return None
    return max(retention.window, timedelta(hours=24 * days if isinstance(days, int) else 0))


def moment_of_offset(now: datetime, seconds: float) -> datetime:
    """Returns the instant at an offset in seconds from now: negative is the past (TT-29).

    Raises:
        UsageInvalid: It is in the future, or leaves the calendar.
    """
    if seconds <= 0:
        try:
            return now + timedelta(seconds=seconds)
        except OverflowError:
            pass
    raise UsageInvalid(
        "an offset counts back from now",
        object="offset",
        expected="seconds as a negative number, or 0 for now",
        found=f"{seconds:g}",
        next="write -300 for what was five minutes ago",
    )


def resolve(past: Past, point: TravelPoint) -> Resolved:
    """Returns the snapshot that a point resolves to.

    Raises:
        OutsideRetention: The point is outside the window, in the future, or its snapshot is
            unknown.
        StatementNotFound: No such statement is known.
        RefNotFound: The table has no such tag.
    """
    if isinstance(point.to, Moment):
        return _by_time(past, point.to.at, point.side)
    if isinstance(point.to, StatementPoint):
        return _by_statement(past, point.to, point.side)
    return _by_tag(past, point.to.name, point.side)


def _by_time(past: Past, at: datetime, side: PointSide) -> Resolved:
    past.require_readable(at)
    resolved = _by_log(past.state, at, side) or _by_metadata(past, at, side)
    if resolved is None:
        raise past.outside(at, "nobody can tell any more what was current then")
    if resolved.snapshot_id is not None and resolved.snapshot_id not in past.state.snapshots:
        raise past.outside(at, f"snapshot {resolved.snapshot_id} has expired")
    return resolved


def _reached(times: list[datetime], at: datetime, side: PointSide) -> int | None:
    """Returns the position of the last time up to an instant (AT), or before it (BEFORE)."""
    come = (
        n for n, time in enumerate(times) if (time <= at if side is PointSide.AT else time < at)
    )
    return max(come, default=None)


def _by_log(state: TableMetadata, at: datetime, side: PointSide) -> Resolved | None:
    position = _reached([logged.at for logged in log_by_time(state)], at, side)
    return None if position is None else _unambiguous(state, position, at)


def _unambiguous(state: TableMetadata, position: int, at: datetime) -> Resolved | None:
    """Returns an entry of the log, unless another snapshot may have been current after it."""
    return None if is_gap(state, position, at) else _logged(state, position)


def _logged(state: TableMetadata, position: int) -> Resolved:
    log = log_by_time(state)
    end = log[position + 1].at if position + 1 < len(log) else None
    return Resolved(log[position].snapshot_id, log[position].at, end)


def _by_metadata(past: Past, at: datetime, side: PointSide) -> Resolved | None:
    """Resolves by the metadata file that was current at an instant, if the log still names it."""
    state = past.state
    files = (*state.metadata_log, state.metadata_location)
    times = [*(state.metadata_times[file] for file in state.metadata_log), state.last_updated]
    position = _reached(times, at, side)
    if position is None:
        return None
    file = files[position]
    former = state if file == state.metadata_location else past.read(file)
    if former is None or former.table_uuid != state.table_uuid:
        return None
    head, start, log = former.current_snapshot_id, times[position], former.snapshot_log
    if log and log[-1].snapshot_id == head:
        start = log[-1].at
    return Resolved(head, start, times[position + 1] if position + 1 < len(times) else None)


def _by_statement(past: Past, statement: StatementPoint, side: PointSide) -> Resolved:
    """Resolves a statement: AT is after its last commit, BEFORE is before its first one."""
    own = [
        snapshot
        for snapshot in past.state.snapshots.values()
        if snapshot.summary.get(STATEMENT_ID) == statement.id
    ]
    if own:
        return _by_commits(past, own, side)
    if statement.completed_at is not None:
        return _by_time(past, statement.completed_at, side)
    raise StatementNotFound(
        f"no statement {statement.id} is known of {past.state.name}",
        object=statement.id,
        expected=f"a statement of `meltline sql`, or a {STATEMENT_ID} in a snapshot's summary",
        found="none of that id; what it wrote may have expired",
        next="give a time instead",
    )


def _by_commits(past: Past, own: Sequence[Snapshot], side: PointSide) -> Resolved:
    ids = {snapshot.snapshot_id for snapshot in own}
    # In the order in which main first had them: a rollback may bring one back later.
    seen = dict.fromkeys(e.snapshot_id for e in log_by_time(past.state) if e.snapshot_id in ids)
    if seen:
        return _by_commit(past, list(seen)[-1 if side is PointSide.AT else 0], side)
    moments = [snapshot.committed_at for snapshot in own]
    return _by_time(past, max(moments) if side is PointSide.AT else min(moments), side)


def _by_commit(past: Past, snapshot_id: int, side: PointSide) -> Resolved:
    """Returns the state from, or until, a snapshot's first appearance on main.

    By position and not by time: two commits may have the same millisecond.
    """
    log = log_by_time(past.state)
    position = next(n for n, logged in enumerate(log) if logged.snapshot_id == snapshot_id)
    at = log[position].at
    past.require_readable(at)
    if side is PointSide.AT:
        return _logged(past.state, position)
    before = _unambiguous(past.state, position - 1, at) if position > 0 else None
    if before is None or before.snapshot_id not in past.state.snapshots:
        return _by_time(past, at, side)
    return before


def _by_tag(past: Past, name: str, side: PointSide) -> Resolved:
    state = past.state
    snapshot_id = state.tags.get(name)
    if snapshot_id is None:
        raise RefNotFound(
            f"{state.name} has no tag {name}",
            object=str(state.name),
            expected=", ".join(sorted(state.tags)[:8]) or "a tag; the table has none",
            found=f"a branch {name}" if name in state.refs else name,
            next=f"`meltline tags {quote(state.name)}` lists its tags",
        )
    seen = [logged.snapshot_id for logged in log_by_time(state)]
    if snapshot_id in seen:
        if side is PointSide.BEFORE:
            return _by_commit(past, snapshot_id, side)
        return _logged(state, seen.index(snapshot_id))
    committed_at = state.snapshots[snapshot_id].committed_at
    if side is PointSide.BEFORE:
        return _by_time(past, committed_at, side)
    return Resolved(snapshot_id, committed_at, None)
