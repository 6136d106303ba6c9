"""The demo's numbers against a walk of the metadata that knows nothing of the planner."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from demo.outcome import run_facts, write_page
from demo.place import Place
from demo.warehouse import NAMESPACE, build
from meltline.app.services import RunContext
from meltline.app.storage.report import StoredBytes, storage_rows
from meltline.domain.deletion.storage import StorageRow
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, Warehouse

pytestmark = pytest.mark.spark

DAYS = 14
MORNING = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(hours=6)


@dataclass(frozen=True)
class Demo:
    """The demo's lake after its two runs, and what the walk saw before and after them."""

    lake: Warehouse
    before: dict[str, set[str]]
    on_disk_before: dict[str, int]
    services: RunContext


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    lake = Warehouse.empty(tmp_path_factory.mktemp("demo"), "shown")
    midnight = MORNING.replace(hour=0)
    build(lake.spark, lake.catalog, lake.folder, lake.db, midnight, days=DAYS)
    before = walk.reachable(lake.db, lake.catalog)
    on_disk = walk.disk(lake.folder / NAMESPACE)
    lake.init(MORNING)
    for now in (MORNING, MORNING + 8 * DAY):
        assert lake.run(now).exit_code == 0
    yield Demo(lake, before, on_disk, lake.services(MORNING + 8 * DAY))


def rows_of(demo: Demo, at: datetime | None = None) -> dict[str, StorageRow]:
    history = StoredBytes(demo.services)
    return {".".join(row.table.plain.split(".")[1:]): row for row in storage_rows(history.at(at))}


def test_storage_after_the_runs_is_what_the_walk_reaches_and_what_waits(demo: Demo) -> None:
    after = walk.reachable(demo.lake.db, demo.lake.catalog, without="meltline")
    on_disk = walk.disk(demo.lake.folder / NAMESPACE)
    for table, row in rows_of(demo).items():
        assert row.active_bytes + row.historical_bytes == sum(on_disk[p] for p in after[table])
        folder = f"{demo.lake.folder}/{table.replace('.', '/')}/"
        own = {path for path in on_disk if path.startswith(folder)}
        assert row.failsafe_bytes == sum(on_disk[path] for path in own - after[table])
        assert row.failsafe_bytes > 0


def test_what_was_purged_is_what_the_walk_no_longer_finds(demo: Demo) -> None:
    on_disk = walk.disk(demo.lake.folder / NAMESPACE)
    gone = demo.on_disk_before.keys() - on_disk.keys()
    assert gone
    first, second = run_facts(demo.services)
    assert (first.files_purged, second.files_purged) == (0, len(gone))
    assert second.bytes_purged == sum(demo.on_disk_before[path] for path in gone)
    assert sum(row.deleted_bytes for row in rows_of(demo).values()) == second.bytes_purged
    assert first.files_departed == len(gone)
    assert first.gates_passed == 3 and first.gates_refused == second.gates_refused == 0


def test_storage_before_the_first_run_is_all_that_was_on_disk(demo: Demo) -> None:
    for table, row in rows_of(demo, MORNING.replace(hour=0)).items():
        expected = sum(demo.on_disk_before[path] for path in demo.before[table])
        assert row.active_bytes + row.historical_bytes == expected
        assert (row.failsafe_bytes, row.deleted_bytes) == (0, 0)


def test_the_picture_is_drawn_from_those_numbers(demo: Demo) -> None:
    place = Place(demo.lake.root / "picture")
    place.root.mkdir()
    write_page(demo.services, place.page, first=(MORNING - DAYS * DAY).date())
    page = place.page.read_text()
    assert "<svg" in page and "shown.air.flights" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
