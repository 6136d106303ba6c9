"""Compactions and expiries of cold by its owner stop nothing and bring no row back.

Late rows of a reopened chunk are in hot and in cold, beside what cold alone has.
"""

from collections.abc import Callable

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.domain.chunks.sync import SYNC_LATE, Deletes
from meltline.domain.errors import SyncRefused
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    EQUALITY,
    MERGE_ON_READ,
    day_name,
    reading,
    values_of,
)
from tests.doubles.chunks import complete_rows_of
from tests.unit.chunks.tiers import DAYS, Tiers

EVERYTHING = list(range(2 * DAYS))
REST = [*EVERYTHING, 40]
"""What reopened tables have beside late rows."""
Upkeep = Callable[[Tiers], None]


def compacts(tiers: Tiers) -> None:
    tiers.compact_cold()


def expires(tiers: Tiers) -> None:
    tiers.lake.expire_cold()


def does_both(tiers: Tiers) -> None:
    compacts(tiers)
    expires(tiers)


UPKEEP = pytest.mark.parametrize("upkeep", [compacts, expires, does_both])


def reopened() -> Tiers:
    """Days 0 to 2 were dropped; late rows 50 and 51 of day 0 are in hot and in cold.

    A pass came after the one that copied them, whose snapshot may so expire.
    """
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    tiers.hot.append_rows(reading(50, 0.5), reading(51, 0.6))
    assert tiers.replicate().error is None
    tiers.hot.append_rows(reading(40, 5.5))
    assert tiers.replicate().error is None
    return tiers


def all_ids(tiers: Tiers) -> list[int]:
    """The ids of all rows, each as often as it is there."""
    complete = complete_rows(tiers.lake.services(), tiers.hot.name)
    return values_of(complete_rows_of(complete.read, tiers.lake.store))


@UPKEEP
@pytest.mark.parametrize("mode", [COPY_ON_WRITE, MERGE_ON_READ, EQUALITY])
def test_a_late_row_that_a_user_deletes_stays_deleted(upkeep: Upkeep, mode: str) -> None:
    tiers = reopened()
    upkeep(tiers)
    for row in (50, 51):
        tiers.hot.put([row], mode=mode)
        assert tiers.replicate(Deletes.MIRROR).error is None
    assert all_ids(tiers) == tiers.ids() == REST
    tiers.hot.append_rows(reading(60, 0.7))
    assert all_ids(tiers) == [*REST, 60]
    assert tiers.replicate(Deletes.MIRROR).error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 60]


@UPKEEP
def test_a_late_row_that_a_user_updates_is_there_once(upkeep: Upkeep) -> None:
    tiers = reopened()
    upkeep(tiers)
    tiers.hot.put([50], [reading(50, 0.5, 7)])
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51]


@UPKEEP
def test_all_rows_are_read_and_late_ones_taken_after_it(upkeep: Upkeep) -> None:
    tiers = reopened()
    upkeep(tiers)
    assert all_ids(tiers) == [*REST, 50, 51]
    tiers.hot.append_rows(reading(60, 0.7))
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51, 60]


@UPKEEP
def test_the_chunk_is_dropped_again_after_it(upkeep: Upkeep) -> None:
    tiers = reopened()
    upkeep(tiers)
    assert tiers.run("again")[day_name(0)] == "dropped"
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51]
    upkeep(tiers)
    tiers.hot.append_rows(reading(60, 0.7))
    assert all_ids(tiers) == [*REST, 50, 51, 60]
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51, 60]


@UPKEEP
def test_a_new_generation_begins_after_it(upkeep: Upkeep) -> None:
    tiers = reopened()
    upkeep(tiers)
    tiers.hot.put([50])
    assert tiers.anew().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 51]


@UPKEEP
def test_what_was_compacted_before_late_rows_came_is_told_from_them(upkeep: Upkeep) -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("drops")
    upkeep(tiers)
    tiers.hot.append_rows(reading(50, 0.5))
    assert all_ids(tiers) == [*EVERYTHING, 50]
    tiers.replicate()
    tiers.hot.put([50], [reading(50, 0.5, 7)])
    assert all_ids(tiers) == [*EVERYTHING, 50]
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*EVERYTHING, 50]
    assert tiers.run("again")[day_name(0)] == "dropped"
    assert all_ids(tiers) == [*EVERYTHING, 50]


def test_mixed_rows_that_hot_has_changed_since_wait_for_the_next_pass_alone() -> None:
    tiers = reopened()
    tiers.compact_cold(0)
    tiers.hot.put([50])
    with pytest.raises(SyncRefused, match="mixed late rows") as refused:
        all_ids(tiers)
    assert "chunks replicate" in refused.value.next
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 51]


