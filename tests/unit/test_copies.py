"""Tables with one UUID and other files: copies, moves, second registrations, old metadata.

Each has the snapshot ids, refs, log and sequence numbers of its source, so nothing of these tells
which files are meant.
"""

from uuid import UUID

import pytest

from meltline.app.catalog.management import detach
from meltline.app.catalog.metadata import load_state
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.drop.undrop import undrop
from meltline.app.observe.observe import observe, rebuild
from meltline.app.retention.leases import acquire_lease, renew_lease
from meltline.app.run.summary import Summary
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.testing.control.ledger import memory_control_ledger
from tests.unit.avro_files import list_bytes
from tests.unit.copies import (
    copied,
    earlier,
    fresh_lake,
    left_over,
    moved,
    put_inline,
    put_list,
    rewritten,
    rewritten_in_place,
    set_back,
)
from tests.unit.counting import CountingStore
from tests.unit.lake import DAY, WAREHOUSE, Lake, Table
from tests.unit.swept import swept

BEFORE, AFTER = "lake.air.backup", "lake.air.spare"  # as names sort beside prod
NIGHTS = (10, 18, 26, 34)  # each later by more than the window and failsafe


def nights(lake: Lake, *days: float) -> list[Summary]:
    """Runs on these days; nothing that is needed may be missing, and nothing may be refused."""
    summaries = [lake.on(day).run() for day in days or NIGHTS]
    for summary in summaries:
        assert summary.exit_code == 0, summary.as_json()
    return summaries


def is_whole(table: Table) -> bool:
    """Whether each live file of each snapshot is there."""
    there = table.lake.paths()
    return all(
        entry.path in there
        for snapshot_id in table.snapshots
        for manifest in table._manifests_of(snapshot_id)
        for entry in manifest.live
    )


def prod_of(lake: Lake, version: int = 2) -> Table:
    """A table of three snapshots: `a`, `a` and `b`, `c` alone."""
    prod = lake.on(0).table("prod", version=version)
    prod.append("a")
    prod.append("b")
    prod.overwrite("c")
    return prod


def go_apart(prod: Table, copy: Table) -> None:
    """What the issue did with a copy, while its source went on too."""
    copy.tag("audit", copy.head)
    copy.append("c1")
    copy.rewrite_manifests()
    copy.overwrite("c2")
    prod.append("p1")
    prod.overwrite("p2")


def all_expired(*tables: Table) -> None:
    """Expiry went on for each of them, and nothing that nobody needs is left."""
    for table in tables:
        tagged = {ref["snapshot-id"] for ref in table.refs.values()}
        assert set(table.snapshots) == tagged, table.name
    assert left_over(tables[0].lake) == set()


# --- copies by rewritten paths --------------------------------------------------------------------


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_copy_that_went_its_own_way_keeps_its_files_and_both_expire(
    name: str, version: int
) -> None:
    lake = fresh_lake()
    prod = prod_of(lake, version)
    lake.run()
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    nights(lake, 2, *NIGHTS)
    assert is_whole(prod) and is_whole(copy)
    all_expired(prod, copy)


@pytest.mark.parametrize("name", [BEFORE, AFTER])
def test_a_copy_that_nobody_touches_keeps_all_of_its_files_through_sweeps(name: str) -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    copy = copied(prod, name)
    lake.run()
    swept(lake, 10, 17)
    assert copy.data("c") not in lake.waiting()
    nights(lake, 18, 26, 34)
    assert is_whole(copy)
    all_expired(prod, copy)


@pytest.mark.parametrize("name", [BEFORE, AFTER])
def test_a_copy_first_seen_in_the_same_run_as_its_source_is_not_refused_for_ever(name: str) -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    nights(lake)
    all_expired(prod, copy)


def test_copies_of_copies_and_of_old_states_each_keep_their_own() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    one = copied(prod, BEFORE)
    lake.run()
    one.append("later")
    two = copied(one, "lake.air.a")
    prod.overwrite("new")
    three = copied(prod, AFTER)
    lake.run()
    two.overwrite("two")
    three.append("three")
    nights(lake, 2, *NIGHTS)
    all_expired(prod, one, two, three)


