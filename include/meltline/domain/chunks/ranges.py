"""Time ranges, units of chunks, and ages of policies.

The layout, policies and rollups use them. They know nothing of tables.
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from meltline.domain.iceberg.names import TableName

UNBOUNDED = "unbounded"
"""The chunk of rows without a time: null partitions, void transforms, times beyond the calendar."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HORIZON = re.compile(r"^\s*(\d+)\s*([A-Za-z]+)\s*$")
_EXACT = {
    "h": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "d": timedelta(days=1),
    "day": timedelta(days=1),
    "w": timedelta(weeks=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"mo": 1, "month": 1, "y": 12, "year": 12}
_CYCLE = 4800
"""Months after which the calendar repeats: 400 years, with this many days."""
_CYCLE_DAYS = 146_097
_FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


class Unit(StrEnum):
    """Length of a chunk; all begin and end in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def floor(self, moment: datetime) -> datetime:
        """Returns the begin of a moment's chunk."""
        start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if self is Unit.HOUR:
            return start
        if self is Unit.DAY:
            return start.replace(hour=0)
        month = 1 if self is Unit.YEAR else start.month
        return start.replace(hour=0, day=1, month=month)

    def after(self, start: datetime) -> datetime:
        """Returns the begin of the next chunk. Raises OverflowError at the end of the calendar."""
        if self in (Unit.HOUR, Unit.DAY):
            return start + _EXACT[self.value]
        try:
            return _add_months(start, _MONTHS[self.value])
        except ValueError as beyond:
            raise OverflowError(str(beyond)) from beyond

    def is_last(self, moment: datetime) -> bool:
        """Whether a moment is in the calendar's last, incomplete chunk, which does not count."""
        try:
            self.after(self.floor(moment))
        except OverflowError:
            return True
        return False

    def label(self, start: datetime) -> str:
        """Names the chunk that begins at an instant in UTC: 2026-01-05T07."""
        # strftime omits the leading zeros of years before 1000 on some systems.
        return f"{start.year:04d}{start.strftime(_FORMATS[self.value].removeprefix('%Y'))}"

    def parse(self, name: str) -> datetime:
        """Parses a chunk's name, as `label` formats it, to its begin. Raises ValueError."""
        start = datetime.strptime(name, _FORMATS[self.value]).replace(tzinfo=UTC)
        if name != self.label(start):
            raise ValueError(f"{name!r} is no chunk: write {self.label(start)}")
        return start

    def range(self, name: str) -> "TimeRange":
        """Returns the range of a chunk by its name. Raises ValueError."""
        start = self.parse(name)
        if self.is_last(start):
            raise ValueError(f"{name!r} is no chunk: the calendar ends in it")
        return TimeRange(start, self.after(start))

    def ordinal_range(self, ordinal: int) -> "TimeRange":
        """Returns the range of a partition by Iceberg's ordinal, counted from 1970.

        Raises:
            OverflowError: The calendar has no such time.
        """
        if self in (Unit.HOUR, Unit.DAY):
            start = EPOCH + ordinal * _EXACT[self.value]
        else:
            months = ordinal * _MONTHS[self.value]
            try:
                start = EPOCH.replace(year=1970 + months // 12, month=months % 12 + 1)
            except ValueError as beyond:
                raise OverflowError(str(beyond)) from beyond
        return TimeRange(start, self.after(start))


def _add_months(start: datetime, months: int) -> datetime:
    total = start.year * 12 + start.month - 1 + months
    year, month = divmod(total, 12)
    day = min(start.day, monthrange(year, month + 1)[1])
    return start.replace(year=year, month=month + 1, day=day)


@lru_cache(maxsize=256)
def _days_of(months: int) -> tuple[int, int]:
    """Returns the fewest and the most days that a number of calendar months takes."""
    cycles, rest = divmod(months, _CYCLE)
    firsts = [date(1600 + at // 12, at % 12 + 1, 1).toordinal() for at in range(2 * _CYCLE)]
    days = [firsts[at + rest] - firsts[at] for at in range(_CYCLE)]
    return cycles * _CYCLE_DAYS + min(days), cycles * _CYCLE_DAYS + max(days)


@dataclass(frozen=True, order=True, slots=True)
class TimeRange:
    """Half-open time range in UTC: the start is inclusive, the end exclusive."""

    start: datetime
    end: datetime

    def overlaps(self, other: "TimeRange") -> bool:
        """Whether the two ranges overlap."""
        return self.start < other.end and other.start < self.end

    def contains(self, other: "TimeRange") -> bool:
        """Whether the other range is within this one."""
        return self.start <= other.start and other.end <= self.end

    def chunks(self, unit: Unit) -> Iterator[str]:
        """Yields the names of the chunks that it reaches into. Raises OverflowError at the last."""
        start = unit.floor(self.start)
        while start < self.end:
            after = unit.after(start)
            yield unit.label(start)
            start = after


def merged(ranges: Iterable[TimeRange]) -> list[TimeRange]:
    """Merges time ranges into the fewest, in order."""
    joined: list[TimeRange] = []
    for span in sorted(ranges):
        if joined and span.start <= joined[-1].end:
            joined[-1] = TimeRange(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


@dataclass(frozen=True, slots=True)
class Horizon:
    """Age of a chunk: an exact duration, or months of the calendar in UTC (C-30, LT-32).

    Attributes:
        text: Its shown and stored form, such as `7d`, `12h`, `3mo`.
    """

    text: str
    span: timedelta = timedelta()
    months: int = 0

    @classmethod
    def parse(cls, text: str) -> "Horizon":
        """Reads `7d`, `7 days`, `36 hours`, `2 weeks`, `3 months`, `1 year`.

        Raises:
            ValueError: It is not an age, zero, negative, or beyond the calendar.
        """
        match = _HORIZON.match(text)
        word = match[2].lower() if match else ""
        word = word.removesuffix("s") if len(word) > 1 else word
        if match is None or not (word in _EXACT or word in _MONTHS):
            raise ValueError(
                f"{text!r} is no age: write a whole number and hours, days, weeks, months or years"
            )
        number = int(match[1])
        if number == 0:
            raise ValueError(f"{text!r} is no age: it must be longer than zero")
        short = "mo" if word.startswith("mo") else word[0]
        horizon = cls(
            f"{number}{short}",
            span=number * _EXACT[word] if word in _EXACT and number < 10**7 else timedelta(),
            months=number * _MONTHS[word] if word in _MONTHS else 0,
        )
        if not (horizon.span or horizon.months) or horizon.months > 12 * 9000:
            raise ValueError(f"{text!r} is no age: it leaves the calendar")
        return horizon

    def before(self, as_of: datetime) -> datetime:
        """Returns the cutoff: a chunk whose range ends then or earlier is old enough."""
        try:
            return _add_months(as_of.astimezone(UTC), -self.months) - self.span
        except (ValueError, OverflowError):
            return datetime.min.replace(tzinfo=UTC)

    def reached(self, end: datetime) -> datetime:
        """Returns the first moment, to the day, at which a range with this end has the age."""
        try:
            moment = _add_months(end.astimezone(UTC), self.months) + self.span
            while self.before(moment) < end:  # the month is too short for the day
                moment += timedelta(days=1)
        except (ValueError, OverflowError):
            return datetime.max.replace(tzinfo=UTC)
        return moment

    def __str__(self) -> str:
        return self.text

    @property
    def rough(self) -> timedelta:
        """Its length for comparisons: months count at their fewest days."""
        return self.span + timedelta(days=_days_of(self.months)[0])

    def is_shorter_than(self, other: "Horizon") -> bool:
        """Whether it is shorter than another age on every day of the calendar.

        On some days months and days cannot be ordered; then it is not (fail closed).
        """
        if bool(self.months) == bool(other.months):
            return (self.months, self.span) < (other.months, other.span)
        longest = self.span + timedelta(days=_days_of(self.months)[1])
        return longest < other.rough


def chunk_address(table: TableName, name: str) -> str:
    """Formats a chunk's full name: `catalog.namespace.table@2026-01-05`."""
    return f"{table}@{name}"


def parse_chunk_address(text: str) -> tuple[str, str]:
    """Splits a full name into the table's and the chunk's. Raises ValueError."""
    table, at, name = text.rpartition("@")
    if not (at and table and name):
        raise ValueError(f"{text!r} is no chunk: write TABLE@RANGE, such as lake.air.t@2026-01-05")
    return table, name
