"""One pass brings cold up to a snapshot of hot, and nobody sees half of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from meltline.adapters.chunks.cold_branch import BRANCH
from meltline.domain.chunks.ranges import Unit
from meltline.domain.errors import SyncRefused
from tests.spark.chunks.setups.two_tiers import SyncedTable, TwoTiers, merge_on_read
from tests.spark.setups.merge_on_read import delete_by_value
from tests.spark.setups.warehouse import setting

pytestmark = pytest.mark.spark

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
BY_DAY = "PARTITIONED BY (days(at))"


@pytest.fixture
def tiers(tmp_path: Path) -> Iterator[TwoTiers]:
    yield TwoTiers.empty(tmp_path)


def create(tiers: TwoTiers, *properties: str, version: int = 2, spec: str = BY_DAY) -> None:
    words = ", ".join((f"'format-version'='{version}'", *properties))
    tiers.hot.sql(
        f"CREATE TABLE {{t}} (id BIGINT, at TIMESTAMP, word STRING) USING iceberg {spec}"
        f" TBLPROPERTIES ({words})"
    )


def insert(tiers: TwoTiers, day: str, start: int, end: int) -> None:
    """Rows of one day, two hours apart."""
    tiers.hot.sql(
        f"INSERT INTO {{t}} SELECT id, TIMESTAMP '{day} 00:00:00' + make_dt_interval(0, 2 * "
        f"CAST(id % 10 AS INT)), concat('w', id) FROM range({start}, {end})"
    )


def filled(tiers: TwoTiers, *properties: str, version: int = 2) -> SyncedTable:
    """Three days of ten rows, copied."""
    create(tiers, *properties, version=version)
    for at, day in enumerate(DAYS):
        insert(tiers, day, 10 * at, 10 * at + 10)
    synced = SyncedTable.of(tiers)
    synced.copy(everything=True)
    return synced


def require_equal(synced: SyncedTable) -> None:
    """Cold has hot's rows, for stock Spark and by digests alike."""
    hot, cold = synced.both()
    assert cold == hot
    tiers = synced.tiers
    assert tiers.rows.digests(
        tiers.name(tiers.hot), synced.head, synced.layout, None
    ) == tiers.rows.digests(tiers.name(tiers.cold), synced.cold_head, synced.layout, None)


def test_the_first_pass_copies_everything_to_a_table_without_a_snapshot(tiers: TwoTiers) -> None:
    create(tiers)
    insert(tiers, DAYS[0], 0, 10)
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES (99, NULL, 'x'), (98, TIMESTAMP '{DAYS[1]}', NULL)")
    synced = SyncedTable.of(tiers)
    outcome = synced.copy(everything=True)
    assert outcome.rows == 12
    require_equal(synced)
    document = tiers.cold.document("t")
    assert document["refs"].keys() == {"main"}
    assert document["properties"] == {"meltline.sync-snapshot": str(synced.head)}
    assert [s["summary"]["meltline.sync"] for s in document["snapshots"]] == [str(synced.head)]


