"""Ranges of time, and the units in which a table's chunks follow each other."""

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
"""Months after which the calendar begins anew: 400 years, of this many days."""
_CYCLE_DAYS = 146_097
_FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


class Unit(StrEnum):
    """How long a chunk is; all begin and end in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def floor(self, moment: datetime) -> datetime:
        """When the chunk begins in which a moment lies."""
        start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if self is Unit.HOUR:
            return start
        if self is Unit.DAY:
            return start.replace(hour=0)
        month = 1 if self is Unit.YEAR else start.month
        return start.replace(hour=0, day=1, month=month)

    def after(self, start: datetime) -> datetime:
        """When the next chunk begins. Raises OverflowError where the calendar ends."""
        if self in (Unit.HOUR, Unit.DAY):
            return start + _EXACT[self.value]
        try:
            return _add_months(start, _MONTHS[self.value])
        except ValueError as beyond:
            raise OverflowError(str(beyond)) from beyond

    def is_last(self, moment: datetime) -> bool:
        """Whether the calendar ends with the chunk in which a moment lies: it is none."""
        try:
            self.after(self.floor(moment))
        except OverflowError:
            return True
        return False

    def label(self, start: datetime) -> str:
        """The name of the chunk that begins then, of the instant in UTC: 2026-01-05T07."""
        # Not strftime alone: it leaves out the zeros of a year before 1000 on some systems.
        return f"{start.year:04d}{start.strftime(_FORMATS[self.value].removeprefix('%Y'))}"

    def parse(self, name: str) -> datetime:
        """The begin of the chunk of that name, as `label` spells it. Raises ValueError."""
        start = datetime.strptime(name, _FORMATS[self.value]).replace(tzinfo=UTC)
        if name != self.label(start):
            raise ValueError(f"{name!r} is no chunk: write {self.label(start)}")
        return start

    def range(self, name: str) -> "TimeRange":
        """The range of the chunk of that name. Raises ValueError."""
        start = self.parse(name)
        if self.is_last(start):
            raise ValueError(f"{name!r} is no chunk: the calendar ends in it")
        return TimeRange(start, self.after(start))

    def ordinal_range(self, ordinal: int) -> "TimeRange":
        """The range of a partition, as Iceberg's transforms number them from 1970 on.

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
    """The fewest and the most days that so many months of the calendar take."""
    cycles, rest = divmod(months, _CYCLE)
    firsts = [date(1600 + at // 12, at % 12 + 1, 1).toordinal() for at in range(2 * _CYCLE)]
    days = [firsts[at + rest] - firsts[at] for at in range(_CYCLE)]
    return cycles * _CYCLE_DAYS + min(days), cycles * _CYCLE_DAYS + max(days)


@dataclass(frozen=True, order=True, slots=True)
class TimeRange:
    """From an instant on, up to another one and without it; both in UTC."""

    start: datetime
    end: datetime

    def overlaps(self, other: "TimeRange") -> bool:
        """Whether both have a moment in common."""
        return self.start < other.end and other.start < self.end

    def contains(self, other: "TimeRange") -> bool:
        """Whether all of the other lies in this one."""
        return self.start <= other.start and other.end <= self.end

    def chunks(self, unit: Unit) -> Iterator[str]:
        """The names of all chunks that it reaches into. Raises OverflowError at the last one."""
        start = unit.floor(self.start)
        while start < self.end:
            after = unit.after(start)
            yield unit.label(start)
            start = after


def merged(ranges: Iterable[TimeRange]) -> list[TimeRange]:
    """The same times in as few ranges as there can be, in order."""
    joined: list[TimeRange] = []
    for span in sorted(ranges):
        if joined and span.start <= joined[-1].end:
            joined[-1] = TimeRange(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


@dataclass(frozen=True, slots=True)
class Horizon:
    """How old a chunk must be: exact time, or months of the calendar in UTC (C-30, LT-32).

    Attributes:
        text: As it is shown and stored, such as `7d`, `12h`, `3mo`.
    """

    text: str
    span: timedelta = timedelta()
    months: int = 0

    @classmethod
    def parse(cls, text: str) -> "Horizon":
        """Reads `7d`, `7 days`, `36 hours`, `2 weeks`, `3 months`, `1 year`.

        Raises:
            ValueError: It is none, zero, negative, or leaves the calendar.
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
        """The cutoff: a chunk is old enough whose range ends then or earlier."""
        try:
            return _add_months(as_of.astimezone(UTC), -self.months) - self.span
        except (ValueError, OverflowError):
            return datetime.min.replace(tzinfo=UTC)

    def reached(self, end: datetime) -> datetime:
        """The first moment, to the day, at which what ended then is so old."""
        try:
            moment = _add_months(end.astimezone(UTC), self.months) + self.span
            while self.before(moment) < end:  # a month that is too short for the day
                moment += timedelta(days=1)
        except (ValueError, OverflowError):
            return datetime.max.replace(tzinfo=UTC)
        return moment

    def __str__(self) -> str:
        return self.text

    @property
    def rough(self) -> timedelta:
        """Its length for comparing: as many months take on the shortest days of the calendar."""
        return self.span + timedelta(days=_days_of(self.months)[0])

    def is_shorter_than(self, other: "Horizon") -> bool:
        """Whether it is over before the other one is, on every day of the calendar.

        Months and days cannot be told apart on some days; then it is not (fail closed).
        """
        if bool(self.months) == bool(other.months):
            return (self.months, self.span) < (other.months, other.span)
        longest = self.span + timedelta(days=_days_of(self.months)[1])
        return longest < other.rough


def chunk_address(table: TableName, name: str) -> str:
    """A chunk's name in full: `catalog.namespace.table@2026-01-05`."""
    return f"{table}@{name}"


def parse_chunk_address(text: str) -> tuple[str, str]:
    """The table's part and the chunk's own of such a name. Raises ValueError."""
    table, at, name = text.rpartition("@")
    if not (at and table and name):
        raise ValueError(f"{text!r} is no chunk: write TABLE@RANGE, such as lake.air.t@2026-01-05")
    return table, name
