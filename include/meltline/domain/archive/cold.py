"""Resolves the cold policy, and chooses the expired snapshots to archive (AR-28 to AR-36).

A snapshot is chosen by its own time alone: the interval in which it was main's head for readers.
Other snapshots, the day of the run, and earlier handoffs and expirations do not matter. So a
snapshot that was not chosen leaves no gap: at the end of its day, a later one, or one that stays
for other reasons, was current.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from meltline.domain.archive.archive import Validity
from meltline.domain.iceberg.objects import ACCOUNT
from meltline.domain.iceberg.table_metadata import SnapshotLogEntry, TableMetadata
from meltline.domain.retention.policy import (
    COLD,
    COLD_RETENTION,
    DEEP,
    LONGEST_DAYS,
    PROFILE,
    AccountPolicy,
    Levels,
    parse_days,
    settings,
)
from meltline.domain.retention.profiles import Cadence
from meltline.domain.retention.retained_snapshots import KeepSet


@dataclass(frozen=True)
class ColdPolicy:
    """A table's resolved policy for cold.

    Attributes:
        cadence: Which expired snapshots are kept.
        keep_for: The minimum time that copies are kept, from when they were verified.
        deep: Whether they are also copied to the permanent store.
        source: The object whose setting applies: a table, a namespace, `account` or `profile`.
        warnings: Invalid values, and what was applied instead: the value that keeps the most.
    """

    cadence: Cadence
    keep_for: timedelta
    deep: bool
    source: str
    warnings: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether any snapshot is archived."""
        return self.cadence is not Cadence.NONE


def cold_policy(account: AccountPolicy, levels: Levels) -> ColdPolicy:
    """Resolves the policy of a table; the most specific setting applies, as with retention.

    Args:
        account: The account level, as `meltline.yaml` has it.
        levels: The table's properties and those around it, most specific first.
    """
    warnings: list[str] = []
    cadence, source = _cadence(account, levels, warnings)
    return ColdPolicy(
        cadence,
        _keep_for(account, levels, warnings),
        _deep(account, levels, warnings),
        source,
        tuple(warnings),
    )


def _nearest(levels: Levels, key: str) -> tuple[str, str] | None:
    return next(iter(settings(levels, key)), None)


def _cadence(account: AccountPolicy, levels: Levels, warnings: list[str]) -> tuple[Cadence, str]:
    setting = _nearest(levels, COLD)
    if setting is None:
        cadence = Cadence(account.cold)
        return cadence, PROFILE if cadence is Cadence.NONE else ACCOUNT
    source, raw = setting
    try:
        return Cadence(raw.strip().lower()), source
    except ValueError:
        warnings.append(f"{source}: {COLD}={raw} is none of {', '.join(Cadence)}; all applied")
        return Cadence.ALL, source


def _keep_for(account: AccountPolicy, levels: Levels, warnings: list[str]) -> timedelta:
    days = account.cold_retention_days
    if setting := _nearest(levels, COLD_RETENTION):
        source, raw = setting
        parsed = parse_days(raw)
        if isinstance(parsed, int) and 0 <= parsed <= LONGEST_DAYS:
            days = parsed
        else:
            days = LONGEST_DAYS
            warnings.append(
                f"{source}: {COLD_RETENTION}={raw} is not from 0 to {LONGEST_DAYS} days; "
                f"{days} applied"
            )
    return timedelta(days=min(days, LONGEST_DAYS))


def _deep(account: AccountPolicy, levels: Levels, warnings: list[str]) -> bool:
    setting = _nearest(levels, DEEP)
    if setting is None:
        return account.deep
    source, raw = setting
    word = raw.strip().lower()
    if word not in ("true", "false"):
        warnings.append(f"{source}: {DEEP}={raw} is neither true nor false; true applied")
    return word != "false"


@dataclass(frozen=True)
class Readable:
    """The interval in which a snapshot was the head of its branch for readers.

    Attributes:
        claimed: When main certainly was at that snapshot: it answers queries for that time. Empty,
            from its commit to its commit, if the log does not contain it.
        at_most: The longest possible interval, regardless of its own successors: the choice uses
            it. If a log was cut, the exact one is no longer known.
    """

    claimed: Validity
    at_most: tuple[datetime, datetime]


