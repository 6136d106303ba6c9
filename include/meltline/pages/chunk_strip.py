"""A table's chunks as a strip: along time, which of them hot has, and which are proved in cold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.units import counted, format_size

_WIDTHS = {"wide": 1000, "narrow": 364}
_LEFT, _TOP, _ROW, _SPACE = 44, 22, 26, 5
_HEIGHT = _TOP + 2 * _ROW + _SPACE + 26
_COLD_TOP = _TOP + _ROW + _SPACE
_LEAST_GAP = 3.0
"""Chunks that are narrower than this are not set apart from their neighbours."""
_CHARACTER = 8.2
"""As wide as a letter of a label is at most, on the whole."""
_DATE = 100
"""So much room a date needs on the axis."""
_MEANING: Mapping[ChunkStatus, str] = {
    ChunkStatus.DROPPED: "in cold alone",
    ChunkStatus.REOPENED: "in cold, and hot has late rows again",
    ChunkStatus.TIERED: "in hot, and proved to be in cold",
    ChunkStatus.ACTIVE: "in hot, not proved to be in cold yet",
}


@dataclass(frozen=True)
class ChunkStrip:
    """A table's chunks; those without a time are counted, not drawn."""

    table: str
    chunks: Sequence[Chunk]


@dataclass(frozen=True)
class ChunkPicture:
    """What is drawn of chunks: a strip for some tables, and how many more there are."""

    strips: Sequence[ChunkStrip] = ()
    unshown: int = 0


class DrawnStrip(NamedTuple):
    """A table's strip: its words, and the same picture at each width."""

    table: str
    words: str
    charts: Sequence[tuple[str, Markup]]


class ChunkStrips(NamedTuple):
    """All strips with what their styles mean, and how many tables have none here."""

    legend: Sequence[tuple[str, str, str]]
    strips: Sequence[DrawnStrip]
    unshown: int


def drawn_strips(picture: ChunkPicture) -> ChunkStrips | None:
    """The strips as they stand in a page; None where there is nothing to draw."""
    dated = [strip for strip in picture.strips if any(chunk.range for chunk in strip.chunks)]
    if not dated:
        return None
    seen = {chunk.status for strip in dated for chunk in strip.chunks if chunk.range}
    legend = [
        (f"chunk-{status}", status.value.capitalize(), meaning)
        for status, meaning in _MEANING.items()
        if status in seen
    ]
    drawn = [_drawn(number, strip) for number, strip in enumerate(dated)]
    return ChunkStrips(legend, drawn, picture.unshown)


class _Stretch(NamedTuple):
    """Neighbours of one status."""

    status: ChunkStatus
    ranges: Sequence[TimeRange]
    rows: int
    bytes: int

    @property
    def words(self) -> str:
        first, end = self.ranges[0].start, self.ranges[-1].end
        of = f"{counted(self.rows, 'row')}, {format_size(self.bytes)}"
        count = counted(len(self.ranges), "chunk")
        return f"{count} {self.status}, {_shown(first)} to before {_shown(end)}: {of}"


def _drawn(number: int, strip: ChunkStrip) -> DrawnStrip:
    dated = [(chunk.range, chunk) for chunk in strip.chunks if chunk.range]
    dated.sort(key=lambda pair: pair[0].start)
    stretches = [
        _stretch(status, list(alike))
        for status, alike in groupby(dated, key=lambda pair: pair[1].status)
    ]
    words = _words(strip.chunks)
    charts = [
        (name, Markup(_svg(f"chunks-{number}-{name}", strip.table, words, stretches, width)))
        for name, width in _WIDTHS.items()
    ]
    return DrawnStrip(strip.table, words, charts)


def _stretch(status: ChunkStatus, alike: Sequence[tuple[TimeRange, Chunk]]) -> _Stretch:
    is_dropped = status is ChunkStatus.DROPPED
    return _Stretch(
        status,
        [range for range, _ in alike],
        sum(c.dropped_rows if is_dropped else c.rows for _, c in alike),
        sum(c.dropped_bytes if is_dropped else c.bytes for _, c in alike),
    )


