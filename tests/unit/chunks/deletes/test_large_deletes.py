"""Large deletes by others wait for a person, however they are cut into commits."""

from dataclasses import dataclass, field

import pytest

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.replication.replicate import replicate
from meltline.domain.chunks.sync import LARGE_DELETES, Deletes
from tests.chunks.chunk_tables import (
    EQUALITY,
    ID,
    MERGE_ON_READ,
    ChunkTable,
    day_name,
    reading,
    values_of,
)
from tests.chunks.chunked_lake import ChunkedLake

DAYS, A_DAY = 36, 10
EVERYTHING = list(range(DAYS * A_DAY))


@dataclass
class Watched:
    """A synced table with ten rows of each of 36 days."""

    lake: ChunkedLake = field(default_factory=lambda: ChunkedLake(has_cold=True, sandbox=True))
    version: int = 2

    def __post_init__(self) -> None:
        self.lake.begin(self.version)
        self.lake.on(DAYS)
        self.hot.append_rows(*(reading(id, id // A_DAY, id // 120) for id in EVERYTHING))
        start_sync(self.lake.services(), self.hot.name)
        assert self.replicate().error is None

    @property
    def hot(self) -> ChunkTable:
        assert self.lake.hot is not None
        return self.lake.hot

    def replicate(self, said: Deletes | None = None) -> Replicated:
        (done,) = replicate(self.lake.services(), chunked_tables(self.lake.services()), said)
        return done

    def waits(self) -> bool:
        done = self.replicate()
        assert done.error is None or done.sync.reason == LARGE_DELETES, done.error
        return done.error is not None

    def ids(self) -> list[int]:
        return sorted(values_of(self.lake.cold_rows(), ID))

    def empty(self, *days: int) -> None:
        """Each day by a commit of its own."""
        for day in days:
            self.hot.delete_chunks(day_name(day))


def test_34_commits_that_empty_a_day_each_wait_together_and_are_kept_together() -> None:
    watched = Watched()
    watched.empty(*range(34))
    assert watched.waits()
    assert watched.ids() == EVERYTHING
    assert watched.replicate(Deletes.KEEP).error is None
    assert watched.ids() == EVERYTHING
    assert watched.lake.chunks()[day_name(33)].was_dropped
    watched.hot.append_rows(reading(900, 33))
    assert watched.replicate().error is None
    assert watched.ids() == [*EVERYTHING, 900]


def test_34_commits_are_mirrored_where_a_person_says_so_and_the_next_small_one_is_unasked() -> None:
    watched = Watched()
    watched.empty(*range(30))
    assert watched.waits()
    assert watched.replicate(Deletes.MIRROR).error is None
    assert watched.ids() == EVERYTHING[300:]
    watched.empty(30)
    assert not watched.waits()
    assert watched.ids() == EVERYTHING[310:]


def test_commits_of_as_many_passes_count_together_too() -> None:
    watched = Watched()
    for day in range(34):
        watched.empty(day)
        if watched.waits():
            break
    assert day == 7  # a fifth is 72 of 360 rows
    assert watched.ids() == EVERYTHING[70:]
    assert watched.replicate(Deletes.KEEP).error is None
    assert watched.ids() == EVERYTHING[70:]


def test_appends_between_hide_no_delete() -> None:
    watched = Watched()
    for day in range(34):
        watched.empty(day)
        watched.hot.append_rows(*(reading(1000 + 20 * day + n, 35) for n in range(20)))
        if watched.waits():
            break
    assert day < 12


def test_small_deletes_over_months_are_mirrored_unasked() -> None:
    watched = Watched()
    for day in range(20):
        watched.lake.on(DAYS + 4 * day)
        watched.empty(day)
        assert not watched.waits(), day
    assert watched.ids() == EVERYTHING[200:]


def test_small_deletes_over_months_are_mirrored_unasked_after_an_outage_too() -> None:
    watched = Watched()
    for day in range(20):
        watched.lake.on(DAYS + 4 * day)
        watched.empty(day)
    assert not watched.waits()
    assert watched.ids() == EVERYTHING[200:]


def test_one_delete_by_key_is_counted_by_the_rows_that_it_hits() -> None:
    """Twelve keys of 120 rows: one in each partition, on a column that many rows share."""
    watched = Watched()
    watched.hot.delete_by_value(0)
    assert watched.waits()
    assert watched.ids() == EVERYTHING
    assert watched.replicate(Deletes.MIRROR).error is None
    assert watched.ids() == EVERYTHING[120:]


def test_deletes_by_key_of_many_passes_count_together_by_the_rows_that_they_hit() -> None:
    watched = Watched()
    for day in range(34):
        ids = range(A_DAY * day, A_DAY * (day + 1))
        watched.hot.put(ids, [reading(id, day, 100 + day) for id in ids])
    assert watched.replicate(Deletes.MIRROR).error is None
    for day in range(34):
        watched.hot.delete_by_value(100 + day)
        if watched.waits():
            break
    assert 7 <= day <= 8, day


def test_a_delete_by_key_of_one_row_in_a_large_chunk_is_mirrored_unasked() -> None:
    watched = Watched()
    watched.hot.append_rows(*(reading(1000 + n, 35, 50) for n in range(400)))
    watched.hot.put([1000], mode=EQUALITY)
    assert not watched.waits()
    assert 1000 not in watched.ids() and len(watched.ids()) == len(EVERYTHING) + 399


@pytest.mark.parametrize("mode", [EQUALITY, MERGE_ON_READ])
@pytest.mark.parametrize("version", [2, 3])
def test_updates_of_every_row_day_by_day_are_no_deletes(mode: str, version: int) -> None:
    watched = Watched(version=version)
    for day in range(12):
        ids = range(A_DAY * day, A_DAY * (day + 1))
        watched.hot.put(ids, [reading(id, day, 9) for id in ids], mode)
        if day % 6 == 5:
            assert not watched.waits(), day
    assert watched.ids() == EVERYTHING


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("passes", [1, A_DAY])
def test_rows_of_one_file_that_a_user_deletes_one_by_one_count_once(
    version: int, passes: int
) -> None:
    """In format 3 each of the vectors replaces the one before, and has its rows too."""
    watched = Watched(version=version)
    watched.hot.put(range(A_DAY, DAYS * A_DAY - 200), mode=MERGE_ON_READ)
    assert watched.replicate(Deletes.MIRROR).error is None
    for id in range(A_DAY):
        watched.hot.put([id], mode=MERGE_ON_READ)
        if passes > 1:
            assert not watched.waits(), id
    assert not watched.waits()
    assert watched.ids() == EVERYTHING[-200:]


def test_compactions_count_for_nothing() -> None:
    watched = Watched()
    for _ in range(3):
        watched.hot.compact_chunks()
        assert not watched.waits()
    assert watched.ids() == EVERYTHING


def test_what_a_person_had_mirrored_is_not_asked_again_by_a_pass_that_begins_anew() -> None:
    watched = Watched()
    watched.empty(*range(10))
    assert watched.waits()
    assert watched.replicate(Deletes.MIRROR).error is None
    watched.hot.put([350])
    assert not watched.waits()
    assert watched.ids() == [id for id in EVERYTHING[100:] if id != 350]


def test_keep_leaves_a_users_small_delete_of_the_same_pass_deleted() -> None:
    watched = Watched()
    watched.hot.put([355])
    watched.empty(*range(12))
    assert watched.waits()
    assert watched.replicate(Deletes.KEEP).error is None
    assert watched.ids() == [id for id in EVERYTHING if id != 355]


def test_a_large_delete_while_sync_was_stopped_waits_though_no_chunk_was_emptied() -> None:
    """Hot's history still shows it to the pass that begins again."""
    watched = Watched()
    stop_sync(watched.lake.services(), watched.hot.name)
    watched.hot.put(EVERYTHING[::2])
    start_sync(watched.lake.services(), watched.hot.name)
    assert watched.waits()
    assert watched.ids() == EVERYTHING
    assert watched.replicate(Deletes.MIRROR).error is None
    assert watched.ids() == EVERYTHING[1::2]