def test_mixed_rows_are_told_apart_though_hot_has_nothing_new() -> None:
    tiers = reopened()
    tiers.compact_cold(0)
    assert tiers.replicate().error is None
    tiers.hot.put([50])
    assert all_ids(tiers) == [*REST, 51]


def test_a_compaction_of_hot_is_no_change_of_mixed_rows() -> None:
    tiers = reopened()
    tiers.compact_cold(0)
    tiers.hot.compact_chunks()
    assert all_ids(tiers) == [*REST, 50, 51]


def test_equal_rows_are_counted_and_not_merged() -> None:
    """Hot's late row equals one that was dropped: cold has it twice, and keeps one of them."""
    tiers = reopened()
    tiers.hot.append_rows(reading(0, 0))
    tiers.replicate()
    tiers.compact_cold(0)
    tiers.hot.put([0])
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51]


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_rollback_to_between_two_drops_finds_mixed_late_rows_again(is_followed: bool) -> None:
    tiers = reopened()
    between = tiers.hot.head
    assert tiers.run("again")[day_name(0)] == "dropped"
    if is_followed:  # cold's position is after the drop
        tiers.hot.append_rows(reading(41, 5.5))
        tiers.replicate()
    tiers.compact_cold(0)
    tiers.hot.rollback(between)
    assert tiers.fail_and_begin_anew().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 50, 51]
    tiers.hot.put([50])
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 51]


@pytest.mark.parametrize("is_coarse", [False, True])
def test_where_history_that_tells_has_expired_the_way_out_leads_out(is_coarse: bool) -> None:
    """A file of a month reaches into every day, those that it has no row of as well."""
    tiers = reopened()
    tiers.compact_cold(0)
    stop_sync(tiers.lake.services(), tiers.hot.name)
    position = tiers.hot.head
    tiers.hot.append_rows(reading(60, 0.7))
    rest, months = REST, [reading(70, 5.2), reading(71, 20)] if is_coarse else []
    if is_coarse:
        tiers.hot.cut_anew("month")
        tiers.hot.append_rows(*months)
        rest = [*REST, 70, 71]
    tiers.run("records which drops are in force")
    tiers.hot.expire_elsewhere(position)
    with pytest.raises(SyncRefused):
        all_ids(tiers)
    start_sync(tiers.lake.services(), tiers.hot.name)
    done = tiers.replicate()
    assert done.error is not None and done.sync.reason == "MIXED_FILES"
    assert "--deletes keep" in done.error.next
    before = tiers.ids()
    copied = [row for row in tiers.hot.rows_now() if dict(row)[1] in (50, 51, 60)]
    tiers.hot.put([50, 51, 60])
    assert tiers.replicate(Deletes.KEEP).error is None
    assert before == [*REST, 50, 51]
    assert sorted(all_ids(tiers)) == tiers.ids() == sorted([*rest, 50, 51])
    tiers.hot.append_rows(*(row for row in copied if dict(row)[1] not in before))
    assert tiers.replicate().error is None
    assert sorted(all_ids(tiers)) == tiers.ids() == sorted([*rest, 50, 51, 60])


def test_rows_that_others_took_out_of_cold_are_missed_and_not_guessed() -> None:
    tiers = reopened()
    with tiers.lake.cold_owner() as cold:
        assert cold is not None
        cold.learn_files()
        cold.put([50])
    tiers.hot.append_rows(reading(60, 0.7))
    done = tiers.replicate()
    assert done.error is not None and "lacks rows" in done.error.message
    assert 60 not in tiers.ids()


def test_cold_that_lost_its_record_has_its_rows_told_apart_by_rows() -> None:
    tiers = reopened()
    with tiers.lake.cold_owner() as cold:
        assert cold is not None
        cold.unset(SYNC_LATE)
    assert all_ids(tiers) == [*REST, 50, 51]
    tiers.hot.put([50])
    assert tiers.replicate().error is None
    assert all_ids(tiers) == tiers.ids() == [*REST, 51]


def test_a_damaged_record_stops_everything() -> None:
    tiers = reopened()
    with tiers.lake.cold_owner() as cold:
        assert cold is not None
        cold.edit(lambda document: document["properties"].update({SYNC_LATE: "[1]"}))
    with pytest.raises(SyncRefused, match="no list of files"):
        all_ids(tiers)
    tiers.hot.put([50])
    assert tiers.replicate().sync.reason == "DIVERGED"
