"""Columns that tell a row's time: their values, partitions and bounds."""

import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.chunks.columns import (
    ColumnKind,
    TimeColumn,
    bounds_range,
    partition_range,
)
from meltline.domain.chunks.ranges import EPOCH, TimeRange, Unit
from tests.unit.chunks.chunks import at

MICROSECOND = timedelta(microseconds=1)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9998, 12, 31), timezones=st.just(UTC))
# As an integer a year before 1000 has fewer digits than its pattern: it has no time.
OF_FOUR_DIGITS = st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))
OF_TEXT = ["%Y", "%Y-%m", "%Y%m", "%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%dT%H", "%Y-%m-%d %H"]
OF_INTEGERS = ["s", "ms", "us", "h", "d", "%Y", "%Y%m", "%Y%m%d", "%Y%m%d%H"]


def column(type: str, pattern: str = "") -> TimeColumn:
    return TimeColumn.of({"id": 3, "name": "ts", "type": type}, pattern)


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("timestamp", ColumnKind.TIMESTAMP),
        ("timestamptz", ColumnKind.TIMESTAMPTZ),
        ("date", ColumnKind.DATE),
    ],
)
def test_timestamps_and_dates_tell_their_time_themselves(type: str, kind: ColumnKind) -> None:
    assert column(type) == TimeColumn("ts", 3, kind, type=type)
    with pytest.raises(ValueError, match="needs no pattern"):
        column(type, "%Y")


@pytest.mark.parametrize("type", ["boolean", "double", "uuid", "timestamp_ns", "decimal(9, 2)"])
def test_other_types_tell_no_time(type: str) -> None:
    with pytest.raises(ValueError, match="tells no time"):
        column(type)


@pytest.mark.parametrize("pattern", OF_TEXT)
def test_text_tells_its_time_by_a_pattern_that_sorts_as_time_does(pattern: str) -> None:
    assert column("string", pattern).kind is ColumnKind.TEXT


@pytest.mark.parametrize("pattern", OF_INTEGERS)
@pytest.mark.parametrize("type", ["int", "long"])
def test_integers_tell_their_time_by_a_scale_or_digits(type: str, pattern: str) -> None:
    assert column(type, pattern).kind is ColumnKind.INTEGER


@pytest.mark.parametrize(
    ("type", "pattern"),
    [
        ("string", ""),
        ("string", "s"),
        ("string", "%d-%m-%Y"),
        ("string", "%Y-%d"),
        ("string", "%y-%m-%d"),
        ("string", "%Y-%m-%dx%H"),
        ("string", "%Y-%m-%d %H:%M"),
        ("long", ""),
        ("long", "%Y-%m-%d"),
        ("int", "ns"),
        ("int", "%m%Y"),
    ],
)
def test_what_would_not_sort_as_time_does_is_refused(type: str, pattern: str) -> None:
    with pytest.raises(ValueError, match="say what its values are"):
        column(type, pattern)


@pytest.mark.parametrize(
    ("type", "pattern", "finest"),
    [
        ("timestamptz", "", Unit.HOUR),
        ("date", "", Unit.DAY),
        ("long", "us", Unit.HOUR),
        ("int", "d", Unit.DAY),
        ("int", "h", Unit.HOUR),
        ("int", "%Y%m%d%H", Unit.HOUR),
        ("string", "%Y-%m-%d", Unit.DAY),
        ("string", "%Y-%m", Unit.MONTH),
        ("string", "%Y", Unit.YEAR),
    ],
)
def test_the_finest_chunk_is_what_values_tell_apart(type: str, pattern: str, finest: Unit) -> None:
    assert column(type, pattern).finest is finest


