"""Tables of one line, indexed by what each snapshot changed; Iceberg itself is the oracle."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from meltline.adapters.ingest.ingest import ManifestRows, ReadingLimits
from meltline.app.observe.observe import observe, rebuild
from meltline.app.services import RunContext
from meltline.ports import Neighbourhood, SnapshotKey
from tests.spark.setups import walk
from tests.spark.setups.merge_on_read import create, delete_by_value, insert
from tests.spark.setups.warehouse import LEDGER, TODAY, Warehouse

pytestmark = pytest.mark.spark

NUMBERS = count()
MERGED_SOON = "commit.manifest.min-count-to-merge=3"


@pytest.fixture
def w(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse.empty(tmp_path, f"lines_{next(NUMBERS)}")
    warehouse.init()
    return warehouse


HERE = ReadingLimits()
SPREAD = ReadingLimits(here_manifests=0, bulk_entries=10**9)
BULK = ReadingLimits(bulk_entries=0, bulk_manifest=1)
VAST = replace(BULK, written_here=0)


def look(w: Warehouse, limits: ReadingLimits = HERE) -> list[str]:
    """One look at the catalogs; what it could not read."""
    services = w.services(TODAY)
    assert isinstance(services.files.manifests, ManifestRows)
    services.files.manifests.limits = limits
    return [str(name) for name in observe(services).skipped]


def rows(w: Warehouse, table: str) -> list[dict[str, object]]:
    found = w.spark.table(f"{w.catalog}.{LEDGER}.{table}").collect()
    return [row.asDict() for row in found]


def by_changes(w: Warehouse, table: str) -> set[int]:
    """Snapshots of a table that are known by their changes."""
    uuid = w.document(table)["table-uuid"]
    return {
        int(str(row["snapshot_id"]))
        for row in rows(w, "snapshots")
        if row["table_uuid"] == uuid and row["by_changes"]
    }


def changed_by_iceberg(w: Warehouse, table: str) -> int:
    """Entries that add or remove a file, each once, as Iceberg lists them."""
    entries = w.spark.table(f"{w.name(table)}.all_entries").where("status != 0")
    return entries.select("status", "snapshot_id", F.col("data_file.file_path"),
                          F.col("data_file.content_offset")).distinct().count()  # fmt: skip


def by_iceberg(w: Warehouse, table: str, snapshot: int) -> set[str]:
    name = w.name(table)
    found = w.sql(
        f"SELECT file_path FROM {name}.files VERSION AS OF {snapshot}"
        f" UNION SELECT path FROM {name}.manifests VERSION AS OF {snapshot}"
        f" UNION SELECT manifest_list FROM {name}.snapshots WHERE snapshot_id = {snapshot}"
    )
    return {walk.local(row[0]) for row in found}


def require_exact(w: Warehouse, table: str) -> None:
    """What the index says of each snapshot is what Iceberg lists for it, no more and no less."""
    services = w.services(TODAY)
    known = services.files.snapshots.known()
    uuid = str(w.document(table)["table-uuid"])
    of_all = {snapshot: by_iceberg(w, table, snapshot) for snapshot in w.snapshots(table)}
    paths = [f"file:{path}" for path in sorted(set().union(*of_all.values()))]
    for snapshot, expected in of_all.items():
        dead = sorted(known - {SnapshotKey(uuid, snapshot)}, key=lambda key: key.snapshot_id)
        found = services.files.references.among(paths, dead)
        assert {walk.local(path) for path in found} == expected, f"{table}@{snapshot}"
    require_departing(services, uuid, of_all, linear=by_changes(w, table) == set(of_all))
    totals = services.files.snapshots.live_totals(
        [SnapshotKey(uuid, snapshot) for snapshot in of_all]
    )
    for snapshot in of_all:
        files = w.sql(
            f"SELECT count(*), sum(file_size_in_bytes) FROM {w.name(table)}.files"
            f" VERSION AS OF {snapshot}"
        )[0]
        assert totals[SnapshotKey(uuid, snapshot)] == (files[0], files[1] or 0)


def require_departing(
    services: RunContext, uuid: str, of_all: dict[int, set[str]], *, linear: bool
) -> None:
    """Whatever leaves takes with it what nothing else refers to: the old ones, or any one alone."""
    ids = list(of_all)
    leaving = [ids[:3], ids[:-1], ids, *([one] for one in ids)]
    narrow = Neighbourhood(frozenset({uuid}), frozenset({uuid} if linear else ()))
    for some in leaving:
        gone = set().union(*(of_all[one] for one in some))
        stays = set().union(*(of_all[one] for one in ids if one not in some))
        keys = [SnapshotKey(uuid, one) for one in some]
        for within in (None, narrow):
            found = services.files.references.departing(keys, within)
            assert {walk.local(file.path) for file in found} == gone - stays, some


def everything_that_a_line_may_see(w: Warehouse, table: str, version: int) -> None:
    create(w, table, version, MERGED_SOON)
    for start in range(0, 50, 10):
        insert(w, table, start, start + 10)
    w.sql(f"DELETE FROM {{{table}}} WHERE id IN (3, 4, 13, 24)")
    if version == 2:
        delete_by_value(w, table, "word", "w33")
    w.sql(f"DELETE FROM {{{table}}} WHERE id IN (4, 5, 14)")
    w.sql(f"CALL rewrite_manifests(table => 'n.{table}')")
    insert(w, table, 50, 60)
    add_again(w, table)
    w.sql(f"CALL rewrite_data_files(table => 'n.{table}', options => map('rewrite-all', 'true'))")
    w.sql(f"DELETE FROM {{{table}}} WHERE odd = 1")
    insert(w, table, 60, 70)


def add_again(w: Warehouse, table: str) -> None:
    """Removes a file, and adds the very same file with the next commit."""
    jvm = w.spark._jvm
    assert jvm is not None
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        w.spark._jsparkSession, w.name(table)
    )
    tasks = loaded.newScan().planFiles().iterator()
    file = tasks.next().file()
    loaded.newDelete().deleteFile(file).commit()
    loaded.newAppend().appendFile(file.copyWithoutStats()).commit()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "limits", [HERE, SPREAD, BULK, VAST], ids=["here", "executors", "Spark's own", "vast"]
)
def test_only_what_each_snapshot_changed_is_kept_and_it_tells_all(
    w: Warehouse, version: int, limits: ReadingLimits
) -> None:
    everything_that_a_line_may_see(w, "t", version)
    assert look(w, limits) == []
    assert by_changes(w, "t") == set(w.snapshots("t"))
    assert rows(w, "entries") == []
    changes = {tuple(row.items()) for row in rows(w, "changes")}
    assert len(changes) == changed_by_iceberg(w, "t")
    require_exact(w, "t")


def test_a_line_goes_on_from_day_to_day_and_reads_only_what_is_new(w: Warehouse) -> None:
    create(w, "t", 2, MERGED_SOON)
    insert(w, "t", 0, 10)
    look(w)
    before = len(rows(w, "manifests"))
    for start in (10, 20, 30):
        insert(w, "t", start, start + 10)
    w.sql("DELETE FROM {t} WHERE id < 10")
    look(w)
    look(w)
    assert by_changes(w, "t") == set(w.snapshots("t"))
    assert len(rows(w, "changes")) == changed_by_iceberg(w, "t")
    named = set().union(*(by_iceberg(w, "t", one) for one in w.snapshots("t")))
    manifests = [path for path in named if "-m" in path.rpartition("/")[2]]
    assert len(rows(w, "manifests")) == len(manifests) > before
    require_exact(w, "t")


def test_what_goes_on_from_an_older_snapshot_is_read_wholly(w: Warehouse) -> None:
    create(w, "t", 2, MERGED_SOON)
    for start in (0, 10, 20):
        insert(w, "t", start, start + 10)
    look(w)
    on_line = set(w.snapshots("t"))
    w.sql(f"CALL set_current_snapshot('n.t', {w.snapshots('t')[0]})")
    insert(w, "t", 30, 40)
    w.sql("ALTER TABLE {t} CREATE BRANCH b", "INSERT INTO {t}.branch_b VALUES (90, 0, 'w')")
    insert(w, "t", 40, 50)
    assert look(w) == []
    assert by_changes(w, "t") == on_line < set(w.snapshots("t"))
    require_exact(w, "t")


def test_a_branch_is_read_wholly_and_mains_line_goes_on(w: Warehouse) -> None:
    create(w, "t", 2, MERGED_SOON)
    insert(w, "t", 0, 10)
    w.sql("ALTER TABLE {t} CREATE BRANCH b", "INSERT INTO {t}.branch_b VALUES (90, 0, 'w')")
    side = set(w.snapshots("t"))
    insert(w, "t", 10, 20)
    look(w)
    insert(w, "t", 20, 30)
    look(w)
    assert len(set(w.snapshots("t")) - by_changes(w, "t")) == 1
    assert len(side & by_changes(w, "t")) == 1
    require_exact(w, "t")


def test_a_table_of_format_1_is_read_wholly(w: Warehouse) -> None:
    w.create("t", version=1)
    w.append("t", 0)
    w.append("t", 10)
    look(w)
    assert by_changes(w, "t") == set() == set(rows(w, "changes"))
    require_exact(w, "t")


@pytest.mark.slow("an index is rebuilt after a long history")
def test_a_rebuilt_index_begins_its_lines_at_the_oldest_snapshot_that_is_left(w: Warehouse) -> None:
    everything_that_a_line_may_see(w, "t", 2)
    look(w)
    w.sql(f"CALL expire_snapshots(table => 'n.t', older_than => TIMESTAMP '{TODAY:%Y-%m-%d}',"
          " retain_last => 4)")  # fmt: skip
    services = w.services(TODAY)
    rebuild(services)
    assert look(w) == []
    assert by_changes(w, "t") == set(w.snapshots("t"))
    require_exact(w, "t")
    w.sql("DELETE FROM {t} WHERE id < 62")
    insert(w, "t", 70, 80)
    look(w)
    assert by_changes(w, "t") == set(w.snapshots("t"))
    require_exact(w, "t")


def test_a_list_that_cannot_be_read_for_a_while_does_not_end_a_line(w: Warehouse) -> None:
    create(w, "t", 2, MERGED_SOON)
    insert(w, "t", 0, 10)
    look(w)
    insert(w, "t", 10, 20)
    lost = w.document("t")["snapshots"][-1]["manifest-list"]
    insert(w, "t", 20, 30)
    place = Path(walk.local(lost))
    content = place.read_bytes()
    place.unlink()
    assert look(w) != []
    place.write_bytes(content)
    insert(w, "t", 30, 40)
    assert look(w) == []
    assert by_changes(w, "t") == set(w.snapshots("t"))
    require_exact(w, "t")
