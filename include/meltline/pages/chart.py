"""Stacked columns of bytes per day, as SVG.

Stored bytes are above the zero line, deleted bytes below it. Every stage has a pattern beside its
colour, so that the chart reads without colour. Colours come from the page's style sheet, by class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from html import escape
from itertools import accumulate
from typing import NamedTuple

from meltline.domain.deletion.storage import Stage
from meltline.domain.units import format_size

STORED = (Stage.ACTIVE, Stage.HISTORICAL, Stage.RETAINED_FOR_CLONE, Stage.FAILSAFE)


def stage_name(stage: Stage) -> str:
    """Returns the stage's name for people."""
    return stage.value.replace("_", " ").capitalize()


class Band(NamedTuple):
    """One band of all columns: its class in the style sheet, and its name."""

    style: str
    name: str

    @classmethod
    def of(cls, stage: Stage) -> "Band":
        """Returns the band of a stage."""
        return cls(stage.value, stage_name(stage))


STAGES = tuple(map(Band.of, STORED))
DELETED = Band.of(Stage.DELETED)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_HEADROOM = 1.05
_LINE = 31
"""Height of a direct label: a name above a size."""
_RADIUS = 9


@dataclass(frozen=True)
class Column:
    """One day's bytes: the stored ones by band, from the bottom up, and the deleted ones."""

    day: date
    stored: tuple[int, ...]
    deleted: int = 0

    @property
    def total(self) -> int:
        """The total of stored bytes."""
        return sum(self.stored)


@dataclass(frozen=True)
class Mark:
    """A mark above a day: a run."""

    day: date
    label: str
    text: str


@dataclass(frozen=True)
class Frame:
    """The chart's size and margins, in the units of its view box, which are pixels at full size."""

    width: int
    height: int
    left: int = 62
    right: int = 8
    top: int = 26
    bottom: int = 28
    rows: int = 6
    """The maximum number of grid intervals; `dates` likewise the maximum number of dates."""
    dates: int = 8
    direct_labels: bool = False


@dataclass(frozen=True)
class _Scale:
    """Maps a day and a number of bytes to coordinates."""

    frame: Frame
    first: date
    days: int
    step: int
    above: float
    below: float

    @classmethod
    def of(cls, columns: Sequence[Column], frame: Frame) -> "_Scale":
        tallest = max(column.total for column in columns)
        deepest = max(column.deleted for column in columns)
        above, below = _HEADROOM * tallest or 1.0, _HEADROOM * deepest
        step = tick_step(int(above + below), frame.rows)
        first = min(column.day for column in columns)
        days = (max(column.day for column in columns) - first).days + 1
        return cls(frame, first, days, step, above, below)

    @property
    def day_width(self) -> float:
        return (self.frame.width - self.frame.left - self.frame.right) / self.days

    def x(self, day: date) -> float:
        return self.frame.left + (day - self.first).days * self.day_width

    def y(self, size: int) -> float:
        """Returns the distance from the top; a negative size is below the line."""
        height = self.frame.height - self.frame.top - self.frame.bottom
        return self.frame.top + height * (self.above - size) / (self.above + self.below)


def draw(
    columns: Sequence[Column],
    frame: Frame,
    *,
    id: str,
    title: str,
    description: str,
    marks: Sequence[Mark] = (),
    stack: Sequence[Band] = STAGES,
) -> str:
    """Draws one chart as an `svg` element, with a title and a description for screen readers.

    Args:
        columns: At least one day; days without a column stay empty.
        frame: The size.
        id: Unique in the page.
        title: The chart's title.
        description: The chart's content as a text.
        marks: Runs, drawn above their days.
        stack: The bands of the columns, from the bottom up.
    """
    scale = _Scale.of(columns, frame)
    parts = [
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img"'
        f' aria-labelledby="{id}-title {id}-desc">',
        f'<title id="{id}-title">{escape(title)}</title>',
        f'<desc id="{id}-desc">{escape(description)}</desc>',
        *_size_axis(scale),
        *_date_axis(scale),
        *_bands(columns, scale, stack),
        f'<path class="zero" d="M{frame.left} {scale.y(0):.1f}H{frame.width - frame.right}"/>',
        *_marked(marks, scale),
        *_hover(columns, scale, stack),
        *(_direct_labels(_last(columns), scale, stack) if frame.direct_labels else ()),
        "</svg>",
    ]
    return "".join(parts)


