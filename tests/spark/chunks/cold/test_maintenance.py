"""Stock Spark compacts and expires cold: late rows are still told from dropped ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import meltline
from meltline.domain.chunks.policies import PolicyType
from meltline.ports import MixedRows
from tests.spark.chunks.lake_of_chunks import OLD, YOUNG, ChunkLake, Rows, ids
from tests.spark.chunks.setups.two_tiers import SyncedTable, TwoTiers
from tests.spark.setups.warehouse import SPACE

pytestmark = pytest.mark.spark

DAY = "2026-01-01"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    made = ChunkLake.empty(tmp_path_factory.mktemp("maintenance"))
    before = made.w.spark.catalog.currentCatalog()
    yield made
    made.w.spark.catalog.setCurrentCatalog(before)


def all_rows(lake: ChunkLake, table: str) -> Rows:
    """All rows of hot and of cold, by the public function."""
    frame = meltline.all_rows(
        lake.w.spark, str(lake.name(table)), config=lake.services().config.path
    )
    return sorted(map(tuple, frame.collect()), key=repr)


def noticed(lake: ChunkLake, table: str) -> Rows:
    """The same while no pass has compared what the owner of cold has rewritten."""
    with pytest.warns(UserWarning, match="the next pass of replication compares them"):
        return all_rows(lake, table)


def maintain(lake: ChunkLake, table: str, *, starting_number: bool = True) -> None:
    """Its owner rewrites every file of the table in cold, and expires all snapshots but one."""
    name = f"meltline_synced.{SPACE}.{table}"
    options = f"'rewrite-all', 'true', 'use-starting-sequence-number', '{starting_number}'"
    call = f"CALL {lake.cold_catalog}.system"
    lake.w.spark.sql(f"{call}.rewrite_data_files(table => '{name}', options => map({options}))")
    now = datetime.now(UTC) + timedelta(minutes=1)
    lake.w.spark.sql(
        f"{call}.expire_snapshots(table => '{name}', older_than => TIMESTAMP '{now:%F %T}',"
        " retain_last => 1)"
    )
    assert len(lake.cold_document(table)["snapshots"]) == 1


@pytest.mark.parametrize("starting_number", [True, False])
@pytest.mark.slow("cold is compacted and expired between passes")
def test_late_rows_are_there_once_and_deleted_ones_stay_deleted(
    lake: ChunkLake, starting_number: bool
) -> None:
    table = f"kept_{starting_number}".lower()
    lake.synced(table, *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lake.run(table)
    dropped_before = all_rows(lake, table)
    late = lake.insert(table, OLD[0], rows=3)
    lake.follow(table)
    before = all_rows(lake, table)
    maintain(lake, table, starting_number=starting_number)
    assert noticed(lake, table) == before
    lake.w.sql(f"DELETE FROM {{{table}}} WHERE id = {late[0]}")
    lake.follow(table)
    assert noticed(lake, table) == lake.both(table) == [r for r in before if r[0] != late[0]]
    more = lake.insert(table, OLD[0])
    assert ids(noticed(lake, table)) == sorted([*ids(dropped_before), *late[1:], *more])
    lake.follow(table)  # rows are told apart by now, and are compared
    assert ids(all_rows(lake, table)) == sorted([*ids(dropped_before), *late[1:], *more])
    lake.run(table)
    assert lake.statuses(table)[lake.day(OLD[0])] == "dropped"
    assert ids(lake.cold(table)) == sorted([*ids(dropped_before), *late[1:], *more])


def test_mixed_rows_are_told_apart_whatever_types_they_have(tmp_path: Path) -> None:
    """Equal rows, nulls, NaN and maps too: each late row takes off one that is equal."""
    tiers = TwoTiers.empty(tmp_path)
    tiers.hot.sql(
        "CREATE TABLE {t} (id BIGINT, at TIMESTAMP, f DOUBLE, m MAP<STRING, INT>) USING iceberg"
        " PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version'='2')"
    )
    rows = [
        f"({id}, TIMESTAMP '{DAY} 01:00:00', {number}, {entries})"
        for id, number, entries in (
            (1, "1.5", "map('k', 1)"),
            (2, "double('NaN')", "map()"),
            (3, "NULL", "NULL"),
        )
    ]
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES {', '.join(rows)}")
    synced = SyncedTable.of(tiers)
    synced.copy(everything=True)
    tiers.hot.sql(f"DELETE FROM {{t}} WHERE at >= TIMESTAMP '{DAY}'")
    synced.copied = synced.head
    tiers.hot.sql(f"INSERT INTO {{t}} VALUES {', '.join([*rows, rows[0].replace('(1', '(4')])}")
    synced.copy()
    tiers.cold.sql("CALL rewrite_data_files(table => 'n.t', options => map('rewrite-all', 'true'))")
    position = synced.head
    tiers.hot.sql("DELETE FROM {t} WHERE id IN (1, 2)")
    request = synced.request(frozenset({DAY}))
    mixed = MixedRows(request.removed, frozenset({DAY}), {position: frozenset({DAY})})
    outcome = tiers.replicator.copy(replace(request, mixed=mixed))
    assert outcome is not None and outcome.rows == 2
    found = tiers.cold.sql("SELECT id, isnan(f), size(m) FROM {t}")
    assert sorted(row[0] for row in found) == [1, 2, 3, 3, 4]
    document = tiers.cold.document("t")
    assert document["refs"].keys() == {"main"}
    summaries = [snapshot["summary"] for snapshot in document["snapshots"]]
    only = [s["added-records"] for s in summaries if "meltline.sync-dropped" in s]
    assert only == ["3"]
    # Where hot has no row of it left, nothing but what cold alone has stays.
    tiers.cold.sql("CALL rewrite_data_files(table => 'n.t', options => map('rewrite-all', 'true'))")
    position = synced.head
    tiers.hot.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    request = synced.request(frozenset({DAY}))
    mixed = MixedRows(request.removed, frozenset({DAY}), {position: frozenset({DAY})})
    assert tiers.replicator.copy(replace(request, mixed=mixed)) is not None
    assert sorted(row[0] for row in tiers.cold.sql("SELECT id FROM {t}")) == [1, 2, 3]
