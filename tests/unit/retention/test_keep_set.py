"""The keep set: each rule of reachability is a tiny history with a sentence for a name."""

from datetime import timedelta

import pytest

from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.iceberg.timeline import current_at
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.domain.units import parse_instant
from tests.lives.histories import (
    History,
    history,
    instant,
    millis,
)

MIN_TO_KEEP = "history.expire.min-snapshots-to-keep"
MAX_AGE = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE = "history.expire.max-ref-age-ms"


def daily(count: int) -> History:
    """S1 on day 1, S2 on day 2, and so on, on main."""
    story = history()
    for day in range(1, count + 1):
        story.commit(f"S{day}", day=day)
    return story


# --- the window -----------------------------------------------------------------------------------


def test_an_empty_history_keeps_nothing_and_is_no_error() -> None:
    keeps = history().keeps(day=5, window=7)
    assert (keeps.reasons, keeps.superseded_at, keeps.expired) == ({}, {}, ())
    assert keeps.expired_refs == ()


def test_the_only_snapshot_is_kept_as_the_head_for_ever() -> None:
    assert history().commit("S1", day=0).why("S1", day=5000, window=0) == {"head", "window"}


def test_a_quiet_table_keeps_the_snapshot_that_was_current_at_the_start_of_the_window() -> None:
    # AR-4, AR-5
    story = history().commit("old", day=0).commit("older than it looks", day=1000)
    assert story.kept(day=1003, window=7) == {"old", "older than it looks"}
    assert story.why("old", day=1003, window=7) == {"window"}


@pytest.mark.parametrize(("ms", "kept"), [(-1, True), (0, True), (1, False)])
def test_an_age_equal_to_the_window_is_kept_and_one_millisecond_more_is_not(
    ms: int, kept: bool
) -> None:
    # C-2
    story = daily(2)
    assert ("S1" in story.kept(day=0, window=7, as_of=instant(9, ms=ms))) is kept


def test_what_was_superseded_before_the_window_is_expired() -> None:
    assert daily(10).expired(day=10, window=3) == {f"S{n}" for n in range(1, 6)}


def test_an_infinite_window_keeps_everything() -> None:
    assert daily(10).expired(day=5000, window=None) == set()


def test_retention_zero_keeps_the_heads_alone() -> None:
    story = daily(5).branch("b", "S2").tag("t", "S3")
    assert story.kept(day=6, window=0) == {"S2", "S3", "S5"}


def test_what_a_query_may_still_read_stays_for_the_grace_of_readers() -> None:
    """A job that began just before a snapshot was superseded reads it on, at retention 0."""
    story, grace = daily(5), timedelta(hours=6)
    keeps = story.keeps(day=5.25, window=0, reader_grace=grace)
    assert story.names(keeps.reasons) == {"S4", "S5"}
    assert keeps.reasons[story.ids["S4"]] == (KeepReason.READER_GRACE,)
    assert KeepReason.READER_GRACE not in keeps.reasons[story.ids["S5"]]
    assert story.kept(day=5.26, window=0, reader_grace=grace) == {"S5"}


def test_a_window_that_is_longer_than_the_grace_is_the_reason() -> None:
    story = daily(5)
    keeps = story.keeps(day=5.1, window=1, reader_grace=timedelta(hours=6))
    assert keeps.reasons[story.ids["S4"]] == (KeepReason.WINDOW,)


def test_no_grace_is_given_to_readers_of_a_dropped_table_that_is_let_go() -> None:
    story = daily(2)
    keeps = story.keeps(2.1, 0, dropped=True, let_go=True, reader_grace=timedelta(hours=6))
    assert keeps.reasons == {}


def test_an_as_of_in_the_past_keeps_all_that_came_after_it() -> None:
    story = daily(20).stage("W", day=20)
    assert story.expired(day=10, window=2) == {"S1", "S2", "S3", "S4", "S5", "S6"}


def test_times_that_came_out_of_order_keep_what_time_travel_still_answers() -> None:
    # Writers' clocks differ: Iceberg 1.12 answers with S1 from its time on. What had main in truth
    # was S2, whose line stands before that of S3: it is kept as well.
    story = history().commit("S1", day=2).commit("S2", day=1).commit("S3", day=9)
    assert current_at(story.state(), instant(8), instant(12)) == story.ids["S1"]
    assert story.kept(day=12, window=5) == {"S1", "S2", "S3"}
    assert story.kept(day=15, window=5) == {"S3"}


