"""Buckets of time over which rollups aggregate: fixed spans, or months of the calendar, in UTC."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from meltline.domain.chunks.ranges import TimeRange, Unit, merged

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Buckets of every length are counted from here, as the source's are."""
_TEXT = re.compile(r"^\s*(\d+)?\s*([A-Za-z]+)\s*$")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_SPANS = {
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": _HOUR,
    "hour": _HOUR,
    "d": _DAY,
    "day": _DAY,
    "w": timedelta(weeks=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"mon": 1, "month": 1, "quarter": 3, "y": 12, "year": 12}
_MOST_MONTHS = 12_000


@dataclass(frozen=True, slots=True)
class BucketWidth:
    """How long a bucket is.

    Attributes:
        span: Where it is exact; zero where it is months.
        months: Of the calendar; 0 where it is exact.
    """

    span: timedelta = timedelta()
    months: int = 0

    @classmethod
    def parse(cls, text: str) -> "BucketWidth":
        """Reads `1 hour`, `15 minutes`, `7 days`, `1 month`, and `hour` for one.

        Raises:
            ValueError: It is none; or, shorter than an hour, no whole part of one.
        """
        match = _TEXT.match(text)
        number = int(match[1] or 1) if match else 0
        word = match[2].lower() if match else ""
        word = word.removesuffix("s") if len(word) > 1 else word
        if word in _MONTHS and 0 < number * _MONTHS[word] <= _MOST_MONTHS:
            return cls(months=number * _MONTHS[word])
        try:
            span = number * _SPANS.get(word, timedelta())
        except OverflowError:
            span = timedelta()
        if not span or (span < _HOUR and _HOUR % span):
            raise ValueError(
                f"{text!r} is no bucket: write 15 minutes (a whole part of an hour), 1 hour, "
                "7 days, 1 month or 1 year"
            )
        return cls(span)

    def __str__(self) -> str:
        """As the source writes it."""
        units = (("month", self.months),) if self.months else _exact(self.span)
        ((word, number),) = units
        return f"{number} {word}{'s' if number > 1 else ''}"

    @property
    def partition(self) -> Unit:
        """The longest partition that no two buckets share; shorter ones share those of hours."""
        if self.months:
            return Unit.YEAR if self.months % 12 == 0 else Unit.MONTH
        return Unit.DAY if self.span >= _DAY else Unit.HOUR

    def floor(self, moment: datetime) -> datetime:
        """When the bucket begins in which a moment lies: no earlier than the calendar does."""
        if not self.months:
            into = (moment - ORIGIN) % self.span
            return moment - into if moment - _FIRST >= into else _FIRST
        total = moment.year * 12 + moment.month - 1
        return _month(total - (total - ORIGIN.year * 12) % self.months)

    def after(self, start: datetime) -> datetime:
        """When the next bucket begins: no later than the calendar ends.

        The first bucket may begin before the calendar, so its length is not counted from there.
        """
        if not self.months:
            left = self.span - (start - ORIGIN) % self.span
            return start + left if _LAST - start >= left else _LAST
        total = start.year * 12 + start.month - 1
        return _month(total - (total - ORIGIN.year * 12) % self.months + self.months)

    def around(self, times: TimeRange) -> TimeRange:
        """The whole buckets into which some times reach."""
        first = self.floor(times.start)
        end = self.floor(times.end)
        return TimeRange(first, end if end == times.end else self.after(end))

    def whole(self, ranges: Iterable[TimeRange]) -> list[TimeRange]:
        """The whole buckets into which some ranges reach, in as few ranges as there can be."""
        return merged(self.around(times) for times in ranges)

    def count(self, ranges: Iterable[TimeRange]) -> int:
        """How many buckets there are in ranges of whole ones."""
        if not self.months:
            return sum((times.end - times.start) // self.span for times in ranges)
        months = (
            (times.end.year - times.start.year) * 12 + times.end.month - times.start.month
            for times in ranges
        )
        return sum(months) // self.months


def _exact(span: timedelta) -> tuple[tuple[str, int]]:
    for word in ("day", "hour", "minute"):
        if span % _SPANS[word] == timedelta():
            return ((word, span // _SPANS[word]),)
    return (("second", span // _SPANS["second"]),)


def _month(total: int) -> datetime:
    year, month = divmod(total, 12)
    if year < 1:
        return _FIRST
    return datetime(year, month + 1, 1, tzinfo=UTC) if year <= _LAST.year else _LAST


def without(ranges: Sequence[TimeRange], gaps: Sequence[TimeRange]) -> list[TimeRange]:
    """What is left of some ranges where others are taken away; both in order and merged."""
    remaining = []
    for times in ranges:
        start = times.start
        for gap in gaps:
            if gap.end <= start or gap.start >= times.end:
                continue
            if gap.start > start:
                remaining.append(TimeRange(start, gap.start))
            start = max(start, gap.end)
        if start < times.end:
            remaining.append(TimeRange(start, times.end))
    return remaining


def common(ranges: Sequence[TimeRange], others: Sequence[TimeRange]) -> list[TimeRange]:
    """What both have; both in order and merged."""
    return without(ranges, without(ranges, others))