def test_a_pass_without_anything_to_copy_only_sets_the_properties(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    before = synced.cold_head
    outcome = synced.copy()
    assert (outcome.rows, outcome.snapshot_id) == (0, before)
    assert len(tiers.cold.document("t")["snapshots"]) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_appends_of_many_commits_go_in_one_commit(tiers: TwoTiers, version: int) -> None:
    synced = filled(tiers, version=version)
    for n in range(5):
        insert(tiers, DAYS[n % 3], 100 + 10 * n, 110 + 10 * n)
    assert synced.copy().rows == 50
    require_equal(synced)
    assert len(tiers.cold.document("t")["snapshots"]) == 2
    added = tiers.cold.document("t")["snapshots"][-1]["summary"]["added-data-files"]
    assert int(added) == 3  # one per day


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_is_neither_copied_nor_in_the_way(tiers: TwoTiers, version: int) -> None:
    synced = filled(tiers, version=version)
    insert(tiers, DAYS[0], 100, 110)
    compact = "CALL rewrite_data_files(table => 'n.t', options => map('rewrite-all', 'true'))"
    tiers.hot.sql(compact)
    insert(tiers, DAYS[1], 110, 120)
    assert synced.copy().rows == 20
    require_equal(synced)
    tiers.hot.sql(compact)
    before = synced.cold_head
    assert synced.copy().snapshot_id == before
    assert len(tiers.cold.document("t")["snapshots"]) == 2
    require_equal(synced)


@pytest.mark.parametrize(("mode", "version"), [("", 2), ("", 3), ("read", 2), ("read", 3)])
def test_rows_that_were_deleted_and_updated_are_replaced_by_chunk(
    tiers: TwoTiers, mode: str, version: int
) -> None:
    synced = filled(tiers, *([merge_on_read()] if mode else []), version=version)
    insert(tiers, DAYS[0], 100, 110)
    tiers.hot.sql("DELETE FROM {t} WHERE id IN (1, 2)")
    tiers.hot.sql(f"UPDATE {{t}} SET at = TIMESTAMP '{DAYS[2]} 23:00:00' WHERE id = 3")
    insert(tiers, DAYS[1], 110, 120)
    assert synced.copy(DAYS[0], DAYS[2]).rows == 17 + 11 + 10
    require_equal(synced)
    operations = [s["summary"]["operation"] for s in tiers.cold.document("t")["snapshots"]]
    assert operations == ["append", "append", "delete"]


def test_an_overwrite_between_appends_is_neither_doubled_nor_in_the_way(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    insert(tiers, DAYS[0], 100, 110)
    rows = f"SELECT 500L AS id, TIMESTAMP '{DAYS[1]} 05:00:00' AS at, 'over' AS word"
    tiers.hot.spark.sql(rows).writeTo(tiers.hot.name("t")).overwritePartitions()
    insert(tiers, DAYS[1], 110, 120)
    insert(tiers, DAYS[2], 120, 130)
    tiers.hot.sql(f"DELETE FROM {{t}} WHERE at >= TIMESTAMP '{DAYS[2]}'")
    insert(tiers, DAYS[2], 130, 131)
    assert synced.copy(DAYS[1], DAYS[2]).rows == 10 + 11 + 1
    require_equal(synced)


def test_a_table_of_format_1_is_copied(tiers: TwoTiers) -> None:
    synced = filled(tiers, version=1)
    tiers.hot.sql("DELETE FROM {t} WHERE id = 1", "ALTER TABLE {t} DROP COLUMN word")
    tiers.hot.sql("ALTER TABLE {t} DROP PARTITION FIELD days(at)")
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES (90, TIMESTAMP '{DAYS[1]}')")
    synced.copy(DAYS[0])
    require_equal(synced)


def test_rows_in_no_order_go_to_one_file_for_each_partition(tiers: TwoTiers) -> None:
    create(tiers, spec="PARTITIONED BY (word, days(at))")
    tiers.hot.sql(
        "INSERT INTO {t} SELECT id, TIMESTAMP '2026-01-01' + make_dt_interval(CAST(id % 5 AS INT))"
        ", concat('w', id % 3) FROM range(300) ORDER BY rand(7)"
    )
    synced = SyncedTable.of(tiers)
    synced.copy(everything=True)
    require_equal(synced)
    assert len(synced.cold_files(None)) == 15


def test_a_session_that_has_its_work_audited_neither_reads_nor_writes_elsewhere(
    tiers: TwoTiers,
) -> None:
    synced = filled(tiers)
    insert(tiers, DAYS[0], 100, 110)
    wap = "ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='true')"
    tiers.hot.sql("ALTER TABLE {t} CREATE BRANCH audit", wap)
    tiers.cold.sql("ALTER TABLE {t} CREATE BRANCH audit", wap)
    insert(tiers, DAYS[0], 110, 120)
    with setting(tiers.hot.spark, "spark.wap.branch", "audit"):
        assert synced.copy().rows == 20
    require_equal(synced)
    insert(tiers, DAYS[0], 120, 130)
    before = synced.cold_head
    with (
        setting(tiers.hot.spark, "spark.wap.id", "w1"),
        pytest.raises(SyncRefused, match="not on its branch"),
    ):
        synced.copy()
    assert synced.cold_head == before


def test_equality_deletes_are_applied(tiers: TwoTiers) -> None:
    tiers.hot.sql(
        "CREATE TABLE {t} (id STRING, odd INT, at DATE) USING iceberg PARTITIONED BY (odd)"
        " TBLPROPERTIES ('format-version'='2')"
    )
    tiers.hot.sql(
        "INSERT INTO {t} SELECT string(id), CAST(id % 2 AS INT), date_add(DATE '2026-01-01',"
        " CAST(id % 3 AS INT)) FROM range(30)"
    )
    synced = SyncedTable.of(tiers, column="at", unit=Unit.DAY)
    synced.copy(everything=True)
    delete_by_value(tiers.hot, "t", "id", "4", "7")
    synced.copy(everything=True)
    require_equal(synced)
    assert len(list(synced.both())[1]) == 28


def test_columns_are_matched_by_field_id_and_never_by_name(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    tiers.hot.sql(
        "ALTER TABLE {t} RENAME COLUMN word TO other",
        "ALTER TABLE {t} RENAME COLUMN at TO moment",
        "ALTER TABLE {t} ADD COLUMN word STRING FIRST",
    )
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES ('new', 50, TIMESTAMP '{DAYS[0]}', 'old')")
    synced.copy()
    require_equal(synced)
    tiers.hot.sql("ALTER TABLE {t} DROP COLUMN word", "ALTER TABLE {t} ADD COLUMN word BIGINT")
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES (51, TIMESTAMP '{DAYS[0]}', 'old', 5)")
    synced.copy(DAYS[1])
    require_equal(synced)


def test_nested_columns_promotions_and_new_specs_are_followed(tiers: TwoTiers) -> None:
    tiers.hot.sql(
        "CREATE TABLE {t} (at TIMESTAMP_NTZ, n INT, f FLOAT, d DECIMAL(9, 2), s STRUCT<a: INT, "
        "b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>) USING iceberg "
        "PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version'='2')"
    )
    values = (
        "1, 0.5, 1.25, named_struct('a', 1, 'b', 'x'), array(named_struct('x', 1), NULL), "
        "map('k', 1, 'l', NULL)"
    )
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES (TIMESTAMP_NTZ '2026-01-01 01:00:00', {values})")
    synced = SyncedTable.of(tiers)
    synced.copy(everything=True)
    tiers.hot.sql(
        "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20, 2)",
        "ALTER TABLE {t} RENAME COLUMN s.a TO c",
        "ALTER TABLE {t} ADD COLUMN s.a STRING",
        "ALTER TABLE {t} ADD COLUMN l.element.y INT",
        "ALTER TABLE {t} REPLACE PARTITION FIELD days(at) WITH hours(at)",
    )
    values = (
        "5000000000, 0.5, 1.25, named_struct('c', 1, 'b', 'x', 'a', 'z'), "
        "array(named_struct('x', 1, 'y', 2)), map()"
    )
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES (TIMESTAMP_NTZ '2026-01-01 02:00:00', {values})")
    synced.copy()
    require_equal(synced)
    synced.copy("2026-01-01")
    require_equal(synced)


def test_names_that_differ_by_case_alone_are_copied_where_the_session_tells_them_apart(
    tiers: TwoTiers,
) -> None:
    create(tiers)
    with setting(tiers.hot.spark, "spark.sql.caseSensitive", "true"):
        tiers.hot.sql("ALTER TABLE {t} ADD COLUMN WORD STRING")
        tiers.hot.sql(f"INSERT INTO {{t}} VALUES (1, TIMESTAMP '{DAYS[0]}', 'a', 'b')")
    synced = SyncedTable.of(tiers)
    with pytest.raises(SyncRefused, match="cannot be read or copied"):
        synced.copy(everything=True)
    with setting(tiers.hot.spark, "spark.sql.caseSensitive", "true"):
        assert synced.copy(everything=True).rows == 1
        require_equal(synced)


def test_rows_without_a_time_are_a_chunk_that_can_be_replaced(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    tiers.hot.sql("INSERT INTO {t} VALUES (70, NULL, 'a'), (71, TIMESTAMP '9999-12-31', 'b')")
    synced.copy()
    tiers.hot.sql("DELETE FROM {t} WHERE id = 70")
    synced.copy("unbounded")
    require_equal(synced)


# --- nobody sees half of it -----------------------------------------------------------------------


def test_a_pass_is_proved_before_anybody_else_sees_it(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    before = synced.cold_head
    insert(tiers, DAYS[0], 100, 110)
    shown = []

    def prove(snapshot_id: int) -> Mapping[str, str]:
        shown.append(snapshot_id)
        assert synced.cold_head == before
        cold = tiers.name(tiers.cold)
        digests = tiers.rows.digests(cold, snapshot_id, synced.layout, None)
        assert digests == tiers.rows.digests(
            tiers.name(tiers.hot), synced.head, synced.layout, None
        )
        return {"proved": "yes"}

    outcome = tiers.replicator.copy(synced.request(), prove)
    assert outcome is not None
    assert shown == [outcome.snapshot_id] == [synced.cold_head]
    assert tiers.cold.document("t")["properties"]["proved"] == "yes"


def test_a_pass_that_is_refused_leaves_cold_as_it_was_and_the_next_one_works(
    tiers: TwoTiers,
) -> None:
    synced = filled(tiers)
    before = tiers.cold.document("t")
    insert(tiers, DAYS[0], 100, 110)

    def refuse(snapshot_id: int) -> Mapping[str, str]:
        raise SyncRefused(
            "rows differ", object="t", expected="the same", found="others", next="look"
        )

    with pytest.raises(SyncRefused, match="rows differ"):
        tiers.replicator.copy(synced.request(frozenset([DAYS[1]])), refuse)
    after = tiers.cold.document("t")
    assert after["refs"] == before["refs"]
    assert after["properties"] == before["properties"]
    assert synced.copy(DAYS[1]).rows == 20
    require_equal(synced)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_branch_that_a_killed_pass_has_left_is_begun_anew(
    tiers: TwoTiers, is_empty: bool
) -> None:
    if is_empty:
        create(tiers)
        synced = SyncedTable.of(tiers)
    else:
        synced = filled(tiers)
    insert(tiers, DAYS[0], 100, 110)
    tiers.cold.sql(f"ALTER TABLE {{t}} CREATE BRANCH {BRANCH}")
    tiers.cold.sql(
        f"INSERT INTO {tiers.cold.name('t')}.branch_{BRANCH} VALUES (7, NULL, 'half of a pass')"
    )
    synced.copy(everything=is_empty)
    require_equal(synced)
    assert tiers.cold.document("t")["refs"].keys() == {"main"}


def test_a_cold_table_that_has_moved_on_is_left_alone(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    insert(tiers, DAYS[0], 100, 110)
    request = synced.request()
    tiers.cold.sql("ALTER TABLE {t} SET TBLPROPERTIES ('who'='somebody else')")
    before = tiers.cold.location("t")
    assert tiers.replicator.copy(request) is None
    assert tiers.cold.location("t") == before


def test_a_commit_of_others_while_it_is_proved_stops_the_pass(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    before = synced.cold_head
    insert(tiers, DAYS[0], 100, 110)

    def interfere(snapshot_id: int) -> Mapping[str, str]:
        tiers.cold.sql("ALTER TABLE {t} SET TBLPROPERTIES ('who'='somebody else')")
        return {}

    assert tiers.replicator.copy(synced.request(), interfere) is None
    document = tiers.cold.document("t")
    assert document["current-snapshot-id"] == before
    assert document["properties"]["who"] == "somebody else"
    assert document["refs"].keys() == {"main"}


# --- what is refused ------------------------------------------------------------------------------


def test_columns_that_cannot_be_proved_are_refused_by_name(tiers: TwoTiers) -> None:
    tiers.hot.sql(
        "CREATE TABLE {t} (at TIMESTAMP, v VARIANT) USING iceberg PARTITIONED BY (days(at))"
        " TBLPROPERTIES ('format-version'='3')"
    )
    tiers.hot.sql("INSERT INTO {t} SELECT TIMESTAMP '2026-01-01', parse_json('1')")
    synced = SyncedTable.of(tiers)
    with pytest.raises(SyncRefused, match="v is variant"):
        synced.copy(everything=True)


def test_a_column_that_hot_has_meanwhile_is_refused(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    request = synced.request()
    tiers.hot.sql("ALTER TABLE {t} ADD COLUMN late STRING")
    with pytest.raises(SyncRefused, match="other columns"):
        tiers.replicator.copy(replace(request, after=None, replaced=None))


def test_a_position_that_is_not_on_mains_line_is_refused(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    insert(tiers, DAYS[0], 100, 110)
    with pytest.raises(SyncRefused):
        tiers.replicator.copy(replace(synced.request(), after=12345))


def test_row_deletes_of_others_in_cold_are_refused(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    tiers.cold.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({merge_on_read()})")
    tiers.cold.sql("DELETE FROM {t} WHERE id = 1")
    with pytest.raises(SyncRefused, match="deleted by somebody else"):
        synced.copy()


def test_files_to_remove_that_are_not_there_are_refused(tiers: TwoTiers) -> None:
    synced = filled(tiers)
    before = tiers.cold.document("t")["refs"]
    with pytest.raises(SyncRefused, match="not in it"):
        tiers.replicator.copy(replace(synced.request(), removed=("file:/nowhere.parquet",)))
    assert tiers.cold.document("t")["refs"] == before