@pytest.mark.parametrize("changed", ["2026-03-29", "2026-10-25", "2026-03-08"])
def test_a_day_is_24_hours_across_a_change_of_summer_time(changed: str) -> None:
    # C-30
    start = parse_instant(f"{changed}T00:30:00+01:00")
    begun = (start - instant(0)) / timedelta(days=1)
    story = history().commit("S1", day=begun - 1).commit("S2", day=begun)
    edge = start + timedelta(hours=24 * 3)
    assert story.kept(day=0, window=3, as_of=edge) == {"S1", "S2"}
    assert story.kept(day=0, window=3, as_of=edge + timedelta(milliseconds=1)) == {"S2"}


def test_the_worked_example_of_ar_54_comes_out_as_written() -> None:
    # AR-54
    story = history().commit("S1", day=0).commit("S2", day=20).commit("S3", day=40)
    assert story.kept(day=40, window=30) == {"S1", "S2", "S3"}
    assert story.kept(day=50, window=30) == {"S1", "S2", "S3"}  # C-2: the boundary is kept
    assert story.kept(day=0, window=30, as_of=instant(50, ms=1)) == {"S2", "S3"}


def test_the_worked_example_of_ar_55_keeps_the_tagged_one_until_the_tag_is_dropped() -> None:
    # AR-55
    story = history().commit("S1", day=0).commit("S2", day=20).commit("S3", day=40).tag("t", "S1")
    assert story.why("S1", day=5000, window=30) == {"tag"}
    assert story.expired(day=5000, window=30) == {"S2"}
    assert story.drop_ref("t").expired(day=5000, window=30) == {"S1", "S2"}


# --- rollback, staged snapshots, publishing -------------------------------------------------------


def test_a_rolled_back_snapshot_answers_for_the_time_it_was_current() -> None:
    # TT-1
    story = daily(3).rollback_to("S2", day=5)
    assert story.why("S3", day=6, window=2) == {"window"}
    assert story.expired(day=7.5, window=2) == {"S1", "S3"}


def test_a_snapshot_that_main_returned_to_counts_from_the_last_time_it_was_left() -> None:
    story = daily(2).rollback_to("S1", day=10).commit("S3", day=20)
    assert story.kept(day=25, window=10) == {"S1", "S3"}
    assert story.expired(day=25, window=10) == {"S2"}


def test_a_staged_snapshot_counts_from_the_observation_that_first_saw_it() -> None:
    story = daily(1).stage("W", day=2).observe(day=4).commit("S2", day=5)
    assert story.why("W", day=14, window=10) == {"window"}
    assert story.expired(day=14.5, window=10) == {"W"}


def test_a_staged_snapshot_that_nobody_has_observed_is_kept() -> None:
    story = daily(1).stage("W", day=2).commit("S2", day=500)
    assert "W" in story.kept(day=1000, window=1)


def test_a_second_run_does_not_expire_the_staged_snapshot_that_the_first_one_kept() -> None:
    story = daily(1).stage("W", day=2).commit("S2", day=3).commit("S3", day=60).observe(day=90)
    story.commit("S4", day=61)
    assert story.expired(day=90, window=7) == {"S1", "S2", "S3"}
    for name in ("S1", "S2", "S3"):
        story.expired_elsewhere(name)  # what our own commit does to the log
    assert story.expired(day=90, window=7) == set()


def test_a_cherry_picked_snapshot_leaves_the_staged_one_to_age_on_its_own() -> None:
    story = daily(1).stage("W", day=2).observe(day=2).commit("S2", day=3)
    story.cherry_pick("W", day=4, new="S3")
    assert story.expired(day=13.5, window=10) == {"S1", "W"}


def test_a_staged_snapshot_that_was_published_as_it_is_counts_from_its_publishing() -> None:
    story = daily(1).stage("W", day=2).observe(day=2).cherry_pick("W", day=20).commit("S2", day=30)
    assert story.kept(day=35, window=10) == {"W", "S2"}
    assert story.kept(day=29, window=10) == {"S1", "W", "S2"}


def test_a_fast_forward_gives_main_the_branch_and_ends_the_old_head_then() -> None:
    story = daily(1).branch("audit").commit("B1", day=2, branch="audit")
    story.commit("B2", day=3, branch="audit").fast_forward(MAIN, "audit", day=20)
    story.drop_ref("audit").commit("S2", day=40)
    assert story.kept(day=29, window=10) == {"S1", "B2", "S2"}
    assert story.expired(day=29, window=10) == {"B1"}  # never main's head: ends with its child


# --- branches -------------------------------------------------------------------------------------


