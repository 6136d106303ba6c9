"""What of a table is past an age of its policies, and how long it has been that (LT-16)."""

from dataclasses import replace
from datetime import timedelta

from meltline.app.chunks.policies import PolicyWish, add_policy, forget_policy
from meltline.app.chunks.reading.status import TieringStatus
from meltline.app.chunks.run import run_chunks
from meltline.domain.chunks.policies import PolicyType
from tests.chunks.chunk_tables import day_name
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


# --- in how many runs it is gone -----------------------------------------------------------------


def waiting(days: LakeOfDays, day: float, dry_run: bool = False, **limits: float) -> set[str]:
    """What a night says of chunks that later ones drop."""
    days.lake.on(day)
    services = days.lake.services()
    config = replace(services.config, chunks=replace(services.config.chunks, **limits))
    request = replace(days.lake.request(f"night-{day}"), dry_run=dry_run)
    lines = run_chunks(replace(services, config=config), request).summary.deferred
    return {line["detail"] for line in lines if line["reason"] == "OVER_SHARE"}


def test_a_dry_run_says_in_how_many_runs_a_backlog_is_gone_and_so_it_is() -> None:
    days = LakeOfDays().followed()
    gone = {"the 2 oldest of 3 chunks go first: all are dropped in 2 runs"}
    days.replicate(10)
    assert waiting(days, 10, dry_run=True, max_chunks=2) == gone and days.dropped() == []
    assert waiting(days, 10, max_chunks=2) == gone and len(days.dropped()) == 2
    assert waiting(days, 10.1, max_chunks=2) == set() and len(days.dropped()) == 3


def test_a_chunk_that_no_run_drops_is_named_with_the_runs_that_drop_all_before_it() -> None:
    days = LakeOfDays().followed()
    last = f"{day_name(5)}, by then more of the table than chunks.max-drop-share"
    first = f"the 4 oldest of 6 chunks go first: all before {last}, are dropped in 2 runs"
    assert waiting(days, 14) == {first} and len(days.dropped()) == 4
    second = f"the 1 oldest of 2 chunks go first: all before {last}, are dropped in 1 run"
    assert waiting(days, 14.1) == {second} and len(days.dropped()) == 5
    assert waiting(days, 14.2) == set() and len(days.dropped()) == 5
    fresh = LakeOfDays().followed()
    assert waiting(fresh, 14, max_drop_share=0.1) == {
        f"all wait for {day_name(0)}, by then more of the table than chunks.max-drop-share"
    }


def test_a_policy_that_is_added_says_in_how_many_runs_its_backlog_is_gone() -> None:
    days = LakeOfDays()
    forget_policy(days.lake.services(), days.table.name, DROPS.type)
    young = add_policy(days.lake.services(), days.table.name, replace(PLAIN, drop_after="3d"))
    assert not any("go first" in notice for notice in young.notices)
    forget_policy(days.lake.services(), days.table.name, PLAIN.type)
    added = add_policy(days.lake.services(), days.table.name, replace(PLAIN, drop_after="1d"))
    assert "the 4 oldest of 5 chunks go first: all are dropped in 2 runs" in added.notices
