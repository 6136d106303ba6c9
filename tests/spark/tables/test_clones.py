"""Clones and shares on real Iceberg, as stock Spark reads them; they outlive their source."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.spark.session import catalog_settings
from meltline.app.clone.clone import clone
from meltline.app.clone.shares import create_share, drop_share, update_share
from meltline.app.drop.drop import drop
from meltline.domain.time_travel.timetravel import Moment, PointSide, TravelPoint
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

CATALOG = "cloning"
SHARED = f"SELECT * FROM {CATALOG}.q1.shown"
LINEAGE = "SELECT id, part, _row_id, _last_updated_sequence_number FROM {%s} ORDER BY id"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    config = "limits:\n  max-delete-ratio: 1.0\n"
    made = Warehouse.empty(tmp_path_factory.mktemp("cloning"), CATALOG, config)
    made.init()
    return made


def cloned(lake: Warehouse, source: str, target: str, at: datetime | None = None) -> None:
    services = lake.services(datetime.now(UTC) + timedelta(seconds=1))
    point = TravelPoint(PointSide.AT, Moment(at)) if at else None
    name = f"{CATALOG}.{SPACE}"
    clone(services, f"{name}.{source}", f"{name}.{target}", point=point)


def rows(lake: Warehouse, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(query)), key=str)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_spark_reads_a_clone_as_the_table_was_and_both_go_on(lake: Warehouse, version: int) -> None:
    source, old, new = f"t{version}", f"old{version}", f"new{version}"
    lake.create(source, version=version, more="PARTITIONED BY (part)")
    lake.append(source, 0, 10)
    second = lake.document(source)["snapshot-log"][1]["timestamp-ms"]
    lake.sql(
        f"ALTER TABLE {{{source}}} ADD COLUMN day DATE",
        f"ALTER TABLE {{{source}}} ADD PARTITION FIELD days(day)",
        f"ALTER TABLE {{{source}}} WRITE ORDERED BY day",
        f"INSERT INTO {{{source}}} SELECT id, part, DATE '2026-01-01' FROM {{{source}}}",
        f"DELETE FROM {{{source}}} WHERE id = 1",
    )
    before = lake.disk().keys()
    cloned(lake, source, old, datetime.fromtimestamp(second / 1000, UTC))
    cloned(lake, source, new)
    assert all(path.endswith(".metadata.json") for path in lake.disk().keys() - before)
    first, _ = lake.snapshots(source)[:2]
    assert rows(lake, f"SELECT * FROM {{{old}}}") == rows(
        lake, f"SELECT * FROM {{{source}}} VERSION AS OF {lake.snapshots(source)[1]}"
    )
    assert lake.spark.table(lake.name(old)).columns == ["id", "part"]
    now = rows(lake, f"SELECT * FROM {{{source}}}")
    assert rows(lake, f"SELECT * FROM {{{new}}}") == now and len(now) == 14
    if version == 3:
        assert rows(lake, LINEAGE % new) == rows(lake, LINEAGE % source)

    lake.append(old, 100)
    lake.sql(f"DELETE FROM {{{new}}} WHERE id > 9", f"INSERT INTO {{{new}}} VALUES (7, 7, NULL)")
    lake.sql(f"UPDATE {{{source}}} SET part = 5 WHERE id = 2")
    assert len(rows(lake, f"SELECT * FROM {{{old}}}")) == 12
    assert sorted(row[0] for row in lake.sql(f"SELECT id FROM {{{new}}}")) == [
        0, 0, 2, 2, 3, 3, 7,
    ]  # fmt: skip
    assert len(rows(lake, f"SELECT * FROM {{{source}}}")) == 14
    assert rows(lake, f"SELECT * FROM {{{new}}} WHERE part = 5") == []
    if version == 3:
        ids = [row[0] for row in lake.sql(f"SELECT _row_id FROM {{{new}}}")]
        assert None not in ids and len(set(ids)) == len(ids)
    assert rows(lake, f"SELECT id FROM {{{source}}} VERSION AS OF {first}") == [
        (0,), (1,), (2,), (3,),
    ]  # fmt: skip


def test_engines_refuse_to_purge_what_a_clone_needs(lake: Warehouse) -> None:
    lake.create("guarded")
    lake.append("guarded", 0, 10)
    cloned(lake, "guarded", "guarded_copy")
    for table in ("guarded", "guarded_copy"):
        with pytest.raises(Exception, match=r"(?i)gc"):
            lake.sql(f"CALL expire_snapshots(table => '{SPACE}.{table}', retain_last => 1)")


@pytest.mark.slow("several nights with Spark")
def test_a_clone_outlives_its_source_and_the_last_one_lets_the_files_go(lake: Warehouse) -> None:
    lake.create("origin", version=3)
    lake.append("origin", 0, 10, 20)
    cloned(lake, "origin", "copy")
    cloned(lake, "copy", "second")
    held = rows(lake, "SELECT * FROM {origin}")
    of_origin = {path for path in lake.disk() if f"/{SPACE}/origin/data/" in path}
    start = TODAY + timedelta(hours=1)
    assert lake.run(start).exit_code == 0
    drop(lake.services(start), f"{CATALOG}.{SPACE}.origin")
    lake.sql("INSERT OVERWRITE {copy} VALUES (1, 1)")
    for days in (8, 16, 17, 25):
        assert lake.run(start + days * DAY).exit_code == 0
    assert "origin" not in str(lake.rows()) and of_origin <= lake.disk().keys()
    assert rows(lake, "SELECT * FROM {second}") == held
    assert rows(lake, "SELECT * FROM {copy}") == [(1, 1)]
    retained = [row.retained_for_clone_bytes for row in lake.standing(start + 25 * DAY)]
    assert sum(retained) >= sum(lake.disk()[path] for path in of_origin)

    drop(lake.services(start + 26 * DAY), f"{CATALOG}.{SPACE}.second")
    for days in (34, 42, 43, 51):
        assert lake.run(start + days * DAY).exit_code == 0
    assert not of_origin & lake.disk().keys()
    assert rows(lake, "SELECT * FROM {copy}") == [(1, 1)]
    assert lake.reachable() <= lake.disk().keys()


def test_a_share_stays_as_it_was_until_it_is_updated_whatever_is_written_to_it(
    lake: Warehouse,
) -> None:
    lake.create("shown", version=3)
    lake.append("shown", 0)
    services = lake.services(datetime.now(UTC) + timedelta(seconds=1))
    create_share(services, "q1", f"{CATALOG}.{SPACE}.shown")
    first = rows(lake, "SELECT * FROM {shown}")
    lake.append("shown", 10)
    assert rows(lake, SHARED) == first
    lake.sql(f"INSERT INTO {CATALOG}.q1.shown VALUES (99, 9)")
    done = update_share(services, "q1")
    assert [one.written for one in done.tables] == [True]
    assert rows(lake, SHARED) == rows(lake, "SELECT * FROM {shown}") != first
    lake.sql(f"INSERT INTO {CATALOG}.q1.shown VALUES (99, 9)")
    update_share(services, "q1")
    assert rows(lake, SHARED) == rows(lake, "SELECT * FROM {shown}")
    drop_share(services, "q1")
    assert not lake.spark.catalog.tableExists(f"{CATALOG}.q1.shown")


def test_a_catalog_of_the_old_schema_has_clones_and_shares_and_stays_as_it_is(
    tmp_path: Path,
) -> None:
    old = Warehouse.empty(tmp_path, "oldrows", schema_version="V0")
    old.init()
    old.create("shown")
    old.append("shown", 0)
    services = old.services(datetime.now(UTC) + timedelta(seconds=1))
    create_share(services, "q1", f"oldrows.{SPACE}.shown")
    clone(services, f"oldrows.{SPACE}.shown", f"oldrows.{SPACE}.copy")
    first = rows(old, "SELECT * FROM {shown}")
    old.append("shown", 10)
    shared = "SELECT * FROM oldrows.q1.shown"
    assert rows(old, shared) == rows(old, "SELECT * FROM {copy}") == first
    update_share(services, "q1")
    assert rows(old, shared) == rows(old, "SELECT * FROM {shown}") != first
    settings = catalog_settings(services.config.catalogs["oldrows"])
    assert not [key for key in settings if "schema-version" in key]
    with closing(sqlite3.connect(old.db)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")]
    assert "metadata_location" in columns and "iceberg_type" not in columns


def test_a_view_is_no_share_for_whole_files_are_deleted_through_it(lake: Warehouse) -> None:
    """Why shares are tables: decision 015."""
    lake.create("under", version=2)
    lake.append("under", 0)
    lake.sql(f"CREATE VIEW {CATALOG}.{SPACE}.over AS SELECT * FROM {{under}}")
    lake.sql(f"DELETE FROM {CATALOG}.{SPACE}.over")
    assert rows(lake, "SELECT * FROM {under}") == []
