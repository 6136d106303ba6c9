"""Rows of the ledger, read in this process and by Spark: both give the same."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type

from meltline.adapters.file_index.entries import SnapshotRows
from meltline.adapters.file_index.history_tables import TableUpkeep
from meltline.adapters.index_tables.parquet_scan import LedgerFiles
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.schema import ENTRIES, SNAPSHOTS, TABLES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.index_tables.tombstone_rows import DepartureRows
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.errors import SetupMissing
from meltline.domain.iceberg.files import Departure, DepartureState, FileKind
from tests.spark.setups.warehouse import LEDGER, Warehouse

pytestmark = pytest.mark.spark

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATE = ("sequence_number", "by_changes", "live_files", "live_bytes", "list_sha256")
"""Columns of `snapshots` that tests take from it."""

Row = dict[str, Any]
Asked = tuple[Sequence[str], Sequence[Condition], tuple[str, Sequence[int]] | None]

EVERYTHING = SNAPSHOTS.names
QUESTIONS: Sequence[Asked] = [
    (EVERYTHING, [], None),
    (["manifests", "snapshot_id"], [], None),
    (["snapshot_id"], [("table_uuid", "=", "b")], None),
    (["snapshot_id", "table_uuid"], [("table_uuid", ">", "a"), ("table_uuid", "<=", "é")], None),
    (["manifest_list"], [("table_uuid", "in", ["a", "c", None, "nobody"])], None),
    (["manifest_list"], [("table_uuid", "in", [])], None),
    (EVERYTHING, [("table_uuid", "=", None)], None),
    (["snapshot_id"], [("committed_at", "<", NOW + 3 * HOUR)], None),
    (["committed_at"], [("committed_at", ">=", NOW + 3 * HOUR)], None),
    (["snapshot_id"], [("committed_at", "=", NOW + HOUR)], None),
    (EVERYTHING, [("parent_id", "is null", None)], None),
    (EVERYTHING, [("parent_id", "not null", None), ("parent_id", "<", 5)], None),
    (["snapshot_id"], [("parent_id", "in", [3, -(2**62)])], None),
    (["snapshot_id"], [("by_changes", "=", True)], None),
    (["snapshot_id"], [("by_changes", "is null", None)], None),
    (["snapshot_id"], [("sequence_number", ">", 2)], None),
    (["live_files", "table_uuid"], [("live_files", "not null", None)], None),
    (EVERYTHING, [], ("snapshot_id", [2, 7, 2**62, 999, 7])),
    (["manifests"], [("table_uuid", "=", "a")], ("snapshot_id", range(0, 1000, 2))),
    (["snapshot_id"], [], ("parent_id", [1, 2, 3])),
    (["live_bytes"], [], ("live_bytes", range(-5000, 5000))),
]


def departure(number: int) -> Departure:
    path, waits = f"file:///lake/t/{number}.parquet", DepartureState.FAILSAFE
    return Departure(path, FileKind.DATA, 1, "a", "e1", NOW, NOW, waits, NOW)


class Watched(LedgerTables):
    """Tables of the ledger that tell how often Spark was asked."""

    by_spark = 0

    def read(self, table: str) -> DataFrame:
        self.by_spark += 1
        return super().read(table)

    def here(self, *asked: Any, table: str = "snapshots") -> list[str]:
        """The answer, which must not come from Spark."""
        before = self.by_spark
        found = self.look(table, *asked)
        assert self.by_spark == before, "Spark was asked"
        return _said(found)

    def there(self, *asked: Any, table: str = "snapshots") -> list[str]:
        """Spark's answer."""
        largest, self._files.largest = self._files.largest, -1
        before = self.by_spark
        found = self.look(table, *asked)
        assert self.by_spark == before + 1, "Spark was not asked"
        self._files.largest = largest
        return _said(found)


def _said(found: pa.Table) -> list[str]:
    """Rows in an order of their own, and their types."""
    return [str(found.schema), *sorted(map(repr, found.to_pylist()))]


def row(number: int, **values: Any) -> Row:
    """A row of `snapshots`, with nulls here and there."""
    return {
        "table_uuid": [None, "a", "b", "c", "é", "a" * 40][number % 6],
        "snapshot_id": number if number % 5 else number + 2**62,
        "committed_at": None if number % 7 == 3 else NOW + number * HOUR,
        "parent_id": None if number < 4 else number - 1 if number % 3 else -(2**62),
        "manifest_list": f"file:///w/{number}",
        "list_hash": number * 31,
        "manifest_list_bytes": 10,
        "manifests": [None, [], [number], [number, None, 3]][number % 4],
        "sequence_number": number,
        "by_changes": [True, False, None][number % 3],
        "live_files": number * 10,
        "live_bytes": -number,
        **values,
    }


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse.empty(tmp_path_factory.mktemp("scan"), "scan")


