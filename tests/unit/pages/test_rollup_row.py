"""Rollups in the strip of their table: which buckets they have, and which of these are frozen."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from meltline.app.chunks.rollups.status import rollup_lines
from meltline.domain.chunks.buckets import BucketWidth
from meltline.domain.chunks.ranges import TimeRange
from meltline.pages.chunk_strip import ChunkPicture, ChunkStrip, drawn_strips
from meltline.pages.lake_picture import chunk_picture
from meltline.pages.rollup_row import RollupRow
from tests.lake.lake import DAY, T0
from tests.unit.pages.test_chunk_strip import ACTIVE, DROPPED, a_life, boxes, page_of
from tests.unit.pages.test_storage_picture import Page
from tests.unit.rollups.rolled_up_table import RolledUp

BY_DAY = BucketWidth.parse("1 day")
LIFE = a_life((DROPPED, 17), (ACTIVE, 28))


def days(first: int, end: int) -> TimeRange:
    """From one day of the life on, up to another one."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    return TimeRange(begin + timedelta(days=first), begin + timedelta(days=end))


def a_rollup(name: str = "daily", width: BucketWidth = BY_DAY, problem: str = "") -> RollupRow:
    return RollupRow(name, width, [days(17, 45)], [days(0, 17)], problem)


def charts(*rollups: RollupRow, more: int = 0) -> Sequence[str]:
    drawn = drawn_strips(ChunkPicture([ChunkStrip("lake.air.weather", LIFE, rollups, more)]))
    assert drawn is not None
    return [chart for _, chart in drawn.strips[0].charts]


def labels(chart: str) -> list[str]:
    """What stands above the rows of rollups: the name, and each figure."""
    text = re.findall(r'class="label" x="44" y="\d+"><title>.*?</title>(.*?)</text>', chart)
    return [re.sub("<[^>]*>", "|", label).replace("||", "|").strip("|") for label in text]


def test_a_rollup_has_a_box_of_each_bucket_below_the_chunks_of_its_rows() -> None:
    for chart in charts(a_rollup()):
        frozen, refreshed = boxes(chart, "rollup-frozen"), boxes(chart, "rollup-refreshed")
        assert frozen == boxes(chart, "hot-dropped")
        assert refreshed == boxes(chart, "hot-active")
        assert labels(chart) == ["daily|45 buckets, 17 frozen"]


def test_each_stretch_of_buckets_is_named_and_so_is_the_whole_to_who_cannot_see_it() -> None:
    chart = charts(a_rollup())[0]
    assert "daily: 17 buckets of 1 day frozen, 2026-01-01 to before 2026-01-18" in chart
    assert "daily: 28 buckets of 1 day refreshed, 2026-01-18 to before 2026-02-15" in chart
    assert "17 dropped, 28 active; rollup daily: 45 buckets, 17 frozen</desc>" in chart


def test_a_stretch_that_begins_minutes_after_midnight_says_so() -> None:
    width = BucketWidth.parse("100 minutes")
    start = width.floor(T0) + width.span
    begin = next(at for n in range(99) if (at := start + n * width.span).hour == 0 and at.minute)
    chart = charts(RollupRow("often", width, [TimeRange(begin, begin + width.span)]))[0]
    assert f"1 bucket of {width} refreshed, {begin:%Y-%m-%dT%H:%M} to before" in chart


def test_buckets_that_a_rollup_lacks_stay_empty() -> None:
    chart = charts(RollupRow("daily", BY_DAY, [days(0, 2), days(40, 41)]))[0]
    assert len(boxes(chart, "rollup-refreshed")) == 3
    assert boxes(chart, "rollup-frozen") == []
    assert labels(chart) == ["daily|3 buckets"]


def test_a_month_that_ends_after_its_days_makes_the_axis_longer() -> None:
    chart = charts(RollupRow("monthly", BucketWidth.parse("1 month"), [days(0, 59)]))[0]
    (_, _), (february, width) = boxes(chart, "rollup-refreshed")
    assert february + width == pytest.approx(1000, abs=2)
    assert sum(boxes(chart, "hot-active")[-1]) < 800


