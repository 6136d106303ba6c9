"""Two names of one place, on real tables: what is needed by one name stays under the other."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

LATER = TODAY + timedelta(hours=1)  # after all that Spark commits meanwhile


def overwritten(root: Path, catalog: str) -> Warehouse:
    """A table whose first file only a snapshot outside its window has."""
    w = Warehouse.empty(root, catalog, config="account:\n  retention-days: 1\n")
    w.create("first", "meltline.retention-days=0")
    w.append("first", 0)
    w.init()
    return w


def add_through(w: Warehouse, folder: Path) -> None:
    """A second table that takes the first one's files by another name of their folder."""
    w.create("second")
    source = f"`parquet`.`file://{folder}`"
    w.sql(f"CALL add_files(table => '{SPACE}.second', source_table => '{source}')")


def check_second_is_whole(w: Warehouse) -> None:
    """The first table lets go of its file and its time passes; the second one still reads."""
    w.overwrite("first", 100)
    before = w.contents("second")
    assert any(before.values())
    for day in (0, 8, 16, 24):
        w.run(LATER + day * DAY, f"run-{day}")
    assert len(w.snapshots("first")) == 1, "nothing expired, so nothing was shown"
    assert w.contents("second") == before


def test_a_file_added_through_a_linked_folder_outlives_its_first_table(tmp_path: Path) -> None:
    w = overwritten(tmp_path, "linked")
    link = tmp_path / "elsewhere"
    link.symlink_to(w.folder / SPACE / "first" / "data")
    add_through(w, link)
    assert "/elsewhere/" in str(
        w.spark.sql(f"SELECT file_path FROM {w.name('second')}.files").collect()
    )
    check_second_is_whole(w)


def test_a_file_added_through_a_link_of_its_own_outlives_its_first_table(tmp_path: Path) -> None:
    w = overwritten(tmp_path, "links")
    farm = tmp_path / "farm"
    farm.mkdir()
    for file in (w.folder / SPACE / "first" / "data").glob("*.parquet"):
        (farm / f"renamed-{file.name}").symlink_to(file)
    add_through(w, farm)
    check_second_is_whole(w)
