"""What is kept where other tools have cut or replaced the snapshot log."""

from dataclasses import replace

import pytest

from meltline.domain.iceberg.table_metadata import Snapshot, SnapshotLogEntry
from tests.lives.histories import (
    instant,
)
from tests.unit.retention.test_keep_set import MIN_TO_KEEP, daily


def test_a_log_cut_by_another_tool_counts_off_line_snapshots_until_its_oldest_entry() -> None:
    story = daily(3).expired_elsewhere("S2")  # the log begins with S3 now, S1 has no child left
    assert story.kept(day=8, window=5) == {"S1", "S3"}
    assert story.expired(day=8.5, window=5) == {"S1"}


def test_a_log_with_a_gap_counts_until_the_next_entry_that_is_left() -> None:
    story = daily(3).expired_elsewhere("S2", leaves_gap=True)
    assert story.kept(day=8, window=5) == {"S1", "S3"}
    assert story.expired(day=8.5, window=5) == {"S1"}


def test_on_main_without_a_log_a_snapshot_ends_with_its_child() -> None:
    story = daily(4).stage("W", day=5).rollback_to("W", day=6).rollback_to("S4", day=7)
    story.commit("S5", day=8).expired_elsewhere("W")  # cut: S4 on day 7, S5 on day 8
    assert story.expired(day=8.5, window=1) == {"S1", "S2", "S3"}


def test_a_cut_log_does_not_end_a_snapshot_before_its_staged_child_was_published() -> None:
    story = daily(1).stage("W", day=2).cherry_pick("W", day=20).commit("X", day=21)
    story.rollback_to("W", day=22).commit("S2", day=23).expired_elsewhere("X")
    # S1 was main's head until day 20; the log, cut, begins with W on day 22.
    assert "S1" in story.kept(day=25, window=10)


def test_a_replaced_table_counts_the_old_past_until_the_replacement() -> None:
    story = daily(2).replace("R1", day=10).commit("R2", day=40)
    assert story.kept(day=15, window=5) >= {"S1", "S2"}  # C-1: unknown counts as later
    assert story.expired(day=15.5, window=5) == {"S1", "S2"}


@pytest.mark.parametrize("empty", [False, True])
def test_a_replaced_table_keeps_mains_old_head_though_a_branch_moved_on_from_it(
    empty: bool,
) -> None:
    story = daily(1).branch("dev").commit("B1", day=2, branch="dev")
    # S1 is main's head until day 20; the replacement clears the log, dev still holds S1.
    story = story.replace_by_empty(day=20) if empty else story.replace("R1", day=20)
    assert "S1" in story.kept(day=25, window=10)


def test_a_table_replaced_by_an_empty_one_keeps_the_past_until_it_is_observed() -> None:
    story = daily(2).replace_by_empty(day=10)
    assert story.kept(day=90, window=5) == {"S1", "S2"}
    story.observe(day=11)
    assert story.kept(day=16, window=5) == {"S1", "S2"}
    assert story.kept(day=16.5, window=5) == set()


def test_a_rollback_between_two_replacements_that_nobody_observed_still_counts() -> None:
    story = daily(2).replace("R1", day=10)
    story.observe(day=11)  # S1 and S2 are seen on no branch
    story = story.rollback_to("S1", day=20).replace("R2", day=21)  # and the log is cleared again
    assert "S1" in story.kept(day=22, window=5)
    assert "S1" in story.expired(day=26.5, window=5)


def test_a_log_that_names_a_missing_snapshot_still_ends_the_one_before() -> None:
    story = daily(3)
    story.snapshots.pop(story.ids["S2"])
    assert story.expired(day=90, window=5) == {"S1"}


def test_a_log_whose_last_entry_is_not_main_keeps_that_one() -> None:
    story = daily(2)
    story.log.append(SnapshotLogEntry(instant(3), story.ids["S1"]))
    assert "S1" in story.kept(day=90, window=5)


def test_parents_that_form_a_ring_end_the_walk() -> None:
    story = daily(3).having(MIN_TO_KEEP, 10)
    first: Snapshot = story.snapshots[1]
    story.snapshots[1] = replace(first, parent_id=3)
    assert story.kept(day=90, window=0) == {"S1", "S2", "S3"}
