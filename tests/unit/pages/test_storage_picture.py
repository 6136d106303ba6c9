"""The picture of storage: what it shows, and that it needs nothing but itself."""

import itertools
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.errors import UsageInvalid
from meltline.pages.chart import Column, Frame, Mark, draw, tick_step, tick_text
from meltline.pages.storage_picture import DayOfStorage, RunFacts, StoragePicture, storage_page

DAY = date(2026, 10, 7)
MIB = 1024**2
FRAME = Frame(400, 300)
PATTERNS = {"dots", "stripes", "hatch", "frost"}
VOID = {"meta", "link", "img", "br", "hr", "input"}


def a_day(number: int = 0, table: str = "lake.air.flights", **sizes: int) -> DayOfStorage:
    names = ("active", "historical", "retained_for_clone", "failsafe", "deleted")
    stages = dict.fromkeys(names, 0) | (sizes or {"active": MIB})
    return DayOfStorage(DAY + timedelta(days=number), table, **stages)


def a_run(number: int = 0, *, refused: int = 0) -> RunFacts:
    as_of = datetime(2026, 10, 7, 3, tzinfo=UTC) + timedelta(days=number)
    return RunFacts(as_of, 38, 1234, 56, 3 * MIB, 4, refused)


def a_column(number: int = 0, active: int = 0, deleted: int = 0) -> Column:
    return Column(DAY + timedelta(days=number), (active, 0, 0, 0), deleted)


def drawn(
    days: Sequence[DayOfStorage],
    tables: Sequence[str],
    runs: Sequence[RunFacts] = (),
    coming: Mapping[date, int] | None = None,
) -> str:
    return storage_page(StoragePicture(days, tables, runs, coming or {}))


class Page(HTMLParser):
    """What a reader of the page meets: its elements, its words, and whether all was closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)

    def row(self, start: str) -> list[str]:
        return next(row for row in self.rows if row[0].startswith(start))


def boxes(svg: str, stage: str) -> list[tuple[float, float]]:
    """Top and bottom of each of the stage's boxes, from the left."""
    path = re.search(rf'class="stage {stage}" d="([^"]*)"', svg)
    found = re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+V([\d.]+)", path[1]) if path else []
    return [(float(top), float(bottom)) for top, bottom in found]


def a_chart(*columns: Column, frame: Frame = FRAME, marks: tuple[Mark, ...] = ()) -> str:
    return draw(columns, frame, id="c", title="t", description="d", marks=marks)


def test_the_page_is_one_closed_document_that_asks_for_nothing_else() -> None:
    html = drawn([a_day(), a_day(1, failsafe=5, deleted=7)], ["lake.air.flights"], [a_run()])
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "use", "a"} & set(page.tags)
    assert not {"src", "href", "xlink:href", "style"} & {name for name, _ in page.attributes}
    assert "//" not in html.replace("<!doctype html>", "")
    assert set(re.findall(r"url\(([^)]*)\)", html)) == {f"#{name}" for name in PATTERNS}
    assert "@import" not in html


def test_every_name_that_is_referred_to_is_there_once() -> None:
    page = Page(drawn([a_day()], ["lake.air.flights"], []))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    labels = [value.split() for name, value in page.attributes if name == "aria-labelledby"]
    assert len(labels) == 3  # the main chart at two widths, and the table's
    assert {id for label in labels for id in label} | PATTERNS == set(ids)


def test_every_stage_has_a_pattern_or_a_shade_and_the_page_knows_the_dark() -> None:
    html = drawn([a_day()], ["lake.air.flights"], [])
    for stage in ("active", "historical", "retained_for_clone", "failsafe", "deleted"):
        assert f".{stage} {{ fill:" in html
    assert "prefers-color-scheme: dark" in html


def test_twice_the_bytes_stand_twice_as_high() -> None:
    svg = a_chart(a_column(0, 3 * MIB), a_column(1, 6 * MIB))
    (low_top, base), (high_top, same) = boxes(svg, "active")
    assert base == same
    assert base - high_top == pytest.approx(2 * (base - low_top), abs=0.3)


def test_stages_stand_on_one_another_and_what_was_deleted_hangs_below() -> None:
    svg = a_chart(Column(DAY, (10, 20, 30, 40), 50))
    names = ("active", "historical", "retained_for_clone", "failsafe")
    stack = [boxes(svg, name)[0] for name in names]
    for (top, _), (_, above_bottom) in itertools.pairwise(stack):
        assert above_bottom == top
    assert boxes(svg, "deleted")[0][0] == stack[0][1]


def test_a_stage_without_bytes_draws_nothing() -> None:
    assert 'class="stage historical"' not in a_chart(a_column(0, MIB))


def test_days_without_numbers_stay_empty_and_keep_their_place() -> None:
    svg = a_chart(a_column(0, MIB), a_column(9, MIB))
    path = re.search(r'class="stage active" d="([^"]*)"', svg)
    assert path is not None
    first, last = (float(x) for x in re.findall(r"M([\d.]+)", path[1]))
    drawn = FRAME.width - FRAME.left - FRAME.right
    assert last - first == pytest.approx(drawn * 0.9, abs=0.2)


def test_nothing_stored_and_nothing_deleted_is_still_a_chart() -> None:
    assert "nan" not in a_chart(a_column())


@given(st.lists(st.integers(0, 10**15), min_size=4, max_size=4).map(tuple), st.integers(0, 10**15))
def test_direct_labels_never_cover_one_another(
    stored: tuple[int, int, int, int], deleted: int
) -> None:
    frame = Frame(1000, 400, right=128, direct_labels=True)
    svg = a_chart(Column(DAY, stored, deleted), frame=frame)
    heights = [float(y) for y in re.findall(r'class="label" x="\d+" y="([\d.-]+)"', svg)]
    assert len(heights) == sum(size > 0 for size in (*stored, deleted))
    assert all(low - high >= 30.8 for low, high in itertools.pairwise(heights))


