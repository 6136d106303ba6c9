"""What `--deletes keep` keeps: the state of the moment before, row for row (chunk-facts, K1-K6)."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.domain.chunks.sync import Deletes
from tests.chunks.chunk_tables import EQUALITY, MERGE_ON_READ, day_name, reading
from tests.doubles.chunks import complete_rows_of
from tests.lives.kills import Killed
from tests.unit.chunks.tiers import DAYS, Tiers

EVERYTHING = list(range(2 * DAYS))
DAY_0, OTHERS = day_name(0), [day_name(1), day_name(2)]


def rows_of_both(tiers: Tiers) -> list[tuple[int, int]]:
    """Ids and values of all rows of hot and cold, in order."""
    complete = complete_rows(tiers.lake.services(), tiers.hot.name)
    rows = complete_rows_of(complete.read, tiers.lake.store)
    return sorted((dict(row)[1], dict(row)[3]) for row in rows)


def ids_of_both(tiers: Tiers) -> list[int]:
    return [id for id, _ in rows_of_both(tiers)]


def reopened() -> Tiers:
    """Days 0 to 2 were dropped by us, and a late row of day 0 was replicated."""
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[DAY_0] == "dropped"
    tiers.hot.append_rows(reading(40, 0))
    assert tiers.replicate().error is None
    return tiers


def append(tiers: Tiers) -> None:
    tiers.hot.append_rows(reading(40, 0))


def append_and_compact(tiers: Tiers) -> None:
    tiers.hot.append_rows(reading(40, 0))
    tiers.hot.compact_chunks(DAY_0)


def update(tiers: Tiers) -> None:
    tiers.hot.put([0], [reading(0, 0, 7)])


def update_by_key(tiers: Tiers) -> None:
    tiers.hot.put([0], [reading(0, 0, 7)], EQUALITY)


def delete(tiers: Tiers) -> None:
    tiers.hot.put([0])


def delete_in_place(tiers: Tiers) -> None:
    tiers.hot.put([0], mode=MERGE_ON_READ)


def delete_a_file(tiers: Tiers) -> None:
    """Row 40 lies in a file of its own, and was replicated."""
    tiers.hot.append_rows(reading(40, 0))
    tiers.replicate()
    tiers.hot.put([40])


BEFORE = [append, append_and_compact, update, update_by_key, delete, delete_in_place, delete_a_file]


def goes_on(tiers: Tiers, rows: list[tuple[int, int]]) -> None:
    """A late row of the emptied day comes, changes and goes; all others stay (K1)."""
    tiers.hot.append_rows(reading(80, 0))
    assert tiers.replicate().error is None
    tiers.hot.put([80], [reading(80, 0, 3)])
    assert tiers.replicate().error is None
    assert rows_of_both(tiers) == sorted([*rows, (80, 3)])
    tiers.hot.put([80])
    assert tiers.replicate(Deletes.MIRROR).error is None
    assert rows_of_both(tiers) == rows
    assert tiers.anew().error is None
    assert rows_of_both(tiers) == rows
    assert tiers.ids() == [id for id, _ in rows]


@pytest.mark.parametrize("act", BEFORE)
def test_what_a_commit_of_the_same_pass_did_before_the_delete_is_kept(
    act: Callable[[Tiers], None],
) -> None:
    """K1, K4, K5 and K6."""
    tiers = Tiers()
    act(tiers)
    rows = sorted((dict(row)[1], dict(row)[3]) for row in tiers.hot.rows_now())
    tiers.hot.delete_chunks(DAY_0, *OTHERS)
    assert tiers.replicate().sync.reason == "LARGE_DELETES"
    assert tiers.replicate(Deletes.KEEP).error is None
    assert tiers.lake.has_caught_up()
    assert rows_of_both(tiers) == rows
    assert tiers.statuses()[DAY_0] == "dropped"
    goes_on(tiers, rows)


@pytest.mark.parametrize("act", [None, "compacted", "updated", "unseen"])
def test_late_rows_of_a_chunk_that_we_dropped_are_kept_too(act: str | None) -> None:
    """K2: the delete takes from hot what came after our drop."""
    tiers = reopened()
    rows = rows_of_both(tiers)
    if act == "compacted":
        tiers.hot.compact_chunks(DAY_0)
    if act == "updated":
        tiers.hot.put([40], [reading(40, 0, 9)])
        rows = [*rows[:-1], (40, 9)]
    if act == "unseen":
        tiers.hot.append_rows(reading(41, 0))
        rows = [*rows, (41, 0)]
    tiers.hot.delete_chunks(DAY_0, day_name(3), day_name(4))
    assert tiers.replicate().sync.reason == "LARGE_DELETES"
    assert tiers.replicate(Deletes.KEEP).error is None
    assert rows_of_both(tiers) == rows
    goes_on(tiers, rows)


@pytest.mark.parametrize("act", BEFORE)
def test_what_was_done_while_sync_was_stopped_is_kept_by_the_pass_that_begins_anew(
    act: Callable[[Tiers], None],
) -> None:
    """K3, where hot's history shows the moment before."""
    tiers = Tiers()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    act(tiers) if act is not delete_a_file else append(tiers)
    rows = sorted((dict(row)[1], dict(row)[3]) for row in tiers.hot.rows_now())
    tiers.hot.delete_chunks(DAY_0, *OTHERS)
    tiers.hot.append_rows(reading(50, 1))
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate().sync.reason == "LARGE_DELETES"
    assert tiers.replicate(Deletes.KEEP).error is None
    assert rows_of_both(tiers) == sorted([*rows, (50, 0)])
    goes_on(tiers, sorted([*rows, (50, 0)]))


