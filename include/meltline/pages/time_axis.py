"""The time axis of a table's strips: coordinates of instants, and boxes along it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from meltline.domain.chunks.ranges import TimeRange

LEFT, ROW = 44, 26
"""The left end of the axis, and the height of a row of boxes."""
CHARACTER = 8.2
"""The maximum average width of a label's character."""
_LEAST_GAP = 3.0
"""Boxes narrower than this have no gap to their neighbours."""
_DATE = 100
"""The minimum distance between dates."""
_TEXT = 44
"""The width of a date."""


class TimeAxis(NamedTuple):
    """Maps instants to coordinates."""

    first: datetime
    end: datetime
    width: int

    def x(self, moment: datetime) -> float:
        """Returns the distance from the left."""
        return LEFT + (self.width - LEFT) * ((moment - self.first) / (self.end - self.first))

    def is_narrow(self, range: TimeRange) -> bool:
        """Whether a range is too narrow for a box of its own."""
        return self.x(range.end) - self.x(range.start) <= _LEAST_GAP

    def box(self, range: TimeRange, top: int) -> str:
        """Draws a box as a part of a path."""
        left, right = self.x(range.start), self.x(range.end)
        gap = 1.5 if right - left > 2 * _LEAST_GAP else 0.0
        return f"M{left:.1f} {top}h{max(right - left - gap, 2):.1f}v{ROW}H{left:.1f}z"

    def outline(self, ranges: Sequence[TimeRange], top: int) -> str:
        """Draws a row's boxes as a path; adjacent boxes that are too narrow are merged."""
        return "".join(self.box(range, top) for range in self._merged(ranges))

    def _merged(self, ranges: Sequence[TimeRange]) -> Iterator[TimeRange]:
        begun: TimeRange | None = None
        for range in ranges:
            if begun and self.is_narrow(range) and begun.end == range.start:
                begun = TimeRange(begun.start, range.end)
                continue
            if begun:
                yield begun
            begun = range
        if begun:
            yield begun

    def dates(self, bottom: int) -> Iterator[str]:
        """Draws the first instants of some days, as many as fit."""
        most = max(1, (self.width - LEFT) // _DATE)
        days = max(1, -(-(self.end - self.first) // timedelta(days=1)))
        every = next((step for step in (1, 2, 7, 14, 28) if days / step <= most), -(-days // most))
        for number in range(0, days, every):
            day = self.first + timedelta(days=number)
            x = self.x(day)
            if number and x > self.width - _TEXT:
                return
            yield (
                f'<path class="grid" d="M{x:.1f} {bottom}v5"/>'
                f'<text class="tick" x="{x:.1f}" y="{bottom + 19}">{_tick(day, days)}</text>'
            )


def _tick(day: datetime, days: int) -> str:
    return f"{day:%b} {day.year}" if days > 366 else f"{day.day} {day:%b}"


def shown_span(first: datetime, end: datetime) -> str:
    """Formats a time range as text."""
    return f"{_shown(first)} to before {_shown(end)}"


def _shown(moment: datetime) -> str:
    moment = moment.astimezone(UTC)
    is_midnight = not (moment.hour or moment.minute)
    return f"{moment:%Y-%m-%d}" if is_midnight else f"{moment:%Y-%m-%dT%H:%M}"
