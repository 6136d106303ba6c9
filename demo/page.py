"""The demo's picture: one HTML file, complete in itself, of storage by stage over the days."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from html import escape
from pathlib import Path

from demo.chart import STORED, Column, Frame, Mark, draw, stage_name
from meltline.domain.deletion.storage import Stage
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant, format_size

_WIDE = Frame(1000, 400, right=128, rows=10, direct_labels=True)
_NARROW = Frame(364, 300, left=56, right=4, rows=8, dates=5)
_SMALL = Frame(320, 170, left=56, right=4, top=8, rows=6, dates=4)
_MOST_NUMBERED = 12
"""More runs than this would print their numbers over one another."""

_MEANING = {
    Stage.ACTIVE: "in the current state of a table",
    Stage.HISTORICAL: "only in snapshots that are kept",
    Stage.RETAINED_FOR_CLONE: "kept because a clone needs it",
    Stage.FAILSAFE: "needed by nothing, awaiting deletion",
    Stage.DELETED: "purged so far, below the line",
}

# A pattern beside each colour, for those who tell colours apart badly, and for paper.
_PATTERNS = """<svg class="patterns" aria-hidden="true"><defs>
<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">
<rect class="on-clone" width="6" height="6"/><circle class="dot" cx="3" cy="3" r="1.1"/></pattern>
<pattern id="stripes" width="5" height="5" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect class="on-failsafe" width="5" height="5"/>
<path class="stripe" d="M0 0V5"/></pattern>
<pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse"
 patternTransform="rotate(-45)"><path class="hatch" d="M0 0V4"/></pattern>
</defs></svg>"""

_NEXT = (
    "<code>meltline show plan last --items</code> lists what the last plan was about, "
    "<code>meltline explain TABLE</code> says why each snapshot is kept, "
    "<code>meltline storage --by table</code> gives these numbers as of now, and "
    "<code>make up</code> opens Airflow with every step of the runs and their Data Docs."
)


@dataclass(frozen=True)
class DayOfStorage:
    """One table's bytes by stage at the end of a day; `deleted` is all that was purged so far."""

    day: date
    table: str
    active: int
    historical: int
    retained_for_clone: int
    failsafe: int
    deleted: int


@dataclass(frozen=True)
class RunFacts:
    """What one run of the lifecycle did; `as_of` is its logical date."""

    as_of: datetime
    snapshots_expired: int
    files_departed: int
    files_purged: int
    bytes_purged: int
    gates_passed: int
    gates_refused: int


def render_page(
    days: Sequence[DayOfStorage], tables: Sequence[str], summary: Sequence[RunFacts]
) -> str:
    """The page as HTML: no script, no asset, nothing from a network.

    Args:
        days: A row per table and day, in any order.
        tables: The tables to show, in the order in which to show them.
        summary: The runs, first one first.

    Raises:
        UsageInvalid: None of the days is of one of the tables.
    """
    shown = [row for row in days if row.table in tables]
    if not shown:
        raise UsageInvalid(
            "there is nothing to draw",
            object=", ".join(tables),
            expected="at least one day of one table",
            found=f"{len(days)} days of other tables",
            next="run the lifecycle first",
        )
    everything = _columns(shown)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    body = (
        _head(everything, tables, summary),
        _legend(everything),
        _main_chart(everything, summary),
        _table_charts(shown, tables),
        _last_day(shown, tables),
        _runs(summary),
        f'<p class="next soft"><strong>Where to look next:</strong> {_NEXT}</p>',
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Meltline: storage by stage</title><style>\n{style}</style></head>\n<body>"
        f"{_PATTERNS}\n{chr(10).join(body)}\n</body></html>\n"
    )


def _columns(rows: Iterable[DayOfStorage]) -> list[Column]:
    """The rows added up by day, oldest first."""
    sums: dict[date, list[int]] = {}
    for row in rows:
        sizes = (row.active, row.historical, row.retained_for_clone, row.failsafe, row.deleted)
        day = sums.setdefault(row.day, [0] * len(sizes))
        sums[row.day] = [one + other for one, other in zip(day, sizes, strict=True)]
    return [Column(day, (a, h, c, f), gone) for day, (a, h, c, f, gone) in sorted(sums.items())]


