"""Ages: exact ones, months of the calendar, and which of two is shorter on every day of it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.domain.chunks.ranges import Horizon
from tests.unit.chunks.chunks import at

TEXTS = st.builds("{}{}".format, st.integers(1, 120), st.sampled_from(["h", "d", "w", "mo", "y"]))
MOMENTS = st.datetimes(datetime(1500, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("7d", "7d"),
        (" 7 days ", "7d"),
        ("1 Day", "1d"),
        ("36 hours", "36h"),
        ("12h", "12h"),
        ("2 weeks", "2w"),
        ("3 months", "3mo"),
        ("3mo", "3mo"),
        ("1 year", "1y"),
        ("10 years", "10y"),
    ],
)
def test_an_age_is_a_number_and_a_unit(text: str, short: str) -> None:
    assert str(Horizon.parse(text)) == short
    assert Horizon.parse(short) == Horizon.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "7", "d", "0d", "00 days", "-7d", "1.5d", "7 m", "7 minutes", "1d 2h", "99999999999d"],
)
def test_anything_else_is_no_age(text: str) -> None:
    with pytest.raises(ValueError, match="is no age"):
        Horizon.parse(text)


@pytest.mark.parametrize(
    ("text", "cutoff"),
    [
        ("6h", "2026-03-31T04:30"),
        ("7d", "2026-03-24T10:30"),
        ("2w", "2026-03-17T10:30"),
        ("1mo", "2026-02-28T10:30"),  # there is no 31st
        ("13mo", "2025-02-28T10:30"),
        ("3mo", "2025-12-31T10:30"),
        ("2y", "2024-03-31T10:30"),
    ],
)
def test_the_cutoff_is_so_long_before(text: str, cutoff: str) -> None:
    assert Horizon.parse(text).before(at("2026-03-31T10:30")) == at(cutoff)


def test_a_leap_day_a_year_ago_was_the_day_before_march() -> None:
    assert Horizon.parse("1y").before(at("2028-02-29")) == at("2027-02-28")


def test_months_are_of_utc_whatever_zone_the_date_is_said_in() -> None:
    moment = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))  # February 28 in UTC
    assert Horizon.parse("1mo").before(moment) == at("2026-01-28T23:00")


@pytest.mark.parametrize("text", ["3000y", "1000000d"])
def test_before_the_calendar_nothing_is_old_enough(text: str) -> None:
    assert Horizon.parse(text).before(at("2026-03-31")) == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        ("7d", "90d"),
        ("23h", "1d"),
        ("13d", "2w"),
        ("11mo", "1y"),
        ("27d", "1mo"),
        ("1mo", "32d"),
        ("3mo", "93d"),
        ("364d", "1y"),
        ("1y", "367d"),
    ],
)
def test_one_age_is_shorter_than_another(shorter: str, longer: str) -> None:
    assert Horizon.parse(shorter).is_shorter_than(Horizon.parse(longer))
    assert not Horizon.parse(longer).is_shorter_than(Horizon.parse(shorter))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7d", "1w"),
        ("24h", "1d"),
        ("12mo", "1y"),
        ("28d", "1mo"),
        ("30d", "1mo"),
        ("31d", "1mo"),
        ("92d", "3mo"),
        ("365d", "1y"),
        ("366d", "1y"),
    ],
)
def test_ages_that_are_the_same_on_some_day_are_not_told_apart(one: str, other: str) -> None:
    assert not Horizon.parse(one).is_shorter_than(Horizon.parse(other))
    assert not Horizon.parse(other).is_shorter_than(Horizon.parse(one))


@given(TEXTS, TEXTS, MOMENTS)
def test_the_shorter_age_has_the_later_cutoff_on_every_day(
    one: str, other: str, moment: datetime
) -> None:
    shorter, longer = Horizon.parse(one), Horizon.parse(other)
    if shorter.is_shorter_than(longer):
        assert shorter.before(moment) > longer.before(moment)
        assert not longer.is_shorter_than(shorter)


@given(TEXTS, MOMENTS)
def test_no_age_is_shorter_than_it_is_compared_by(text: str, moment: datetime) -> None:
    age = Horizon.parse(text)
    assert moment - age.before(moment) >= age.rough


@given(TEXTS, MOMENTS)
def test_a_chunk_is_old_enough_from_the_day_on_that_is_told_beforehand(
    text: str, end: datetime
) -> None:
    age = Horizon.parse(text)
    at = age.reached(end)
    if at < datetime.max.replace(tzinfo=UTC):
        assert age.before(at) >= end > age.before(at - timedelta(days=1))
