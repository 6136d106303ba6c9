"""Draws a rollup's row in its table's strip: its buckets along time, and which are frozen.

`chunk_strip` puts these rows below a table's chunks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from itertools import groupby
from typing import NamedTuple

from meltline.domain.chunks.buckets import BucketWidth
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.units import counted
from meltline.pages.time_axis import CHARACTER, LEFT, ROW, TimeAxis, shown_span

HEIGHT = ROW + 24
"""A row with its text above it."""
_WORDS = 17
"""The distance of this text from the row above."""
_BOXES = HEIGHT - ROW
_SPACE = 2
"""The space between two parts of a label, in characters."""
_SHORTEST = 8
"""The minimum number of a name's characters that is shown before figures."""
_HOUR = timedelta(hours=1)
REFRESHED, FROZEN = "refreshed", "frozen"
MEANING = {
    REFRESHED: "buckets of a rollup, aggregated from rows in hot",
    FROZEN: "buckets of a rollup that keep their values: some of their rows have left hot",
}


@dataclass(frozen=True)
class RollupRow:
    """A rollup over a table.

    Attributes:
        refreshed: The time ranges of its buckets that are refreshed, in order.
        frozen: The time ranges of its frozen buckets.
        problem: Why it cannot be refreshed or read; empty if it can.
    """

    name: str
    width: BucketWidth
    refreshed: Sequence[TimeRange] = ()
    frozen: Sequence[TimeRange] = ()
    problem: str = ""

    @property
    def times(self) -> Sequence[TimeRange]:
        """The time ranges of all its buckets."""
        return (*self.refreshed, *self.frozen)

    @property
    def styles(self) -> Sequence[str]:
        """Which of both styles occur."""
        return [style for style, times in self._by_style.items() if times]

    @property
    def words(self) -> str:
        """Describes it for screen readers."""
        problem = f", {self.problem}" if self.problem else ""
        return f"rollup {self.name}: {self.count}{problem}"

    @property
    def count(self) -> str:
        """The number of its buckets, and of its frozen ones."""
        # Only the hours of such buckets are known, not which buckets exist.
        is_part = not self.width.months and self.width.span < _HOUR
        frozen = self.width.count(self.frozen)
        buckets = counted(self.width.count(self.times), "bucket")
        return f"{'up to ' * is_part}{buckets}{f', {frozen:,} frozen' * bool(frozen)}"

    @property
    def _by_style(self) -> dict[str, Sequence[TimeRange]]:
        return {REFRESHED: self.refreshed, FROZEN: self.frozen}

    def drawn(self, axis: TimeAxis, top: int) -> Iterator[str]:
        """Draws the row as parts of an `svg` element."""
        yield self._label(axis, top + _WORDS)
        top += _BOXES
        yield f'<text class="tick" x="{LEFT - 8}" y="{top + 17}" text-anchor="end">Rollup</text>'
        for style, times in self._by_style.items():
            if boxes := [box for span in times for box in _buckets(span, self.width, axis)]:
                yield f'<path class="rollup-{style}" d="{axis.outline(boxes, top)}"/>'
        for stretch in self._stretches():
            left, right = axis.x(stretch.times[0].start), axis.x(stretch.times[-1].end)
            yield (
                f'<rect class="hover" x="{left:.1f}" y="{top}" width="{right - left:.1f}"'
                f' height="{ROW}"><title>{escape(stretch.words(self))}</title></rect>'
            )

    def _label(self, axis: TimeAxis, y: int) -> str:
        """Draws its name, with the figures that fit beside it; the tooltip has the full text."""
        letters = int((axis.width - LEFT) / CHARACTER)
        spans = ""
        for style, words in (("wrong", "not refreshed" * bool(self.problem)), ("size", self.count)):
            if words and letters - len(words) - _SPACE >= _SHORTEST:
                letters -= len(words) + _SPACE
                spans += f'<tspan class="{style}" dx="8">{words}</tspan>'
        name = self.name if len(self.name) <= letters else f"{self.name[: letters - 1]}…"
        title = f"<title>{escape(self.words)}</title>"
        return f'<text class="label" x="{LEFT}" y="{y}">{title}{escape(name)}{spans}</text>'

    def _stretches(self) -> Iterator["_BucketRange"]:
        dated = sorted((span, style) for style, times in self._by_style.items() for span in times)
        for style, alike in groupby(dated, key=lambda pair: pair[1]):
            yield _BucketRange(style, [span for span, _ in alike])


class _BucketRange(NamedTuple):
    """Adjacent buckets with one style."""

    style: str
    times: Sequence[TimeRange]

    def words(self, row: RollupRow) -> str:
        """Returns its tooltip."""
        buckets = counted(row.width.count(self.times), "bucket")
        span = shown_span(self.times[0].start, self.times[-1].end)
        return f"{row.name}: {buckets} of {row.width} {self.style}, {span}"


def _buckets(times: TimeRange, width: BucketWidth, axis: TimeAxis) -> Iterator[TimeRange]:
    """Yields each bucket if it is wide enough for a box, else all of them as one."""
    start = times.start
    if axis.is_narrow(TimeRange(start, width.after(start))):
        yield times
        return
    while start < times.end:
        after = width.after(start)
        yield TimeRange(start, after)
        start = after
