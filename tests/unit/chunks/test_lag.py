"""How far cold is behind hot, as `chunks status` says it: a number that is known, or none."""

from meltline.app.chunks.reading.status import TieringStatus, tiering_status
from meltline.app.chunks.replication.declare import start_sync, stop_sync
from meltline.app.chunks.run import ChunkRun
from tests.chunks.chunk_tables import reading
from tests.unit.chunks.tiers import Tiers


def status(tiers: Tiers) -> TieringStatus:
    (line,) = tiering_status(tiers.lake.services())
    return line


def stamp(tiers: Tiers) -> None:
    """What the second step of a run does: replication is the first."""
    ChunkRun(tiers.lake.services(), tiers.lake.request("r")).evaluate_chunks()


def test_cold_lags_by_the_commits_that_chunks_are_stamped_with_and_it_has_not() -> None:
    tiers = Tiers()
    assert status(tiers).lag == 0
    tiers.hot.append_rows(reading(20, 4.5))
    tiers.hot.append_rows(reading(21, 5.5))
    stamp(tiers)
    assert (status(tiers).lag, status(tiers).caught_up) == (2, False)
    tiers.replicate()
    assert (status(tiers).lag, status(tiers).caught_up) == (0, True)


def test_nobody_knows_a_lag_before_a_copy_is_verified() -> None:
    tiers = Tiers()
    stop_sync(tiers.lake.services(), tiers.hot.name)
    assert status(tiers).lag == 0
    start_sync(tiers.lake.services(), tiers.hot.name)
    assert status(tiers).lag is None
    tiers.replicate()
    assert status(tiers).lag == 0


def test_nobody_knows_the_lag_of_a_table_that_has_left_its_line() -> None:
    tiers = Tiers()
    first = tiers.hot.head
    tiers.hot.append_rows(reading(20, 5.5))
    tiers.replicate()
    tiers.hot.rollback(first)
    assert tiers.replicate().sync.reason == "DIVERGED"
    assert status(tiers).lag is None
    tiers.anew()
    assert status(tiers).lag == 0