@pytest.mark.parametrize(
    ("type", "pattern", "value", "instant"),
    [
        ("timestamptz", "", 1_767_571_200_000_000, "2026-01-05"),
        ("timestamp", "", datetime(2026, 1, 5, 7), "2026-01-05T07:00"),
        ("timestamptz", "", datetime.fromisoformat("2026-01-05T01:00+02:00"), "2026-01-04T23:00"),
        ("date", "", 20458, "2026-01-05"),
        ("date", "", date(2026, 1, 5), "2026-01-05"),
        ("date", "", -1, "1969-12-31"),
        ("long", "s", 1_767_571_200, "2026-01-05"),
        ("long", "ms", 1_767_571_200_001, "2026-01-05T00:00:00.001"),
        ("long", "us", -1, "1969-12-31T23:59:59.999999"),
        ("int", "h", 491_000, "2026-01-05T08:00"),
        ("int", "d", 20458, "2026-01-05"),
        ("int", "%Y%m%d", 20260105, "2026-01-05"),
        ("int", "%Y%m", 202601, "2026-01-01"),
        ("string", "%Y-%m-%dT%H", "2026-01-05T07", "2026-01-05T07:00"),
        ("string", "%Y", "0800", "0800-01-01"),
    ],
)
def test_a_value_has_a_time(type: str, pattern: str, value: Any, instant: str) -> None:
    assert column(type, pattern).instant(value) == at(instant)


@pytest.mark.parametrize(
    ("type", "pattern", "value"),
    [
        ("timestamptz", "", None),
        ("timestamptz", "", 2**62),
        ("date", "", 2**31 - 1),
        ("date", "", -(2**31)),
        ("int", "%Y%m%d", 20260230),
        ("int", "%Y%m%d", 2026115),  # sorts elsewhere than its time
        ("int", "%Y%m", -202601),
        ("string", "%Y-%m-%d", "2026-1-5"),
        ("string", "%Y-%m-%d", "yesterday"),
        ("string", "%Y-%m-%d", " 2026-01-05"),
        ("string", "%Y-%m-%d", ""),
    ],
)
def test_what_no_calendar_has_has_no_time(type: str, pattern: str, value: Any) -> None:
    assert column(type, pattern).instant(value) is None


@given(
    st.sampled_from(
        [
            *((kind, "") for kind in ("timestamp", "timestamptz", "date")),
            *(("long", pattern) for pattern in OF_INTEGERS),
            *(("string", pattern) for pattern in OF_TEXT),
        ]
    ),
    OF_FOUR_DIGITS,
)
def test_a_chunk_begins_with_the_value_of_its_begin(said: tuple[str, str], moment: Any) -> None:
    told = column(*said)
    start = told.finest.floor(moment)
    assert told.instant(told.value(start)) == start


@given(st.sampled_from(["s", "ms", "us", "h", "d"]), MOMENTS)
def test_no_earlier_value_is_at_or_after_an_instant(scale: str, moment: datetime) -> None:
    told = column("long", scale)
    value = told.value(moment)
    assert isinstance(value, int)
    instant, earlier = told.instant(value), told.instant(value - 1)
    assert instant is not None and earlier is not None
    assert earlier < moment <= instant


# --- partitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "pattern", "transform", "value", "start", "end"),
    [
        ("timestamptz", "", "hour", 490_999, "2026-01-05T07:00", "2026-01-05T08:00"),
        ("timestamptz", "", "day", 20458, "2026-01-05", "2026-01-06"),
        ("timestamptz", "", "day", date(2026, 1, 5), "2026-01-05", "2026-01-06"),
        ("date", "", "month", 672, "2026-01-01", "2026-02-01"),
        ("timestamp", "", "year", 56, "2026-01-01", "2027-01-01"),
        ("date", "", "identity", 20458, "2026-01-05", "2026-01-06"),
        ("date", "", "identity", date(2026, 1, 5), "2026-01-05", "2026-01-06"),
        ("int", "d", "identity", 20458, "2026-01-05", "2026-01-06"),
        ("int", "h", "identity", 491_000, "2026-01-05T08:00", "2026-01-05T09:00"),
        ("int", "%Y%m", "identity", 202601, "2026-01-01", "2026-02-01"),
        ("string", "%Y", "identity", "2026", "2026-01-01", "2027-01-01"),
        ("string", "%Y-%m-%d", "identity", "2026-01-05", "2026-01-05", "2026-01-06"),
    ],
)
def test_a_partition_has_its_times(
    type: str, pattern: str, transform: str, value: Any, start: str, end: str
) -> None:
    times = partition_range(column(type, pattern), transform, value)
    assert times == TimeRange(at(start), at(end))


