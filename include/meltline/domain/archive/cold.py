"""What goes to the cold tier: the policy, and which expired snapshots it chooses (AR-28 to AR-36).

A snapshot is chosen by its own time alone: by the interval in which it was what readers saw. What
else is there, on which day it is asked, and what earlier nights have handed over and expired does
not come into it. So a snapshot that was not chosen leaves no gap: a later one, or one that stays
for other reasons, was current at the end of its day.
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
    """What a table's policy about cold comes to.

    Attributes:
        cadence: Which expired snapshots are kept.
        keep_for: How long at least, from when they were verified.
        deep: Whether they also go to the permanent store.
        source: The object that says which: a table, a namespace, `account` or `profile`.
        warnings: Values that are none, and what was applied instead: what keeps the most.
    """

    cadence: Cadence
    keep_for: timedelta
    deep: bool
    source: str
    warnings: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether anything goes to cold."""
        return self.cadence is not Cadence.NONE


def cold_policy(account: AccountPolicy, levels: Levels) -> ColdPolicy:
    """Resolves the policy of a table; the nearest word counts, as with retention.

    Args:
        account: The account level, as `meltline.yaml` has it.
        levels: The table's properties and those around it, nearest first.
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
    """When a snapshot was what readers of its branch saw.

    Attributes:
        claimed: When main surely was that snapshot: it answers questions about that time. Empty,
            from its commit to its commit, where the log does not name it.
        at_most: The longest that it can have been, its own successors aside: what the choice goes
            by. Where a log was cut, nobody knows the exact one any more.
    """

    claimed: Validity
    at_most: tuple[datetime, datetime]


def readable(cadence: Cadence, state: TableMetadata, snapshot_id: int, ended: datetime) -> Readable:
    """The times of one expired snapshot, by the log and by when, at the latest, it `ended`."""
    log, committed = state.snapshot_log, state.snapshots[snapshot_id].committed_at
    spans = [span for span in _spans(log, ended) if span.start_id == snapshot_id]
    if not spans:
        return Readable(Validity(committed, committed), (committed, max(committed, ended)))
    # Before the log's first entry there may have been others, which an expiration has cut off.
    earliest = min(committed, spans[0].start) if committed < log[0].at else spans[0].start
    # Between two of its spans others were current; where those are archived too, they answer.
    first = spans[0] if cadence is Cadence.ALL else spans[-1]
    return Readable(Validity(first.start, spans[-1].end), (earliest, max(earliest, ended)))


@dataclass(frozen=True)
class _Lifetime:
    """An entry of a log, and when the next one came."""

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
    """The expired snapshots that are kept in cold, and when each was readable.

    `daily`, `weekly` and `monthly` choose what was current when a UTC day, an ISO week or a month
    ended; also what nothing succeeded: the head of a branch that goes.

    Args:
        cadence: Of the table's policy.
        state: The table.
        keeps: Its keep set, without anything pending.
        dropped_at: Since when nobody has read it, where it was dropped.

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
        # A branch whose time is up counts no more in the keep set; its commits are there still.
        end = max(end, children.get(snapshot_id, end))
        if cadence is Cadence.ALL or snapshot_id in last or ends_a_period(cadence, start, end):
            validities[snapshot_id] = times.claimed
    return validities


def _newest_children(state: TableMetadata) -> Mapping[int, datetime]:
    """When the newest of each snapshot's children was committed, on whatever branch."""
    newest: dict[int, datetime] = {}
    for child in state.snapshots.values():
        if child.parent_id is not None:
            at = newest.get(child.parent_id, child.committed_at)
            newest[child.parent_id] = max(at, child.committed_at)
    return newest


def ends_a_period(cadence: Cadence, start: datetime, end: datetime) -> bool:
    """Whether what was current from `start` until `end` was the last in some day, week or month."""
    return _period(cadence, start) != _period(cadence, end)


def _period(cadence: Cadence, at: datetime) -> tuple[int, ...]:
    day = at.astimezone(UTC).date()
    if cadence is Cadence.MONTHLY:
        return day.year, day.month
    if cadence is Cadence.WEEKLY:
        return tuple(day.isocalendar()[:2])
    return (day.toordinal(),)
