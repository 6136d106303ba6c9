"""Which chunks are due to be dropped, and why others are left alone (LT-4, LT-32)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from meltline.domain.chunks.chunk import Chunk, ChunkStatus, Deferral
from meltline.domain.chunks.durability import (
    DueChunks,
    due_to_drop,
    first_portion,
    old_enough,
)
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import UNBOUNDED, Horizon
from tests.unit.chunks.chunks import NOW, a_chunk, a_policy, at, by_name

FIRST, SECOND, THIRD = "2026-01-05", "2026-01-06", "2026-01-07"


def judged(
    *chunks: Chunk, drop: str = "30d", as_of: str = "2026-04-01", most: int = 100, **policy: Any
) -> DueChunks:
    standing = a_policy(PolicyType.RETENTION, drop=drop, **policy)
    return due_to_drop(by_name(*chunks), standing, at(as_of), most)


def names(due: DueChunks) -> list[str]:
    return [chunk.name for chunk in due.due]


def reasons(due: DueChunks) -> Mapping[str, Deferral]:
    return {deferred.chunk: deferred.reason for deferred in due.deferred}


def test_the_oldest_come_first_whatever_order_they_are_known_in() -> None:
    due = judged(a_chunk(SECOND), a_chunk(THIRD), a_chunk(FIRST))
    assert names(due) == [FIRST, SECOND, THIRD]
    assert not due.deferred


def test_lt_32_a_chunk_is_due_when_its_end_is_old_enough_and_not_a_moment_before() -> None:
    cutoff = at(SECOND) + timedelta(days=30)
    chunks = by_name(a_chunk(FIRST))
    assert [c.name for c in old_enough(chunks, Horizon.parse("30d").before(cutoff))] == [FIRST]
    moment = timedelta(microseconds=1)
    assert not old_enough(chunks, Horizon.parse("30d").before(cutoff - moment))


def test_lt_32_a_chunk_that_straddles_the_cutoff_waits_and_says_so() -> None:
    due = judged(a_chunk(FIRST), a_chunk(SECOND), a_chunk(THIRD), as_of="2026-02-05T06:00")
    assert names(due) == [FIRST]
    assert reasons(due) == {SECOND: Deferral.STRADDLES}
    assert [deferred.detail for deferred in due.deferred] == ["it ends 2026-01-07T00:00Z"]


def test_a_chunk_whose_drop_nobody_can_tell_waits_for_an_answer() -> None:
    unknown = a_chunk(FIRST, status=ChunkStatus.UNKNOWN)
    due = judged(unknown, a_chunk(SECOND))
    assert names(due) == [SECOND]
    assert reasons(due) == {FIRST: Deferral.UNKNOWN_DROP}


def test_months_are_of_the_calendar() -> None:
    chunks = [a_chunk("2026-02-27"), a_chunk("2026-02-28"), a_chunk("2026-03-01")]
    assert names(judged(*chunks, drop="1mo", as_of="2026-03-31")) == ["2026-02-27"]
    assert names(judged(*chunks, drop="1mo", as_of="2026-04-01")) == ["2026-02-27", "2026-02-28"]


def test_chunks_in_cold_alone_are_not_due_and_reopened_ones_are() -> None:
    due = judged(
        a_chunk(FIRST, status=ChunkStatus.DROPPED, files=0),
        a_chunk(SECOND, status=ChunkStatus.REOPENED),
        a_chunk(THIRD, status=ChunkStatus.TIERED),
    )
    assert names(due) == [SECOND, THIRD]


def test_chunks_without_files_are_not_due_and_not_reported() -> None:
    due = judged(a_chunk(FIRST, files=0), a_chunk(SECOND, files=0), as_of="2026-02-05T06:00")
    assert not due.due and not due.deferred


def test_files_that_reach_into_others_hold_a_chunk_back() -> None:
    due = judged(a_chunk(FIRST, spans=2), a_chunk(SECOND, spans=1, files=0), a_chunk(THIRD))
    assert names(due) == [THIRD]
    assert reasons(due) == {FIRST: Deferral.SPANS_CHUNKS, SECOND: Deferral.SPANS_CHUNKS}


def test_rows_without_a_time_are_never_due_and_always_reported() -> None:
    due = judged(a_chunk(UNBOUNDED, rows=7), a_chunk(FIRST))
    assert names(due) == [FIRST]
    assert reasons(due) == {UNBOUNDED: Deferral.STRADDLES}
    assert due.deferred[0].detail == "7 rows without a time are never dropped"
    assert not judged(a_chunk(UNBOUNDED, files=0, rows=0)).deferred


def test_the_latest_chunks_are_kept_however_old_they_are() -> None:
    due = judged(a_chunk(FIRST), a_chunk(SECOND), a_chunk(THIRD), keep_latest=2)
    assert names(due) == [FIRST]
    assert reasons(due) == {SECOND: Deferral.LATEST_KEPT, THIRD: Deferral.LATEST_KEPT}


def test_the_latest_are_those_that_have_rows() -> None:
    empty = a_chunk("2026-01-08", files=0)
    gone = a_chunk("2026-01-09", status=ChunkStatus.DROPPED)
    due = judged(a_chunk(FIRST), a_chunk(SECOND), empty, gone, keep_latest=1)
    assert names(due) == [FIRST]


def test_a_row_of_a_year_to_come_does_not_make_the_latest_chunk_an_old_one() -> None:
    due = judged(a_chunk(FIRST), a_chunk(SECOND), a_chunk("2099-01-01"), keep_latest=1)
    assert names(due) == [FIRST]


def test_at_most_so_many_go_at_a_time_the_oldest() -> None:
    due = judged(a_chunk(THIRD), a_chunk(SECOND), a_chunk(FIRST, spans=1), most=1)
    assert names(due) == [SECOND]
    assert not judged(a_chunk(FIRST), most=0).due


def test_age_counts_from_the_logical_date_and_not_from_now() -> None:
    chunk = a_chunk(FIRST)
    assert not judged(chunk, as_of="2026-02-04").due
    assert names(judged(chunk, as_of="2026-02-05")) == [FIRST]
    assert at("2026-02-05") < NOW


def portion(
    *sizes: int, resident: int, share: float = 0.5, most: int = 1000
) -> tuple[list[str], int, str | None]:
    """The first portion of chunks of these bytes, how many runs there are, and what ends them."""
    days = [f"2026-01-{day:02}" for day in range(1, len(sizes) + 1)]
    due = [a_chunk(day, bytes=size) for day, size in zip(days, sizes, strict=True)]
    first = first_portion(due, resident, share, most)
    too_large = first.too_large.name if first.too_large else None
    return [chunk.name for chunk in first.chunks], first.runs, too_large


def test_a_backlog_within_the_share_goes_at_once() -> None:
    assert portion(20, 20, resident=100) == (["2026-01-01", "2026-01-02"], 1, None)
    assert portion(25, 25, resident=100) == (["2026-01-01", "2026-01-02"], 1, None)
    assert portion(3, 4, resident=10, share=0.7) == (["2026-01-01", "2026-01-02"], 1, None)


def test_of_a_larger_backlog_the_oldest_go_first_and_the_runs_are_counted() -> None:
    assert portion(30, 30, 10, resident=100) == (["2026-01-01"], 3, None)
    assert portion(20, 20, 20, 20, resident=100) == (["2026-01-01", "2026-01-02"], 3, None)


def test_a_run_takes_no_more_chunks_than_it_may_and_the_runs_are_counted_by_that_too() -> None:
    assert portion(1, 1, 1, 1, 1, resident=100, most=2) == (["2026-01-01", "2026-01-02"], 3, None)


def test_the_runs_end_at_a_chunk_that_is_too_large_by_the_time_it_is_the_oldest() -> None:
    assert portion(30, 30, 20, 10, resident=100) == (["2026-01-01"], 4, None)
    assert portion(30, 30, 30, 10, resident=101) == (["2026-01-01"], 2, "2026-01-03")


def test_a_chunk_that_alone_is_more_than_the_share_is_planned_so_that_the_gate_names_it() -> None:
    assert portion(90, 5, resident=100) == (["2026-01-01"], 0, "2026-01-01")
    assert portion(resident=100) == ([], 0, None)
