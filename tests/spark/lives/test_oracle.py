"""Two oracles: Iceberg's own metadata tables, and the disk."""

import pytest

from meltline.app.storage.file_status import standing_now
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.storage import Stage
from meltline.ports import SnapshotKey
from tests.spark.setups import walk
from tests.spark.setups.stranger import FOREIGN, Story, stranger
from tests.spark.setups.warehouse import LEDGER, SPACE, Warehouse

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def story() -> Story:
    story = stranger()
    story.after(1)
    return story


def by_iceberg(w: Warehouse, table: str, snapshot: int | None = None) -> set[str]:
    """Files, manifests and manifest lists of a table or one snapshot, as Iceberg lists them."""
    name = w.name(table)
    if snapshot is None:
        parts = (
            f"SELECT file_path FROM {name}.all_files",
            f"SELECT path FROM {name}.all_manifests",
            f"SELECT manifest_list FROM {name}.snapshots",
        )
    else:
        parts = (
            f"SELECT file_path FROM {name}.files VERSION AS OF {snapshot}",
            f"SELECT path FROM {name}.manifests VERSION AS OF {snapshot}",
            f"SELECT manifest_list FROM {name}.snapshots WHERE snapshot_id = {snapshot}",
        )
    found = w.spark.sql(" UNION ".join(parts)).collect()
    return {walk.local(row[0]) for row in found}


def test_the_index_refers_to_what_icebergs_metadata_tables_list(story: Story) -> None:
    """All snapshots leaving at once would take exactly everything with them."""
    w = story.warehouse
    services = w.services(story.now)
    known = sorted(services.files.snapshots.known(), key=lambda key: key.snapshot_id)
    departing = services.files.references.departing(known)
    expected = set().union(*(by_iceberg(w, table) for table in w.tables()))
    assert {walk.local(file.path) for file in departing} == expected
    sizes = {walk.local(file.path): file.bytes for file in departing}
    on_disk = {path: size for path, size in w.disk().items() if path in sizes}
    assert {path: sizes[path] for path in on_disk} == on_disk


@pytest.mark.parametrize("table", ["v1", "v2", "v3", "wap", "t[1]"])
def test_what_one_snapshot_refers_to_is_what_iceberg_lists_for_it(story: Story, table: str) -> None:
    w = story.warehouse
    services = w.services(story.now)
    known = services.files.snapshots.known()
    uuid = str(w.document(table)["table-uuid"])
    paths = [f"file:{path}" for path in sorted(by_iceberg(w, table))]
    for snapshot in w.snapshots(table)[-3:]:
        dead = sorted(known - {SnapshotKey(uuid, snapshot)}, key=lambda key: key.snapshot_id)
        found = services.files.references.among(paths, dead)
        assert {walk.local(path) for path in found} == by_iceberg(w, table, snapshot)


def test_every_byte_under_a_managed_prefix_stands_in_one_stage(story: Story) -> None:
    """I-3: active, historical, retained for a clone and failsafe sum up to what is on the disk.

    What lies with no table is foreign as long as a table refers to it, and waits then.
    """
    # ML-1
    w = story.warehouse
    services = w.services(story.now)
    rows = storage_rows(totals_now(services))
    summed = sum(
        row.active_bytes + row.historical_bytes + row.retained_for_clone_bytes + row.failsafe_bytes
        for row in rows
    )
    foreign = sum(path.stat().st_size for path in (w.root / FOREIGN).glob("*.parquet"))
    ours = sum(size for path, size in w.disk().items() if path not in story.orphans)
    assert summed + sum(row.foreign_bytes for row in rows) == ours + foreign
    assert len(rows) == len(w.tables())  # also of a second name with the UUID of another one
    adopts = next(row for row in rows if row.table.name == "adopts")
    assert adopts.foreign_bytes in (0, foreign)


def test_each_file_stands_where_the_walk_puts_it(story: Story) -> None:
    w = story.warehouse
    standing = standing_now(w.services(story.now))
    reachable = walk.reachable(w.db, w.catalog, without=LEDGER)
    stages = {walk.local(file.path): file.stage for file in standing.files.values()}
    everywhere = set().union(*reachable.values())
    waiting = {path for path, stage in stages.items() if stage is Stage.FAILSAFE}
    foreign = {str(path) for path in (w.root / FOREIGN).glob("*.parquet")}
    unreachable = (w.disk().keys() | foreign) - everywhere - story.orphans
    # The commit that expires may push metadata files out of a short log: the next plan finds those.
    out_of_log = {path for path in unreachable - waiting if path.endswith(".metadata.json")}
    assert waiting == unreachable - out_of_log
    assert {stages[path] for path in out_of_log} <= {Stage.HISTORICAL}
    for table in ("v1", "v2", "v3", "rolled"):
        head = w.document(table)
        refs = [ref["snapshot-id"] for ref in head["refs"].values() if ref["type"] == "branch"]
        of_heads = {
            path
            for snapshot in head["snapshots"]
            if snapshot["snapshot-id"] in refs
            for path in walk.of_snapshot(snapshot)
        }
        of_heads |= {
            walk.local(file["statistics-path"])
            for file in head.get("statistics", [])
            if file["snapshot-id"] in refs
        }
        of_heads.add(walk.local(w.location(table)))
        for path in reachable[f"{SPACE}.{table}"]:
            expected = Stage.ACTIVE if path in of_heads else Stage.HISTORICAL
            assert stages[path] is expected, path


def test_a_file_of_the_source_that_only_the_clone_needs_is_kept_for_the_clone(story: Story) -> None:
    w = story.warehouse
    standing = standing_now(w.services(story.now))
    reachable = walk.reachable(w.db, w.catalog, without=LEDGER)
    origin = next(uuid for uuid, name in standing.names.items() if name.name == "origin")
    kept = {
        walk.local(file.path): file.owner
        for file in standing.files.values()
        if file.stage is Stage.RETAINED_FOR_CLONE
    }
    only_cloned = {
        path
        for path in reachable[f"{SPACE}.cloned"] - reachable[f"{SPACE}.origin"]
        if path.startswith(f"{w.folder}/{SPACE}/origin/")
    }
    assert kept == dict.fromkeys(only_cloned, origin)
    assert only_cloned
