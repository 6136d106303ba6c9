"""The storage page: bytes by stage over the days, the runs' results and coming deletions.

`lake_picture` collects its data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from meltline.domain.deletion.plan import PlanKind, PlanState, PlanTotals
from meltline.domain.deletion.storage import Stage, StorageRow
from meltline.domain.errors import UsageInvalid
from meltline.domain.grouping import grouped
from meltline.domain.units import format_instant, format_size
from meltline.pages.chart import STORED, Band, Column, Frame, Mark, draw, stage_name
from meltline.pages.chunk_strip import ChunkPicture, drawn_strips
from meltline.pages.rendering import render

_WIDE = Frame(1000, 400, right=128, rows=10, direct_labels=True)
_NARROW = Frame(364, 300, left=56, right=4, rows=8, dates=5)
_SMALL = Frame(320, 170, left=56, right=4, top=8, rows=6, dates=4)
_LOW = Frame(1000, 170, top=8, rows=4)
_MOST_NUMBERED = 12
"""With more runs their numbers would overlap."""
_MOST_CHARTS = 24
_MOST_ROWS = 500

_MEANING = {
    Stage.ACTIVE: "in the current state of a table",
    Stage.HISTORICAL: "only in snapshots that are kept",
    Stage.RETAINED_FOR_CLONE: "kept because a clone needs it",
    Stage.FAILSAFE: "needed by nothing, awaiting deletion",
    Stage.DELETED: "purged so far, below the line",
}
_PASSED = {PlanState.PASSED, PlanState.APPLYING, PlanState.APPLIED, PlanState.FAILED}
_ARCHIVE = (Band("cold", "Cold"), Band("deep", "Permanent store"))
_DUE = (Band(Stage.FAILSAFE.value, "Due"),)


@dataclass(frozen=True)
class DayOfStorage:
    """One table's bytes by stage at the end of a day; `deleted` is the total purged so far.

    `cold` and `deep` are the bytes of its copies in the archive and in the permanent store.
    """

    day: date
    table: str
    active: int
    historical: int
    retained_for_clone: int
    failsafe: int
    deleted: int
    cold: int = 0
    deep: int = 0

    @classmethod
    def of(cls, day: date, row: StorageRow) -> "DayOfStorage":
        """Creates it from a row of the ledger for a day."""
        return cls(
            day=day,
            table=str(row.table),
            active=row.active_bytes,
            historical=row.historical_bytes,
            retained_for_clone=row.retained_for_clone_bytes,
            failsafe=row.failsafe_bytes,
            deleted=row.deleted_bytes,
            cold=row.cold_bytes,
            deep=row.deep_bytes,
        )

    @property
    def stored(self) -> tuple[int, int, int, int]:
        """The bytes by stage, in the order of `STORED`."""
        return self.active, self.historical, self.retained_for_clone, self.failsafe


@dataclass(frozen=True)
class RunFacts:
    """The result of one lifecycle run; `as_of` is its logical date."""

    as_of: datetime
    snapshots_expired: int
    files_departed: int
    files_purged: int
    bytes_purged: int
    gates_passed: int
    gates_refused: int

    @classmethod
    def of(cls, as_of: datetime, totals: Sequence[PlanTotals]) -> "RunFacts":
        """Counts a run's results from its plans' totals, by state."""
        done = [total for total in totals if total.state is PlanState.APPLIED]
        expired = [total for total in done if total.kind is PlanKind.EXPIRE]
        purged = [total for total in done if total.kind is PlanKind.PURGE]
        return cls(
            as_of=as_of,
            snapshots_expired=sum(total.snapshots for total in expired),
            files_departed=sum(total.files for total in expired),
            files_purged=sum(total.files for total in purged),
            bytes_purged=sum(total.bytes for total in purged),
            gates_passed=sum(total.plans for total in totals if total.state in _PASSED),
            gates_refused=sum(t.plans for t in totals if t.state is PlanState.REFUSED),
        )


@dataclass(frozen=True)
class StoragePicture:
    """The data of the page.

    Attributes:
        days: A row per table and day, in any order.
        tables: The tables to show, in their order.
        runs: The oldest first.
        coming: Bytes that are due for deletion, by day, for the days ahead; empty: not requested.
        notes: Remarks beside the figures.
        chunks: The chunks of chunked tables.
    """

    days: Sequence[DayOfStorage]
    tables: Sequence[str]
    runs: Sequence[RunFacts] = ()
    coming: Mapping[date, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    chunks: ChunkPicture = field(default_factory=ChunkPicture)


def storage_page(
    picture: StoragePicture, *, root: str | None = None, next_steps: Sequence[Sequence[str]] = ()
) -> str:
    """Renders the page.

    Args:
        picture: The data.
        root: The path prefix of the site; None makes a self-contained file.
        next_steps: Commands to type, each with its description.

    Raises:
        UsageInvalid: No day has any of the tables.
    """
    shown = [row for row in picture.days if row.table in frozenset(picture.tables)]
    if not shown:
        raise UsageInvalid(
            "there is nothing to draw",
            object=", ".join(picture.tables),
            expected="at least one day of one table",
            found=f"{len(picture.days)} days of other tables",
            next="run the lifecycle first",
        )
    columns = _columns(shown)
    last = [row for row in shown if row.day == columns[-1].day]
    largest = _largest(shown, picture.tables)
    return render(
        "storage.html",
        root=root,
        facts=_facts(columns, last, picture),
        first=columns[0],
        last=columns[-1],
        tables=len(picture.tables),
        runs=picture.runs,
        notes=picture.notes,
        legend=_legend(columns),
        main=_main_charts(columns, picture.runs),
        archive=_archive_chart(shown),
        coming=_coming(picture.coming),
        chunks=drawn_strips(picture.chunks),
        charts=[_table_chart(n, name, shown) for n, name in enumerate(largest[:_MOST_CHARTS])],
        table=_last_day(last, [name for name in picture.tables if name in largest[:_MOST_ROWS]]),
        unshown=max(0, len(largest) - _MOST_CHARTS),
        next_steps=next_steps,
    )


def _columns(rows: Iterable[DayOfStorage]) -> list[Column]:
    """Sums the rows by day, oldest first."""
    return _added_up((row.day, (*row.stored, row.deleted)) for row in rows)


def _added_up(rows: Iterable[tuple[date, tuple[int, ...]]], below: int = 1) -> list[Column]:
    """Sums sizes by day, oldest first; the last `below` sizes are drawn below the line."""
    sums: dict[date, tuple[int, ...]] = {}
    for day, sizes in rows:
        before = sums.get(day, (0,) * len(sizes))
        sums[day] = tuple(map(sum, zip(before, sizes, strict=True)))
    return [
        Column(day, sizes[: len(sizes) - below], sum(sizes[len(sizes) - below :]))
        for day, sizes in sorted(sums.items())
    ]


def _largest(rows: Iterable[DayOfStorage], tables: Sequence[str]) -> list[str]:
    """Returns the tables, by the maximum that they ever stored."""
    most: dict[str, int] = {}
    for row in rows:
        most[row.table] = max(most.get(row.table, 0), sum(row.stored))
    if len(most) <= _MOST_CHARTS:
        return [name for name in tables if name in most]
    return sorted(most, key=lambda name: (-most[name], name))


def _facts(
    columns: Sequence[Column], last: Sequence[DayOfStorage], picture: StoragePicture
) -> dict[str, str]:
    today, peak = columns[-1], max(columns, key=lambda column: column.total)
    archived = sum(row.cold + row.deep for row in last)
    facts = {
        f"stored on {today.day:%-d %b}": format_size(today.total),
        f"at the peak, {peak.day:%-d %b}": format_size(peak.total),
        "purged so far": format_size(today.deleted),
        "snapshots expired": f"{sum(run.snapshots_expired for run in picture.runs):,}",
        "files purged": f"{sum(run.files_purged for run in picture.runs):,}",
    }
    if archived:
        facts["in the archive"] = format_size(archived)
    if picture.coming:
        facts[f"due within {len(picture.coming)} days"] = format_size(sum(picture.coming.values()))
    return facts


def _legend(columns: Sequence[Column]) -> list[tuple[str, str, str]]:
    """Returns the legend of the stages that occur; others would only confuse."""
    seen = {
        stage
        for column in columns
        for stage, size in zip(Stage, (*column.stored, column.deleted), strict=True)
        if size
    }
    return [(s.value, stage_name(s), _MEANING[s]) for s in Stage if s in seen]


def _main_charts(columns: Sequence[Column], runs: Sequence[RunFacts]) -> list[tuple[str, Markup]]:
    """Draws the same chart at two widths; the style sheet shows one."""
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
    title, description = "Bytes by stage per day, all tables", _described(columns)
    return [
        (name, _drawn(columns, frame, f"all-{name}", title, description, marks=marks))
        for name, frame in (("wide", _WIDE), ("narrow", _NARROW))
    ]


class TableChart(NamedTuple):
    """One table's chart."""

    name: str
    size: int
    chart: Markup