@pytest.mark.parametrize(("type", "pattern"), [("timestamptz", ""), ("long", "us")])
def test_a_partition_of_one_timestamp_is_a_microsecond(type: str, pattern: str) -> None:
    value = 1_767_571_200_000_007
    times = partition_range(column(type, pattern), "identity", value)
    start = at("2026-01-05T00:00:00.000007")
    assert times == TimeRange(start, start + MICROSECOND)


@pytest.mark.parametrize(
    ("type", "transform", "value"),
    [
        ("timestamptz", "day", None),
        ("timestamptz", "identity", None),
        ("timestamptz", "void", None),
        ("date", "void", 20458),
        ("timestamptz", "day", 2**31 - 1),
        ("date", "identity", 2_932_896),  # the last day of the calendar
        ("timestamptz", "month", -(2**31)),
        ("timestamptz", "year", 8029),
    ],
)
def test_a_partition_without_a_time_has_none(type: str, transform: str, value: Any) -> None:
    assert partition_range(column(type), transform, value) is None


# --- bounds ---------------------------------------------------------------------------------------


def micros(moment: datetime) -> bytes:
    return struct.pack("<q", (moment - EPOCH) // MICROSECOND)


@given(MOMENTS, MOMENTS)
def test_bounds_tell_a_files_times_to_the_microsecond(one: datetime, other: datetime) -> None:
    first, last = sorted((one, other))
    times = bounds_range(column("timestamptz"), micros(first), micros(last), 0)
    assert times == TimeRange(first, last + MICROSECOND)


@pytest.mark.parametrize(
    ("type", "pattern", "lower", "upper", "start", "end"),
    [
        ("date", "", "i", "i", "2026-01-05", "2026-01-06"),
        ("int", "d", "i", "i", "2026-01-05", "2026-01-06"),
        ("long", "d", "i", "q", "2026-01-05", "2026-01-06"),  # an int before, a long by now
    ],
)
def test_bounds_of_days_reach_to_the_end_of_the_last(
    type: str, pattern: str, lower: str, upper: str, start: str, end: str
) -> None:
    packed = struct.pack(f"<{lower}", 20458), struct.pack(f"<{upper}", 20458)
    assert bounds_range(column(type, pattern), *packed, 0) == TimeRange(at(start), at(end))


JANUARY = micros(at("2026-01-01"))


@pytest.mark.parametrize(
    ("lower", "upper", "nulls"),
    [
        (None, JANUARY, 0),
        (JANUARY, None, 0),
        (JANUARY, JANUARY, None),
        (JANUARY, JANUARY, 1),
        (micros(at("2026-01-02")), JANUARY, 0),
        (JANUARY[:4], JANUARY, 0),  # as a date would be packed, before it became a timestamp
        (b"", JANUARY, 0),
        (JANUARY, struct.pack("<q", 2**62), 0),
    ],
)
def test_bounds_that_do_not_tell_all_tell_nothing(
    lower: bytes | None, upper: bytes | None, nulls: int | None
) -> None:
    assert bounds_range(column("timestamptz"), lower, upper, nulls) is None


def test_bounds_of_text_are_cut_off_and_tell_nothing() -> None:
    assert bounds_range(column("string", "%Y-%m-%d"), b"2026-01-05", b"2026-01-05", 0) is None


def test_bounds_at_the_end_of_the_calendar_tell_nothing() -> None:
    last = micros(datetime.max.replace(tzinfo=UTC))
    assert bounds_range(column("timestamptz"), last, last, 0) is None
