"""A copied lake, or another table, that arrives at a synced table is refused; its owner goes on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import LedgerOutOfStep, NameConflict
from tests.spark.chunks.lake_of_chunks import CONFIG, OLD, YOUNG, ChunkLake
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse, quoted, tables_of

pytestmark = pytest.mark.spark

ACCOUNT = "account: {{retention-days: 7, cold: all}}\n"
ARCHIVING = CONFIG + ACCOUNT


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("first"))


def copied(first: ChunkLake, root: Path) -> ChunkLake:
    """A lake with a ledger and a catalog of its own, whose tables and cold are those of another."""
    config = ARCHIVING.format(cold=first.cold_catalog, most=1.0)
    config = config.replace("sqlite:///", f"sqlite:///{first.w.root}/")
    config = config.replace("warehouse: ", f"warehouse: {first.w.root}/")
    lake = ChunkLake(Warehouse.empty(root, f"{first.w.catalog}_copy", config), first.cold_catalog)
    with closing(sqlite3.connect(lake.w.db)) as catalog:
        catalog.execute("ATTACH ? AS first", [str(first.w.db)])
        catalog.execute(
            "INSERT INTO iceberg_tables SELECT * FROM first.iceberg_tables"
            " WHERE table_namespace = ?",
            [SPACE],
        )
        catalog.execute("UPDATE iceberg_tables SET catalog_name = ?", [lake.w.catalog])
        catalog.commit()
    lake.w.init(lake.now, adopt=True)
    return lake


def archived(lake: ChunkLake) -> list[str]:
    """The rows of every snapshot in the archive of a table."""
    name = quoted(lake.cold_catalog, SPACE, "t")
    ids = [id for (id,) in lake.w.spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()]
    return sorted(
        f"{id}: {lake.w.spark.sql(f'SELECT id FROM {name} VERSION AS OF {id}').collect()}"
        for id in ids
    )


@pytest.mark.slow("a lake is copied, and both hand over")
def test_an_archive_takes_no_history_of_a_copied_lake(tmp_path: Path) -> None:
    first = ChunkLake.empty(tmp_path / "first")
    with first.w.yaml.open("a") as config:
        config.write(ACCOUNT.format())
    first.w.create("t")
    first.w.overwrite("t", 1, 11, 21, 31)
    first.w.stage("t", 30 * DAY, 20 * DAY)
    second = copied(first, tmp_path / "second")
    assert first.w.run(TODAY + DAY).exit_code == 0
    before = archived(first)
    assert len(before) > 1
    second.w.sql("INSERT OVERWRITE {t} VALUES (99, 0)")
    line = tables_of(second.w.run(TODAY + 2 * DAY))["t"]
    assert "belongs to another installation" in line["skipped"], line
    assert archived(first) == before


def test_a_copied_lake_is_refused_at_the_cold_of_the_first(lake: ChunkLake, tmp_path: Path) -> None:
    lake.synced("readings", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    rows = lake.both("readings")
    second = copied(lake, tmp_path)
    assert second.hot("readings") == rows
    lake.run("readings")
    assert lake.hot_days("readings") == lake.days(*YOUNG)
    before = lake.cold_document("readings")
    with pytest.raises(LedgerOutOfStep, match="belongs to another installation"):
        second.sync("readings")
    assert lake.cold_document("readings") == before
    assert second.hot("readings") == rows
    assert complete_rows(lake.services(), lake.name("readings")).notice == ""
    late = lake.insert("readings", 0)
    lake.follow("readings")
    assert lake.both("readings") == lake.cold("readings")
    assert len(lake.cold("readings")) == len(rows) + len(late)


def test_another_table_cannot_take_the_place_of_a_synced_one(lake: ChunkLake) -> None:
    lake.synced("taken", *OLD, *YOUNG, type=PolicyType.TIERED_RETENTION)
    lake.run("taken")
    rows, before = lake.both("taken"), lake.cold_files("taken")
    lake.create("other")
    lake.insert("other", *YOUNG)
    with pytest.raises(NameConflict):
        start_sync(lake.services(), lake.name("other"), f"meltline_synced.{SPACE}.taken")
    for table, name in (("taken", "former"), ("other", "taken")):
        lake.w.sql(f"ALTER TABLE {{{table}}} RENAME TO {SPACE}.{name}")
    assert lake.sync("taken").cold.name != "taken"
    lake.follow("taken", "former")
    assert lake.cold_files("taken") == before
    assert lake.cold("taken") == rows