def test_every_branch_head_is_kept_however_old() -> None:
    # AR-4
    story = daily(1).branch("b").commit("B1", day=2, branch="b").commit("S2", day=3)
    assert story.kept(day=5000, window=1) == {"B1", "S2"}
    assert "head" in story.why("B1", day=5000, window=1)


def test_a_branch_has_intervals_along_its_own_ancestry() -> None:
    story = daily(1).branch("b").commit("B1", day=2, branch="b").commit("B2", day=30, branch="b")
    story.commit("S2", day=3)
    assert story.why("B1", day=35, window=10) == {"window"}
    assert story.expired(day=35, window=10) == {"S1"}


def test_a_snapshot_on_two_lines_counts_from_the_later_end() -> None:
    story = daily(2).branch("b", "S1").commit("B1", day=30, branch="b")
    assert "S1" in story.kept(day=35, window=10)
    assert story.expired(day=41, window=10) == {"S1"}


def test_a_deleted_branch_counts_from_the_observation_that_missed_it() -> None:
    story = daily(1).branch("b").commit("B1", day=2, branch="b").observe(day=40)
    story.drop_ref("b").observe(day=50)
    assert story.why("B1", day=60, window=10) == {"window"}
    assert story.expired(day=60.5, window=10) == {"B1"}


def test_a_deleted_branch_that_no_observation_has_missed_yet_is_kept() -> None:
    story = daily(1).branch("b").commit("B1", day=2, branch="b").observe(day=3).drop_ref("b")
    assert "B1" in story.kept(day=5000, window=10)


def test_a_branch_that_came_back_counts_as_a_branch() -> None:
    story = daily(1).branch("b").commit("B1", day=2, branch="b").observe(day=3)
    story.drop_ref("b").observe(day=4).branch("again", "B1").observe(day=90)
    assert story.sightings[story.ids["B1"]].unreferenced_since is None
    assert "B1" in story.drop_ref("again").observe(day=99).kept(day=100, window=5)


def test_a_snapshot_that_a_rollback_brought_back_counts_from_when_main_left_it_again() -> None:
    story = daily(4).rollback_to("S3", day=5).expired_elsewhere("S4")
    story.rollback_to("S2", day=20).commit("S5", day=21).rollback_to("S2", day=22)
    story.observe(day=23).expired_elsewhere("S5").observe(day=24)
    assert story.names(entry.snapshot_id for entry in story.log) == {"S2"}
    assert "S3" in story.kept(day=29, window=10)
    assert "S3" not in story.kept(day=31, window=10)


def test_a_branch_past_its_age_goes_and_its_head_stays_readable_for_the_window() -> None:
    story = daily(1).branch("b", max_ref_age_ms=millis(10)).commit("B1", day=2, branch="b")
    story.observe(day=12).commit("S2", day=13)
    keeps = story.keeps(day=13, window=5)
    assert keeps.expired_refs == ("b",)
    assert "B1" in story.names(keeps.reasons)


def test_a_branch_that_goes_today_was_readable_until_today_even_if_nobody_observed_it() -> None:
    story = daily(1).branch("b", max_ref_age_ms=millis(10)).commit("B1", day=2, branch="b")
    story.commit("X", day=3).commit("S2", day=4).expired_elsewhere("X")  # the log begins on day 4
    keeps = story.keeps(day=13, window=5)
    assert keeps.expired_refs == ("b",)
    assert "B1" in story.names(keeps.reasons)


def test_a_branch_that_goes_leaves_mains_own_past_to_main_as_a_tag_does() -> None:
    story = daily(9).branch("b", "S1", max_ref_age_ms=millis(5))
    keeps = story.keeps(day=9, window=2)
    assert keeps.expired_refs == ("b",)
    assert "S1" in story.names(keeps.expired)


def test_a_branch_that_goes_does_not_bring_back_what_its_own_line_superseded_long_ago() -> None:
    story = daily(1).branch("b", max_ref_age_ms=millis(10))
    story.commit("B1", day=2, branch="b").commit("B2", day=3, branch="b").observe(day=4)
    assert "B1" in story.expired(day=10, window=5)
    assert "B1" in story.expired(day=14, window=5)  # b goes on this day, B1 ended on day 3


# --- what plain Iceberg keeps ---------------------------------------------------------------------


def test_the_table_property_for_the_fewest_snapshots_keeps_the_newest_of_each_branch() -> None:
    story = daily(5).branch("b", "S2").having(MIN_TO_KEEP, 2)
    assert story.kept(day=90, window=0) == {"S1", "S2", "S4", "S5"}
    assert story.why("S4", day=90, window=0) == {"branch"}


