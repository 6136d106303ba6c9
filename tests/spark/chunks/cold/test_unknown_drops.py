"""Drops that main's history does not show any more, by stock Spark: no row twice, none lost."""

from collections.abc import Iterator

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.settle import DropAnswer, doubtful_chunks, settle_drops
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import SyncRefused
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake

pytestmark = pytest.mark.spark
RETENTION = PolicyType.RETENTION


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("unknown"))


def dropped(lake: ChunkLake, table: str) -> int:
    """The old days leave hot. Returns main's head from before."""
    lake.synced(table, *OLD, *YOUNG, type=RETENTION)
    before = lake.head(table)
    lake.run(table)
    lake.follow(table)
    assert lake.hot_days(table) == lake.days(*YOUNG)
    return before


def expire(lake: ChunkLake, table: str) -> None:
    lake.w.sql(
        f"CALL expire_snapshots(table => 'n.{table}',"
        " older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )


def require_a_question(lake: ChunkLake, table: str) -> None:
    with pytest.raises(SyncRefused, match="hot and cold have rows"):
        complete_rows(lake.services(), lake.name(table))
    lake.sync(table)
    done = lake.replicate(table)
    assert done.sync.reason == Deferral.UNKNOWN_DROP, done.error
    assert done.error is not None and "chunks settle" in done.error.next


@pytest.mark.slow("a drop, a rollback, an expiration and an answer")
def test_a_rollback_that_nobody_saw_before_its_history_expired_is_a_question(
    lake: ChunkLake,
) -> None:
    before = dropped(lake, "rolled")
    kept = lake.cold("rolled")
    lake.w.sql(f"CALL rollback_to_snapshot('n.rolled', {before})")
    new = lake.insert("rolled", 0)
    expire(lake, "rolled")
    assert lake.replicate("rolled").sync.reason == Deferral.DIVERGED
    require_a_question(lake, "rolled")
    assert lake.cold("rolled") == kept
    lines = doubtful_chunks(lake.services(), lake.name("rolled"))
    assert [line.chunk for line in lines] == lake.days(*OLD)
    assert {(line.hot_rows, line.cold_rows) for line in lines} == {(2, 2)}
    settle_drops(lake.services(), lake.name("rolled"), DropAnswer.UNDONE, "seen")
    lake.follow("rolled")
    assert lake.cold("rolled") == lake.hot("rolled") == lake.both("rolled")
    assert len(lake.hot("rolled")) == len(kept) + len(new)


def test_a_table_that_was_replaced_by_all_of_its_rows_has_none_twice(lake: ChunkLake) -> None:
    dropped(lake, "replaced")
    kept = lake.cold("replaced")
    lake.w.sql(
        "CREATE OR REPLACE TABLE {replaced} USING iceberg PARTITIONED BY (days(ts))"
        f" AS SELECT * FROM {lake.cold_name('replaced')}"
    )
    assert lake.replicate("replaced").sync.reason == Deferral.DIVERGED
    require_a_question(lake, "replaced")
    assert lake.cold("replaced") == kept
    settle_drops(lake.services(), lake.name("replaced"), DropAnswer.UNDONE, "seen")
    lake.follow("replaced")
    assert lake.cold("replaced") == lake.hot("replaced") == kept


def test_a_rollback_that_a_look_has_recorded_is_no_question_afterwards(lake: ChunkLake) -> None:
    before = dropped(lake, "seen")
    lake.w.sql(f"CALL rollback_to_snapshot('n.seen', {before})")
    lake.insert("seen", 0)
    assert lake.replicate("seen").sync.reason == Deferral.DIVERGED  # the look
    expire(lake, "seen")
    lake.sync("seen")
    lake.follow("seen")
    assert lake.cold("seen") == lake.hot("seen")
    assert lake.statuses("seen")[lake.day(OLD[0])] == "active"
