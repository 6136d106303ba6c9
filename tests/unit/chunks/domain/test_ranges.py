"""Ranges of time and the names of chunks: in UTC, and to the ends of the calendar."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.chunks.ranges import (
    TimeRange,
    Unit,
    chunk_address,
    merged,
    parse_chunk_address,
)
from tests.unit.chunks.chunks import TABLE, at

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))
UNITS = st.sampled_from(Unit)


@pytest.mark.parametrize(
    ("unit", "name", "end"),
    [
        (Unit.HOUR, "2026-01-05T23", "2026-01-06"),
        (Unit.DAY, "2024-02-29", "2024-03-01"),
        (Unit.MONTH, "2026-12", "2027-01-01"),
        (Unit.YEAR, "2026", "2027-01-01"),
    ],
)
def test_a_chunk_ends_where_the_next_one_begins(unit: Unit, name: str, end: str) -> None:
    times = unit.range(name)
    assert (unit.label(times.start), times.end) == (name, at(end))


@given(UNITS, MOMENTS)
def test_every_moment_lies_in_the_chunk_that_it_is_put_into(unit: Unit, moment: datetime) -> None:
    times = unit.range(unit.label(unit.floor(moment)))
    assert times.start <= moment < times.end


@given(UNITS, MOMENTS, MOMENTS)
def test_names_sort_as_their_times_do(unit: Unit, one: datetime, other: datetime) -> None:
    earlier, later = sorted((one, other))
    assert unit.label(unit.floor(earlier)) <= unit.label(unit.floor(later))


@given(st.sampled_from([Unit.MONTH, Unit.DAY, Unit.YEAR]), MOMENTS)
def test_chunks_of_a_range_cover_it_without_a_gap(unit: Unit, start: datetime) -> None:
    span = TimeRange(start, start + timedelta(days=95))
    ranges = [unit.range(name) for name in span.chunks(unit)]
    assert len(merged(ranges)) == 1
    assert merged(ranges)[0].contains(span)
    assert all(times.overlaps(span) for times in ranges)


def test_h10_names_are_of_the_instant_in_utc_whatever_zone_it_is_said_in() -> None:
    east = datetime(2026, 1, 6, 1, tzinfo=timezone(timedelta(hours=2)))
    assert Unit.HOUR.label(Unit.HOUR.floor(east)) == "2026-01-05T23"
    assert Unit.DAY.label(Unit.DAY.floor(east)) == "2026-01-05"


@pytest.mark.parametrize("name", ["2026-1-5", "2026-01", "2026-02-30", "unbounded", "", "x"])
def test_only_a_name_as_it_is_written_is_one(name: str) -> None:
    with pytest.raises(ValueError):
        Unit.DAY.range(name)


@pytest.mark.parametrize(
    ("unit", "last"),
    [
        (Unit.HOUR, "9999-12-31T23"),
        (Unit.DAY, "9999-12-31"),
        (Unit.MONTH, "9999-12"),
        (Unit.YEAR, "9999"),
    ],
)
def test_what_the_calendar_ends_in_is_no_chunk(unit: Unit, last: str) -> None:
    assert unit.is_last(at("9999-12-31T23:59:59"))
    with pytest.raises(ValueError, match="the calendar ends"):
        unit.range(last)


def test_the_last_but_one_month_of_the_calendar_is_a_chunk() -> None:
    assert Unit.MONTH.range("9999-11").end == at("9999-12-01")


@pytest.mark.parametrize(
    ("unit", "ordinal", "start"),
    [
        (Unit.HOUR, -1, "1969-12-31T23:00"),
        (Unit.DAY, 20458, "2026-01-05"),
        (Unit.MONTH, -1, "1969-12-01"),
        (Unit.MONTH, 672, "2026-01-01"),
        (Unit.YEAR, 56, "2026-01-01"),
        (Unit.YEAR, -1, "1969-01-01"),
    ],
)
def test_partitions_are_numbered_from_1970_on(unit: Unit, ordinal: int, start: str) -> None:
    assert unit.ordinal_range(ordinal).start == at(start)


@pytest.mark.parametrize(
    ("unit", "ordinal"),
    [
        (Unit.DAY, 2_932_896),
        (Unit.MONTH, 96_359),
        (Unit.YEAR, 8_029),
        *((unit, ordinal) for unit in Unit for ordinal in (2**31 - 1, -(2**31), 10**19)),
    ],
)
def test_a_partition_beyond_the_calendar_is_said_to_be(unit: Unit, ordinal: int) -> None:
    with pytest.raises(OverflowError):
        unit.ordinal_range(ordinal)


def test_ranges_that_touch_are_one() -> None:
    days = [Unit.DAY.range(name) for name in ("2026-01-07", "2026-01-05", "2026-01-06")]
    assert merged([*days, Unit.DAY.range("2026-01-09")]) == [
        TimeRange(at("2026-01-05"), at("2026-01-08")),
        TimeRange(at("2026-01-09"), at("2026-01-10")),
    ]


def test_ranges_that_touch_have_no_moment_in_common() -> None:
    first, second = Unit.DAY.range("2026-01-05"), Unit.DAY.range("2026-01-06")
    assert not first.overlaps(second)
    assert first.overlaps(first)
    assert Unit.MONTH.range("2026-01").contains(first)


def test_a_chunk_in_full_is_its_table_and_its_name() -> None:
    assert chunk_address(TABLE, "2026-01-05") == "lake.air.t@2026-01-05"
    assert parse_chunk_address("lake.air.t@2026-01-05") == ("lake.air.t", "2026-01-05")


@pytest.mark.parametrize("text", ["lake.air.t", "@2026-01-05", "lake.air.t@", ""])
def test_half_of_a_chunks_name_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is no chunk"):
        parse_chunk_address(text)