def test_a_branch_own_count_wins_over_the_table_property() -> None:
    story = daily(5).having(MIN_TO_KEEP, 4).main_keeps(min_snapshots_to_keep=3)
    assert story.kept(day=90, window=0) == {"S3", "S4", "S5"}


def test_a_branch_own_age_keeps_its_young_ancestors() -> None:
    story = daily(10).main_keeps(max_snapshot_age_ms=millis(4))
    assert story.kept(day=10, window=0) == {"S6", "S7", "S8", "S9", "S10"}
    assert "S6" not in story.kept(day=0, window=0, as_of=instant(10, ms=1))


def test_a_short_snapshot_age_never_shortens_the_window() -> None:
    story = daily(10).having(MAX_AGE, 1).main_keeps(max_snapshot_age_ms=1)
    assert story.expired(day=10, window=3) == {f"S{n}" for n in range(1, 6)}


def test_a_long_snapshot_age_lengthens_what_is_kept() -> None:
    assert daily(10).having(MAX_AGE, millis(8)).expired(day=10, window=0) == {"S1"}


def test_the_walk_along_a_branch_stops_at_the_first_that_is_too_old_as_in_iceberg() -> None:
    # S1 has a younger time than its child S2: the walk never gets to it.
    story = history().commit("S1", day=9).commit("S2", day=1).commit("S3", day=10)
    story.having(MAX_AGE, millis(3))
    assert story.kept(day=11, window=0) == {"S3"}


def test_a_count_that_cannot_be_read_keeps_the_branch_whole() -> None:
    assert daily(3).having(MIN_TO_KEEP, "many").expired(day=90, window=0) == set()


# --- tags and ages of refs ------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "goes"), [(0, False), (1, True)])
def test_a_tag_goes_one_millisecond_after_its_age_counted_from_its_snapshot(
    ms: int, goes: bool
) -> None:
    # F-3
    story = daily(5).tag("t", "S1", max_ref_age_ms=millis(30))
    keeps = story.keeps(day=0, window=0, as_of=instant(31, ms=ms))
    assert keeps.expired_refs == (("t",) if goes else ())
    assert ("S1" in story.names(keeps.expired)) is goes


def test_the_table_default_age_ends_refs_that_have_none_of_their_own() -> None:
    story = daily(5).tag("plain", "S1").tag("own", "S2", max_ref_age_ms=millis(900)).branch("b")
    story.having(MAX_REF_AGE, millis(30))
    assert story.keeps(day=36, window=0).expired_refs == ("b", "plain")
    assert story.kept(day=36, window=0) == {"S2", "S5"}


def test_main_never_expires() -> None:
    story = daily(2).having(MAX_REF_AGE, 1).main_keeps(max_ref_age_ms=1)
    assert story.keeps(day=5000, window=0).expired_refs == ()
    assert story.kept(day=5000, window=0) == {"S2"}


def test_a_tag_keeps_its_snapshot_and_none_of_its_ancestors() -> None:
    assert daily(5).tag("t", "S3").kept(day=90, window=0) == {"S3", "S5"}


def test_two_tags_on_a_snapshot_keep_it_until_the_last_one_goes() -> None:
    # ML-10
    story = daily(3).tag("short", "S1", max_ref_age_ms=1).tag("long", "S1")
    keeps = story.keeps(day=90, window=0)
    assert keeps.expired_refs == ("short",)
    assert "S1" in story.names(keeps.reasons)


@pytest.mark.parametrize(
    ("tag", "reason"), [("share__x", "share"), ("hold__x", "hold"), ("consumer__x", "consumer")]
)
def test_our_tags_say_why_and_outlive_the_table_default_age(tag: str, reason: str) -> None:
    story = daily(3).tag(tag, "S1").having(MAX_REF_AGE, 1)
    assert story.why("S1", day=5000, window=0) == {reason}
    assert story.keeps(day=5000, window=0).expired_refs == ()


def test_our_tags_end_where_somebody_gave_them_an_age() -> None:
    story = daily(3).tag("share__x", "S1", max_ref_age_ms=millis(10))
    assert story.keeps(day=90, window=0).expired_refs == ("share__x",)


# --- consumers ------------------------------------------------------------------------------------


def test_a_consumer_keeps_its_snapshot_and_all_later_ones_up_to_the_head() -> None:
    story = daily(6).tag("consumer__bill", "S3")
    assert story.expired(day=90, window=0) == {"S1", "S2"}
    assert story.why("S3", day=90, window=0) == story.why("S5", day=90, window=0) == {"consumer"}
    assert story.why("S6", day=90, window=0) >= {"head", "consumer"}


