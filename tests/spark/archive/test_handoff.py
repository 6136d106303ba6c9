"""The scenario that decides: history is handed over, expires, waits and is purged; then the hot
warehouse is taken away, and every cold snapshot has the rows that it had.

Tables of both formats with deletes of every kind, a change of columns and one of partitioning; the
whole chain, with Great Expectations as its gate, at simulated times.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from meltline.adapters.spark.row_comparer import SparkRowComparer, rows_differ
from meltline.app.archive.cold_verify import cold_verify
from meltline.app.run.summary import Summary
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.iceberg.names import TableName
from meltline.ports import HandedOver, Mended
from tests.spark.setups import merge_on_read
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse, stock_session, tables_of

pytestmark = pytest.mark.spark

CONFIG = """\
  handoff_cold:
    type: sql
    uri: sqlite:///cold.db
    warehouse: cold
cold: handoff_cold
account: {retention-days: 7, cold: all}
"""
TABLES = {"old": 2, "new": 3}
PAST_DAYS = timedelta(days=30)


@dataclass(frozen=True)
class Life:
    """Two tables with a past, what their snapshots held, and what the runs did."""

    hot: Warehouse
    cold: Warehouse
    before: dict[str, dict[int, list[str]]]
    runs: dict[str, Summary]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    root = tmp_path_factory.mktemp("handoff")
    hot = Warehouse.empty(root, "handoff_hot", CONFIG)
    hot.init()
    for table, version in TABLES.items():
        merge_on_read.history(hot, table, version)
        hot.sql(f"ALTER TABLE {{{table}}} DROP TAG early", f"ALTER TABLE {{{table}}} DROP TAG late")
        hot.stage(table, PAST_DAYS, timedelta(days=20))
    before = hot.all_contents()
    runs = {
        "expire": hot.run(TODAY),
        "again": hot.run(TODAY + timedelta(hours=1), "again"),
        "purge": hot.run(TODAY + 8 * DAY),
    }
    cold = Warehouse(root, "handoff_cold", hot.spark)
    yield Life(hot, cold, before, runs)


def test_the_run_hands_over_all_that_it_expires(life: Life) -> None:
    summary = life.runs["expire"]
    assert summary.exit_code == 0, json.dumps(summary.as_json(), indent=1)
    for table, line in tables_of(summary).items():
        if table in TABLES:
            assert line["snapshots_archived"] == line["snapshots_expired"] > 5
            assert line["files_copied"] > 10 and line["bytes_copied"] > 1000
    gates = [p for p in summary.plans.values() if p.kind is PlanKind.EXPIRE]
    assert gates and all(plan.state is PlanState.APPLIED for plan in gates)


def test_a_second_run_has_nothing_to_hand_over(life: Life) -> None:
    again = life.runs["again"]
    assert again.exit_code == 0 and not again.plans
    assert all(line["files_copied"] == 0 for line in tables_of(again).values())


def test_after_failsafe_the_files_are_purged_from_hot(life: Life) -> None:
    purge = life.runs["purge"]
    assert purge.exit_code == 0, json.dumps(purge.as_json(), indent=1)
    lines = tables_of(purge)
    assert all(lines[table]["files_purged"] > 0 for table in TABLES)


def test_with_the_hot_warehouse_gone_every_cold_snapshot_has_its_rows(life: Life) -> None:
    gone = life.hot.folder.rename(life.hot.folder.with_name("gone"))
    try:
        for table in TABLES:
            found = contents(life.cold, table)
            expected = {sid: life.before[table][sid] for sid in found}
            assert len(found) > 5 and found == expected
            left = set(life.before[table]) - found.keys()
            assert len(left) <= 2  # the head, and what the window promises
    finally:
        gone.rename(life.hot.folder)


def contents(cold: Warehouse, table: str) -> dict[int, list[str]]:
    """The rows of every snapshot of a cold table, as stock Spark reads them."""
    name, found = cold.name(table), {}
    for (sid,) in cold.spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect():
        rows = cold.spark.sql(f"SELECT to_json(struct(*)) FROM {name} VERSION AS OF {sid}")
        found[sid] = sorted(row[0] for row in rows.collect())
    return found


def test_over_a_copy_that_has_gone_from_cold_nothing_is_purged(tmp_path: Path) -> None:
    hot = Warehouse.empty(tmp_path, "handoff_spoilt", CONFIG.replace("handoff_cold", "spoilt_cold"))
    hot.init()
    merge_on_read.history(hot, "t", 2)
    hot.sql("ALTER TABLE {t} DROP TAG early", "ALTER TABLE {t} DROP TAG late")
    hot.stage("t", PAST_DAYS, timedelta(days=20))
    made = hot.services(TODAY)
    catalogs, warehouse = made.config.catalogs, f"file://{tmp_path}/cold"
    by_files = SparkRowComparer(hot.spark, catalogs, warehouse, whole_below=0)
    assert hot.run(TODAY, rows=by_files).exit_code == 0
    copies = sorted(Path(tmp_path, "cold").rglob("*.parquet"))
    assert copies
    copies[0].unlink()
    before = set(hot.disk())
    refused = hot.run(TODAY + 8 * DAY)
    assert refused.exit_code == 3
    assert "cold_" in tables_of(refused)["t"]["refused"]
    assert before <= set(hot.disk())


@pytest.mark.slow("three nights with Spark")
def test_a_flipped_bit_is_found_mended_from_the_original_and_only_then_is_that_purged(
    tmp_path: Path,
) -> None:
    config = CONFIG.replace("handoff_cold", "flipped_cold")
    hot = Warehouse.empty(tmp_path, "handoff_flipped", config)
    hot.init()
    merge_on_read.history(hot, "t", 2)
    hot.sql("ALTER TABLE {t} DROP TAG early", "ALTER TABLE {t} DROP TAG late")
    hot.stage("t", PAST_DAYS, timedelta(days=20))
    assert hot.run(TODAY).exit_code == 0
    copies = sorted(Path(tmp_path, "cold").rglob("*.parquet"))
    copy = copies[-1]  # no first one of anything
    whole, at = copy.read_bytes(), copy.stat()
    copy.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    os.utime(copy, ns=(at.st_atime_ns, at.st_mtime_ns))
    name = TableName(hot.catalog, (SPACE,), "t")
    services = hot.services(TODAY)
    assert any(str(copy) in p for v in cold_verify(services, name) for p in v.problems)
    later = TODAY + 8 * DAY
    before = set(hot.disk())
    refused = hot.run(later, "refused", archive=Unwilling())
    assert refused.exit_code == 3
    assert "cold_unproved" in tables_of(refused)["t"]["refused"]
    assert before <= set(hot.disk())
    mended = hot.run(later + timedelta(hours=1), "mended")
    assert mended.exit_code == 0, json.dumps(mended.as_json(), indent=1)
    assert copy.read_bytes() == whole
    assert any("made anew" in notice for notice in mended.notices)
    assert tables_of(mended)["t"]["files_purged"] > 0
    assert not any(v.problems for v in cold_verify(hot.services(later), name, content=True))


class Unwilling:
    """An archive that mends nothing."""

    def hand_off(self, *_: object) -> Iterator[tuple[TableName, HandedOver]]:
        yield from ()

    def mend(self, *_: object) -> Iterator[Mended]:
        yield from ()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            "VALUES (1, map('a', 1)), (2, map('b', 2))",
            "VALUES (2, map('b', 2)), (1, map('a', 1))",
            0,
        ),
        ("VALUES (1, map('a', 1))", "VALUES (1, map('a', 2))", 1),
        ("VALUES (1), (1)", "VALUES (1)", 1),
        ("VALUES (1)", "VALUES (1), (1)", 1),
        ("SELECT CAST(NULL AS INT) a, 1 b", "SELECT 1 a, CAST(NULL AS INT) b", 1),
        ("SELECT timestamp'2026-01-01 00:00:00.000001'", "SELECT timestamp'2026-01-01'", 1),
    ],
)
def test_rows_are_compared_with_their_number_their_nulls_and_every_microsecond(
    one: str, other: str, expected: int
) -> None:
    spark = stock_session()
    assert rows_differ(spark.sql(one), spark.sql(other)) is bool(expected)
