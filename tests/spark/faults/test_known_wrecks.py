"""The wrecks of other tools on real tables: what stock Iceberg wrote, and stock Spark reads after.

Unreadable files (Iceberg #17715) are in `test_bad_luck.py`. Listings that reach too far, or too
early (Iceberg #16493, #4194), are the sweep's business. Each history is in `tests/unit` too.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, TODAY, Contents, Warehouse

pytestmark = pytest.mark.spark

LATE = (1 * DAY, 9 * DAY, 18 * DAY, 27 * DAY)  # the window is 7 days, and so is failsafe


@dataclass
class Wrecks:
    """The warehouse after all runs, and each table's rows by ref before them."""

    w: Warehouse
    before: Contents
    refs: dict[str, dict[str, int]]

    def reads_as_before(self, table: str) -> None:
        """Every ref of a table still gives the rows it gave."""
        now = self.w.contents(table)
        assert self.refs[table] == self.w.heads()[table]
        for snapshot in self.refs[table].values():
            assert now[snapshot] == self.before[table][snapshot]

    def data_files(self, table: str) -> set[str]:
        folder = f"{self.w.folder}/n/{table}/data/"
        return {path for path in self.w.disk() if path.startswith(folder)}


def java_table(w: Warehouse, table: str) -> Any:
    """A table in Iceberg's own Java API."""
    jvm: Any = w.spark._jvm
    util = jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergTable(w.spark._jsparkSession, w.name(table))


def expire_metadata_only(w: Warehouse, table: str, snapshot: int) -> None:
    """Another tool expires one snapshot by id and leaves its files."""
    expire = java_table(w, table).expireSnapshots().expireSnapshotId(snapshot)
    expire.cleanExpiredFiles(False).commit()


def add_again(w: Warehouse, table: str, snapshot: int) -> None:
    """The data files that a snapshot added are added once more, under their old paths."""
    found = java_table(w, table)
    append = found.newAppend()
    files = found.snapshot(snapshot).addedDataFiles(found.io()).iterator()
    while files.hasNext():
        append.appendFile(files.next())
    append.commit()


@pytest.fixture(scope="module")
def wrecks(tmp_path_factory: pytest.TempPathFactory) -> Wrecks:
    w = Warehouse.empty(tmp_path_factory.mktemp("wrecks"), "wrecks")
    w.create("branched")
    w.append("branched", 0)
    w.sql("ALTER TABLE {branched} CREATE BRANCH audit")
    w.overwrite("branched", 10, 20)
    w.sql("INSERT INTO {branched}.branch_audit VALUES (77, 1)")
    w.create("again")
    w.append("again", 0)
    first = w.snapshots("again")[0]
    w.sql("DELETE FROM {again}")
    add_again(w, "again", first)
    w.append("again", 10)
    w.create("middle")
    w.overwrite("middle", 0, 10, 20)
    oldest, between, _ = w.snapshots("middle")
    w.sql(f"ALTER TABLE {{middle}} CREATE TAG oldest AS OF VERSION {oldest}")
    before, refs = w.all_contents(), w.heads()
    w.init()
    w.run(TODAY)
    expire_metadata_only(w, "middle", between)  # Iceberg cuts the log, and the line of parents
    for days in LATE:
        assert w.run(TODAY + days).exit_code == 0
    return Wrecks(w, before, refs)


def test_iceberg_13568_a_branch_reads_what_main_has_long_dropped(wrecks: Wrecks) -> None:
    """Iceberg #13568: expiration walked main alone and deleted what other refs still read."""
    wrecks.reads_as_before("branched")
    assert len(wrecks.w.snapshots("branched")) == 2  # both heads, and nothing of the past


def test_iceberg_8255_a_path_that_was_removed_and_added_again_is_read(wrecks: Wrecks) -> None:
    """Iceberg #8255: a tombstone of an expired snapshot deleted a file that was back since."""
    wrecks.reads_as_before("again")
    assert len(wrecks.w.snapshots("again")) == 1


def test_iceberg_10982_amoro_4231_a_snapshot_behind_a_gap_in_the_line_is_read(
    wrecks: Wrecks,
) -> None:
    """Iceberg #10982 and Amoro #4231: a middle snapshot, expired by id, took older ones' files."""
    wrecks.reads_as_before("middle")
    assert len(wrecks.w.snapshots("middle")) == 2


def test_and_yet_all_that_nobody_needs_is_gone(wrecks: Wrecks) -> None:
    """Keeping everything would pass the tests above."""
    for table in wrecks.w.tables():
        assert wrecks.data_files(table) <= walk.of_table(wrecks.w.location(table)), table