def test_a_consumer_keeps_the_way_on_along_every_branch_and_nothing_beside_it() -> None:
    story = daily(3).branch("audit", "S2").commit("A1", day=4, branch="audit")
    story = story.commit("A2", day=5, branch="audit").commit("S4", day=6)
    story = story.branch("elsewhere", "S1").commit("E1", day=7, branch="elsewhere")
    story = story.commit("E2", day=8, branch="elsewhere")
    story = story.tag("consumer__bill", "S2")
    assert story.expired(day=90, window=0) == {"S1", "E1"}
    on_main = story.tag("consumer__bill", "S3")
    assert on_main.expired(day=90, window=0) == {"S1", "S2", "A1", "E1"}


def test_of_two_consumers_the_one_that_is_further_behind_decides() -> None:
    story = daily(6).tag("consumer__slow", "S2").tag("consumer__fast", "S5")
    assert story.expired(day=90, window=0) == {"S1"}


def test_a_consumer_that_main_was_set_back_behind_keeps_its_snapshot_alone() -> None:
    story = daily(6).tag("consumer__bill", "S4").rollback_to("S2", day=7)
    assert story.kept(day=90, window=0) == {"S2", "S4"}
    assert story.commit("S7", day=8).kept(day=90, window=0) == {"S4", "S7"}


def test_a_consumer_whose_way_on_another_tool_has_broken_keeps_its_snapshot_alone() -> None:
    story = daily(6).tag("consumer__bill", "S2").expired_elsewhere("S4")
    assert story.kept(day=90, window=0) == {"S2", "S6"}


def test_a_consumer_ends_by_its_age_and_not_a_millisecond_before() -> None:
    story = daily(6).tag("consumer__bill", "S2", max_ref_age_ms=millis(10))
    assert story.expired(day=0, window=0, as_of=instant(12)) == {"S1"}
    keeps = story.keeps(day=0, window=0, as_of=instant(12, ms=1))
    assert keeps.expired_refs == ("consumer__bill",)
    assert story.names(keeps.reasons) == {"S6"}


def test_a_branch_that_is_called_like_a_consumer_is_a_branch() -> None:
    story = daily(6).branch("consumer__bill", "S3")
    assert story.kept(day=90, window=0) == {"S3", "S6"}


def test_a_table_that_is_let_go_keeps_what_a_consumer_has_read_to_until_that_ends() -> None:
    story = daily(6).tag("consumer__bill", "S3", max_ref_age_ms=millis(30))
    assert story.kept(day=20, window=0, dropped=True, let_go=True) == {"S3"}
    assert story.kept(day=40, window=0, dropped=True, let_go=True) == set()


# --- leases, holds, tables that are only read -----------------------------------------------------


def test_a_lease_keeps_its_snapshot_and_the_refs_on_it() -> None:
    story = daily(3).tag("t", "S1", max_ref_age_ms=1)
    assert "lease" in story.why("S1", day=90, window=0, leased=["S1"])
    assert story.keeps(day=90, window=0, leased=["S1"]).expired_refs == ()
    assert story.expired(day=90, window=0, leased=["S1"]) == {"S2"}


def test_a_snapshot_that_waits_for_its_cold_copy_is_kept_with_the_refs_on_it() -> None:
    story = daily(3).tag("t", "S1", max_ref_age_ms=1)
    keeps = story.keeps(day=90, window=0, handoff_pending=["S1", "S2"])
    assert (keeps.expired, keeps.expired_refs) == ((), ())
    assert "handoff pending" in story.why("S2", day=90, window=0, handoff_pending=["S1", "S2"])


def test_a_lease_on_a_snapshot_that_is_gone_says_nothing() -> None:
    story = daily(3).expired_elsewhere("S1")
    assert story.kept(day=90, window=0, leased=["S1"]) == {"S3"}


def test_a_hold_on_the_table_keeps_every_snapshot_and_every_ref() -> None:
    story = daily(3).tag("t", "S1", max_ref_age_ms=1).stage("W", day=4)
    keeps = story.keeps(day=90, window=0, held=True)
    assert (keeps.expired, keeps.expired_refs) == ((), ())
    assert "hold" in story.why("S2", day=90, window=0, held=True)


def test_a_table_that_is_only_read_keeps_every_snapshot_and_every_ref() -> None:
    story = daily(3).tag("t", "S1", max_ref_age_ms=1).stage("W", day=4)
    keeps = story.keeps(day=90, window=0, managed=False)
    assert (keeps.expired, keeps.expired_refs) == ((), ())
    assert story.why("S2", day=90, window=0, managed=False) == {"not managed"}
