"""The two clocks and the one rule for `as_of`."""

from datetime import UTC, datetime, timedelta

import pytest

from meltline.domain.clock import Clock, FixedClock, WallClock, resolve_as_of
from meltline.domain.errors import AsOfInFuture, UsageInvalid
from meltline.domain.units import parse_instant

NOW = parse_instant("2026-03-01T06:00:00Z")
SOON = NOW + timedelta(milliseconds=1)


def test_without_a_logical_date_it_is_now() -> None:
    assert resolve_as_of(None, NOW, dry_run=False) == NOW


@pytest.mark.parametrize("asked", [NOW, NOW - timedelta(days=400)])
def test_a_past_or_present_date_is_taken_as_asked(asked: datetime) -> None:
    assert resolve_as_of(asked, NOW, dry_run=False) == asked


def test_a_date_one_millisecond_ahead_is_refused_by_name() -> None:
    with pytest.raises(AsOfInFuture) as refused:
        resolve_as_of(SOON, NOW, dry_run=False)
    error = refused.value
    assert isinstance(error, UsageInvalid)
    assert error.exit_code == 2
    assert (error.object, error.found) == ("as_of", "2026-03-01T06:00:00.001Z")
    assert error.expected == "at most 2026-03-01T06:00:00Z"
    assert "--dry-run" in error.next


def test_a_dry_run_may_look_ahead() -> None:
    assert resolve_as_of(SOON, NOW, dry_run=True) == SOON


def test_a_date_in_another_zone_is_the_same_instant() -> None:
    assert resolve_as_of(parse_instant("2026-03-01T07:00:00+01:00"), NOW, dry_run=False) == NOW


def test_the_wall_clock_is_real_utc_and_in_milliseconds() -> None:
    clock: Clock = WallClock()
    before, moment, after = datetime.now(UTC), clock.now(), datetime.now(UTC)
    assert before - timedelta(milliseconds=1) < moment <= after
    assert moment.microsecond % 1000 == 0
    assert moment.tzinfo is UTC
    assert not clock.simulated


def test_a_fixed_clock_stands_still_and_says_that_it_is_made_up() -> None:
    clock: Clock = FixedClock(NOW)
    assert clock.now() == clock.now() == NOW
    assert clock.simulated
