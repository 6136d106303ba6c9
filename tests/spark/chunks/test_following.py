"""Cold follows hot's main line, whatever is done to it, and keeps what it alone has (LT-26)."""

from collections.abc import Callable, Iterator
from datetime import date

import pytest

from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import LARGE_DELETES, Deletes, SyncState
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, dropped
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
@pytest.mark.slow("a replication after each of 17 changes")
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


def test_cold_is_cut_by_chunks_where_hot_is_cut_more_coarsely_by_now(lake: ChunkLake) -> None:
    """What was dropped and what came late would share a file, and nobody could tell them apart."""
    lake.create("coarse")
    rows(lake, "coarse")
    lake.sync("coarse")
    lake.follow("coarse")
    lake.w.sql("ALTER TABLE {coarse} REPLACE PARTITION FIELD ts_day WITH months(ts)")

    lake.insert("coarse", 3, 2, 1)
    lake.follow("coarse")

    assert lake.cold("coarse") == lake.hot("coarse")
    files = lake.w.spark.sql(
        "SELECT count(DISTINCT CAST(ts AS DATE)) AS days, count(*) AS rows FROM"
        f" {lake.cold_name('coarse')} GROUP BY _file"
    ).collect()
    assert {row.days for row in files} == {1}, files
    assert (
        lake.cold_document("coarse")["partition-specs"]
        == (lake.w.document("coarse")["partition-specs"])
    )


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


def test_keep_has_the_state_of_the_moment_before_the_delete(careful: ChunkLake) -> None:
    """K1: what was appended, changed and deleted since the last pass, in days that are emptied."""
    careful.synced("moment", *OLD, *YOUNG, type=PolicyType.RETENTION)
    gone = careful.hot("moment")[0]
    careful.insert("moment", 10)
    careful.w.sql(f"DELETE FROM {{moment}} WHERE id = {gone[0]}")
    before = careful.hot("moment")
    careful.w.sql(f"DELETE FROM {{moment}} WHERE ts < TIMESTAMP '{careful.day(8)} 00:00:00'")
    assert careful.replicate("moment").sync.reason == LARGE_DELETES
    assert careful.replicate("moment", Deletes.KEEP).error is None
    assert careful.cold("moment") == before
    careful.insert("moment", 10, rows=1)
    careful.follow("moment")
    late = next(row for row in careful.hot("moment") if row not in before)
    careful.w.sql(f"DELETE FROM {{moment}} WHERE id = {late[0]}")
    careful.replicate("moment", Deletes.MIRROR)
    careful.follow("moment")
    assert careful.cold("moment") == before


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
