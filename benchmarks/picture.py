"""The ratios as a picture: one SVG file, complete in itself; the longer a bar, the faster."""

import math
from collections.abc import Sequence
from html import escape

from benchmarks.results import Figure, number

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 1000, 340, 220, 64, 30
_VALUES = 150
"""How far from the right edge the measured numbers end."""

_LEAST, _STEPS = 0.1, (0.1, 1, 10, 100)

_STYLE = """
text{font:13px system-ui,sans-serif;fill:#26303b}
.title{font-size:18px;font-weight:600}.soft{fill:#5d6975}.value{font-weight:600}
.ground{fill:#fff}.grid{stroke:#d9dfe4}.even{stroke:#26303b;stroke-width:1.5}
.met{fill:#1f7a8c}.missed{fill:#c8553d}.open{fill:#9aa5b1}
.goal{stroke:#26303b;stroke-width:2.5}
@media(prefers-color-scheme:dark){text{fill:#e3e8ed}.soft{fill:#9aa5b1}.ground{fill:#161b21}
.grid{stroke:#323b45}.even,.goal{stroke:#e3e8ed}}
"""


def draw(figures: Sequence[Figure]) -> str:
    """An SVG of all figures that are ratios to Iceberg's time; a mark where the goal is.

    Whether a goal is met is also written, so that nobody needs to tell the colours apart.
    """
    shown = [figure for figure in figures if figure.unit == "x" and not figure.at_most]
    top = max([100.0, *(figure.value for figure in shown), *(f.goal or 0 for f in shown)])
    height = _TOP + _ROW * len(shown) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        ' aria-labelledby="title desc">',
        f"<style>{_STYLE}</style>",
        '<title id="title">Meltline beside Iceberg: how many times as fast</title>',
        f'<desc id="desc">{escape(_told(shown))}</desc>',
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        '<text class="title" x="16" y="28">'
        "How many times as fast as Iceberg's own procedures</text>",
        '<text class="soft" x="16" y="48">the same files deleted;'
        " in one warm session, but for the whole process;"
        " a bar across marks the goal; logarithmic</text>",
        *(_grid(step, top, height) for step in _STEPS if step <= top),
    ]
    for row, figure in enumerate(shown):
        parts += _bar(figure, _TOP + row * _ROW, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _told(figures: Sequence[Figure]) -> str:
    lines = [
        f"{figure.name}: {number(figure.value, 'times')}"
        + (f", goal {number(figure.goal, 'times')}" if figure.goal else "")
        for figure in figures
    ]
    return "; ".join(lines) or "no ratios"


def _x(value: float, top: float) -> float:
    share = math.log(max(value, _LEAST) / _LEAST) / math.log(top / _LEAST)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _grid(step: float, top: float, height: int) -> str:
    x, bottom = _x(step, top), height - 34
    return (
        f'<path class="{"even" if step == 1 else "grid"}" d="M{x:.1f} {_TOP - 4}V{bottom}"/>'
        f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{step:g}x</text>'
    )


def _bar(figure: Figure, y: int, top: float) -> list[str]:
    start, end = sorted((_x(1, top), _x(figure.value, top)))
    kind = {True: "met", False: "missed", None: "open"}[figure.met]
    said = {True: "met", False: "missed", None: ""}[figure.met]
    goal = f"goal {figure.goal:g}x: {said}" if figure.goal is not None else ""
    parts = [
        f"<g><title>{escape(figure.name)}: {number(figure.value, '')}x {escape(goal)}</title>",
        f'<text x="{_LEFT - 12}" y="{y + 17}" text-anchor="end">{escape(figure.name)}</text>',
        f'<rect class="{kind}" x="{start:.1f}" y="{y + 5}" width="{max(end - start, 1):.1f}"'
        f' height="{_ROW - 13}" rx="2"/>',
        f'<text class="value" x="{_WIDTH - _VALUES}" y="{y + 17}" text-anchor="end">'
        f"{number(figure.value, '')}x</text>",
        f'<text class="soft" x="{_WIDTH - 16}" y="{y + 17}" text-anchor="end">'
        f"{escape(goal)}</text>",
    ]
    if figure.goal is not None:
        x = _x(figure.goal, top)
        parts.append(f'<path class="goal" d="M{x:.1f} {y + 1}V{y + _ROW - 4}"/>')
    return [*parts, "</g>"]