def test_a_copy_in_an_observed_catalog_keeps_all_and_its_source_goes_on_departing() -> None:
    lake = fresh_lake(other_catalogs=("theirs",))
    prod = prod_of(lake)
    copy = copied(prod, "theirs.sea.backup")
    before = left_over(lake) | lake.paths("file:///w/sea")
    lake.on(1)
    prod.overwrite("d")
    nights(lake)
    assert lake.paths("file:///w/sea") == before  # nobody else may delete anything there
    assert is_whole(copy)
    assert prod.snapshots == [prod.head]
    assert prod.data("a") not in lake.paths() and prod.data("c") not in lake.paths()


def test_where_a_copy_opts_out_its_source_goes_on_departing() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    copy.configure(meltline__enabled="false")
    nights(lake)
    assert len(copy.snapshots) == 3 and is_whole(copy)
    assert prod.snapshots == [prod.head] and prod.data("a") not in lake.paths()


def test_a_copy_that_cannot_be_read_holds_back_deletes_alone_and_keeps_its_own() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    lake.run()
    lake.spoil(copy.manifests(copy.head)[0])
    lake.on(1)
    copy.append("more")  # so that it must be read again
    lake.spoil(copy.manifest_list(copy.head))
    for day in NIGHTS:
        summary = lake.on(day).run()
        assert summary.tables[BEFORE].skipped and not summary.tables["lake.air.prod"].skipped
    assert prod.snapshots == [prod.head] and prod.data("a") in lake.waiting()
    detach(lake.services(), [copy.name], "its newest snapshot names nothing of others")
    lake.run()
    assert prod.data("a") not in lake.paths()
    assert not any(path.startswith(copy.location) for path in lake.deleter.deleted)


# --- moves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("delete", [False, True], ids=["left", "deleted"])
def test_a_table_that_was_moved_keeps_its_files_through_sweeps_and_expires(
    name: str, delete: bool
) -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    lake.on(1)
    new = moved(prod, name, delete=delete)
    for day in (1, 2, 9):
        lake.on(day).run()
    swept(lake, 10, 17)
    for day in (18, 26, 34, 60, 68, 76):
        lake.on(day).run()
    assert is_whole(new) and new.snapshots == [new.head]
    assert left_over(lake, new.location) == set()


def test_what_a_moved_table_left_behind_can_be_undropped_and_goes_in_the_end() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    lake.on(1)
    place = prod.location
    new = moved(prod, AFTER)
    lake.run()
    undrop(lake.services(), "lake.air.prod")
    assert Table(lake, prod.name).location == place
    drop(lake.services(), "lake.air.prod")
    nights(lake, 2, *NIGHTS, 60, 68, 76)
    assert lake.paths(place) == set()
    all_expired(new)


def test_a_move_to_the_name_it_had_goes_on_there() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    lake.on(1)
    aside = copied(prod, "lake.air.aside")
    prod.drop()
    prod = lake.register("lake.air.prod", aside.catalog.drop(aside.name))
    prod.overwrite("d")
    nights(lake, 2, *NIGHTS, 60, 68, 76)
    assert is_whole(prod)
    all_expired(prod)


# --- drop, undrop, let go -------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["command", "an engine"])
def test_two_dropped_copies_come_back_each_as_itself(by: str) -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    lake.on(1)
    go_apart(prod, copy)
    lake.run()
    was = {table.name: (table.location, table.snapshots) for table in (prod, copy)}
    lake.on(2)
    for table in (prod, copy):
        drop(lake.services(), str(table.name)) if by == "command" else table.drop()
    nights(lake, 3)
    for name, (location, snapshots) in was.items():
        undrop(lake.services(), str(name))
        back = Table(lake, name)
        assert (back.location, back.snapshots) == (location, snapshots)
        assert is_whole(back)


