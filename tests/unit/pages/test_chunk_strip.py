"""The strip of a table's chunks: where each of them is, along time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.ranges import UNBOUNDED, Unit
from meltline.pages.chunk_strip import ChunkPicture, ChunkStrip, DrawnStrip, drawn_strips
from meltline.pages.storage_picture import StoragePicture, storage_page
from tests.unit.pages.test_storage_picture import Page, a_day

FIRST = date(2026, 1, 1)
ACTIVE, TIERED, DROPPED = ChunkStatus.ACTIVE, ChunkStatus.TIERED, ChunkStatus.DROPPED
REOPENED = ChunkStatus.REOPENED


def a_chunk(day: int, status: ChunkStatus = ACTIVE) -> Chunk:
    name = (FIRST + timedelta(days=day)).isoformat()
    range = Unit.DAY.range(name)
    chunk = Chunk("uuid", name, range.start, range.end, status)
    if status is DROPPED:
        return replace(chunk, dropped_rows=10, dropped_bytes=1024)
    return replace(chunk, rows=10, bytes=1024, files=1)


def a_life(*counts: tuple[ChunkStatus, int]) -> list[Chunk]:
    statuses = [status for status, count in counts for _ in range(count)]
    return [a_chunk(day, status) for day, status in enumerate(statuses)]


def strip(chunks: Sequence[Chunk], table: str = "lake.air.weather") -> DrawnStrip:
    drawn = drawn_strips(ChunkPicture([ChunkStrip(table, chunks)]))
    assert drawn is not None
    return drawn.strips[0]


def boxes(chart: str, style: str) -> list[tuple[float, float]]:
    """Left and width of each box of a style."""
    paths = re.findall(rf'<path class="{style}" d="([^"]*)"', chart)
    found = [pair for path in paths for pair in re.findall(r"M([\d.]+) \d+h([\d.]+)", path)]
    return [(float(left), float(width)) for left, width in found]


def page_of(*strips: ChunkStrip, unshown: int = 0) -> str:
    picture = StoragePicture([a_day()], ["lake.air.flights"], chunks=ChunkPicture(strips, unshown))
    return storage_page(picture)


def test_hot_has_a_box_of_each_chunk_and_cold_one_of_each_that_is_proved() -> None:
    chart = strip(a_life((DROPPED, 3), (TIERED, 2), (ACTIVE, 4))).charts[0][1]
    count = {
        style: len(boxes(chart, style))
        for style in ("hot-dropped", "hot-tiered", "hot-active", "cold-dropped", "cold-tiered")
    }
    assert list(count.values()) == [3, 2, 4, 3, 2]
    assert len(boxes(chart, "cold-active")) == 4


def test_chunks_lie_along_time_and_a_gap_stays_empty() -> None:
    chart = strip([a_chunk(0), a_chunk(1), a_chunk(9)]).charts[0][1]
    (first, width), (second, _), (last, _) = boxes(chart, "hot-active")
    assert last - first == pytest.approx(9 * (second - first), abs=0.5)
    assert first + width < second


def test_the_ledgers_order_does_not_matter() -> None:
    chunks = a_life((DROPPED, 2), (ACTIVE, 3))
    assert strip(list(reversed(chunks))) == strip(chunks)


def test_each_stretch_is_named_with_its_days_and_what_it_was_or_is() -> None:
    chart = strip(a_life((DROPPED, 17), (TIERED, 14), (ACTIVE, 14))).charts[0][1]
    assert "17 chunks dropped, 2026-01-01 to before 2026-01-18: 170 rows, 17.0 KiB" in chart
    assert "14 chunks active, 2026-02-01 to before 2026-02-15: 140 rows, 14.0 KiB" in chart
    assert re.findall(r'class="label"[^>]*>([^<]*)<', chart) == [
        "17 dropped",
        "14 tiered",
        "14 active",
    ]


def test_ten_thousand_chunks_are_one_box_where_they_cannot_be_told_apart() -> None:
    drawn = strip(a_life((DROPPED, 9_000), (REOPENED, 1), (DROPPED, 99), (ACTIVE, 900)))
    assert drawn.words == "9,099 dropped, 1 reopened, 900 active"
    for _, chart in drawn.charts:
        assert len(boxes(chart, "hot-dropped")) == 2
        assert len(boxes(chart, "cold-reopened")) == 1
        assert len(chart) < 6_000


@pytest.mark.parametrize("days", [1, 2, 45, 400, 9_000])
def test_dates_on_the_axis_do_not_cover_one_another(days: int) -> None:
    for _, chart in strip(a_life((ACTIVE, days))).charts:
        found = re.findall(r'class="tick" x="([\d.]+)" y="\d+">([^<]*)<', chart)
        places = [float(x) for x, _ in found]
        assert places
        assert all(right - left > 60 for left, right in pairwise(places))


def test_rows_without_a_time_are_counted_and_not_drawn() -> None:
    nowhere = Chunk("uuid", UNBOUNDED, None, None, rows=3, bytes=2048, files=1)
    drawn = strip([*a_life((ACTIVE, 2)), nowhere])
    assert drawn.words == "2 active, unbounded: 2.0 KiB"
    assert drawn_strips(ChunkPicture([ChunkStrip("lake.t", [nowhere])])) is None


def test_the_page_has_a_strip_at_both_widths_and_says_what_occurs_alone() -> None:
    html = page_of(ChunkStrip("lake.air.weather", a_life((DROPPED, 2), (ACTIVE, 1))))
    page = Page(html)
    assert page.open == []
    assert "Partitions by age" in page.words and "2 dropped, 1 active" in page.words
    assert "Dropped " in page.words and "Tiered " not in page.words
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_lake_without_chunks_shows_none() -> None:
    assert "Partitions by age" not in page_of()
    assert "Partitions by age" not in page_of(ChunkStrip("lake.empty", []))


def test_tables_for_which_there_is_no_room_are_counted() -> None:
    html = page_of(ChunkStrip("lake.a", a_life((ACTIVE, 1))), unshown=3)
    assert "And 3 more tables: <code>meltline chunks status</code>." in html


def test_a_tables_name_is_never_read_as_markup() -> None:
    page = Page(page_of(ChunkStrip("lake.<b>t</b>", a_life((ACTIVE, 1)))))
    assert "lake.<b>t</b>" in page.words and "b" not in page.tags