@pytest.fixture
def ledger(warehouse: Warehouse) -> Iterator[Watched]:
    made = Watched(warehouse.spark, ObjectStores({}), warehouse.catalog, LEDGER)
    made.prepare()
    yield made
    for table in ("snapshots", "departures", "entries"):
        warehouse.spark.sql(f"DROP TABLE IF EXISTS {warehouse.catalog}.{LEDGER}.{table} PURGE")


def write(ledger: Watched, numbers: Sequence[int], marker: str = "") -> None:
    ledger.append("snapshots", [row(number) for number in numbers], marker)


def write_by_spark(ledger: Watched, numbers: Sequence[int]) -> None:
    rows = pa.Table.from_pylist([row(number) for number in numbers], schema=SNAPSHOTS)
    ledger.write("snapshots", ledger.spark.createDataFrame(rows).coalesce(1), "")


def assert_same(ledger: Watched, questions: Sequence[Asked] = QUESTIONS) -> None:
    for question in questions:
        assert ledger.here(*question) == ledger.there(*question), question
    assert len(ledger.here(*QUESTIONS[0])) > 3


def test_files_of_both_writers_are_read_as_spark_reads_them(ledger: Watched) -> None:
    for first in range(0, 12, 3):
        write(ledger, range(first, first + 3))
    write_by_spark(ledger, range(12, 30))
    write(ledger, [6, 6])  # all of one column null
    assert_same(ledger)
    assert ledger.here(["snapshot_id"], [], ("parent_id", [])) == ledger.here(
        ["snapshot_id"], [("snapshot_id", "in", [None])]
    )


def test_many_rows_become_several_files_in_one_commit(
    ledger: Watched, warehouse: Warehouse
) -> None:
    ledger.file_rows = 3
    write(ledger, range(8), "eight")
    name = f"{warehouse.catalog}.{LEDGER}.snapshots"
    counts = warehouse.spark.sql(f"SELECT record_count FROM {name}.files").collect()
    assert sorted(count for (count,) in counts) == [2, 3, 3]
    commits = warehouse.spark.sql(f"SELECT summary['meltline.marker'] FROM {name}.snapshots")
    assert [marker for (marker,) in commits.collect()] == ["eight"]
    rows = pa.Table.from_pylist([row(number) for number in range(8)], schema=SNAPSHOTS)
    assert ledger.here(EVERYTHING) == ledger.there(EVERYTHING) == _said(rows)
    write(ledger, [])
    ledger.append_arrow("snapshots", SNAPSHOTS.empty_table(), "none")
    assert commits.count() == 1


def test_a_column_that_was_added_later_is_null_in_older_files(ledger: Watched) -> None:
    name = without_late(ledger)
    columns = ", ".join(
        f"{late} {from_arrow_type(SNAPSHOTS.field(late).type).simpleString()}" for late in LATE
    )
    ledger.spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({columns})")
    assert ledger.here(EVERYTHING) == ledger.there(EVERYTHING)
    write(ledger, range(4, 12))
    write_by_spark(ledger, range(12, 20))
    assert_same(ledger)
    assert len(ledger.here(["snapshot_id"], [("live_files", "is null", None)])) == 1 + 4


def test_compacted_files_are_read_as_spark_reads_them(
    ledger: Watched, warehouse: Warehouse
) -> None:
    for number in range(8):
        write(ledger, [number, number + 8])
    before = ledger.here(EVERYTHING)
    warehouse.sql(
        f"CALL rewrite_data_files(table => '{LEDGER}.snapshots', "
        "options => map('rewrite-all', 'true'))"
    )
    assert ledger.here(EVERYTHING) == before
    write(ledger, [20])
    assert_same(ledger, QUESTIONS[::4])