@pytest.mark.parametrize("by", ["command", "an engine"])
def test_two_dropped_copies_are_each_let_go_and_nothing_is_left(by: str) -> None:
    lake = fresh_lake()
    prod, other = prod_of(lake), lake.table("other")
    copy = copied(prod, BEFORE)
    lake.run()
    lake.on(2)
    for table in (prod, copy):
        drop(lake.services(), str(table.name)) if by == "command" else table.drop()
    nights(lake, 3, *NIGHTS, 42, 50, 58)
    all_expired(other)
    assert lake.catalogs["lake"].listing().entries[0].name == other.name


def test_a_dropped_copy_is_let_go_while_its_source_stands() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    lake.run()
    place = copy.location
    copy.drop()
    nights(lake, 2, *NIGHTS, 42, 50, 58)
    assert lake.paths(place) == set() and is_whole(prod)
    all_expired(prod)


def test_the_dropped_source_of_a_copy_can_be_undropped_for_all_of_its_retention() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, AFTER)
    lake.run()
    prod.drop()
    nights(lake, 2, 5)
    undrop(lake.services(), "lake.air.prod")
    back = Table(lake, TableName.parse("lake.air.prod"))
    assert back.data("c") in lake.paths() and is_whole(back) and is_whole(copy)


# --- cold -----------------------------------------------------------------------------------------


def cold_tables(lake: Lake) -> dict[str, TableMetadata]:
    """What stands in cold, by where it lies there."""
    found = {}
    for entry in lake.cold.listing().entries:
        state = load_state(lake.store, entry.name, entry.metadata_location)
        found[state.location] = state
    return found


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("dropped", [False, True], ids=["standing", "dropped"])
def test_both_of_two_copies_are_handed_off_each_with_its_own_files(
    name: str, dropped: bool
) -> None:
    lake = fresh_lake(has_cold=True)
    prod, _ = prod_of(lake), lake.table("other")
    prod.configure(meltline__cold="all")
    lake.run()
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    copy.drop_ref("audit")
    ids = {table.location: set(table.snapshots) for table in (prod, copy)}
    heads = {prod.location: prod.head, copy.location: copy.head}
    lake.on(2).run()
    if dropped:
        for table in (prod, copy):
            drop(lake.services(), str(table.name))
    nights(lake, 3, *NIGHTS, 42, 50, 58)
    archived = cold_tables(lake)
    assert len(archived) == 2
    for hot, cold in zip(sorted(ids), sorted(archived), strict=True):
        kept = set() if dropped else {heads[hot]}
        assert archived[cold].snapshots.keys() == ids[hot] - kept
        folder = hot.rpartition("/")[2]
        lists = [snapshot.manifest_list for snapshot in archived[cold].snapshots.values()]
        assert all(f"/{folder}/" in path for path in lists), "another table's history"


# --- leases, holds, tags --------------------------------------------------------------------------


def test_a_lease_on_a_copy_does_not_keep_its_source() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    lake.run()
    first = copy.snapshots[0]
    for day in (7, 9):
        lake.on(day)
        lease = acquire_lease(lake.services(), copy.name, first, 7 * DAY)
    nights(lake, 10)
    renew_lease(lake.services(), lease.id)
    assert first in copy.snapshots and first not in prod.snapshots
    nights(lake, 16)
    renew_lease(lake.services(), lease.id)
    nights(lake, 18)
    assert copy.data("a") in lake.paths() and prod.data("a") not in lake.paths()


def test_a_hold_on_a_copy_does_not_hold_its_source() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, BEFORE)
    copy.configure(meltline__hold="audit")
    nights(lake)
    assert len(copy.snapshots) == 3 and is_whole(copy)
    assert prod.snapshots == [prod.head] and prod.data("a") not in lake.paths()


def test_a_tag_on_a_copy_keeps_the_files_of_the_copy_alone() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    copy = copied(prod, AFTER)
    copy.tag("hold__audit", copy.snapshots[0])
    nights(lake)
    assert copy.data("a") in lake.paths() and prod.data("a") not in lake.paths()
    all_expired(prod, copy)


