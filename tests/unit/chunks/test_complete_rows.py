"""One query over hot and cold has every row once, whatever happens while it looks (LT-33)."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from meltline.app.chunks.policies import PolicyWish, add_policy, forget_policy
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import stop_sync
from meltline.app.services import RunContext
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import CommitConflict, NotChunked, SyncRefused, TableNotFound
from tests.chunks.chunk_kills import Bystander, ChunkProcess
from tests.chunks.chunk_tables import (
    COPY_ON_WRITE,
    EQUALITY,
    MERGE_ON_READ,
    chunk_table,
    day_name,
    reading,
    values_of,
)
from tests.chunks.chunked_lake import ChunkedLake
from tests.doubles.chunks import complete_rows_of
from tests.lives.kills import Killed
from tests.unit.chunks.tiers import DAYS, Tiers

EVERYTHING = list(range(2 * DAYS))
LATE = reading(50, 0.5)


def dropped() -> Tiers:
    """Days 0 to 2 were dropped; the others are in hot."""
    tiers = Tiers()
    tiers.add_policy()
    assert tiers.run("drops")[day_name(0)] == "dropped"
    return tiers


def ids(tiers: Tiers, services: RunContext | None = None) -> list[int]:
    """The ids of all rows, in order; one that is there twice is told twice."""
    complete = complete_rows(services or tiers.lake.services(), tiers.hot.name)
    return values_of(complete_rows_of(complete.read, tiers.lake.store))


def beside(
    tiers: Tiers, about: str, act: Callable[[], object], number: int = 1
) -> tuple[RunContext, Bystander]:
    bystander = Bystander(number, about, act)
    return bystander.of(tiers.lake, tiers.lake.services()), bystander


def test_a_chunk_is_there_once_when_it_is_tiered_dropped_reopened_and_dropped_again() -> None:
    tiers = Tiers()
    assert ids(tiers) == EVERYTHING
    tiers.add_policy()
    tiers.run("drops")
    assert len(tiers.hot.rows_now()) < len(EVERYTHING) and ids(tiers) == EVERYTHING
    tiers.hot.append_rows(LATE)
    assert ids(tiers) == [*EVERYTHING, 50]
    tiers.replicate()
    assert tiers.statuses()[day_name(0)] == "reopened"
    assert 50 in tiers.ids() and ids(tiers) == [*EVERYTHING, 50]
    tiers.run("again")
    assert tiers.statuses()[day_name(0)] == "dropped" and ids(tiers) == [*EVERYTHING, 50]
    tiers.hot.append_rows(reading(51, 0.6))
    tiers.replicate()
    assert ids(tiers) == [*EVERYTHING, 50, 51]


@pytest.mark.parametrize("mode", [COPY_ON_WRITE, MERGE_ON_READ, EQUALITY])
def test_what_hot_says_of_a_late_row_counts_whatever_cold_has_of_it(mode: str) -> None:
    tiers = dropped()
    tiers.hot.append_rows(LATE, reading(51, 0.6))
    tiers.replicate()
    tiers.hot.put([50], mode=mode)
    tiers.hot.put([51], [reading(51, 3.5, 7)], mode=mode)
    assert ids(tiers) == [*EVERYTHING, 51]
    tiers.replicate()
    assert ids(tiers) == [*EVERYTHING, 51]


@pytest.mark.parametrize("after", [False, True])
def test_a_drop_that_no_ledger_has_noted_yet_counts_as_soon_as_it_is_made(after: bool) -> None:
    tiers = Tiers()
    tiers.add_policy()
    with suppress(Killed):
        dying = ChunkProcess(1, after, "dropper", lake=tiers.lake)
        tiers.run("dies", dying.of(tiers.lake.services()))
    assert dying.dead and "dropped" not in tiers.statuses().values()
    assert (len(tiers.hot.rows_now()) < len(EVERYTHING)) is after
    assert ids(tiers) == EVERYTHING
    tiers.hot.append_rows(LATE)
    assert ids(tiers) == [*EVERYTHING, 50]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_drop_that_the_ledger_notes_while_it_is_read_is_not_missed(number: int) -> None:
    tiers = Tiers()
    tiers.add_policy()
    dying = ChunkProcess(1, True, "dropper", lake=tiers.lake)
    with suppress(Killed):
        tiers.run("dies", dying.of(tiers.lake.services()))
    tiers.lake.let_leases_end()
    services, other = beside(tiers, "control.chunks", lambda: tiers.run("notes"), number)
    assert ids(tiers, services) == EVERYTHING and other.has_acted
    assert tiers.statuses()[day_name(0)] == "dropped"


def test_a_pass_that_died_before_the_ledger_heard_of_it_is_counted_once() -> None:
    tiers = dropped()
    tiers.hot.append_rows(LATE)
    dying = tiers.die_at("control.syncs.save", 1)
    with suppress(Killed):
        tiers.replicate(services=dying.of(tiers.lake.services()))
    assert dying.dead and 50 in tiers.ids()
    assert ids(tiers) == [*EVERYTHING, 50]


def test_a_rollback_over_a_drop_is_judged_by_hots_line_and_not_by_the_ledger() -> None:
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    tiers.run("drops")
    after = tiers.hot.head
    for head in (before, after, before):
        tiers.hot.rollback(head)
        assert ids(tiers) == EVERYTHING
    tiers.fail_and_begin_anew()
    assert tiers.statuses()[day_name(0)] != "dropped" and ids(tiers) == EVERYTHING
    tiers.hot.rollback(after)
    assert ids(tiers) == EVERYTHING


def test_a_rollback_to_between_two_drops_leaves_late_rows_to_hot() -> None:
    tiers = dropped()
    tiers.hot.append_rows(LATE)
    tiers.replicate()
    between = tiers.hot.head
    tiers.run("again")
    assert tiers.statuses()[day_name(0)] == "dropped"
    tiers.hot.rollback(between)
    assert ids(tiers) == [*EVERYTHING, 50]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("about", ["control.chunks", "control.syncs", "cold_chunk_files"])
def test_what_is_copied_and_dropped_between_looks_is_there_once(about: str, number: int) -> None:
    tiers = Tiers()
    tiers.add_policy()
    tiers.hot.append_rows(LATE)

    def copy_and_drop() -> None:
        tiers.replicate()
        assert tiers.run("between")[day_name(0)] == "dropped"

    services, _ = beside(tiers, about, copy_and_drop, number)
    for _ in range(2):
        assert ids(tiers, services) == [*EVERYTHING, 50]


@pytest.mark.parametrize("about", ["control.chunks", "control.syncs"])
def test_a_pass_that_comes_between_looks_doubles_and_loses_nothing(about: str) -> None:
    tiers = dropped()
    tiers.hot.append_rows(LATE)
    services, bystander = beside(tiers, about, tiers.replicate)
    assert ids(tiers, services) == [*EVERYTHING, 50]
    assert bystander.has_acted and 50 in tiers.ids()


def test_a_rollback_that_cold_follows_between_looks_makes_it_look_again() -> None:
    tiers = Tiers()
    before = tiers.hot.head
    tiers.add_policy()
    tiers.run("drops")

    def back() -> None:
        tiers.hot.rollback(before)
        tiers.fail_and_begin_anew()

    services, _ = beside(tiers, "control.syncs", back)
    assert ids(tiers, services) == EVERYTHING
    assert tiers.hot.head == before


def test_a_table_that_is_always_rolled_back_is_not_read() -> None:
    tiers = dropped()
    first = tiers.hot.snapshots[0]

    class Swinging(Bystander):
        def call(self, name: str, work: Callable[[], object]) -> object:
            if name == "control.chunks.of":
                tiers.hot.rollback(first)
                tiers.hot.append_rows(reading(60, 5))
            return work()

    services = Swinging(1, "", lambda: None).of(tiers.lake, tiers.lake.services())
    with pytest.raises(CommitConflict, match="went back"):
        ids(tiers, services)


def test_what_colds_owner_compacts_of_a_dropped_chunk_still_counts() -> None:
    tiers = dropped()
    tiers.compact_cold(0)
    assert ids(tiers) == EVERYTHING


def test_a_file_of_cold_that_spans_chunks_counts_for_each_by_its_own_drop() -> None:
    tiers = dropped()
    tiers.hot.cut_anew("month")
    tiers.hot.append_rows(LATE, reading(51, 4.5))
    tiers.replicate()
    assert ids(tiers) == [*EVERYTHING, 50, 51]


def test_a_ledger_that_lost_a_drop_refuses_by_colds_word() -> None:
    tiers = dropped()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    tiers.lake.control.chunks.forget(tiers.lake.uuid)
    with pytest.raises(NotChunked):
        ids(tiers)
    forget_policy(tiers.lake.services(), tiers.hot.name, PolicyType.TIERED_RETENTION)
    add_policy(
        tiers.lake.services(), tiers.hot.name, PolicyWish(PolicyType.TIERING, tier_after="9d")
    )
    with pytest.raises(SyncRefused, match="does not know of it"):
        ids(tiers)
    tiers.anew()
    assert ids(tiers) == EVERYTHING


def test_cold_that_is_gone_is_missed() -> None:
    tiers = dropped()
    (entry,) = tiers.lake.cold.listing().entries
    tiers.lake.cold.unregister(entry.name, entry.metadata_location)
    with pytest.raises(TableNotFound):
        ids(tiers)


def test_a_table_that_was_never_synced_is_what_hot_has_and_says_so() -> None:
    lake = ChunkedLake(has_cold=True, sandbox=True)
    table = chunk_table(lake, "lake.air.alone")
    lake.on(DAYS)
    table.append_rows(*(reading(id, id // 2) for id in range(2 * DAYS)))
    add_policy(lake.services(), table.name, PolicyWish(PolicyType.RETENTION, drop_after="7d"))
    assert complete_rows(lake.services(), table.name).notice == ""
    lake.uuid = table.uuid
    lake.on(10)
    lake.accepted.rows = set(table.rows_now())
    tiers = object.__new__(Tiers)
    tiers.lake = lake
    tiers.run("drops")
    complete = complete_rows(lake.services(), table.name)
    assert complete.read.cold is None and "never copied to cold" in complete.notice
    rows = values_of(complete_rows_of(complete.read, lake.store))
    assert rows == values_of(table.rows_now()) and len(rows) < 2 * DAYS
