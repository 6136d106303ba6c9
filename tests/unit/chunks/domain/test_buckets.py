"""Buckets of time: each moment lies in exactly one, of whatever length, to the calendar's ends."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.chunks.buckets import ORIGIN, BucketWidth, common, without
from meltline.domain.chunks.ranges import TimeRange, Unit, merged
from tests.unit.chunks.chunks import at

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23), timezones=st.just(UTC))
USUAL = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
PARTS_OF_AN_HOUR = [n for n in range(1, 3600) if 3600 % n == 0]
WIDTHS = st.one_of(
    st.sampled_from(PARTS_OF_AN_HOUR).map(lambda n: BucketWidth(timedelta(seconds=n))),
    st.integers(1, 5000).map(lambda n: BucketWidth(timedelta(hours=n))),
    st.integers(3600, 200_000).map(lambda n: BucketWidth(timedelta(seconds=n))),
    st.integers(1, 200).map(lambda n: BucketWidth(months=n)),
)
RANGES = st.tuples(USUAL, st.integers(1, 10**13)).map(
    lambda drawn: TimeRange(drawn[0], drawn[0] + timedelta(microseconds=drawn[1]))
)
LISTS = st.lists(RANGES, max_size=6).map(merged)


@given(WIDTHS)
def test_a_width_is_read_as_it_is_written(width: BucketWidth) -> None:
    assert BucketWidth.parse(str(width)) == width


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("hour", "1 hour"),
        (" 60 Minutes ", "1 hour"),
        ("15min", "15 minutes"),
        ("90 minutes", "90 minutes"),
        ("2 weeks", "14 days"),
        ("quarter", "3 months"),
        ("1 year", "12 months"),
        ("30 s", "30 seconds"),
    ],
)
def test_a_width_is_read_by_many_names(text: str, written: str) -> None:
    assert str(BucketWidth.parse(text)) == written


@pytest.mark.parametrize(
    "text",
    ["", "1", "0 hours", "7 minutes", "45 minutes", "-1 hour", "1.5 hours", "1 fortnight",
     "1 day 2 hours", "9" * 40 + " days", "12001 months", "9999 years"],
)  # fmt: skip
def test_what_is_no_width_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no bucket"):
        BucketWidth.parse(text)


@given(WIDTHS, MOMENTS)
def test_every_moment_lies_in_exactly_its_bucket(width: BucketWidth, moment: datetime) -> None:
    start = width.floor(moment)
    end = width.after(start)
    assert start <= moment < end
    assert width.floor(start) == start
    assert width.floor(end - timedelta(microseconds=1)) == start


def test_a_bucket_that_begins_before_the_calendar_ends_where_the_next_one_begins() -> None:
    width = BucketWidth(months=132)
    start = width.floor(datetime(8, 1, 1, tzinfo=UTC))
    assert (start.year, width.after(start).year) == (1, 9)


@given(WIDTHS, USUAL)
def test_the_next_bucket_begins_where_one_ends(width: BucketWidth, moment: datetime) -> None:
    end = width.after(width.floor(moment))
    assert width.floor(end) == end
    assert width.around(TimeRange(moment, end)) == TimeRange(width.floor(moment), end)


@given(WIDTHS)
def test_a_bucket_of_every_length_begins_with_the_year_2000(width: BucketWidth) -> None:
    assert width.floor(ORIGIN) == ORIGIN
    assert width.after(width.floor(ORIGIN - timedelta(microseconds=1))) == ORIGIN


@pytest.mark.parametrize(
    ("text", "moment", "start", "end"),
    [
        ("1 month", "2024-02-29T23:59", "2024-02-01", "2024-03-01"),
        ("5 months", "1999-12-31", "1999-08-01", "2000-01-01"),
        ("1 year", "2026-07-04", "2026-01-01", "2027-01-01"),
        ("7 days", "2000-01-08", "2000-01-08", "2000-01-15"),
        ("20 minutes", "2026-01-01T05:59:59", "2026-01-01T05:40", "2026-01-01T06:00"),
    ],
)
def test_buckets_begin_where_the_source_begins_them(
    text: str, moment: str, start: str, end: str
) -> None:
    width = BucketWidth.parse(text)
    assert (width.floor(at(moment)), width.after(at(start))) == (at(start), at(end))


@given(WIDTHS, USUAL, USUAL)
def test_no_two_buckets_share_a_partition_but_those_within_an_hour(
    width: BucketWidth, one: datetime, other: datetime
) -> None:
    starts = width.floor(one), width.floor(other)
    near = width.after(starts[0])
    for second in {starts[1], near} - {starts[0]}:
        is_shared = width.partition.floor(starts[0]) == width.partition.floor(second)
        assert not is_shared or (width.span and width.span < timedelta(hours=1))


def test_partitions_are_as_long_as_buckets_allow() -> None:
    units = {text: BucketWidth.parse(text).partition for text in ("1 min", "25 hours", "1 year")}
    assert units == {"1 min": Unit.HOUR, "25 hours": Unit.DAY, "1 year": Unit.YEAR}
    assert BucketWidth.parse("quarter").partition is Unit.MONTH


# --- ranges --------------------------------------------------------------------------------------


@given(WIDTHS, st.lists(RANGES, max_size=5))
def test_whole_buckets_are_all_into_which_ranges_reach_and_no_others(
    width: BucketWidth, ranges: list[TimeRange]
) -> None:
    whole = width.whole(ranges)
    assert whole == merged(whole)
    assert not without(merged(ranges), whole)
    for times in whole:
        assert (width.floor(times.start), width.floor(times.end)) == (times.start, times.end)
        for start in (times.start, width.floor(times.end - timedelta(microseconds=1))):
            bucket = TimeRange(start, width.after(start))
            assert any(bucket.overlaps(asked) for asked in ranges)


@given(WIDTHS, st.lists(USUAL, max_size=6))
def test_buckets_are_counted_one_by_one(width: BucketWidth, moments: list[datetime]) -> None:
    starts = {width.floor(moment) for moment in moments}
    ranges = merged(TimeRange(start, width.after(start)) for start in starts)
    assert width.count(ranges) == len(starts)


def _has(ranges: list[TimeRange], moment: datetime) -> bool:
    return any(times.start <= moment < times.end for times in ranges)


@given(LISTS, LISTS)
def test_what_is_left_and_what_is_common_are_two_parts_of_the_whole(
    ranges: list[TimeRange], others: list[TimeRange]
) -> None:
    left, both = without(ranges, others), common(ranges, others)
    ends = {end for times in (*ranges, *others) for end in (times.start, times.end)}
    for moment in ends | {end - timedelta(microseconds=1) for end in ends}:
        in_one, in_other = _has(ranges, moment), _has(others, moment)
        assert _has(left, moment) == (in_one and not in_other)
        assert _has(both, moment) == (in_one and in_other)
    assert left == sorted(left) and both == sorted(both)
    assert all(times.start < times.end for times in (*left, *both))
    assert merged([*left, *both]) == ranges
