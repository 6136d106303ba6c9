"""What of a table is past an age of its policies, and how long it has been that."""

from dataclasses import replace
from datetime import timedelta

from meltline.app.chunks.policies import PolicyWish
from meltline.app.chunks.reading.status import TieringStatus
from meltline.domain.chunks.policies import PolicyType
from tests.unit.chunks.status.lake_of_days import DROPS, LakeOfDays

DAY = 24 * 60 * 60
PLAIN = PolicyWish(PolicyType.RETENTION, drop_after="7d")


def pending(line: TieringStatus) -> tuple[int, bool, int]:
    """How many chunks are pending, whether with bytes, and for how many days."""
    return line.pending_chunks, line.pending_bytes > 0, line.pending_lag_seconds // DAY


def test_a_table_whose_chunks_are_all_younger_than_its_ages_has_nothing_pending() -> None:
    days = LakeOfDays(wish=replace(DROPS, tier_after="30d", drop_after="90d"))
    line = days.status()
    assert pending(line) == (0, False, 0) and line.pending_since is None


def test_a_chunk_is_pending_from_the_day_on_which_it_came_of_age_until_it_is_flagged() -> None:
    days = LakeOfDays()
    days.lake.on(5.9)
    assert pending(days.status()) == (0, False, 0)
    days.lake.on(9)
    assert pending(days.status()) == (4, True, 3)
    assert days.status().pending_since == days.lake.clock.now() - timedelta(days=3)
    days.night(9.1)  # two are flagged, and two dropped
    assert pending(days.status()) == (0, False, 0)


def test_a_flagged_chunk_is_pending_again_once_it_is_old_enough_to_be_dropped() -> None:
    days = LakeOfDays()
    days.chunks(7.5)
    assert pending(days.status()) == (0, False, 0)
    days.lake.on(10)
    assert days.status().tiered_chunks == 2
    assert pending(days.status()) == (5, True, 2)


def test_the_latest_chunks_that_a_policy_keeps_are_not_pending() -> None:
    days = LakeOfDays(wish=replace(PLAIN, keep_latest=2))
    days.lake.on(30)
    assert pending(days.status()) == (4, True, 22)
