"""All rows of hot and of cold in one query, each once, by real engines (LT-33)."""

import os
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import meltline
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import (
    NotChunked,
    StatementRefused,
    StatementUnsupported,
    TableNotFound,
)
from meltline.domain.iceberg.objects import ObjectName
from meltline.wiring import Wiring
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, Rows, dropped, ids
from tests.spark.setups.warehouse import SPACE

pytestmark = pytest.mark.spark

TIERED = PolicyType.TIERED_RETENTION


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    made = ChunkLake.empty(tmp_path_factory.mktemp("complete"))
    before = made.w.spark.catalog.currentCatalog()
    yield made
    made.w.spark.catalog.setCurrentCatalog(before)


def sql(lake: ChunkLake, text: str) -> Rows:
    """What `meltline sql` answers, in the namespace of the tables."""
    wiring = Wiring(lake.services().config, os.environ, lambda line: None)
    standing = ObjectName(lake.w.catalog, (SPACE,))
    engine = wiring.sql_engine(standing)
    request = StatementRequest(text, standing, fetch=False)
    frame: Any = run_statement(lake.services(), lambda: engine, request, wiring.services).frame
    return sorted(map(tuple, frame.collect()), key=repr)


def all_rows(lake: ChunkLake, table: str) -> Rows:
    """What both ways answer, which is the same."""
    of_function = meltline.all_rows(
        lake.w.spark, str(lake.name(table)), config=lake.services().config.path
    )
    rows = sorted(map(tuple, of_function.collect()), key=repr)
    assert rows == sql(lake, f"SELECT * FROM {table}_all")
    return rows


def test_tiered_dropped_and_reopened_chunks_are_there_once(lake: ChunkLake) -> None:
    lake.synced("t", *OLD, 4, *YOUNG, type=TIERED)
    before = lake.hot("t")
    assert all_rows(lake, "t") == before
    assert len(dropped(lake.run("t"))) == 3
    assert len(lake.hot("t")) < len(before) == len(all_rows(lake, "t"))
    late = lake.insert("t", OLD[0], YOUNG[0])
    unreplicated = all_rows(lake, "t")
    assert len(unreplicated) == len(before) + 4 and set(late) < set(ids(unreplicated))
    lake.follow("t")
    assert "reopened" in lake.statuses("t").values()
    assert all_rows(lake, "t") == unreplicated == lake.both("t")
    lake.insert("t", OLD[0])
    more = all_rows(lake, "t")
    assert len(more) == len(unreplicated) + 2
    lake.follow("t")
    lake.run("t")
    assert lake.statuses("t")[lake.day(OLD[0])] == "dropped"
    assert all_rows(lake, "t") == more == lake.both("t")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_late_rows_that_hot_deletes_are_gone_before_cold_hears_of_it(
    lake: ChunkLake, mode: str, version: int
) -> None:
    table = f"deleting_{version}_{mode[0]}"
    lake.synced(table, *OLD, *YOUNG, type=TIERED, mode=mode, version=version)
    lake.run(table)
    before = all_rows(lake, table)
    late = lake.insert(table, OLD[0], rows=3)
    lake.follow(table)
    lake.w.sql(f"DELETE FROM {{{table}}} WHERE id = {late[0]}")
    lake.w.sql(f"UPDATE {{{table}}} SET v = 'new' WHERE id = {late[1]}")
    rows = all_rows(lake, table)
    assert {row[0] for row in rows} == {*ids(before), *late[1:]} and len(rows) == len(before) + 2
    assert [row[2] for row in rows if row[0] == late[1]] == ["new"]
    lake.follow(table)
    assert all_rows(lake, table) == rows


def test_cold_is_read_under_the_columns_that_hot_has_now(lake: ChunkLake) -> None:
    lake.synced("evolving", *OLD, *YOUNG, type=TIERED)
    lake.run("evolving")
    before = all_rows(lake, "evolving")
    for change in ("RENAME COLUMN ts TO at", "ADD COLUMN n INT", "DROP COLUMN v"):
        lake.w.sql(f"ALTER TABLE {{evolving}} {change}")
    assert all_rows(lake, "evolving") == [(*row[:2], None) for row in before]
    assert sql(lake, "SELECT count(at) FROM evolving_all WHERE n IS NULL") == [(len(before),)]


