"""Files that a table added and removed outside of its present folders: L8 of such nights."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.storage.explain import explain_path
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.names import TableName
from meltline.domain.path_aliases import data_set_of
from meltline.ports import OtherOwner
from tests.lake.lake import Lake, Table
from tests.lake.swept import a_lake
from tests.unit.status.nightly import NightlyLake

LAST_NIGHT = 24  # windows of 7 days and failsafes of 7 days are over
DATA_PATH = "write.data.path"


def moved(table: Table, location: str) -> None:
    """ALTER TABLE … SET LOCATION."""
    table.edit(lambda document: document.update(location=location))


def data_path_was_set_and_unset(table: Table) -> str:
    left = "file:///w/objects/part=1/left.parquet"
    table.configure(**{DATA_PATH: "file:///w/objects"})
    table.append(left)
    table.edit(lambda document: document["properties"].pop(DATA_PATH))
    return left


def location_was_set_twice(table: Table) -> str:
    home = table.location
    moved(table, "file:///w/for-an-hour")
    table.append("left")
    left = table.data("left")
    moved(table, home)
    return left


@pytest.mark.parametrize("stage", [data_path_was_set_and_unset, location_was_set_twice])
def test_what_a_table_wrote_where_it_was_between_two_nights_goes_as_all_else(
    stage: Callable[[Table], str], tmp_path: Path
) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    odd.append("first")
    nightly.nights(1, 2)
    left = stage(odd)
    odd.overwrite("last")
    assert nightly.nights(*range(3, LAST_NIGHT)).exit_code == 0
    assert left not in nightly.lake.paths()
    assert nightly.lake.control.places.withheld() == []
    assert odd.data("last") in nightly.lake.paths()


def test_a_location_that_was_a_whole_warehouse_for_a_while_makes_nothing_the_tables(
    tmp_path: Path,
) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    nightly.nights(1, 2)
    home, taken = odd.location, "file:///w/raw/part-0.parquet"
    moved(odd, "file:///w")
    odd.append(taken)
    moved(odd, home)
    odd.overwrite("last")
    nightly.nights(*range(3, LAST_NIGHT))
    assert there(nightly.lake, taken)
    kept = nightly.lake.control.places.withheld()
    assert "file:///w/raw/" in {row.place for row in kept if row.why is Why.OUTSIDE_TABLES}


# --- what `add_files` has taken where somebody else had put it ------------------------------------

LANDED = "file:///landing/sensors/day=2026-01-03/part-0.parquet"


def there(lake: Lake, *paths: str) -> list[str]:
    return [path for path in paths if lake.store.size(path) is not None]


def landed(lake: Lake, taken: str = LANDED) -> Table:
    """A table that has taken a file where it was, and let go of it."""
    odd = lake.table("odd")
    odd.append(taken, "own")
    odd.overwrite("last")
    return odd


def test_a_file_from_a_landing_zone_in_a_storage_root_goes_as_all_else(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    odd = landed(nightly.lake)
    assert nightly.nights(*range(1, LAST_NIGHT)).exit_code == 0
    assert not there(nightly.lake, LANDED, odd.data("own"))
    assert nightly.lake.control.places.withheld() == []


@pytest.mark.parametrize("zone", ["file:///landing", "file:///w/landing"])
def test_a_file_from_a_landing_zone_elsewhere_is_kept_and_named_each_night(
    zone: str, tmp_path: Path
) -> None:
    """A warehouse is Meltline's to delete from, and not what others have put there."""
    nightly = NightlyLake(tmp_path / "metrics.prom")
    taken = LANDED.replace("file:///landing", zone)
    odd = landed(nightly.lake, taken)
    summary = nightly.nights(*range(1, LAST_NIGHT))
    assert there(nightly.lake, taken, odd.data("own")) == [taken], "its own goes on"
    (kept,) = nightly.lake.control.places.withheld()
    size = nightly.lake.store.size(taken)
    assert (kept.why, kept.place, kept.files) == (Why.OUTSIDE_TABLES, f"{zone}/sensors/", 1)
    assert kept.bytes == size
    assert kept.line == f"storage-roots: [{zone}/sensors/]"
    assert "outside every table" in explain_path(nightly.services(), taken).keep_reasons
    assert summary.exit_code == 0
    assert any(kept.fix in notice for notice in summary.as_json()["notices"])
    samples = nightly.samples()
    assert samples["meltline_held_back_bytes", "outside_tables"] == size
    assert samples["meltline_overdue_bytes", ""] == 0