def test_a_lease_lasts_over_a_rename_and_a_commit() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    first = prod.snapshots[0]
    lake.on(9)
    lease = acquire_lease(lake.services(), prod.name, first, 7 * DAY)
    prod = lake.register("lake.air.renamed", prod.catalog.drop(prod.name))
    prod.append("d")
    nights(lake, 10)
    renew_lease(lake.services(), lease.id)
    nights(lake, 16)
    assert first in prod.snapshots and is_whole(prod)


def test_a_reader_keeps_its_files_where_the_table_is_set_back_to_older_metadata() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    old = prod.metadata_location
    read = prod.overwrite("r")
    lake.run()
    lake.on(9)
    lease = acquire_lease(lake.services(), prod.name, read, 7 * DAY)
    reads = {prod.data("r"), prod.manifest_list(read), *prod.manifests(read)}
    prod = set_back(prod, old)
    assert read not in prod.snapshots
    for day in (10, 16, 22, 28, 34):
        lake.on(day).run()
        renew_lease(lake.services(), lease.id)
        assert reads <= lake.paths()


# --- second registrations and older metadata ------------------------------------------------------


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
    nights(lake, 1, 5, 7)
    prod.drop()  # until day 14 an undrop is to bring it back
    nights(lake, 7.1, 8, 9, 13)
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
    nights(lake, 18, 26, 34, 42)
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


# --- manifest lists -------------------------------------------------------------------------------


def test_a_manifest_list_that_two_tables_hold_is_read_once_and_stays_until_both_let_go() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    clone = lake.clone(prod, BEFORE)
    second = lake.register(AFTER, prod.metadata_location)
    counting = CountingStore(lake.store)
    observe(lake.services(store=counting))
    head = prod.head
    shared = prod.manifest_list(head)
    assert {path: counting.reads[path] for path in map(prod.manifest_list, prod.snapshots)} == {
        prod.manifest_list(snapshot_id): 1 for snapshot_id in prod.snapshots
    }
    lake.on(1)
    prod.overwrite("p")
    second.overwrite("s")
    nights(lake, *NIGHTS)
    assert head in clone.snapshots and shared in lake.paths() and clone.data("c")
    assert prod.data("c") in lake.paths()
    clone.overwrite("mine")
    nights(lake, 42, 50, 58)
    assert shared not in lake.paths() and prod.data("c") not in lake.paths()
    all_expired(prod, clone, second)


def test_two_manifest_lists_whose_names_differ_by_spelling_alone_are_both_read() -> None:
    lake = fresh_lake()
    prod, other = prod_of(lake), lake.table("other")
    other.append("o")
    put_list(prod, f"{WAREHOUSE}/lists/a b.avro")
    put_list(other, f"{WAREHOUSE}/lists/a%20b.avro")
    nights(lake)
    swept(lake, 40, 48)
    assert is_whole(prod) and is_whole(other)
    other.overwrite("p")
    nights(lake, 50, 58, 66)
    assert is_whole(prod) and is_whole(other)


@pytest.mark.parametrize("same_length", [True, False], ids=["same length", "other length"])
def test_a_manifest_list_whose_bytes_changed_in_place_keeps_its_group_and_is_named(
    same_length: bool,
) -> None:
    lake = fresh_lake()
    prod, other = prod_of(lake), lake.table("other")
    other.append("o1")
    other.overwrite("o2")
    clone = lake.clone(prod, BEFORE)
    clone.append("k")
    lake.run()
    place = prod.manifest_list(prod.head)
    before = lake.store.read(place)
    forged = remarked(before)
    lake.store.write(place, forged if same_length else _longer(lake, place))
    for day in NIGHTS:
        summary = lake.on(day).run()
        line = summary.tables["lake.air.prod"]
        assert place in line.skipped + line.refused, summary.as_json()
    gone = {path.rpartition("/")[2] for path in lake.deleter.deleted}
    assert gone.isdisjoint({"a.parquet", "b.parquet", "c.parquet"})
    assert other.snapshots == [other.head] and other.data("o1") not in lake.paths()
    incidents = [one for one in examine(lake.services()) if one.code == "incident"]
    assert {one.object for one in incidents} == {place}
    assert all(one.level == "error" and "--rebuild" in one.fix for one in incidents)
    lake.store.write(place, before)  # the way out: what was written there comes back
    nights(lake, 42, 50, 58)
    assert prod.snapshots == [prod.head] and lake.control.incidents.all() == []