@given(st.integers(1, 2**57), st.integers(2, 12))
def test_lines_span_the_sizes_at_steps_that_read_well(size: int, rows: int) -> None:
    step = tick_step(size, rows)
    assert step * rows >= size
    assert step == 1 or step * rows < 3 * size
    assert re.fullmatch(r"[125]0{0,2} ([KMGTP]i)?B", tick_text(step))


def test_marks_too_close_to_be_labelled_keep_their_line() -> None:
    marks = tuple(Mark(DAY + timedelta(days=n), str(n), f"Run {n}") for n in (0, 1, 30))
    svg = a_chart(*(a_column(n, MIB) for n in range(31)), marks=marks)
    assert svg.count('class="mark"') == 3
    assert svg.count("<circle") == 2
    assert "<title>Run 1</title>" in svg


def test_tables_are_added_up_and_other_tables_left_out() -> None:
    days = [
        a_day(1, "lake.air.planes", active=MIB, failsafe=MIB),
        a_day(1, "lake.air.flights", active=2 * MIB, deleted=MIB),
        a_day(0, "lake.air.flights", active=90 * MIB),
        a_day(1, "lake.other", active=700 * MIB),
    ]
    page = Page(drawn(days, ["lake.air.flights", "lake.air.planes"], []))
    everything = page.row("All tables")
    assert everything[1:] == ["3.0 MiB", "0 B", "0 B", "1.0 MiB", "4.0 MiB", "1.0 MiB"]
    names = [row[0] for row in page.rows]
    assert names == ["Table", "lake.air.flights", "lake.air.planes", "All tables"]


def test_a_table_that_is_gone_on_the_last_day_has_a_chart_but_no_row() -> None:
    days = [a_day(0, "lake.old"), a_day(1, "lake.new")]
    page = Page(drawn(days, ["lake.old", "lake.new"], []))
    assert "lake.old" in page.words
    assert [row[0] for row in page.rows] == ["Table", "lake.new", "All tables"]


def test_a_run_tells_what_it_did_and_a_refusal_stands_out() -> None:
    html = drawn([a_day()], ["lake.air.flights"], [a_run(), a_run(1, refused=2)])
    page = Page(html)
    row = page.row("2")
    assert row[0].endswith("2026-10-08T03:00:00Z")
    assert row[1:] == ["38", "1,234", "56", "3.0 MiB", "4", "2"]
    assert html.count('class="refused"') == 1


def test_a_tables_name_is_shown_as_it_is_and_never_read_as_markup() -> None:
    name = "lake.air.<b>it's & t[1]"
    page = Page(drawn([a_day(table=name)], [name], []))
    assert name in page.words
    assert "b" not in page.tags


def test_a_page_about_nothing_is_refused() -> None:
    with pytest.raises(UsageInvalid, match="nothing to draw"):
        drawn([a_day(table="lake.other")], ["lake.air.flights"], [a_run()])


# --- the archive, and what comes due --------------------------------------------------------------


def test_what_lies_in_the_archive_has_a_chart_and_columns_of_its_own() -> None:
    days = [a_day(0, cold=MIB), a_day(1, active=MIB, cold=3 * MIB, deep=2 * MIB)]
    html = drawn(days, ["lake.air.flights"])
    page = Page(html)
    assert page.row("Table")[-2:] == ["Cold", "Permanent store"]
    assert page.row("All tables")[-2:] == ["3.0 MiB", "2.0 MiB"]
    assert page.row("All tables")[5] == "1.0 MiB"  # the archive is in no stage
    assert 'class="stage cold"' in html and 'class="stage deep"' in html
    assert "On the last day, 8 October 2026: cold 3.0 MiB, permanent store 2.0 MiB." in html


def test_a_lake_without_an_archive_shows_none() -> None:
    html = drawn([a_day()], ["lake.air.flights"])
    assert "Cold" not in html and "The next" not in html


def test_what_comes_due_is_drawn_day_by_day_and_added_up() -> None:
    coming = {DAY + timedelta(days=ahead): 0 for ahead in range(14)}
    coming[DAY + timedelta(days=3)] = 2 * MIB
    coming[DAY + timedelta(days=9)] = 4 * MIB
    html = drawn([a_day()], ["lake.air.flights"], coming=coming)
    page = Page(html)
    assert "The next 14 days" in page.words and "due within 14 days" in page.words
    assert "6.0 MiB come due." in html
    low, high = boxes(html.split('id="coming-title"')[1], "failsafe")
    assert high[1] - high[0] == pytest.approx(2 * (low[1] - low[0]), abs=0.3)


def test_that_nothing_comes_due_is_said() -> None:
    html = drawn([a_day()], ["lake.air.flights"], coming={DAY: 0, DAY + timedelta(days=1): 0})
    assert "Nothing that waits in failsafe now comes due." in html


def test_of_very_many_tables_the_largest_have_a_chart_and_the_others_are_counted() -> None:
    days = [a_day(table=f"lake.t{number:03}", active=number) for number in range(1, 31)]
    page = Page(drawn(days, [day.table for day in days]))
    charts = [word for word in page.words if word.startswith("Bytes by stage per day, lake.")]
    assert len(charts) == 24 and charts[0].endswith("t030")
    assert any("6 more tables" in word for word in page.words)
    assert len([row for row in page.rows if row[0].startswith("lake.")]) == 30


def test_two_registrations_of_one_name_stand_in_one_row() -> None:
    page = Page(drawn([a_day(active=MIB), a_day(active=2 * MIB)], ["lake.air.flights"]))
    assert page.row("lake.air.flights")[1] == "3.0 MiB"
