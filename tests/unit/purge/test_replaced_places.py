"""Metadata, manifests and files in the place of others, and what else looks like a known table."""

from uuid import UUID

import pytest

from meltline.app.doctor.init import init
from meltline.app.safety.switches import arm
from tests.doubles.control.ledger import memory_control_ledger
from tests.lake.copies import (
    copied,
    fresh_lake,
    rewritten_in_place,
)
from tests.lake.lake import Lake
from tests.lake.swept import swept
from tests.unit.catalog.test_copies import (
    AFTER,
    BEFORE,
    all_expired,
    go_apart,
    is_whole,
    nights,
    prod_of,
)


def test_a_table_that_was_rewritten_in_place_with_its_log_keeps_its_files() -> None:
    """Some tools rewrite paths and leave the log: the table goes on, and its snapshots do not."""
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    lake.on(1)
    old = {prod.manifest_list(snapshot_id) for snapshot_id in prod.snapshots}
    rewritten_in_place(prod, "file:///w/air/elsewhere")
    lake.run()
    swept(lake, 10, 17)
    nights(lake, 18, 26, 34)
    assert is_whole(prod) and prod.snapshots == [prod.head]
    all_expired(prod)
    assert not old & lake.paths()


@pytest.mark.parametrize("name", [BEFORE, AFTER])
def test_copies_keep_their_files_where_the_control_ledger_begins_anew(name: str) -> None:
    """The file ledger still knows snapshots by ids that the new control ledger gives to others."""
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    lake.run()
    lake.control = memory_control_ledger(
        lake.clock, database=lake.clock, lease_time=lake.lease_time
    )
    init(lake.services(), adopt=True)
    arm(lake.services(), "lake", "the new ledger is the right one")
    lake.on(2).run()
    swept(lake, 10, 17)
    nights(lake, 18, 26, 34, 42)
    assert is_whole(prod) and is_whole(copy)
    all_expired(prod, copy)


def test_metadata_in_the_place_of_other_metadata_is_read() -> None:
    """Catalogs that number metadata files, and nothing else, use a path again."""
    lake = Lake()
    prod = lake.on(0).table("prod", uuid=str(UUID(int=1, version=4)))
    prod.append("a")
    lake.run()
    size, at = lake.store.size(prod.metadata_location), prod.metadata_location
    place = prod.location
    prod.drop()
    lake.store.delete([stored.path for stored in lake.store.list(f"{place}/")])  # with PURGE
    lake.on(0.001)  # no two files of one path are written at one moment
    prod = lake.table("prod", uuid=str(UUID(int=2, version=4)))
    prod.append("b")
    assert (prod.metadata_location, lake.store.size(at)) == (at, size)
    lake.on(1).run()
    swept(lake, 10, 17)
    nights(lake, 18, 26)
    assert is_whole(prod)
    assert lake.files.snapshots.live_totals(sorted(lake.files.snapshots.known()))
    prod.overwrite("c")
    nights(lake, 34, 42, 50)
    all_expired(prod)


def test_manifests_in_the_place_of_others_are_read() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    ids, place = prod.snapshots, prod.location
    prod.drop()
    lake.store.delete([stored.path for stored in lake.store.list(f"{place}/")])  # with PURGE
    lake.on(1)
    prod = lake.table("prod")
    lake._ids = ids[0] - 1  # an engine that names files by what it counts
    for file in ("x", "y"):
        prod.append(file)
    prod.overwrite("z")
    assert prod.snapshots == ids
    lake.run()
    swept(lake, 10, 17)
    for day in (18, 26, 34):
        lake.on(day).run()
    assert is_whole(prod)


def test_another_file_at_the_path_of_one_in_cold_does_not_take_its_copy_for_its_own() -> None:
    lake = fresh_lake(has_cold=True)
    prod, _ = prod_of(lake), lake.table("other")
    prod.configure(meltline__cold="all")
    nights(lake, 10, 18)
    place = prod.location
    prod.drop()
    lake.store.delete([stored.path for stored in lake.store.list(f"{place}/")])  # with PURGE
    nights(lake, 19)
    new = lake.table("prod", properties={"meltline.cold": "all"})
    again = new.data("a")
    (in_cold,) = (p for p in lake.paths("file:///cold") if p.endswith("/prod/data/a.parquet"))
    before = lake.store.read(in_cold)
    other = bytes(reversed(range(100))) + b"e" * (len(before) - 100)
    lake.store.write(again, other)
    new.append("a")
    new.overwrite("n")
    new.overwrite("o")
    for day in (30, 38, 46):
        lake.on(day).run()
    assert lake.store.read(in_cold) == before
    copies = {p for p in lake.paths("file:///cold") if p.endswith("a.parquet")} | {again}
    assert other in {lake.store.read(path) for path in copies if lake.store.size(path) is not None}