def test_what_is_written_under_a_manifest_list_counts_once_a_person_has_it_read_anew() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    place = prod.manifest_list(prod.head)
    lake.store.write(place, remarked(lake.store.read(place)))
    lake.on(10).run()
    assert len(prod.snapshots) == 3 and lake.control.incidents.all()
    rebuild(lake.services())
    lake.run()
    assert prod.snapshots == [prod.head] and lake.control.incidents.all() == []


def test_a_changed_list_of_a_catalog_that_is_away_for_a_day_has_changed_still() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    place = prod.manifest_list(prod.head)
    lake.store.write(place, remarked(lake.store.read(place)))
    lake.on(10).run()
    (incident,) = lake.control.incidents.all()
    lake.catalogs["lake"].unlistable = "no answer"
    assert observe(lake.services()).purge_blocked
    assert lake.control.incidents.all() == [incident]


def test_a_changed_list_is_over_once_it_is_restored_though_a_clone_that_named_it_was_dropped() -> (
    None
):
    lake = fresh_lake(other_catalogs=("theirs",))
    prod = prod_of(lake)
    clone = lake.clone(prod, "theirs.sea.clone")
    lake.run()
    place = prod.manifest_list(prod.head)
    before = lake.store.read(place)
    lake.store.write(place, remarked(before))
    lake.on(10).run()
    assert clone.uuid in {incident.table_uuid for incident in lake.control.incidents.all()}
    clone.drop()
    assert place in lake.run().tables["lake.air.prod"].skipped
    lake.store.write(place, before)
    assert lake.run().exit_code == 0 and lake.control.incidents.all() == []


def test_a_copy_of_a_clone_that_takes_its_name_is_another_table() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    clone = lake.clone(prod, AFTER)  # its head's manifest list is prod's, in prod's folder
    clone.configure(comment="mine")
    lake.run()
    left = clone.metadata_location
    at = rewritten(clone, "file:///w/air/elsewhere")
    clone.drop()
    lake.register(AFTER, at)
    nights(lake, 1, 3)
    assert left in lake.paths() and left not in lake.waiting()
    assert any(is_dropped_name(e.name.namespace) for e in lake.catalogs["lake"].listing().entries)


def remarked(avro: bytes) -> bytes:
    """The same rows in other bytes, as if they were written another day."""
    other = avro.replace(b"0123456789abcdef", b"fedcba9876543210")
    assert other != avro and len(other) == len(avro)
    return other


def _longer(lake: Lake, place: str) -> bytes:
    """The same manifests twice in one list."""
    return list_bytes(2, lake.manifests[place] * 2)


# --- format 1 with manifests inline ---------------------------------------------------------------


@pytest.mark.parametrize("name", [BEFORE, AFTER])
def test_a_copy_without_manifest_lists_keeps_its_own_files(name: str) -> None:
    lake = fresh_lake()
    prod = prod_of(lake, version=1)
    put_inline(prod)
    lake.run()
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    for table in (prod, copy):
        put_inline(table)
    nights(lake, 2, *NIGHTS)
    assert is_whole(prod) and is_whole(copy)
    all_expired(prod, copy)


def test_a_table_that_was_never_copied_and_has_no_manifest_lists_expires() -> None:
    lake = fresh_lake()
    prod = prod_of(lake, version=1)
    put_inline(prod)
    lake.run()
    nights(lake)
    all_expired(prod)


# --- what else stands for a table or a file -------------------------------------------------------


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
    assert lake.files.live_totals(sorted(lake.files.known_snapshots()))
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
