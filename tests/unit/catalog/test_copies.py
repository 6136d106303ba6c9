"""Tables with one UUID and other files: copies, moves, second registrations, old metadata.

Each has the snapshot ids, refs, log and sequence numbers of its source, so nothing of these tells
which files are meant.
"""

import pytest

from meltline.app.catalog.management import detach
from meltline.app.catalog.metadata import load_state
from meltline.app.drop.drop import drop
from meltline.app.drop.undrop import undrop
from meltline.app.retention.leases import acquire_lease, renew_lease
from meltline.app.run.summary import Summary
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from tests.lake.copies import (
    copied,
    fresh_lake,
    left_over,
    moved,
    set_back,
)
from tests.lake.lake import DAY, Lake, Table
from tests.lake.swept import swept

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