def _head(columns: Sequence[Column], tables: Sequence[str], runs: Sequence[RunFacts]) -> str:
    first, last = columns[0], columns[-1]
    peak = max(columns, key=lambda column: column.total)
    facts = {
        f"stored on {last.day:%-d %b}": format_size(last.total),
        f"at the peak, {peak.day:%-d %b}": format_size(peak.total),
        "purged so far": format_size(last.deleted),
        "snapshots expired": f"{sum(run.snapshots_expired for run in runs):,}",
        "files purged": f"{sum(run.files_purged for run in runs):,}",
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return (
        "<header><h1>What melted, and when</h1>"
        f'<p class="soft">Storage by stage of {_count(len(tables), "table")}, '
        f"{first.day:%-d %B %Y} to {last.day:%-d %B %Y}, after "
        f'{_count(len(runs), "run")} of the lifecycle.</p><dl class="facts">{items}</dl></header>'
    )


def _legend(columns: Sequence[Column]) -> str:
    """The stages that occur; a stage without a byte would only ask to be searched for."""
    seen = {
        stage
        for column in columns
        for stage, size in zip(Stage, (*column.stored, column.deleted), strict=True)
        if size
    }
    items = "".join(
        f'<li><svg viewBox="0 0 18 14" aria-hidden="true">'
        f'<rect class="{stage.value}" width="18" height="14"/></svg>'
        f"{stage_name(stage)} <span>{_MEANING[stage]}</span></li>"
        for stage in Stage
        if stage in seen
    )
    return f'<ul class="legend">{items}</ul>'


def _main_chart(columns: Sequence[Column], runs: Sequence[RunFacts]) -> str:
    first, last = columns[0].day, columns[-1].day
    marks = [
        Mark(
            run.as_of.date(),
            str(number),
            f"Run {number}, as of {format_instant(run.as_of)}: {run.snapshots_expired} snapshots"
            f" expired, {run.files_purged} files purged",
        )
        for number, run in enumerate(runs, start=1)
        if len(runs) <= _MOST_NUMBERED and first <= run.as_of.date() <= last
    ]
    return (
        "<figure>"
        + "".join(
            f'<div class="{name}">'
            + draw(
                columns,
                frame,
                id=f"all-{name}",
                title="Bytes by stage per day, all tables",
                description=_described(columns),
                marks=marks,
            )
            + "</div>"
            for name, frame in (("wide", _WIDE), ("narrow", _NARROW))
        )
        + "</figure>"
    )


def _table_charts(days: Sequence[DayOfStorage], tables: Sequence[str]) -> str:
    figures = []
    for number, table in enumerate(tables):
        columns = _columns(row for row in days if row.table == table)
        if not columns:
            continue
        chart = draw(
            columns,
            _SMALL,
            id=f"table-{number}",
            title=f"Bytes by stage per day, {table}",
            description=_described(columns),
        )
        figures.append(
            f"<figure><figcaption><h3>{escape(table)}</h3>"
            f"<span>{format_size(columns[-1].total)}</span></figcaption>{chart}</figure>"
        )
    return (
        f'<h2>Table by table, each on its own scale</h2><div class="each">{"".join(figures)}</div>'
    )


def _described(columns: Sequence[Column]) -> str:
    last = columns[-1]
    stages = [*zip(STORED, last.stored, strict=True), (Stage.DELETED, last.deleted)]
    sizes = ", ".join(f"{stage_name(s).lower()} {format_size(size)}" for s, size in stages if size)
    return f"{len(columns)} days. On the last, {last.day:%-d %B %Y}: {sizes or 'nothing stored'}."


def _last_day(days: Sequence[DayOfStorage], tables: Sequence[str]) -> str:
    """Every table on its own last day, which is the chart's unless it was dropped before."""
    names = [*(stage_name(stage) for stage in STORED), "Stored", stage_name(Stage.DELETED)]

    def row(title: str, column: Column) -> str:
        sizes = (*column.stored, column.total, column.deleted)
        cells = "".join(_cell(name, size) for name, size in zip(names, sizes, strict=True))
        return f'<tr><th scope="row">{escape(title)}</th>{cells}</tr>'

    last = max(row.day for row in days)
    today = [row for row in days if row.day == last]
    rows = "".join(
        row(table, columns[0])
        for table in tables
        if (columns := _columns(row for row in today if row.table == table))
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Table", *names))
    return (
        f'<h2>On the last day, {last:%-d %B %Y}</h2><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        f"<tfoot>{row('All tables', _columns(today)[0])}</tfoot></table></div>"
    )


def _runs(runs: Sequence[RunFacts]) -> str:
    names = (
        "Snapshots expired",
        "Files departed",
        "Files purged",
        "Bytes purged",
        "Gates passed",
        "Gates refused",
    )
    rows = []
    for number, run in enumerate(runs, start=1):
        counts = (run.snapshots_expired, run.files_departed, run.files_purged)
        cells = [
            *(_count_cell(name, count) for name, count in zip(names, counts, strict=False)),
            _cell(names[3], run.bytes_purged),
            _count_cell(names[4], run.gates_passed),
            _count_cell(names[5], run.gates_refused, "refused"),
        ]
        moment = f"{number}&ensp;{format_instant(run.as_of)}"
        rows.append(f'<tr><th scope="row">{moment}</th>{"".join(cells)}</tr>')
    if not rows:
        return '<h2>What the runs did</h2><p class="soft">There was no run yet.</p>'
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Run, as of", *names))
    return (
        '<h2>What the runs did</h2><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(name: str, size: int) -> str:
    return _td(name, format_size(size), "" if size else "none")


def _count_cell(name: str, count: int, style: str = "") -> str:
    return _td(name, f"{count:,}", style if count else "none")


def _td(name: str, text: str, style: str) -> str:
    marked = f' class="{style}"' if style else ""
    return f'<td{marked} data-label="{name}">{text}</td>'


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