def test_buckets_that_cannot_be_told_apart_are_one_box() -> None:
    for chart in charts(a_rollup(width=BucketWidth.parse("1 minute"))):
        assert len(boxes(chart, "rollup-refreshed")) == len(boxes(chart, "rollup-frozen")) == 1
    wide, narrow = charts(a_rollup(width=BucketWidth.parse("1 minute")))
    assert labels(wide) == ["daily|up to 64,800 buckets, 24,480 frozen"]
    assert labels(narrow) == ["daily"]
    assert "rollup daily: up to 64,800 buckets, 24,480 frozen</title>" in narrow


def test_a_rollup_that_is_not_refreshed_says_so_where_there_is_little_room_too() -> None:
    for chart in charts(a_rollup("of_" * 33, problem="the column <temp> is gone")):
        (label,) = labels(chart)
        assert label.startswith("of_of_") and "…|not refreshed" in label
        assert f"rollup {'of_' * 33}: 45 buckets, 17 frozen, the column &lt;temp&gt; is" in chart
    wide, narrow = charts(a_rollup(width=BucketWidth.parse("15 minutes"), problem="gone"))
    assert labels(wide) == ["daily|not refreshed|up to 4,320 buckets, 1,632 frozen"]
    assert labels(narrow) == ["daily|not refreshed"]


def test_a_rollup_of_which_nothing_can_be_told_has_its_name_and_why() -> None:
    chart = charts(RollupRow("daily", BY_DAY, problem="its table is gone"))[0]
    assert labels(chart) == ["daily|not refreshed|0 buckets"]
    assert "rollup daily: 0 buckets, its table is gone" in chart
    assert 'class="rollup-' not in chart


def test_rollups_for_which_there_is_no_room_are_counted() -> None:
    chart = charts(a_rollup("a"), a_rollup("b"), more=2)[0]
    assert [label.partition("|")[0] for label in labels(chart)] == ["a", "b"]
    assert ">and 2 more rollups</text>" in chart and "; and 2 more rollups</desc>" in chart


def test_a_rollups_name_is_never_read_as_markup_and_styles_are_named_that_occur() -> None:
    page = Page(page_of(ChunkStrip("lake.t", LIFE, [RollupRow("<b>t</b>", BY_DAY, [days(0, 1)])])))
    assert page.open == [] and "b" not in page.tags and "<b>t</b>" in page.words
    assert "Refreshed " in page.words and "Frozen " not in page.words
    assert "A rollup keeps its buckets" in " ".join(page.words)
    assert "A rollup keeps" not in page_of(ChunkStrip("lake.t", LIFE))


# --- of a lake -----------------------------------------------------------------------------------


def shown(rolled: RolledUp) -> ChunkStrip:
    services = rolled.lake.services()
    lines = partial(rollup_lines, services)
    (strip,) = chunk_picture(services.control, ["lake.air.chunks"], lines).strips
    return strip


def test_what_has_left_hot_is_frozen_and_what_has_not_is_not() -> None:
    rolled = RolledUp()
    rolled.declare()
    (row,) = shown(rolled).rollups
    assert row == RollupRow("daily", BY_DAY, [TimeRange(T0, T0 + 6 * DAY)], [])
    rolled.drop()
    (row,) = shown(rolled).rollups
    assert row.frozen == [TimeRange(T0, T0 + 2 * DAY)]
    assert row.refreshed == [TimeRange(T0 + 2 * DAY, T0 + 6 * DAY)]


def test_days_that_were_dropped_before_a_rollup_was_declared_are_none_of_its_buckets() -> None:
    rolled = RolledUp()
    rolled.drop()
    rolled.declare()
    (row,) = shown(rolled).rollups
    assert (row.frozen, row.refreshed) == ([], [TimeRange(T0 + 2 * DAY, T0 + 6 * DAY)])


def test_three_rollups_over_a_table_are_shown_and_those_above_them_are_not() -> None:
    rolled = RolledUp()
    for name in ("often", "hourly", "daily", "monthly", "days_of_hours"):
        rolled.declare(name)
    strip = shown(rolled)
    assert [row.name for row in strip.rollups] == ["daily", "hourly", "monthly"]
    assert strip.more_rollups == 1


def test_a_rollup_whose_table_is_gone_has_a_problem_and_no_buckets() -> None:
    rolled = RolledUp()
    rolled.declare()
    rolled.lake.catalogs["lake"].drop(rolled.known().table)
    (row,) = shown(rolled).rollups
    assert row.times == () and "is gone" in row.problem