def _table_chart(number: int, table: str, days: Iterable[DayOfStorage]) -> TableChart:
    columns = _columns(row for row in days if row.table == table)
    title = f"Bytes by stage per day, {table}"
    chart = _drawn(columns, _SMALL, f"table-{number}", title, _described(columns))
    return TableChart(table, columns[-1].total, chart)


def _archive_chart(rows: Sequence[DayOfStorage]) -> Markup | None:
    """Draws the bytes in the archive; None if there never were any."""
    if not any(row.cold or row.deep for row in rows):
        return None
    columns = _added_up(((row.day, (row.cold, row.deep)) for row in rows), below=0)
    last = columns[-1]
    sizes = ", ".join(
        f"{band.name.lower()} {format_size(size)}"
        for band, size in zip(_ARCHIVE, last.stored, strict=True)
        if size
    )
    described = f"On the last day, {last.day:%-d %B %Y}: {sizes or 'nothing'}."
    return _drawn(columns, _LOW, "archive", "Bytes in the archive", described, stack=_ARCHIVE)


class ComingDeletions(NamedTuple):
    """Coming deletions: how many bytes in how many days, and their chart if there are any."""

    days: int
    bytes: int
    chart: Markup | None


def _coming(coming: Mapping[date, int]) -> ComingDeletions | None:
    if not coming:
        return None
    columns = [Column(day, (size,)) for day, size in sorted(coming.items())]
    total = sum(coming.values())
    title = f"Bytes that come due for deletion in the next {len(columns)} days"
    described = f"{format_size(total)} in all."
    chart = _drawn(columns, _LOW, "coming", title, described, stack=_DUE) if total else None
    return ComingDeletions(len(columns), total, chart)


