"""Time buckets of rollups: fixed durations, or months of the calendar, in UTC.

The grammar and the rollups use them. They are not `Unit`, which only has the lengths of chunks.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from meltline.domain.chunks.ranges import TimeRange, Unit, merged

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Origin from which buckets of every length are counted, as in LakeTS."""
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
    """Length of a bucket.

    Attributes:
        span: A fixed duration; zero for months.
        months: Months of the calendar; 0 for a fixed duration.
    """

    span: timedelta = timedelta()
    months: int = 0

    @classmethod
    def parse(cls, text: str) -> "BucketWidth":
        """Reads `1 hour`, `15 minutes`, `7 days`, `1 month`, and `hour` for one.

        Raises:
            ValueError: It is not a width, or is shorter than an hour and does not divide one.
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
        """Formats the width as LakeTS does."""
        units = (("month", self.months),) if self.months else _exact(self.span)
        ((word, number),) = units
        return f"{number} {word}{'s' if number > 1 else ''}"

    @property
    def partition(self) -> Unit:
        """The longest partition that buckets do not share, unless they are under an hour."""
        if self.months:
            return Unit.YEAR if self.months % 12 == 0 else Unit.MONTH
        return Unit.DAY if self.span >= _DAY else Unit.HOUR

    def floor(self, moment: datetime) -> datetime:
        """Returns the begin of a moment's bucket, no earlier than the calendar's."""
        if not self.months:
            into = (moment - ORIGIN) % self.span
            return moment - into if moment - _FIRST >= into else _FIRST
        total = moment.year * 12 + moment.month - 1
        return _month(total - (total - ORIGIN.year * 12) % self.months)

    def after(self, start: datetime) -> datetime:
        """Returns the begin of the next bucket, no later than the calendar's end.

        The first bucket may begin before the calendar, so its length is not counted from there.
        """
        if not self.months:
            left = self.span - (start - ORIGIN) % self.span
            return start + left if _LAST - start >= left else _LAST
        total = start.year * 12 + start.month - 1
        return _month(total - (total - ORIGIN.year * 12) % self.months + self.months)

    def around(self, times: TimeRange) -> TimeRange:
        """Extends a time range to whole buckets."""
        first = self.floor(times.start)
        end = self.floor(times.end)
        return TimeRange(first, end if end == times.end else self.after(end))

    def whole(self, ranges: Iterable[TimeRange]) -> list[TimeRange]:
        """Extends time ranges to whole buckets, merged."""
        return merged(self.around(times) for times in ranges)

    def count(self, ranges: Iterable[TimeRange]) -> int:
        """Counts the buckets in ranges of whole ones."""
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
    """Subtracts ranges from others; both in order and merged."""
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
    """Intersects ranges; both in order and merged."""
    return without(ranges, without(ranges, others))