def readable(cadence: Cadence, state: TableMetadata, snapshot_id: int, ended: datetime) -> Readable:
    """Returns the interval of an expired snapshot, by the log and the latest time it ended."""
    log, committed = state.snapshot_log, state.snapshots[snapshot_id].committed_at
    spans = [span for span in _spans(log, ended) if span.start_id == snapshot_id]
    if not spans:
        return Readable(Validity(committed, committed), (committed, max(committed, ended)))
    # Before the log's first entry there may have been others, which an expiration has cut off.
    earliest = min(committed, spans[0].start) if committed < log[0].at else spans[0].start
    # Between two of its intervals others were current; if those are archived too, they answer.
    first = spans[0] if cadence is Cadence.ALL else spans[-1]
    return Readable(Validity(first.start, spans[-1].end), (earliest, max(earliest, ended)))


@dataclass(frozen=True)
class _Lifetime:
    """An entry of a log, and when the next one was added."""

    start_id: int
    start: datetime
    end: datetime


def _spans(log: Sequence[SnapshotLogEntry], ended: datetime) -> list[_Lifetime]:
    ends = [*(logged.at for logged in log[1:]), ended]
    return [
        _Lifetime(logged.snapshot_id, logged.at, end)
        for logged, end in zip(log, ends[: len(log)], strict=True)
    ]


def chosen(
    cadence: Cadence, state: TableMetadata, keeps: KeepSet, dropped_at: datetime | None = None
) -> Mapping[int, Validity]:
    """Chooses the expired snapshots to keep in cold, with the interval in which each was readable.

    `daily`, `weekly` and `monthly` choose the snapshot that was current at the end of a UTC day, an
    ISO week or a month. They also choose the head of a branch that expires, which has no successor.

    Args:
        cadence: The policy's cadence.
        state: The table.
        keeps: Its retained snapshots, without any pending handoff.
        dropped_at: When it was dropped, and so no longer read; None if it was not.

    Returns:
        By snapshot id, in the order of their commits.
    """
    if cadence is Cadence.NONE:
        return {}
    last = {state.refs[name].snapshot_id for name in keeps.expired_refs if name in state.heads}
    children = _newest_children(state)
    validities: dict[int, Validity] = {}
    for snapshot_id in sorted(keeps.expired, key=lambda s: (state.snapshots[s].committed_at, s)):
        ended = keeps.superseded_at[snapshot_id]
        assert ended is not None  # heads that stay are not expired
        if dropped_at is not None:
            ended = min(ended, dropped_at)
        times = readable(cadence, state, snapshot_id, ended)
        start, end = times.at_most
        # The retained snapshots ignore a branch past its age; its commits still exist.
        end = max(end, children.get(snapshot_id, end))
        if cadence is Cadence.ALL or snapshot_id in last or ends_a_period(cadence, start, end):
            validities[snapshot_id] = times.claimed
    return validities


def _newest_children(state: TableMetadata) -> Mapping[int, datetime]:
    """Returns when the newest of each snapshot's children was committed, on any branch."""
    newest: dict[int, datetime] = {}
    for child in state.snapshots.values():
        if child.parent_id is not None:
            at = newest.get(child.parent_id, child.committed_at)
            newest[child.parent_id] = max(at, child.committed_at)
    return newest


def ends_a_period(cadence: Cadence, start: datetime, end: datetime) -> bool:
    """Whether a head from `start` until `end` was the last one in some day, week or month."""
    return _period(cadence, start) != _period(cadence, end)


def _period(cadence: Cadence, at: datetime) -> tuple[int, ...]:
    day = at.astimezone(UTC).date()
    if cadence is Cadence.MONTHLY:
        return day.year, day.month
    if cadence is Cadence.WEEKLY:
        return tuple(day.isocalendar()[:2])
    return (day.toordinal(),)