def _drawn(
    columns: Sequence[Column], frame: Frame, id: str, title: str, description: str, **more: Any
) -> Markup:
    # The chart escapes its texts.
    return Markup(draw(columns, frame, id=id, title=title, description=description, **more))


def _described(columns: Sequence[Column]) -> str:
    last = columns[-1]
    stages = [*zip(STORED, last.stored, strict=True), (Stage.DELETED, last.deleted)]
    sizes = ", ".join(f"{stage_name(s).lower()} {format_size(size)}" for s, size in stages if size)
    return f"{len(columns)} days. On the last, {last.day:%-d %B %Y}: {sizes or 'nothing stored'}."


class LastDay(NamedTuple):
    """A table of sizes: its columns, a row for each table, and the totals."""

    names: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]
    total: Sequence[int]


def _last_day(rows: Sequence[DayOfStorage], tables: Sequence[str]) -> LastDay:
    """Lists the tables that exist on the chart's last day, without dropped ones."""
    is_archived = any(row.cold or row.deep for row in rows)
    names = [*map(stage_name, STORED), "Stored", stage_name(Stage.DELETED)]
    names += [band.name for band in _ARCHIVE] if is_archived else []

    def sizes(row: DayOfStorage) -> list[int]:
        archived = [row.cold, row.deep] if is_archived else []
        return [*row.stored, sum(row.stored), row.deleted, *archived]

    by_table = grouped(rows, lambda row: row.table)
    lines = [(name, _sums(map(sizes, by_table[name]))) for name in tables if name in by_table]
    return LastDay(names, lines, _sums(map(sizes, rows)))


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]
