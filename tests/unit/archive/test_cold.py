"""Which expired snapshots go to cold: by their own time, whatever nights come in what order."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.archive.cold import (
    Cadence,
    chosen,
    cold_policy,
    ends_a_period,
)
from meltline.domain.deletion.limits import IoSettings
from meltline.domain.retention.policy import PROFILES, AccountPolicy
from tests.lives.histories import History, histories, history, instant
from tests.seeds import examples

BUSINESS = AccountPolicy(profile=PROFILES["business"])
LIVE = [cadence for cadence in Cadence if cadence is not Cadence.NONE]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def chosen_names(story: History, cadence: Cadence, day: float, window: float) -> set[str]:
    return story.names(chosen(cadence, story.state(), story.keeps(day, window)))


# --- the choice ------------------------------------------------------------------------------


def test_the_last_of_each_day_is_chosen_and_what_it_replaced_on_the_same_day_is_not() -> None:
    story = history().commit("a", day=0.2).commit("b", day=0.5).commit("c", day=0.9)
    story.commit("d", day=1.5).commit("head", day=30)
    assert chosen_names(story, Cadence.DAILY, 60, 7) == {"c", "d"}


def test_a_snapshot_that_is_read_over_many_days_is_the_last_of_all_of_them() -> None:
    story = history().commit("a", day=0.2).commit("b", day=5.5).commit("c", day=5.6)
    story.commit("head", day=5.7)
    assert chosen_names(story, Cadence.DAILY, 60, 7) == {"a"}


def test_all_chooses_all_and_none_nothing() -> None:
    story = history().commit("a", day=0.2).commit("b", day=0.3).commit("head", day=1)
    assert chosen_names(story, Cadence.ALL, 60, 7) == {"a", "b"}
    assert chosen_names(story, Cadence.NONE, 60, 7) == set()


def test_what_the_window_still_promises_is_not_chosen_yet() -> None:
    story = history().commit("a", day=0).commit("b", day=1).commit("head", day=20)
    assert chosen_names(story, Cadence.ALL, 7, 7) == set()
    assert chosen_names(story, Cadence.ALL, 8.5, 7) == {"a"}


@pytest.mark.parametrize(
    ("cadence", "start", "end", "expected"),
    [
        (Cadence.DAILY, "2026-03-01T00:00:00", "2026-03-01T23:59:59.999", False),
        (Cadence.DAILY, "2026-03-01T23:59:59.999", "2026-03-02T00:00:00", True),
        (Cadence.WEEKLY, "2026-03-02T00:00:00", "2026-03-08T23:59:59", False),  # Monday to Sunday
        (Cadence.WEEKLY, "2026-03-08T12:00:00", "2026-03-09T00:00:00", True),
        (Cadence.WEEKLY, "2026-12-31T00:00:00", "2027-01-02T00:00:00", False),  # one ISO week
        (Cadence.MONTHLY, "2026-03-01T00:00:00", "2026-03-31T23:59:59", False),
        (Cadence.MONTHLY, "2026-03-31T23:59:59", "2026-04-01T00:00:00", True),
        (Cadence.MONTHLY, "2025-03-05T00:00:00", "2026-03-05T00:00:00", True),
    ],
)
def test_a_period_ends_in_utc_and_its_last_instant_counts(
    cadence: Cadence, start: str, end: str, expected: bool
) -> None:
    assert ends_a_period(cadence, at(start), at(end)) is expected


def test_days_are_those_of_utc_wherever_the_time_was_written() -> None:
    zone = timedelta(hours=5)
    start = (at("2026-03-01T22:00:00")).astimezone()
    assert ends_a_period(Cadence.DAILY, start, start + timedelta(hours=1)) is False
    assert ends_a_period(Cadence.DAILY, start, start + zone) is True


def test_the_last_state_of_a_dropped_table_is_chosen_for_nothing_came_after_it() -> None:
    story = history().commit("a", day=0.1).commit("last", day=0.2)
    keeps = story.keeps(60, 7, dropped=True, let_go=True)
    found = chosen(Cadence.MONTHLY, story.state(), keeps, dropped_at=instant(0.3))
    assert story.names(found) == {"last"}
    assert found[story.ids["last"]].end == instant(0.3)  # nobody has read it since


def test_after_a_rollback_within_the_day_the_one_rolled_back_to_is_the_last() -> None:
    story = history().commit("a", day=0.1).commit("bad", day=0.3).rollback_to("a", day=0.4)
    story.commit("head", day=1.5)
    assert chosen_names(story, Cadence.DAILY, 60, 7) == {"a"}


def test_a_snapshot_whose_first_days_the_log_has_lost_is_chosen_for_them_all_the_same() -> None:
    story = history().commit("a", day=0.5).commit("b", day=2.4).rollback_to("a", day=2.5)
    story.commit("head", day=2.7)
    assert chosen_names(story, Cadence.DAILY, 60, 7) == {"a"}
    story.expired_elsewhere("b")  # which cuts the log: a seems to begin, and end, on day 2
    assert chosen_names(story, Cadence.DAILY, 60, 7) == {"a"}


def test_the_claim_of_a_snapshot_never_reaches_into_the_time_of_another() -> None:
    story = history().commit("a", day=0).commit("b", day=2).rollback_to("a", day=3)
    story.commit("head", day=5)
    state, keeps = story.state(), story.keeps(60, 7)
    daily = chosen(Cadence.DAILY, state, keeps)[story.ids["a"]]
    assert (daily.start, daily.end) == (instant(3), instant(5))
    all_of_it = chosen(Cadence.ALL, state, keeps)[story.ids["a"]]  # b is there and answers
    assert (all_of_it.start, all_of_it.end) == (instant(0), instant(5))


def test_a_snapshot_that_main_never_was_claims_no_time_at_all() -> None:
    story = history().commit("a", day=0).stage("staged", day=1).observe(2).commit("head", day=3)
    claim = chosen(Cadence.ALL, story.state(), story.keeps(90, 7))[story.ids["staged"]]
    assert claim.start == claim.end == instant(1)


# --- nights in any order ---------------------------------------------------------------------


def last_of_periods(story: History, cadence: Cadence) -> set[int]:
    """What main really was when each of its days, weeks or months ended."""
    found = set()
    for held, following in zip(story.truth, story.truth[1:], strict=False):
        if held.snapshot_id is not None and ends_a_period(cadence, held.at, following.at):
            found.add(held.snapshot_id)
    return found


@settings(max_examples=examples(few=37, many=150), deadline=None)
@given(
    histories(),
    st.sampled_from([c for c in LIVE if c is not Cadence.ALL]),
    st.lists(st.sampled_from([3.0, 8.0, 15.0, 25.0, 60.0]), min_size=1, max_size=4),
    st.sampled_from([0.0, 1.0, 7.0]),
)
def test_whatever_nights_came_before_no_last_of_a_period_expires_without_being_chosen(
    story: History, cadence: Cadence, nights: list[float], window: float
) -> None:
    needed = last_of_periods(story, cadence)
    end = max(story.times())
    for night in nights:  # in any order: backfills come late
        day = (end - instant(0)) / timedelta(days=1) + night
        keeps = story.observe(day).keeps(day, window)
        taken = chosen(cadence, story.state(), keeps)
        lost = needed & set(keeps.expired) - taken.keys()
        assert not lost, f"{cadence}: {story.names(lost)} gone on day {day}"
        for name in sorted(story.names(keeps.expired)):
            if story.ids[name] not in {ref.snapshot_id for ref in story.refs.values()}:
                story.expired_elsewhere(name)


@settings(max_examples=examples(few=25, many=100), deadline=None)
@given(histories(), st.sampled_from(LIVE), st.floats(0, 40), st.floats(0, 40))
def test_what_is_chosen_once_is_chosen_on_every_later_night_or_kept(
    story: History, cadence: Cadence, first: float, more: float
) -> None:
    day = (max(story.times()) - instant(0)) / timedelta(days=1) + first
    early = chosen(cadence, story.state(), story.keeps(day, 1))
    keeps = story.keeps(day + more, 1)
    late = chosen(cadence, story.state(), keeps)
    assert early.keys() <= late.keys() | keeps.reasons.keys()


# --- the policy ------------------------------------------------------------------------------


def test_nothing_goes_to_cold_unless_somebody_says_so() -> None:
    found = cold_policy(BUSINESS, [("lake.air.t", {})])
    assert (found.cadence, found.is_on, found.keep_for) == (Cadence.NONE, False, timedelta(2557))


def test_the_nearest_word_wins_over_the_accounts() -> None:
    account = AccountPolicy(profile=PROFILES["business"], cold="all", cold_retention_days=10)
    levels = [("lake.air.t", {}), ("lake.air", {"meltline.cold": " Monthly "}), ("account", {})]
    found = cold_policy(account, levels)
    assert (found.cadence, found.source) == (Cadence.MONTHLY, "lake.air")
    assert found.keep_for == timedelta(10)
    assert cold_policy(account, levels[:1]).source == "account"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("meltline.cold", "hourly"),
        ("meltline.cold-retention-days", "seven years"),
        ("meltline.cold-retention-days", "-1"),
        ("meltline.deep", "maybe"),
    ],
)
def test_a_value_that_is_none_is_reported_and_what_keeps_the_most_applies(
    key: str, value: str
) -> None:
    found = cold_policy(BUSINESS, [("lake.air.t", {key: value})])
    (warning,) = found.warnings
    assert key in warning and value in warning
    most = {
        "meltline.cold": found.cadence is Cadence.ALL,
        "meltline.cold-retention-days": found.keep_for > timedelta(2557),
        "meltline.deep": found.deep,
    }
    assert most[key]


# --- the budget ------------------------------------------------------------------------------


def test_a_fifth_of_the_stores_requests_is_used_and_at_least_one() -> None:
    # AR-37
    assert IoSettings(store_iops=5500).requests_per_second == 1100
    assert IoSettings(store_iops=1).requests_per_second == 1
    assert IoSettings().requests_per_second == 0


@pytest.mark.parametrize(
    ("window", "moment", "expected"),
    [
        ((60, 300), "2026-03-01T00:59:59", False),
        ((60, 300), "2026-03-01T01:00:00", True),
        ((60, 300), "2026-03-01T04:59:59", True),
        ((60, 300), "2026-03-01T05:00:00", False),
        ((1380, 120), "2026-03-01T23:00:00", True),  # over midnight
        ((1380, 120), "2026-03-01T01:59:59", True),
        ((1380, 120), "2026-03-01T02:00:00", False),
        ((None, None), "2026-03-01T12:00:00", True),
    ],
)
def test_a_batch_begins_only_inside_the_quiet_window(
    window: tuple[int | None, int | None], moment: str, expected: bool
) -> None:
    # AR-38
    assert IoSettings(0, *window).may_begin(at(moment)) is expected
