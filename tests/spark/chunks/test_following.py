"""Cold follows hot's main line, whatever is done to it, and keeps what it alone has (LT-26)."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import date
from pathlib import Path

import pytest

from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import LARGE_DELETES, Deletes, SyncState
from meltline.domain.errors import MeltlineError
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, dropped, ids
from tests.spark.setups.late_writes import delete_by_user

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("following"))


Change = Callable[[ChunkLake, str], None]


def sql(*statements: str) -> Change:
    """Statements over `{t}`, with `{day:N}` for a day so long ago."""

    def run(lake: ChunkLake, table: str) -> None:
        for statement in statements:
            text = statement.replace("{t}", f"{{{table}}}").replace("TABLE_NAME", f"n.{table}")
            for ago in range(12):
                text = text.replace(f"DAY_{ago}.", f"{lake.day(ago)} ")
            lake.w.sql(text)

    return run


def equality_delete(lake: ChunkLake, table: str) -> None:
    """As Flink writes it, in two days at once."""
    day = (date.fromisoformat(lake.day(9)) - date(1970, 1, 1)).days
    delete_by_user(lake.w, table, "gone", day, day + 1, column="v")


def rows(lake: ChunkLake, table: str) -> None:
    lake.insert(table, 10, 9, 8, 0)


_VALUES = "(id, ts, v) VALUES"
CHANGES: dict[str, Change] = {
    "append": rows,
    "insert overwrite": sql(
        f"INSERT OVERWRITE {{t}} {_VALUES} (900, TIMESTAMP'DAY_10.01:00:00', 'over')"
    ),
    "more rows": rows,
    "update": sql("UPDATE {t} SET v = 'gone' WHERE id % 4 = 0"),
    "equality delete": equality_delete,
    "row moved to another day": sql(
        "UPDATE {t} SET ts = TIMESTAMP'DAY_9.07:00:00' WHERE v <> 'gone' AND id % 3 = 0"
    ),
    "merge": sql(
        "MERGE INTO {t} t USING (SELECT explode(sequence(10, 40)) AS id) s ON t.id = s.id"
        " WHEN MATCHED AND t.id % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged'"
        " WHEN NOT MATCHED AND s.id > 38 THEN INSERT (id, ts, v)"
        " VALUES (s.id, TIMESTAMP'DAY_5.00:00:00', 'new')"
    ),
    "row delete": sql("DELETE FROM {t} WHERE id % 7 = 0"),
    "delete of a day": sql("DELETE FROM {t} WHERE ts >= TIMESTAMP'DAY_0.00:00:00'"),
    "new column": sql(
        "ALTER TABLE {t} ADD COLUMN n INT FIRST",
        "INSERT INTO {t} (id, ts, v, n) VALUES (950, TIMESTAMP'DAY_8.05:00:00', 'x', 5)",
    ),
    "renamed": sql("ALTER TABLE {t} RENAME COLUMN v TO w", "UPDATE {t} SET w = 'r' WHERE id = 950"),
    "wider": sql("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT", "UPDATE {t} SET n = 1L << 40"),
    "dropped column": sql("ALTER TABLE {t} DROP COLUMN n"),
    "the same name again": sql(
        "ALTER TABLE {t} ADD COLUMN n STRING", "UPDATE {t} SET n = 'text' WHERE id = 950"
    ),
    "column of times renamed": sql("ALTER TABLE {t} RENAME COLUMN ts TO at"),
    "by hour": sql(
        "ALTER TABLE {t} REPLACE PARTITION FIELD days(at) WITH hours(at)",
        "INSERT INTO {t} (id, at, w) VALUES (960, TIMESTAMP'DAY_8.11:00:00', 'h'),"
        " (961, TIMESTAMP'DAY_8.12:00:00', 'h'), (962, NULL, 'h')",
    ),
    "update after that": sql("UPDATE {t} SET w = 'hourly' WHERE id > 940"),
}


@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (3, "merge-on-read")])
def test_after_each_change_of_rows_columns_and_partitions_cold_has_what_hot_has(
    lake: ChunkLake, version: int, mode: str
) -> None:
    table = f"all_{version}"
    lake.create(table, version=version, mode=mode)
    rows(lake, table)
    lake.sync(table)
    lake.follow(table)
    lake.w.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for words, change in CHANGES.items():
            change(lake, table)
            lake.follow(table)
            assert lake.cold(table) == lake.hot(table), words
    finally:
        lake.w.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    document = lake.cold_document(table)
    assert [c["name"] for c in document["schemas"][-1]["fields"]] == ["id", "at", "w", "n"]
    assert lake.sync_of(table).state is SyncState.STREAMING
    assert set(document["refs"]) == {"main"}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_backlog_of_dozens_of_commits_is_caught_up_in_one_pass_that_is_seen_at_once(
    lake: ChunkLake, mode: str
) -> None:
    """All kinds, and compactions between them; the commits are those of hot, cold shows one."""
    table = f"backlog_{mode[:4]}"
    lake.create(table, mode=mode)
    rows(lake, table)
    lake.sync(table)
    lake.follow(table)
    before = len(lake.cold_document(table)["snapshot-log"])
    for number in range(12):
        lake.insert(table, number % 3, rows=1)
        if number % 4 == 3:
            compact(lake, table)
    for words in ("update", "row moved to another day", "merge", "row delete"):
        CHANGES[words](lake, table)
    done = lake.replicate(table)
    assert done.error is None and done.commits >= 17
    assert lake.cold(table) == lake.hot(table)
    assert len(lake.cold_document(table)["snapshot-log"]) == before + 1


def compact(lake: ChunkLake, table: str) -> None:
    options = "options => map('rewrite-all', 'true')"
    lake.w.sql(f"CALL rewrite_data_files(table => 'n.{table}', {options})")


def test_a_compaction_is_neither_copied_nor_does_it_hold_anything_up(lake: ChunkLake) -> None:
    """LT-14: the chunks stay proved, and the drop goes on."""
    lake.synced("compacted", *OLD, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    files, head = lake.cold_files("compacted"), lake.cold_document("compacted")
    compact(lake, "compacted")
    lake.w.sql("CALL rewrite_manifests('n.compacted')")
    assert dropped(lake.run("compacted")) == lake.days(*OLD)
    done = lake.replicate("compacted")
    assert done.error is None and done.rows == 0 and done.commits == 3
    assert lake.cold_files("compacted") == files
    after = lake.cold_document("compacted")
    assert after["current-snapshot-id"] == head["current-snapshot-id"]


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
    done = lake.replicate("owned")
    assert done.error and done.sync.reason == Deferral.DIVERGED  # nobody can tell them apart
    assert lake.cold("owned") == everything


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


# --- large deletes by others ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    """Deletes of more than a fifth of the rows wait for a person."""
    yield ChunkLake.empty(tmp_path_factory.mktemp("careful"), most_deletes=0.2)


@pytest.mark.parametrize("word", list(Deletes))
def test_a_large_delete_by_others_waits_for_a_person_who_has_it_mirrored_or_kept(
    careful: ChunkLake, word: Deletes
) -> None:
    table = f"large_{word}"
    careful.synced(table, *OLD, *YOUNG, type=PolicyType.RETENTION)
    before = careful.cold(table)
    careful.w.sql(f"DELETE FROM {{{table}}} WHERE ts < TIMESTAMP '{careful.day(8)} 00:00:00'")
    careful.insert(table, 0)
    for _ in range(2):
        done = careful.replicate(table)
        assert done.error and done.sync.reason == LARGE_DELETES and "--deletes" in done.error.next
        assert careful.cold(table) == before
    assert dropped(careful.run(table)) == []
    assert careful.replicate(table, word).error is None
    hot = careful.hot(table)
    if word is Deletes.MIRROR:
        assert careful.cold(table) == hot
    else:
        assert careful.cold(table) == sorted({*before, *hot}, key=repr)
        assert {careful.statuses(table)[name] for name in careful.days(10, 9)} == {"dropped"}
    expected = careful.cold(table)
    careful.insert(table, 1)
    careful.follow(table)
    assert len(careful.cold(table)) == len(expected) + 2 and set(expected) <= set(
        careful.cold(table)
    )


def test_small_deletes_by_others_are_mirrored_unasked_and_our_own_drop_never_is(
    careful: ChunkLake,
) -> None:
    """Our own drop is never mirrored, though it takes more than a fifth, and is no delete."""
    careful.synced("own", *OLD, 5, *YOUNG, type=PolicyType.RETENTION)
    gone = careful.hot("own")[-1]
    careful.w.sql(f"DELETE FROM {{own}} WHERE id = {gone[0]}")
    careful.follow("own")
    before = careful.cold("own")
    assert gone not in before and len(before) == 11
    assert dropped(careful.run("own")) == careful.days(*OLD)
    careful.insert("own", 0)
    careful.follow("own")
    assert set(before) <= set(careful.cold("own")) and len(careful.cold("own")) == 13


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
