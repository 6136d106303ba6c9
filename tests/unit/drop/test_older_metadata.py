"""Second registrations, older metadata, and names and folders that are used again."""

from meltline.app.drop.undrop import undrop
from meltline.app.retention.leases import acquire_lease
from tests.lake.copies import (
    copied,
    earlier,
    fresh_lake,
    rewritten,
    set_back,
)
from tests.lake.lake import DAY, Table
from tests.unit.catalog.test_copies import (
    AFTER,
    BEFORE,
    NIGHTS,
    all_expired,
    is_whole,
    nights,
    prod_of,
)
from tests.unit.clone.test_shared_manifest_lists import remarked


def test_older_metadata_under_another_name_keeps_what_it_refers_to() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    prod.overwrite("d")
    old = lake.register(BEFORE, earlier(prod, 1))
    lake.on(1)
    old.append("its_own")
    prod.append("e")
    nights(lake, 2, *NIGHTS)
    assert is_whole(old) and is_whole(prod)
    assert old.data("c") in lake.paths()
    all_expired(prod, old)


def test_a_table_that_is_set_back_and_writes_on_keeps_its_new_files_and_expires() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    old = prod.metadata_location
    for file in ("x", "y"):
        prod.overwrite(file)
    lake.run()
    lake.on(1)
    prod = set_back(prod, old)
    for file in ("n1", "n2", "n3"):  # the sequence numbers of `x` and `y`, once more
        prod.append(file)
    for day in (2, *NIGHTS):
        lake.on(day).run()
    assert is_whole(prod) and {prod.data(file) for file in ("n1", "n2", "n3")} <= lake.paths()
    prod.overwrite("last")
    nights(lake, 50, 58, 66)
    assert prod.snapshots == [prod.head]
    gone = {prod.data(file) for file in ("c", "n1", "n2", "n3")}
    assert not gone & lake.paths()


def test_a_backup_that_is_rewritten_into_the_folder_it_came_from_keeps_its_files() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    backup = copied(prod, BEFORE)
    prod.overwrite("d")
    place = prod.location
    nights(lake, 2)
    prod.drop()
    lake.store.delete([stored.path for stored in lake.store.list(f"{place}/")])  # with PURGE
    lake.run()
    at = rewritten(backup, place)
    for snapshot_id in backup.snapshots:  # another day, another sync marker
        path = f"{place}{backup.manifest_list(snapshot_id)[len(backup.location) :]}"
        lake.store.write(path, remarked(lake.store.read(path)))
    prod = lake.register("lake.air.prod", at)
    for day in (3, *NIGHTS):
        lake.on(day).run()
    assert is_whole(prod) and is_whole(backup)


def test_a_table_that_is_set_back_without_a_look_between_is_the_older_one() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    old = prod.metadata_location
    prod.overwrite("x")
    lake.run()
    lake.on(1)
    prod.rollback(prod.snapshots[2])
    prod = set_back(prod, old)
    lake.run()
    assert is_whole(prod)
    for day in NIGHTS:
        lake.on(day).run()
    assert is_whole(prod) and prod.snapshots == [prod.head]


def test_a_table_that_is_dropped_after_it_was_set_back_comes_back_for_all_its_retention() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.table("lake.air.stays")
    old, held = prod.metadata_location, {entry.path for entry in prod.live()}
    prod.overwrite("x")
    lake.run()
    prod = set_back(prod, old)
    for day in (1, 5, 7):
        assert lake.on(day).run().exit_code == 4  # commits have vanished
    prod.drop()  # until day 14 an undrop is to bring it back
    for day in (7.1, 8, 9, 13):
        lake.on(day).run()
    undrop(lake.services(), "lake.air.prod")
    assert {entry.path for entry in Table(lake, prod.name).live()} == held


def test_a_backup_that_is_restored_while_its_files_wait_has_a_failsafe_of_its_own() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    backup = prod.metadata_location
    prod.overwrite("d")
    lake.run()
    nights(lake, 10)  # all but the head has expired, and waits
    assert prod.data("a") in lake.waiting()
    lake.on(12)
    prod = set_back(prod, backup)
    lake.run()
    assert is_whole(prod)
    assert lake.waiting()[prod.data("a")] >= lake.clock.now() + 7 * DAY  # a failsafe of its own
    lake.on(18).run()  # what was there before is kept as a dropped table until day 19
    nights(lake, 26, 34, 42)
    all_expired(prod)


def test_what_a_name_has_let_go_of_is_deleted_though_only_a_second_name_of_it_is_left() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    nights(lake, 10)
    waiting = {prod.data("a"), prod.data("b")}
    assert waiting <= lake.waiting().keys()
    second = lake.register(AFTER, prod.metadata_location)
    lake.run()
    prod.drop()
    second.append("z")
    nights(lake, 11, 18)
    assert lake.paths().isdisjoint(waiting) and is_whole(second)
    nights(lake, 26, 34)
    all_expired(second)


def test_a_new_table_under_a_used_name_and_in_a_used_folder_keeps_its_own() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    nights(lake, 10)  # `a` and `b` wait
    first = prod.snapshots[0]
    prod.drop()
    lake.on(11)
    new = lake.table("prod")
    new.append("a")  # a path that waits
    new.append("z")
    lake.run()
    assert new.data("a") not in lake.waiting()
    nights(lake, 18, 26, 34)
    assert is_whole(new) and first not in new.snapshots


def test_a_lease_on_a_dropped_table_does_not_lie_on_a_new_one_of_its_name() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    acquire_lease(lake.services(), prod.name, prod.snapshots[0], 7 * DAY)
    prod.drop()
    new = lake.table("prod", location="file:///w/air/new")
    new.append("a")
    new.overwrite("b")
    lake.run()
    lake.on(6.9)
    (lease,) = lake.control.leases.active(lake.clock.now())
    lake._ids = lease.snapshot_id - 1  # an id is a random number: it may be drawn again
    assert new.append("c") == lease.snapshot_id
    new.overwrite("d")
    lake.control.leases.renew(lease.id, lake.clock.now())
    nights(lake, 7, 13.8)
    lake.control.leases.renew(lease.id, lake.clock.now())
    nights(lake, 14)
    assert lease.snapshot_id not in new.snapshots