def test_hashes_are_found_among_many_before_and_after_spark_wrote_the_files_anew(
    ledger: Watched, warehouse: Warehouse
) -> None:
    """Footers of files that are written here tell of most hashes that they are not there."""
    hashes = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 220_000, np.int64)
    nulls = {name: pa.nulls(len(hashes), ENTRIES.field(name).type) for name in ENTRIES.names}
    for part, table_uuid in enumerate("ab"):
        of_table = {"table_uuid": [table_uuid] * len(hashes), "key_hash": hashes + part}
        ids = {"manifest_id": np.arange(len(hashes))}
        ledger.append_arrow("entries", pa.table(nulls | of_table | ids, schema=ENTRIES), "")
    some = [*hashes[[0, 99_999, 100_000, 219_999]].tolist(), 7, 8]
    by_hash = (["table_uuid", "key_hash"], [], ("key_hash", some))
    by_manifest = (["key_hash"], [("table_uuid", "=", "b")], ("manifest_id", [0, 150_000]))
    absent = (["key_hash"], [], ("key_hash", range(1000)))

    def look() -> list[list[str]]:
        answers = [ledger.here(*q, table="entries") for q in (by_hash, by_manifest, absent)]
        assert [len(answer) - 1 for answer in answers] == [4, 2, 0]  # besides the names
        return answers

    before = look()
    assert before[0] == ledger.there(*by_hash, table="entries")
    warehouse.sql(
        f"CALL rewrite_data_files(table => '{LEDGER}.entries', "
        "options => map('rewrite-all', 'true'))"
    )
    ledger._files = LedgerFiles(ObjectStores({}))
    assert look() == before


def test_deleted_rows_are_gone(ledger: Watched, warehouse: Warehouse) -> None:
    write(ledger, range(10))
    write(ledger, range(10, 20))
    assert len(ledger.here(["snapshot_id"])) == 1 + 20
    delete(warehouse, "snapshot_id % 2 = 0")
    assert len(ledger.here(["snapshot_id"])) < 1 + 20
    assert_same(ledger, QUESTIONS[::4])
    delete(warehouse, "true")
    assert ledger.here(EVERYTHING) == ledger.there(EVERYTHING) == _said(SNAPSHOTS.empty_table())


def test_a_table_with_delete_files_is_left_to_spark(ledger: Watched, warehouse: Warehouse) -> None:
    write(ledger, range(1, 11))
    name = f"{warehouse.catalog}.{LEDGER}.snapshots"
    warehouse.spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    delete(warehouse, "snapshot_id = 4")
    found = ledger.look("snapshots", ["snapshot_id"])
    assert ledger.by_spark and sorted(found["snapshot_id"].to_pylist())[:4] == [1, 2, 3, 6]


def test_what_is_too_large_is_left_to_spark(ledger: Watched) -> None:
    write(ledger, range(10))
    ledger._files.largest = 100
    before = ledger.by_spark
    assert ledger.look_here("snapshots", ["snapshot_id"]) is None
    assert len(_said(ledger.look("snapshots", ["snapshot_id"]))) == 1 + 10
    assert ledger.by_spark == before + 1


def test_departures_are_all_read_here_however_many_they_are(ledger: Watched) -> None:
    departures = DepartureRows(ledger)
    departures.record({"m": [departure(number) for number in range(10)]})
    ledger._files.largest = ledger._files.whole = 1
    before = ledger.by_spark
    fresh = DepartureRows(ledger)
    assert fresh.book().rows.num_rows == fresh.waiting().rows.num_rows == 10
    assert ledger.by_spark == before


def test_a_file_that_cannot_be_read_here_is_left_to_spark_and_its_words(
    ledger: Watched, warehouse: Warehouse
) -> None:
    write(ledger, range(10))
    for file in warehouse.folder.glob(f"{LEDGER}/snapshots/data/*.parquet"):
        file.write_bytes(file.read_bytes()[:-10])
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    fresh = Watched(warehouse.spark, ObjectStores({}), warehouse.catalog, LEDGER)
    with pytest.raises(Exception, match="parquet"):
        fresh.look("snapshots", EVERYTHING)
    assert fresh.by_spark


def test_each_look_sees_what_was_written_before_it(ledger: Watched, warehouse: Warehouse) -> None:
    other = Watched(warehouse.spark, ObjectStores({}), warehouse.catalog, LEDGER)
    assert ledger.here(["snapshot_id"]) == _said(SNAPSHOTS.empty_table().select(["snapshot_id"]))
    for count in range(1, 4):
        write(other, [count])
        assert len(ledger.here(["snapshot_id"])) == 1 + count


def test_small_numbers_and_words_of_enumerations_are_asked_for_as_they_are(
    ledger: Watched,
) -> None:
    kinds = [FileKind.DATA, FileKind.MANIFEST]
    rows = [{"kind": str(kind), "status": n % 3, "bytes": n} for kind in kinds for n in range(9)]
    ledger.append("entries", rows, "")
    for where in ([("kind", "=", FileKind.DATA)], [("status", "<", 2), ("kind", "in", kinds[:1])]):
        asked = (["bytes", "status", "kind"], where)
        assert ledger.here(*asked, table="entries") == ledger.there(*asked, table="entries")
        assert 1 < len(ledger.here(*asked, table="entries")) < 12