def test_once_its_storage_root_is_named_it_goes_with_the_next_night(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    landed(nightly.lake)
    nightly.nights(*range(1, LAST_NIGHT))
    (finding,) = [f for f in examine(nightly.services()) if f.code == "outside_every_table"]
    assert "file:///landing/sensors/" in finding.message and "storage-roots" in finding.fix
    nightly.lake.storage_roots = ("file:///landing/sensors/",)
    nightly.night(LAST_NIGHT)
    assert not there(nightly.lake, LANDED)
    assert nightly.lake.control.places.withheld() == []


def test_what_its_owner_has_deleted_is_named_no_more(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    landed(nightly.lake)
    nightly.nights(*range(1, LAST_NIGHT))
    assert nightly.lake.control.places.withheld()
    nightly.lake.store.delete([LANDED])
    nightly.night(LAST_NIGHT)
    assert nightly.lake.control.places.withheld() == []
    assert LANDED not in nightly.lake.waiting()


@pytest.mark.parametrize("folder", ["file:///landing/sensors", "file:///landing"])
def test_the_log_of_another_format_around_it_keeps_it(folder: str, tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    odd = landed(nightly.lake)
    nightly.lake.store.write(f"{folder}/_delta_log/0.json", b"{}")
    summary = nightly.nights(*range(1, LAST_NIGHT))
    assert there(nightly.lake, LANDED, odd.data("own")) == [LANDED]
    (kept,) = nightly.lake.control.places.withheld()
    assert kept.why is Why.FOREIGN and "a Delta table" in kept.claimant
    assert summary.exit_code == 4


@pytest.mark.parametrize("folder", ["file:///landing/sensors", "file:///landing/"])
def test_a_table_that_hive_lists_there_keeps_it(folder: str, tmp_path: Path) -> None:
    """`add_files` from a table of another format: that one reads its files on."""
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    source = TableName.parse("lake.raw.sensors")
    nightly.lake.catalogs["lake"].add_owner(OtherOwner(source, "hive table", location=folder))
    odd = landed(nightly.lake)
    nightly.nights(*range(1, LAST_NIGHT))
    assert there(nightly.lake, LANDED, odd.data("own")) == [LANDED]
    (kept,) = nightly.lake.control.places.withheld()
    assert kept.why is Why.FOREIGN and "lake.raw.sensors" in kept.claimant


def test_the_metadata_of_a_table_that_no_catalog_shows_keeps_its_files(tmp_path: Path) -> None:
    lake = a_lake(unlisted=("dark",), storage_roots=("file:///landing",))
    nightly = NightlyLake(tmp_path / "metrics.prom", lake)
    theirs = lake.table("dark.air.theirs", location="file:///landing/theirs")
    theirs.append("x")
    odd = landed(lake, theirs.data("x"))
    nightly.nights(*range(1, LAST_NIGHT))
    assert there(lake, theirs.data("x"), odd.data("own")) == [theirs.data("x")]
    (kept,) = lake.control.places.withheld()
    assert kept.why is Why.FOREIGN and "a table that no catalog shows" in kept.claimant


def test_what_somebody_refers_to_again_is_taken_back(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    landed(nightly.lake)
    nightly.nights(*range(1, 12))
    assert LANDED in nightly.lake.waiting()
    nightly.lake.table("reader").append(LANDED)
    nightly.nights(*range(12, LAST_NIGHT))
    assert there(nightly.lake, LANDED)
    assert LANDED not in nightly.lake.waiting()


def test_a_hold_on_the_table_that_let_go_of_it_keeps_it(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    odd = landed(nightly.lake)
    nightly.nights(*range(1, 12))
    odd.configure(**{"meltline.hold": "audit"})
    nightly.nights(*range(12, LAST_NIGHT))
    assert there(nightly.lake, LANDED)


def test_a_root_that_is_taken_away_after_the_plan_refuses_it_at_the_gate_and_at_the_delete(
    tmp_path: Path,
) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    lake = nightly.lake
    taken = LANDED.replace("file:///", "file:///w/")
    lake.storage_roots = ("file:///w/landing",)
    landed(lake, taken)
    nightly.nights(*range(1, 10))
    services = lake.on(20).services()
    plans = [p.plan for p in Run(services, lake.request()).plan_purge()]
    passed = [plan for plan, _ in run_gate(services, plans)]
    lake.storage_roots = ()
    verdicts = [verdict for _, verdict in run_gate(lake.services(), plans)]
    assert any(verdict.failed_on("planned_contested") for verdict in verdicts)
    lake.storage_roots = ("file:///w/landing",)
    run_gate(lake.services(), plans)
    lake.storage_roots = ()  # between the gate and the delete
    apply_purges(lake.services(), passed)
    assert there(lake, taken)


def test_a_dropped_table_is_let_go_with_what_it_took_from_a_landing_zone(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "metrics.prom")
    nightly.lake.storage_roots = ("file:///landing",)
    odd = nightly.lake.table("odd")
    odd.append(LANDED)
    nightly.nights(1, 2)
    location = odd.location
    drop(nightly.services(), str(odd.name))
    nightly.nights(*range(3, 60))
    assert not there(nightly.lake, LANDED)
    assert not nightly.lake.paths(location)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("s3://b/raw/sensors/part-0.parquet", "s3://b/raw/sensors/"),
        ("s3://b/raw/sensors/day=1/hour=2/f", "s3://b/raw/sensors/"),
        ("s3://b/raw/sensors/2026/01-03/f", "s3://b/raw/sensors/"),
        ("s3://b/objects/0101/1100/air/t/f", "s3://b/objects/"),
        ("s3://b/2026/01/f", "s3://b/2026/01/"),
        ("file:/raw/f", "file:///raw/"),
        ("/f", "file:///"),
    ],
)
def test_a_data_set_lies_above_its_partitions_dates_and_hashes(path: str, folder: str) -> None:
    assert data_set_of(path) == folder