def _words(chunks: Sequence[Chunk]) -> str:
    counts = {
        status: sum(chunk.status is status for chunk in chunks if chunk.range)
        for status in _MEANING
    }
    parts = [f"{count:,} {status}" for status, count in counts.items() if count]
    parts += [f"{chunk.name}: {format_size(chunk.bytes)}" for chunk in chunks if not chunk.range]
    return ", ".join(parts)


def _svg(id: str, table: str, words: str, stretches: Sequence[_Stretch], width: int) -> str:
    """One strip as an `svg` element, with a title and words for those who cannot see it."""
    axis = _Axis(stretches[0].ranges[0].start, stretches[-1].ranges[-1].end, width)
    parts = [
        f'<svg viewBox="0 0 {width} {_HEIGHT}" role="img" aria-labelledby="{id}-title {id}-desc">',
        f'<title id="{id}-title">Chunks of {escape(table)}</title>',
        f'<desc id="{id}-desc">{escape(words)}</desc>',
        *(
            f'<text class="tick" x="{_LEFT - 8}" y="{top + 17}" text-anchor="end">{side}</text>'
            for side, top in (("Hot", _TOP), ("Cold", _COLD_TOP))
        ),
        *(part for stretch in stretches for part in _boxes(stretch, axis)),
        *axis.dates(),
        "</svg>",
    ]
    return "".join(parts)


def _boxes(stretch: _Stretch, axis: "_Axis") -> Iterator[str]:
    """A stretch on both sides, its label above it, and a box that names it to who points at it."""
    for side, top in (("hot", _TOP), ("cold", _COLD_TOP)):
        outline = "".join(axis.box(range, top) for range in axis.merged(stretch.ranges))
        yield f'<path class="{side}-{stretch.status}" d="{outline}"/>'
    left, right = axis.x(stretch.ranges[0].start), axis.x(stretch.ranges[-1].end)
    label = f"{len(stretch.ranges):,} {stretch.status}"
    if len(label) * _CHARACTER <= right - left:
        yield f'<text class="label" x="{left:.1f}" y="{_TOP - 7}">{label}</text>'
    yield (
        f'<rect class="hover" x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}"'
        f' height="{2 * _ROW + _SPACE}"><title>{escape(stretch.words)}</title></rect>'
    )


class _Axis(NamedTuple):
    """Where an instant lies."""

    first: datetime
    end: datetime
    width: int

    def x(self, moment: datetime) -> float:
        return _LEFT + (self.width - _LEFT) * ((moment - self.first) / (self.end - self.first))

    def box(self, range: TimeRange, top: int) -> str:
        left, right = self.x(range.start), self.x(range.end)
        gap = 1.5 if right - left > 2 * _LEAST_GAP else 0.0
        return f"M{left:.1f} {top}h{max(right - left - gap, 2):.1f}v{_ROW}H{left:.1f}z"

    def merged(self, ranges: Sequence[TimeRange]) -> Iterator[TimeRange]:
        """Boxes as they are drawn: those too narrow to be told apart as one."""
        begun: TimeRange | None = None
        for range in ranges:
            is_narrow = self.x(range.end) - self.x(range.start) <= _LEAST_GAP
            if begun and is_narrow and begun.end == range.start:
                begun = TimeRange(begun.start, range.end)
                continue
            if begun:
                yield begun
            begun = range
        if begun:
            yield begun

    def dates(self) -> Iterator[str]:
        """The begin of some days, as many as there is room for."""
        most = max(1, (self.width - _LEFT) // _DATE)
        days = max(1, -(-(self.end - self.first) // timedelta(days=1)))
        every = next((step for step in (1, 2, 7, 14, 28) if days / step <= most), -(-days // most))
        bottom = _COLD_TOP + _ROW
        for number in range(0, days, every):
            day = self.first + timedelta(days=number)
            x = self.x(day)
            yield (
                f'<path class="grid" d="M{x:.1f} {bottom}v5"/>'
                f'<text class="tick" x="{x:.1f}" y="{bottom + 19}">{_tick(day, days)}</text>'
            )


def _tick(day: datetime, days: int) -> str:
    return f"{day:%b} {day.year}" if days > 366 else f"{day.day} {day:%b}"


def _shown(moment: datetime) -> str:
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%d}" if not moment.hour else f"{moment:%Y-%m-%dT%H:%M}"
