"""Draws a table's chunks as a strip along time: those in hot, and those proved in cold.

Below them are the rollups over the table, which outlive its rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.units import counted, format_size
from meltline.pages.rollup_row import HEIGHT, MEANING, RollupRow
from meltline.pages.time_axis import CHARACTER, LEFT, ROW, TimeAxis, shown_span

_WIDTHS = {"wide": 1000, "narrow": 364}
_TOP, _SPACE, _DATES, _MORE = 22, 5, 26, 20
_COLD_TOP = _TOP + ROW + _SPACE
_BOTTOM = _COLD_TOP + ROW
_MEANING: Mapping[ChunkStatus, str] = {
    ChunkStatus.DROPPED: "in cold alone",
    ChunkStatus.REOPENED: "in cold, and hot has late rows again",
    ChunkStatus.UNKNOWN: "in cold, and hot has rows: nobody can tell whether the same",
    ChunkStatus.TIERED: "in hot, and proved to be in cold",
    ChunkStatus.ACTIVE: "in hot, not proved to be in cold yet",
}


@dataclass(frozen=True)
class ChunkStrip:
    """A table's chunks; those without a time are counted, not drawn.

    Attributes:
        rollups: Some of the rollups over it; `more_rollups` is how many more there are.
    """

    table: str
    chunks: Sequence[Chunk]
    rollups: Sequence[RollupRow] = ()
    more_rollups: int = 0


@dataclass(frozen=True)
class ChunkPicture:
    """The strips of some tables, and the number of tables without one."""

    strips: Sequence[ChunkStrip] = ()
    unshown: int = 0


class DrawnStrip(NamedTuple):
    """A table's strip: its text, and the same chart at each width."""

    table: str
    words: str
    charts: Sequence[tuple[str, Markup]]


class ChunkStrips(NamedTuple):
    """All strips with their legend, and the number of tables without one."""

    legend: Sequence[tuple[str, str, str]]
    strips: Sequence[DrawnStrip]
    unshown: int
    has_rollups: bool


def drawn_strips(picture: ChunkPicture) -> ChunkStrips | None:
    """Draws the strips for a page; None if there is nothing to draw."""
    dated = [strip for strip in picture.strips if any(chunk.range for chunk in strip.chunks)]
    if not dated:
        return None
    seen = {chunk.status for strip in dated for chunk in strip.chunks if chunk.range}
    legend = [
        (f"chunk-{status}", status.value.capitalize(), meaning)
        for status, meaning in _MEANING.items()
        if status in seen
    ]
    styles = {style for strip in dated for row in strip.rollups for style in row.styles}
    legend += [
        (f"rollup-{style}", style.capitalize(), meaning)
        for style, meaning in MEANING.items()
        if style in styles
    ]
    drawn = [_drawn(number, strip) for number, strip in enumerate(dated)]
    return ChunkStrips(legend, drawn, picture.unshown, has_rollups=bool(styles))


class _Stretch(NamedTuple):
    """Adjacent chunks with one status."""

    status: ChunkStatus
    ranges: Sequence[TimeRange]
    rows: int
    bytes: int

    @property
    def words(self) -> str:
        first, end = self.ranges[0].start, self.ranges[-1].end
        of = f"{counted(self.rows, 'row')}, {format_size(self.bytes)}"
        count = counted(len(self.ranges), "chunk")
        return f"{count} {self.status}, {shown_span(first, end)}: {of}"


def _drawn(number: int, strip: ChunkStrip) -> DrawnStrip:
    dated = [(chunk.range, chunk) for chunk in strip.chunks if chunk.range]
    dated.sort(key=lambda pair: pair[0].start)
    stretches = [
        _stretch(status, list(alike))
        for status, alike in groupby(dated, key=lambda pair: pair[1].status)
    ]
    charts = [
        (name, Markup(_svg(f"chunks-{number}-{name}", strip, stretches, width)))
        for name, width in _WIDTHS.items()
    ]
    return DrawnStrip(strip.table, _words(strip.chunks), charts)


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


def _svg(id: str, strip: ChunkStrip, stretches: Sequence[_Stretch], width: int) -> str:
    """Draws one strip as an `svg` element, with a title and a text for screen readers."""
    axis = _axis(strip, stretches, width)
    bottom = _BOTTOM + len(strip.rollups) * HEIGHT + (_MORE if strip.more_rollups else 0)
    words = "; ".join([_words(strip.chunks), *(row.words for row in strip.rollups), *_more(strip)])
    parts = [
        f'<svg viewBox="0 0 {width} {bottom + _DATES}" role="img"'
        f' aria-labelledby="{id}-title {id}-desc">',
        f'<title id="{id}-title">Chunks of {escape(strip.table)}</title>',
        f'<desc id="{id}-desc">{escape(words)}</desc>',
        *(
            f'<text class="tick" x="{LEFT - 8}" y="{top + 17}" text-anchor="end">{side}</text>'
            for side, top in (("Hot", _TOP), ("Cold", _COLD_TOP))
        ),
        *(part for stretch in stretches for part in _boxes(stretch, axis)),
        *_rollups(strip, axis, bottom),
        *axis.dates(bottom),
        "</svg>",
    ]
    return "".join(parts)


def _axis(strip: ChunkStrip, stretches: Sequence[_Stretch], width: int) -> TimeAxis:
    """Builds the axis, as long as chunks and buckets together: a month may end after its days."""
    times = [range for row in strip.rollups for range in row.times]
    first, last = stretches[0].ranges[0], stretches[-1].ranges[-1]
    ends = [last.end, *(range.end for range in times)]
    return TimeAxis(min([first.start, *(range.start for range in times)]), max(ends), width)


def _rollups(strip: ChunkStrip, axis: TimeAxis, bottom: int) -> Iterator[str]:
    for place, row in enumerate(strip.rollups):
        yield from row.drawn(axis, _BOTTOM + place * HEIGHT)
    for words in _more(strip):
        yield f'<text class="tick" x="{LEFT}" y="{bottom - 5}">{words}</text>'


def _more(strip: ChunkStrip) -> Sequence[str]:
    return [f"and {counted(strip.more_rollups, 'more rollup')}"] if strip.more_rollups else []


def _boxes(stretch: _Stretch, axis: TimeAxis) -> Iterator[str]:
    """Draws a stretch in both tiers, with its label above it, and a box with a tooltip."""
    for side, top in (("hot", _TOP), ("cold", _COLD_TOP)):
        outline = axis.outline(stretch.ranges, top)
        yield f'<path class="{side}-{stretch.status}" d="{outline}"/>'
    left, right = axis.x(stretch.ranges[0].start), axis.x(stretch.ranges[-1].end)
    label = f"{len(stretch.ranges):,} {stretch.status}"
    if len(label) * CHARACTER <= right - left:
        yield f'<text class="label" x="{left:.1f}" y="{_TOP - 7}">{label}</text>'
    yield (
        f'<rect class="hover" x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}"'
        f' height="{2 * ROW + _SPACE}"><title>{escape(stretch.words)}</title></rect>'
    )
