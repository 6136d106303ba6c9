"""Hot and cold part: by rollbacks, by cold's owner, by lost ledgers; no row of cold is lost."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from meltline.app.chunks.replication.declare import start_sync
from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SyncState
from meltline.domain.errors import MeltlineError
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, dropped, ids
from tests.spark.setups.warehouse import quoted

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("parted"))


def test_a_rollback_parts_them_until_a_person_begins_anew_and_cold_keeps_what_was_dropped(
    lake: ChunkLake,
) -> None:
    lake.synced("rolled", *OLD, *YOUNG, type=PolicyType.RETENTION)
    lake.run("rolled")
    lake.insert("rolled", 0)
    lake.insert("rolled", 1)
    lake.follow("rolled")
    gone_by_drop = [row for row in lake.cold("rolled") if row not in lake.hot("rolled")]
    lake.w.sql(f"CALL rollback_to_snapshot('n.rolled', {lake.w.snapshots('rolled')[-2]})")
    for _ in range(2):
        done = lake.replicate("rolled")
        assert done.error and "meltline chunks sync" in done.error.next
        assert done.sync.state is SyncState.FAILED and done.sync.reason == Deferral.DIVERGED
    assert lake.sync("rolled").generation == 2
    lake.follow("rolled")
    assert lake.cold("rolled") == sorted({*lake.hot("rolled"), *gone_by_drop}, key=repr)


def test_a_replaced_table_with_other_types_leaves_cold_as_it_is_and_goes_on_under_another_name(
    lake: ChunkLake,
) -> None:
    lake.synced("retyped", *OLD, *YOUNG, type=PolicyType.RETENTION)
    lake.run("retyped")
    lake.follow("retyped")
    rows, document = lake.cold("retyped"), lake.cold_document("retyped")
    lake.w.sql(
        "CREATE OR REPLACE TABLE {retyped} USING iceberg PARTITIONED BY (days(ts))"
        " AS SELECT id, ts, CAST(12.34 AS DECIMAL(10, 4)) AS v FROM {retyped}"
    )
    for _ in range(2):
        done = lake.replicate("retyped")
        assert done.error and "the table was replaced" in done.error.found
        assert "--to NAME" in done.error.next and done.sync.reason == Deferral.DIVERGED
        assert lake.cold_document("retyped") == document
        start_sync(lake.services(), lake.name("retyped"))
    assert lake.replicate("retyped").sync.reason == Deferral.DIVERGED
    begun = start_sync(lake.services(), lake.name("retyped"), "rows.retyped_2")
    assert lake.replicate("retyped").error is None
    assert (lake.cold_document("retyped"), lake.cold("retyped")) == (document, rows)
    anew = lake.w.spark.sql(f"SELECT * FROM {quoted(*str(begun.cold).split('.'))}").collect()
    assert sorted(map(tuple, anew)) == sorted(map(tuple, lake.hot("retyped")))


def test_a_history_that_another_tool_has_expired_parts_them_and_can_be_begun_anew(
    lake: ChunkLake,
) -> None:
    lake.synced("forgotten", *OLD, 0, type=PolicyType.RETENTION)
    lake.run("forgotten")
    kept = lake.cold("forgotten")
    lake.insert("forgotten", 0)
    lake.insert("forgotten", 0)
    lake.w.sql(
        "CALL expire_snapshots(table => 'n.forgotten',"
        " older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    assert lake.replicate("forgotten").sync.reason == Deferral.DIVERGED
    assert lake.cold("forgotten") == kept
    lake.sync("forgotten")
    lake.follow("forgotten")
    assert lake.cold("forgotten") == sorted({*kept, *lake.hot("forgotten")}, key=repr)


# --- what the owner of cold does ------------------------------------------------------------------


def cold_call(lake: ChunkLake, call: str) -> None:
    lake.w.spark.sql(f"CALL {lake.cold_catalog}.system.{call}").collect()


def test_cold_may_be_compacted_by_its_owner_and_is_followed_on(lake: ChunkLake) -> None:
    lake.synced("owned", *OLD, *OLD, *YOUNG, type=PolicyType.RETENTION)
    lake.run("owned")
    options = "options => map('rewrite-all', 'true')"
    cold_call(lake, f"rewrite_data_files(table => 'meltline_synced.n.owned', {options})")
    everything = lake.cold("owned")
    lake.w.sql("UPDATE {owned} SET v = 'new' WHERE id > 0")
    lake.follow("owned")
    assert ids(lake.cold("owned")) == ids(everything)
    assert set(lake.hot("owned")) <= set(lake.cold("owned"))
    late = lake.insert("owned", *OLD)
    lake.follow("owned")
    cold_call(lake, f"rewrite_data_files(table => 'meltline_synced.n.owned', {options})")
    everything = lake.cold("owned")
    assert set(late) <= set(ids(everything))
    lake.w.sql(f"UPDATE {{owned}} SET v = 'late' WHERE id = {late[0]}")
    lake.follow("owned")  # late rows that the compaction mixed with dropped ones are told apart
    assert ids(lake.cold("owned")) == ids(everything)
    assert set(lake.hot("owned")) <= set(lake.cold("owned"))


def test_cold_that_its_owner_has_rolled_back_stops_everything_until_a_person_begins_anew(
    lake: ChunkLake,
) -> None:
    lake.synced("back", *OLD, *YOUNG, type=PolicyType.RETENTION)
    first = lake.cold_document("back")["current-snapshot-id"]
    lake.insert("back", *OLD)
    lake.follow("back")
    cold_call(lake, f"rollback_to_snapshot('meltline_synced.n.back', {first})")
    assert dropped(lake.run("back")) == []
    assert lake.replicate("back").sync.reason == Deferral.DIVERGED
    lake.sync("back")
    lake.follow("back")
    assert lake.cold("back") == lake.hot("back")
    assert dropped(lake.run("back")) == lake.days(*OLD)


# --- lost ledgers ---------------------------------------------------------------------------------


def backup(lake: ChunkLake) -> Path:
    copy = lake.w.control.with_name("backup.db")
    with closing(sqlite3.connect(lake.w.control)) as source, closing(sqlite3.connect(copy)) as to:
        source.backup(to)
    return copy


def restore(lake: ChunkLake, copy: Path | None) -> None:
    for file in lake.w.control.parent.glob(f"{lake.w.control.name}*"):
        file.unlink()
    if copy is not None:
        shutil.copy(copy, lake.w.control)


def passes(lake: ChunkLake, table: str, kept: Sequence[object]) -> None:
    """Whatever a pass says, what cold had is there afterwards."""
    for _ in range(2):
        with suppress(MeltlineError, ValueError):
            lake.replicate(table)
        assert set(kept) <= set(lake.cold(table))


@pytest.mark.parametrize("ledger", ["lost", "old", "old, while late rows were in hot"])
def test_of_a_ledger_that_knows_nothing_of_a_drop_no_row_of_cold_is_lost(
    tmp_path: Path, ledger: str
) -> None:
    lake = ChunkLake.empty(tmp_path)
    lake.synced("t", *OLD, *YOUNG, type=PolicyType.RETENTION)
    copy = backup(lake) if ledger != "lost" else None
    lake.run("t")
    if "late" in ledger:
        lake.insert("t", *OLD)
        lake.follow("t")
    kept = lake.cold("t")
    restore(lake, copy)
    if copy is not None:
        passes(lake, "t", kept)  # before anybody has adopted it
    lake.w.init(lake.now, adopt=True)
    lake.take_cold_over()
    if copy is not None:
        passes(lake, "t", kept)
        assert lake.sync_of("t").state is SyncState.FAILED  # a person has to begin anew
    lake.sync("t")
    passes(lake, "t", kept)
    lake.insert("t", 0)
    lake.w.sql("UPDATE {t} SET v = 'new' WHERE ts > current_timestamp() - INTERVAL 30 HOURS")
    newer = [row for row in kept if f"{row[1]:%Y-%m-%d}" not in lake.days(*YOUNG)]
    passes(lake, "t", newer)
    done = lake.replicate("t")
    assert done.error is None, (done.error.message, done.error.found)
    assert lake.sync_of("t").state is SyncState.STREAMING
    assert set(lake.hot("t")) <= set(lake.cold("t"))
    assert len(lake.cold("t")) == len(kept) + 2
    lake.policy("t", PolicyType.TIERING)
    assert set(lake.run("t").summary.tables) and lake.cold("t") == lake.both("t")


def test_late_rows_that_a_lost_ledger_cannot_tell_from_dropped_ones_wait_for_a_person(
    tmp_path: Path,
) -> None:
    """The way out that is named is one: as late rows they are copied, and cold keeps the rest."""
    lake = ChunkLake.empty(tmp_path)
    lake.synced("t", *OLD, *YOUNG, type=PolicyType.RETENTION)
    lake.run("t")
    kept = lake.cold("t")
    late = lake.insert("t", OLD[0])
    restore(lake, None)
    lake.w.init(lake.now, adopt=True)
    lake.take_cold_over()
    lake.sync("t")
    done = lake.replicate("t")
    assert done.error and done.sync.reason == Deferral.DIVERGED
    assert f"take the rows of {lake.day(OLD[0])} out of hot" in done.error.next
    assert lake.cold("t") == kept
    of_day = f"ts < TIMESTAMP '{lake.day(OLD[1])} 00:00:00'"
    lake.w.sql(
        f"CREATE TABLE {{aside}} USING iceberg AS SELECT * FROM {{t}} WHERE {of_day}",
        f"DELETE FROM {{t}} WHERE {of_day}",
    )
    lake.sync("t")
    lake.follow("t")
    lake.w.sql("INSERT INTO {t} SELECT * FROM {aside}")
    lake.follow("t")
    assert ids(lake.cold("t")) == sorted([*ids(kept), *late])
    assert lake.statuses("t")[lake.day(OLD[0])] == "reopened"
    lake.policy("t", PolicyType.RETENTION)
    lake.run("t")
    assert ids(lake.cold("t")) == sorted([*ids(kept), *late])
    assert lake.hot_days("t") == lake.days(*YOUNG)
