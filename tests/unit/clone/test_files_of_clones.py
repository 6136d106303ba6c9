"""What becomes of the files that a clone shares with its source."""

import pytest

from demo.outcome import print_clone
from meltline.app.catalog.tables import read_tables
from meltline.app.drop.drop import drop
from meltline.app.drop.recover import recover
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake, Table
from tests.unit.clone.test_clones import COPY, NAME, copied, daily, live, names


def stages(lake: Lake) -> dict[str, tuple[int, int]]:
    """Active and historical bytes, and bytes kept for clones, by table."""
    day = lake.clock.now().date().isoformat()
    return {
        row.table.name: (row.active_bytes + row.historical_bytes, row.retained_for_clone_bytes)
        for row in lake.control.storage.of(day)
    }


def on_disk(lake: Lake) -> int:
    return sum(lake.store.size(path) or 0 for path in lake.paths())


def test_shared_bytes_are_counted_once_on_their_owner() -> None:
    # ML-18, DS-3
    lake, table = daily()
    lake.run()
    alone = stages(lake)["t"]
    copy, second = copied(lake), copied(lake, "lake.air.second")
    lake.run()
    now = stages(lake)
    metadata = sum(len(lake.store.read(t.metadata_location)) for t in (copy, second))
    assert now["copy"][0] + now["second"][0] == metadata
    grown = len(lake.store.read(table.metadata_location))
    assert now["t"] == (alone[0] + grown, 0)
    assert sum(sum(found) for found in now.values()) == on_disk(lake)


def test_what_only_a_clone_needs_stands_with_its_owner_as_retained_for_the_clone() -> None:
    # ML-4
    lake, table = daily()
    copied(lake)
    shared = table.data("f3")
    lake.run()
    table.overwrite("later")
    lake.on(15).run()
    assert shared in lake.paths() and shared not in lake.waiting()
    held, retained = stages(lake)["t"]
    assert retained >= 100 + len(shared) and held > 0
    assert stages(lake)["copy"][1] == 0


@pytest.mark.parametrize("clones_of_clones", [False, True])
def test_a_source_that_is_dropped_and_purged_leaves_its_clones_what_they_need(
    clones_of_clones: bool,
) -> None:
    # ML-12
    lake, table = daily()
    copy = copied(lake)
    lake.catalogs["lake"].set_namespace_properties(("sea",), {"owner": "bob"})
    second = copied(lake, "lake.sea.second", COPY if clones_of_clones else NAME)
    shared, own = live(copy), {table.data("f0"), table.data("f1")}
    lake.run()
    drop(lake.services(), NAME)
    for day in (12, 20, 21, 29):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == {COPY, "lake.sea.second"}
    assert shared <= lake.paths() and not own & lake.paths()
    assert sum(found[1] for found in stages(lake).values()) > 0
    drop(lake.services(), COPY)
    for day in (40, 48, 49, 57):
        assert lake.on(day).run().exit_code == 0
    assert shared <= lake.paths() and live(second) == shared
    second.overwrite("own")
    for day in (58, 66, 67, 75):
        assert lake.on(day).run().exit_code == 0
    assert not shared & lake.paths() and live(second) <= lake.paths()
    assert sum(found[1] for found in stages(lake).values()) == 0


def test_the_clones_history_keeps_what_it_shared_for_as_long_as_the_policy_says() -> None:
    lake, table = daily()
    copy = copied(lake)
    shared = live(copy)
    table.overwrite("t")
    copy.overwrite("c")
    lake.on(10).run()
    assert shared <= lake.paths().difference(lake.waiting())
    lake.on(12).run()
    assert shared <= lake.waiting().keys()
    lake.on(20).run()
    assert not shared & lake.paths()


def test_a_clone_can_itself_be_cloned_dropped_and_recovered() -> None:
    lake, _ = daily()
    copy = copied(lake)
    first = copy.head
    lake.on(5)
    copy.overwrite("c")
    lake.on(14).run()
    assert first not in copy.snapshots
    done = recover(lake.services(), COPY, "lake.air.back", reason="needed", snapshot_id=first)
    assert done.missing == ()


def test_the_demo_shows_a_clone(capsys: pytest.CaptureFixture[str]) -> None:
    lake, table = daily()
    print_clone(lake.services(), NAME)
    assert f"{NAME}_copy has" in capsys.readouterr().out
    assert live(Table(lake, TableName.parse(f"{NAME}_copy"))) == live(table)


def test_a_clone_is_managed_like_any_table() -> None:
    lake, _ = daily()
    copied(lake)
    (found,) = [t for t in read_tables(lake.services()) if t.state.name.name == "copy"]
    assert found.managed and not found.held