def test_a_rollback_over_a_drop_makes_its_rows_hots_again(lake: ChunkLake) -> None:
    lake.synced("rolling", *OLD, *YOUNG, type=TIERED)
    before, head = lake.hot("rolling"), lake.head("rolling")
    lake.run("rolling")
    assert all_rows(lake, "rolling") == before
    after = lake.head("rolling")
    catalog = lake.w.catalog
    for snapshot in (head, after):
        lake.w.spark.sql(
            f"CALL {catalog}.system.set_current_snapshot('{SPACE}.rolling', {snapshot})"
        )
        assert all_rows(lake, "rolling") == before
    assert len(lake.hot("rolling")) < len(before)


def test_files_of_several_chunks_count_for_each_of_them(lake: ChunkLake) -> None:
    """Cold's owner, or a coarser spec, has files that span days: dropped ones and others."""
    lake.synced("wide", *OLD, *YOUNG, type=TIERED)
    lake.run("wide")
    lake.w.sql("ALTER TABLE {wide} DROP PARTITION FIELD days(ts)")
    before = all_rows(lake, "wide")
    lake.insert("wide", OLD[0], OLD[1], YOUNG[0])
    lake.follow("wide")
    rows = all_rows(lake, "wide")
    assert len(rows) == len(before) + 6 and rows == lake.both("wide")


def test_statements_name_them_as_other_tables(lake: ChunkLake) -> None:
    lake.synced("named", *OLD, *YOUNG, type=TIERED)
    lake.run("named")
    total = len(lake.both("named"))
    full = f"{lake.w.catalog}.{SPACE}.named_all"
    assert sql(lake, f"SELECT count(*) FROM {full} a JOIN named_all ON a.id = named_all.id") == [
        (total,)
    ]
    assert sql(lake, "WITH w AS (SELECT * FROM named_all) SELECT count(*) FROM w, named") == [
        (total * len(lake.hot("named")),)
    ]
    sql(lake, "CREATE TABLE copied AS SELECT * FROM named_all")
    assert sql(lake, "SELECT count(*) FROM copied") == [(total,)]
    for text in (
        "INSERT INTO named_all SELECT * FROM named",
        "DELETE FROM named_all WHERE id = 1",
        "UPDATE named_all SET v = ''",
        "MERGE INTO named_all USING named n ON n.id = named_all.id WHEN MATCHED THEN DELETE",
        f"TRUNCATE TABLE {full}",
    ):
        with pytest.raises(StatementUnsupported, match="only read"):
            sql(lake, text)
    assert len(lake.both("named")) == total


def test_a_real_table_or_view_of_that_name_goes_first(lake: ChunkLake) -> None:
    lake.synced("shadow", *OLD, *YOUNG, type=TIERED)
    lake.run("shadow")
    lake.w.sql("CREATE TABLE {shadow_all} (only INT) USING iceberg")
    assert sql(lake, "SELECT only FROM shadow_all") == []
    sql(lake, "INSERT INTO shadow_all VALUES (7)")
    assert sql(lake, "SELECT * FROM shadow_all") == [(7,)]
    lake.w.sql("DROP TABLE {shadow_all}")
    assert len(sql(lake, "SELECT * FROM shadow_all")) == len(lake.both("shadow"))
    lake.w.spark.range(3).createOrReplaceTempView("shadow_all")
    assert sql(lake, "SELECT max(id) FROM shadow_all") == [(2,)]
    lake.w.spark.catalog.dropTempView("shadow_all")


def test_tables_without_chunks_are_named_and_unsynced_ones_are_what_hot_has(
    lake: ChunkLake,
) -> None:
    lake.create("plain")
    with pytest.raises(NotChunked, match="plain is not cut into chunks"):
        sql(lake, "SELECT * FROM plain_all")
    with pytest.raises(StatementRefused):
        sql(lake, "SELECT * FROM nobody_all")
    with pytest.raises(TableNotFound):
        meltline.all_rows(
            lake.w.spark, f"{lake.w.catalog}.{SPACE}.nobody", config=lake.services().config.path
        )
    lake.insert("plain", *OLD, *YOUNG)
    lake.policy("plain", PolicyType.RETENTION)
    lake.run("plain")
    assert len(lake.hot("plain")) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="never copied to cold"):
            all_rows(lake, "plain")
    assert sql(lake, "SELECT * FROM plain_all") == lake.hot("plain")


def test_a_session_that_does_not_know_cold_reads_it_all_the_same(lake: ChunkLake) -> None:
    lake.synced("remote", *OLD, *YOUNG, type=TIERED)
    lake.run("remote")
    lake.ahead += timedelta(hours=1)
    session = lake.w.spark.newSession()
    session.conf.set(f"spark.sql.catalog.{lake.cold_catalog}", "none.such.Catalog")
    frame = meltline.all_rows(session, str(lake.name("remote")), config=lake.services().config.path)
    assert ids(frame.collect()) == ids(lake.both("remote"))