def test_a_missing_table_is_told_of(ledger: Watched, warehouse: Warehouse) -> None:
    warehouse.spark.sql(f"DROP TABLE {warehouse.catalog}.{LEDGER}.snapshots")
    with pytest.raises(SetupMissing, match="snapshots"):
        ledger.look("snapshots", ["snapshot_id"], among=("snapshot_id", []))


# --- tables of other columns ---------------------------------------------------------------------


def without_late(ledger: Watched) -> str:
    """Takes columns from the table, and appends four rows without them. Returns its name."""
    name = f"{ledger.namespace}.snapshots"
    ledger.spark.sql(f"ALTER TABLE {name} DROP COLUMNS ({', '.join(LATE)})")
    names = [name for name in SNAPSHOTS.names if name not in LATE]
    early = pa.schema([SNAPSHOTS.field(name) for name in names])
    rows = pa.Table.from_pylist([row(number) for number in range(4)], schema=early)
    ledger.spark.createDataFrame(rows).coalesce(1).writeTo(name).append()
    return name


def test_a_table_that_lacks_columns_is_neither_read_nor_written(ledger: Watched) -> None:
    without_late(ledger)
    for step in (
        ledger.prepare,
        lambda: write(ledger, [5]),
        lambda: write_by_spark(ledger, [5]),
        lambda: ledger.look("snapshots", ["live_files"]),
        lambda: ledger.look("snapshots", ["snapshot_id"], [("live_files", "=", 1)]),
    ):
        with pytest.raises(SetupMissing, match="lacks columns") as refused:
            step()
        assert "live_files" in refused.value.expected
    assert len(_said(ledger.look("snapshots", ["snapshot_id"]))) == 1 + 4


def test_a_table_of_another_order_and_with_more_columns_is_appended_to(ledger: Watched) -> None:
    name = f"{ledger.namespace}.snapshots"
    for change in (
        "ADD COLUMN newer STRUCT<x: INT> FIRST",
        "ADD COLUMN newest STRING",
        "ALTER COLUMN snapshot_id AFTER manifests",
        "ALTER COLUMN by_changes FIRST",
    ):
        ledger.spark.sql(f"ALTER TABLE {name} {change}")
    write(ledger, range(8))
    write_by_spark(ledger, range(8, 20))
    assert_same(ledger)
    rows = [row(number) for number in range(20)]
    expected = _said(pa.Table.from_pylist(rows, schema=SNAPSHOTS))
    assert ledger.here(EVERYTHING) == expected


def test_every_table_takes_a_row_of_nulls_and_gives_it_back(ledger: Watched) -> None:
    for table, schema in TABLES.items():
        if ledger.current(table) is None:
            ledger.append(table, [dict.fromkeys(schema.names)], "")
        asked = (schema.names, [(schema.names[0], "is null", None)])
        assert ledger.here(*asked, table=table) == ledger.there(*asked, table=table)
        assert len(ledger.here(*asked, table=table)) == 2


def delete(warehouse: Warehouse, where: str) -> None:
    warehouse.spark.sql(f"DELETE FROM {warehouse.catalog}.{LEDGER}.snapshots WHERE {where}")


def test_metrics_of_files_written_here_are_what_iceberg_reads_from_them(
    ledger: Watched, warehouse: Warehouse
) -> None:
    write(ledger, range(10))
    files = warehouse.spark.table(f"{warehouse.catalog}.{LEDGER}.snapshots.files").collect()
    assert [file["record_count"] for file in files] == [10]
    low = files[0]["readable_metrics"]["live_files"]
    assert (low["lower_bound"], low["upper_bound"], low["null_value_count"]) == (0, 90, 0)


def test_compaction_makes_one_of_many_small_files_and_leaves_large_ones_as_they_are(
    ledger: Watched,
) -> None:
    write(ledger, range(3000))
    large = ledger.here(["manifest_list"])
    (stays,) = _files(ledger)
    for number in range(3000, 3060):
        write(ledger, [number])
    before = ledger.here(EVERYTHING)
    assert len(before) == len(large) + 60
    departures = DepartureRows(ledger)
    upkeep = TableUpkeep(ledger, SnapshotRows(ledger, departures), departures, 1)
    upkeep.compact_below = 50_000
    assert "snapshots: 61 files compacted" in upkeep.maintain()
    files = _files(ledger)
    assert stays in files and len(files) == 2
    assert ledger.here(EVERYTHING) == before


def _files(ledger: Watched) -> list[str]:
    rows = ledger.spark.sql(f"SELECT file_path FROM {ledger.namespace}.snapshots.files").collect()
    return [row[0] for row in rows]