def tick_step(size: int, rows: int) -> int:
    """Returns the bytes between two grid lines: 1, 2 or 5 times a power of ten of a binary unit.

    Args:
        size: The size that the grid lines span.
        rows: The maximum number of intervals.
    """
    for unit in range(len(_UNITS)):
        for tens in (1, 10, 100):
            for digit in (1, 2, 5):
                step = digit * tens * int(1024**unit)
                if step * rows >= size and digit * tens < 1000:
                    return step
    return -(-size // rows)


def tick_text(size: int) -> str:
    """Returns a grid line's label: `0`, `500 KiB`, `2 MiB`, without a decimal of zero."""
    return format_size(size).replace(".0 ", " ") if size else "0"


def _size_axis(scale: _Scale) -> list[str]:
    left, right = scale.frame.left, scale.frame.width - scale.frame.right
    parts = []
    for row in range(-int(scale.below / scale.step), int(scale.above / scale.step) + 1):
        y = scale.y(row * scale.step)
        parts.append(
            f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
            f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{tick_text(abs(row) * scale.step)}</text>"
        )
    return parts


def _date_axis(scale: _Scale) -> list[str]:
    every = next(
        (days for days in (1, 2, 7, 14, 28) if scale.days / days <= scale.frame.dates),
        -(-scale.days // scale.frame.dates),
    )
    bottom = scale.frame.height - scale.frame.bottom
    parts = []
    for number in range(0, scale.days, every):
        day = scale.first + timedelta(days=number)
        x = scale.x(day) + scale.day_width / 2
        parts.append(
            f'<path class="grid" d="M{x:.1f} {bottom}v5"/>'
            f'<text class="tick" x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">'
            f"{day.day} {day:%b}</text>"
        )
    return parts


def _bands(columns: Sequence[Column], scale: _Scale, stack: Sequence[Band]) -> list[str]:
    gap = min(1.0, scale.day_width * 0.15)
    width = scale.day_width - gap

    def box(column: Column, low: int, high: int) -> str:
        if low == high:
            return ""
        x, top, bottom = scale.x(column.day) + gap / 2, scale.y(high), scale.y(low)
        return f"M{x:.1f} {top:.1f}h{width:.1f}V{bottom:.1f}h{-width:.1f}z"

    edges = [(0, *accumulate(column.stored)) for column in columns]
    outlines = {
        band: "".join(
            box(column, edge[rank], edge[rank + 1])
            for column, edge in zip(columns, edges, strict=True)
        )
        for rank, band in enumerate(stack)
    }
    outlines[DELETED] = "".join(box(column, -column.deleted, 0) for column in columns)
    return [f'<path class="stage {band.style}" d="{d}"/>' for band, d in outlines.items() if d]


def _marked(marks: Sequence[Mark], scale: _Scale) -> list[str]:
    """Draws a line for each mark, and its label unless it covers the one before."""
    top, bottom = scale.frame.top, scale.frame.height - scale.frame.bottom
    parts = []
    free = 0.0
    for mark in sorted(marks, key=lambda mark: mark.day):
        x = scale.x(mark.day) + scale.day_width / 2
        parts.append(
            f'<g class="mark"><title>{escape(mark.text)}</title>'
            f'<path d="M{x:.1f} {top - 3}V{bottom}"/>'
        )
        if x >= free:
            parts.append(
                f'<circle cx="{x:.1f}" cy="{top - 12}" r="{_RADIUS}"/>'
                f'<text x="{x:.1f}" y="{top - 8}" text-anchor="middle">{escape(mark.label)}</text>'
            )
            free = x + 2 * _RADIUS + 1
        parts.append("</g>")
    return parts


def _hover(columns: Sequence[Column], scale: _Scale, stack: Sequence[Band]) -> list[str]:
    """Draws invisible boxes, one a day, whose tooltips name the sizes."""
    top, bottom = scale.frame.top, scale.frame.height - scale.frame.bottom
    parts = []
    for column in columns:
        named = [*zip(stack, column.stored, strict=True), (DELETED, column.deleted)]
        lines = [f"{band.name}: {format_size(size)}" for band, size in named if size]
        parts.append(
            f'<rect class="hover" x="{scale.x(column.day):.1f}" y="{top}"'
            f' width="{scale.day_width:.1f}" height="{bottom - top}">'
            f"<title>{chr(10).join([f'{column.day:%d %b %Y}', *lines])}</title></rect>"
        )
    return parts


def _last(columns: Sequence[Column]) -> Column:
    return max(columns, key=lambda column: column.day)


def _direct_labels(last: Column, scale: _Scale, stack: Sequence[Band]) -> list[str]:
    """Draws names and sizes beside the last day, from the bottom up, without overlap."""
    edges = (0, *accumulate(last.stored))
    labels = [(DELETED, last.deleted, scale.y(-last.deleted // 2))]
    labels += [
        (band, last.stored[rank], scale.y((edges[rank] + edges[rank + 1]) // 2))
        for rank, band in enumerate(stack)
    ]
    x = scale.frame.width - scale.frame.right
    floor = float(scale.frame.height - scale.frame.bottom)
    parts = []
    for band, size, middle in labels:
        if not size:
            continue
        y = min(middle, floor)
        floor = y - _LINE
        parts.append(
            f'<path class="leader" d="M{x + 2} {middle:.1f}L{x + 14} {y:.1f}"/>'
            f'<text class="label" x="{x + 18}" y="{y - 2:.1f}">{band.name}'
            f'<tspan class="size" x="{x + 18}" dy="14">{format_size(size)}</tspan></text>'
        )
    return parts
