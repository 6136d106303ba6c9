"""Durations, sizes and instants: what is written can be read again, and nothing is guessed."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.units import (
    format_duration,
    format_instant,
    format_size,
    from_millis,
    parse_duration,
    parse_instant,
    parse_moment,
    parse_size,
    to_millis,
)
from tests.seeds import examples

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("7d", timedelta(hours=168)),
        ("6h", timedelta(hours=6)),
        ("30m", timedelta(minutes=30)),
        ("10s", timedelta(seconds=10)),
        ("5ms", timedelta(milliseconds=5)),
        (" 0d ", timedelta(0)),
    ],
)
def test_a_duration_is_a_whole_number_and_a_unit(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    "text", ["", "7", "d", "-7d", "1.5h", "7 d", "7D", "1h30m", "7w", "infinite"]
)
def test_any_other_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_duration_beyond_the_calendar_is_refused_as_any_other() -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration("99999999999d")


@MANY
@given(st.integers(0, 10**13))
def test_a_written_duration_reads_as_itself(ms: int) -> None:
    span = timedelta(milliseconds=ms)
    assert parse_duration(format_duration(span)) == span


def test_a_duration_is_written_in_the_largest_unit_that_holds_it() -> None:
    spans = [timedelta(days=7), timedelta(minutes=90), timedelta(seconds=61), timedelta(0)]
    assert [format_duration(span) for span in spans] == ["7d", "90m", "61s", "0d"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1TiB", 1024**4),
        ("512 MiB", 512 * 1024**2),
        ("1.5KiB", 1536),
        ("17", 17),
        (17, 17),
        ("0B", 0),
    ],
)
def test_a_size_is_a_number_and_a_binary_unit(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "TiB", "1TB", "1tib", "-1", "1e3", "1,5KiB", "lots"])
def test_any_other_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_a_size_in_bytes_is_exact_however_large() -> None:
    assert parse_size(2**53 + 1) == 2**53 + 1


def test_a_size_is_written_for_a_person() -> None:
    sizes = (0, 1023, 1024, 1536 * 1024, 1024**4, 5 * 1024**6)
    assert [format_size(size) for size in sizes] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 MiB", "1.0 TiB", "5120.0 PiB"
    ]  # fmt: skip


def test_an_instant_is_read_with_its_offset_and_kept_in_utc() -> None:
    # TT-28
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00Z", "2026-01-31T13:00+01:00", " 2026-01-31 12:00:00+00:00 "):
        assert parse_instant(text) == noon
        assert parse_instant(text).tzinfo is UTC


def test_a_bare_date_is_midnight_utc() -> None:
    assert parse_instant("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "2026-01-31 12", "20260131T12"])
def test_a_time_without_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no offset"):
        parse_instant(text)


def test_a_short_time_without_offset_is_refused_too() -> None:
    with pytest.raises(ValueError, match="has no offset"):
        parse_instant("2026W05T12")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "31.01.2026", "1769860800"])
def test_what_is_no_iso_8601_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:00:00-05:00",
        "Fri, 31 Dec 9999 23:00:00 -0500",
    ],
)
def test_an_instant_that_no_calendar_has_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no calendar has it"):
        parse_moment(text)


@MANY
@given(st.integers(-(10**13), 10**14), st.integers(-14, 14))
def test_a_written_instant_reads_as_itself_from_any_zone(ms: int, hours: int) -> None:
    moment = from_millis(ms)
    assert to_millis(moment) == ms
    assert parse_instant(format_instant(moment)) == moment
    zone = timezone(timedelta(hours=hours))
    assert format_instant(moment.astimezone(zone)) == format_instant(moment)


def test_an_instant_is_written_with_z_and_milliseconds_only_where_it_has_them() -> None:
    assert format_instant(from_millis(0)) == "1970-01-01T00:00:00Z"
    assert format_instant(from_millis(1)) == "1970-01-01T00:00:00.001Z"


@MANY
@given(st.integers(-(10**13), 10**14), st.integers(0, 999))
def test_an_instant_is_written_as_what_a_ledger_keeps_of_it(ms: int, micros: int) -> None:
    moment = from_millis(ms) + timedelta(microseconds=micros)
    assert format_instant(moment) == format_instant(from_millis(to_millis(moment)))


def test_milliseconds_are_cut_and_never_rounded_up() -> None:
    assert to_millis(datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=UTC)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 26 Jun 2024 09:20:00 -0700",
        "Mon, 26 Jun 2024 09:20:00 -0700",  # the wrong weekday: nobody minds (TT-55)
        "26 Jun 2024 16:20:00 GMT",
        "2024-06-26T16:20:00Z",
        "2024-06-26 18:20:00+02:00",
    ],
)
def test_a_moment_is_read_as_mails_write_it_too(text: str) -> None:
    assert parse_moment(text) == datetime(2024, 6, 26, 16, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["noon", "26 Jun 2024 16:20:00", "Wed, 99 Jun 2024 16:20:00 GMT", "2024-06-26 16:20"]
)
def test_a_moment_without_offset_or_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_moment(text)