def test_late_rows_that_went_while_sync_was_stopped_are_kept() -> None:
    """K2 and K3 together."""
    tiers = reopened()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.hot.append_rows(reading(41, 0))
    rows = rows_of_both(tiers)
    tiers.hot.delete_chunks(DAY_0, day_name(3), day_name(4))
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate(Deletes.KEEP).error is None
    assert ids_of_both(tiers) == [*EVERYTHING, 40, 41]
    assert {id for id, _ in rows} <= set(ids_of_both(tiers))
    goes_on(tiers, rows_of_both(tiers))


def test_where_the_moment_before_is_still_shown_the_start_of_the_history_is_not_needed() -> None:
    tiers = Tiers()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.hot.append_rows(reading(40, 0))
    tiers.hot.append_rows(reading(41, 5))
    before = tiers.hot.head
    tiers.hot.delete_chunks(DAY_0)
    tiers.hot.expire_elsewhere(*(set(tiers.hot.snapshots) - {before, tiers.hot.head}))
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert tiers.replicate(Deletes.KEEP).error is None
    assert ids_of_both(tiers) == [*EVERYTHING, 40, 41]
    goes_on(tiers, rows_of_both(tiers))


@pytest.mark.parametrize("is_late", [False, True])
def test_where_nothing_shows_the_moment_before_keep_refuses_and_names_the_chunks(
    is_late: bool,
) -> None:
    tiers = reopened() if is_late else Tiers()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.hot.append_rows(reading(41, 0))
    tiers.hot.delete_chunks(DAY_0, *OTHERS)
    tiers.hot.append_rows(reading(42, 5))
    tiers.hot.expire_elsewhere(*(set(tiers.hot.snapshots) - {tiers.hot.head}))
    start_sync(tiers.lake.services(), tiers.hot.name)
    before = tiers.ids()
    error = tiers.replicate(Deletes.KEEP).error
    assert error is not None and DAY_0 in error.found and "--deletes mirror" in error.next
    assert tiers.ids() == before  # cold was not touched
    assert tiers.replicate(Deletes.MIRROR).error is None
    assert 41 not in tiers.ids() and 42 in tiers.ids()


@pytest.mark.parametrize("number", range(1, 4))
@pytest.mark.parametrize("call", ["control.chunks.move", "control.syncs.save", "replicator.copy"])
@pytest.mark.parametrize("after", [False, True])
def test_a_pass_that_dies_between_two_copies_goes_on_rightly(
    call: str, number: int, after: bool
) -> None:
    tiers = Tiers()
    update(tiers)
    tiers.hot.append_rows(reading(40, 0))
    rows = sorted((dict(row)[1], dict(row)[3]) for row in tiers.hot.rows_now())
    tiers.hot.delete_chunks(DAY_0, *OTHERS)
    tiers.hot.append_rows(reading(50, 5))
    tiers.replicate()
    dying = tiers.die_at(call, number)
    dying.after = after
    with suppress(Killed):
        tiers.replicate(Deletes.KEEP, dying.of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    assert tiers.replicate(Deletes.KEEP).error is None
    assert tiers.lake.has_caught_up()
    assert rows_of_both(tiers) == sorted([*rows, (50, 0)])
    goes_on(tiers, sorted([*rows, (50, 0)]))


def test_a_rollback_over_a_kept_delete_has_each_row_once() -> None:
    tiers = Tiers()
    tiers.hot.append_rows(reading(40, 0))
    before = tiers.hot.head
    tiers.hot.delete_chunks(DAY_0, *OTHERS)
    assert tiers.replicate(Deletes.KEEP).error is None
    tiers.hot.rollback(before)
    assert tiers.fail_and_begin_anew().error is None
    assert ids_of_both(tiers) == tiers.ids() == [*EVERYTHING, 40]
    assert tiers.statuses()[DAY_0] == "active"


def test_a_large_delete_that_leaves_rows_of_its_chunks_cannot_be_kept() -> None:
    tiers = Tiers()
    tiers.hot.put([0, 2, 4, 6])
    error = tiers.replicate(Deletes.KEEP).error
    assert error is not None and "leaves some rows" in error.message
    assert tiers.ids() == EVERYTHING
    assert tiers.replicate(Deletes.MIRROR).error is None  # a person may think again
    assert tiers.ids() == [id for id in EVERYTHING if id not in (0, 2, 4, 6)]
