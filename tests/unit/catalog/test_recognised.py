"""Which registration a table is, by what the file ledger knows of where its lists lay."""

import pytest

from meltline.app.catalog.registrations import load_standing
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.drop.undrop import undrop
from meltline.app.observe.observe import rebuild
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.retention.leases import acquire_lease
from meltline.app.safety.switches import arm
from tests.doubles.control.ledger import memory_control_ledger
from tests.lake.copies import copied, fresh_lake, put_inline, rewritten_in_place
from tests.lake.lake import DAY, Lake, Table
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

ELSEWHERE = "file:///w/air/elsewhere"


def entry_of(table: Table) -> str:
    return load_standing(table.lake.services(), table.name, table.metadata_location).uuid


def begin_anew(lake: Lake, *, adopt: bool = True) -> None:
    """The control ledger is lost, and an empty one takes its place."""
    lake.control = memory_control_ledger(
        lake.clock, database=lake.clock, lease_time=lake.lease_time
    )
    if adopt:
        init(lake.services(), adopt=True)
        arm(lake.services(), "lake", "the new ledger is the right one")


def incidents(lake: Lake) -> list[str]:
    return [one.object for one in examine(lake.services()) if one.code == "incident"]


def live_paths(table: Table) -> list[str]:
    return [entry.path for entry in table.live()]


# --- paths rewritten in place ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "inline"), [(1, True), (1, False), (2, False), (3, False)], ids=str
)
def test_a_table_that_was_rewritten_in_place_is_another_one_and_its_old_files_wait_as_dropped(
    version: int, inline: bool
) -> None:
    lake = fresh_lake()
    prod = prod_of(lake, version)
    if inline:
        put_inline(prod)
    lake.run()
    before, old = entry_of(prod), set(live_paths(prod))
    lake.on(1)
    rewritten_in_place(prod, ELSEWHERE)
    lake.run()
    assert entry_of(prod) != before
    dropped = [e.name for e in lake.catalogs["lake"].listing().entries if before in str(e.name)]
    assert len(dropped) == 1 and old <= lake.paths()
    swept(lake, 10, 17)
    nights(lake, 18, 26, 34, 42)
    assert is_whole(prod) and not old & lake.paths()
    all_expired(prod)


def test_metadata_files_that_only_the_log_of_a_rewritten_table_names_go_with_it() -> None:
    lake = fresh_lake()
    prod, other = prod_of(lake), lake.table("other")
    lake.run()
    place = prod.location
    lake.on(1)
    rewritten_in_place(prod, ELSEWHERE)
    nights(lake, 2, 10, 18, 26, 34, 42, 60)
    left = lake.paths(place)
    assert left and all(path.endswith(".metadata.json") for path in left)
    prod.drop()
    nights(lake, 61, 70, 78, 90, 100, 110, 130)
    assert not lake.paths(place) | lake.paths(ELSEWHERE)
    all_expired(other)


def test_a_table_of_which_only_older_snapshots_were_rewritten_keeps_all_it_has() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    lake.on(1)
    head = prod.manifest_list(prod.head)
    rewritten_in_place(prod, ELSEWHERE)
    prod.edit(lambda document: document["snapshots"][-1].update({"manifest-list": head}))
    lake.run()
    assert set(prod.snapshots) == {k.snapshot_id for k in lake.files.snapshots.known()}
    swept(lake, 10, 17)
    nights(lake, 18, 26, 34, 42)
    assert is_whole(prod)
    all_expired(prod)


def test_a_rewritten_table_whose_last_seen_head_has_expired_is_told_by_what_is_left() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    before = entry_of(prod)
    lake.on(1)
    rewritten_in_place(prod, ELSEWHERE)
    prod.tag("keep", prod.snapshots[0])
    gone = prod.snapshots[1:]
    prod.overwrite("d")
    prod.edit(
        lambda document: document.update(
            snapshots=[s for s in document["snapshots"] if s["snapshot-id"] not in gone],
            **{"snapshot-log": document["snapshot-log"][-1:]},
        )
    )
    assert entry_of(prod) == before  # neither the log nor the head says otherwise
    lake.run()
    assert entry_of(prod) != before
    swept(lake, 10, 17)
    nights(lake, 18, 26, 34, 42)
    assert is_whole(prod)
    all_expired(prod)


def test_what_is_rewritten_while_a_purge_runs_is_read_before_its_next_batch() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    proof = PurgeRecheck.of(lake.services(), live_paths(prod))
    old = live_paths(prod)
    rewritten_in_place(prod, ELSEWHERE)
    new = live_paths(prod)
    assert set(new).isdisjoint(old)
    assert proof.still_needed(new) == set(new)


def test_the_last_proof_knows_what_was_rewritten_before_its_first_look() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    rewritten_in_place(prod, ELSEWHERE)
    new = live_paths(prod)
    assert PurgeRecheck.of(lake.services(), []).still_needed(new) == set(new)


# --- a control ledger that begins anew ------------------------------------------------------------


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("first", ["a run", "a command"])
def test_copies_are_who_they_were_where_the_control_ledger_begins_anew(
    name: str, first: str
) -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    copy = copied(prod, name)
    lake.on(1)
    go_apart(prod, copy)
    lake.run()
    ids = entry_of(prod), entry_of(copy)
    begin_anew(lake)
    if first == "a command":
        acquire_lease(lake.services(), copy.name, copy.head, DAY)
    lake.on(2).run()
    assert (entry_of(prod), entry_of(copy)) == ids and not incidents(lake)


def test_a_copy_does_not_become_its_source_while_that_cannot_be_read() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    copy = copied(prod, BEFORE)
    lake.on(1)
    go_apart(prod, copy)
    lake.run()
    ids = entry_of(prod), entry_of(copy)
    at, content = prod.metadata_location, lake.store.read(prod.metadata_location)
    lake.spoil(at)
    begin_anew(lake)
    lake.on(2).run()
    lake.store.write(at, content)
    lake.run()
    assert (entry_of(prod), entry_of(copy)) == ids


def test_a_new_copy_that_shares_a_list_with_its_unreadable_source_is_not_that() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    before, shared = entry_of(prod), prod.manifest_list(prod.snapshots[0])
    copy = copied(prod, BEFORE)
    copy.edit(lambda document: document["snapshots"][0].update({"manifest-list": shared}))
    at, content = prod.metadata_location, lake.store.read(prod.metadata_location)
    lake.spoil(at)
    begin_anew(lake)
    lake.on(1).run()
    lake.store.write(at, content)
    lake.run()
    assert entry_of(prod) == before != entry_of(copy)


def test_a_command_gives_no_id_to_a_new_copy_that_the_file_ledger_knows_of_another() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    before = entry_of(prod)
    at, content = prod.metadata_location, lake.store.read(prod.metadata_location)
    copy = copied(prod, BEFORE)
    lake.spoil(at)
    begin_anew(lake)
    lease = acquire_lease(lake.services(), copy.name, copy.head, DAY)
    lake.store.write(at, content)
    lake.run()
    assert entry_of(prod) == before != entry_of(copy) == lease.table_uuid


def test_second_registrations_that_went_apart_are_who_they_were() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    second = lake.register(BEFORE, prod.metadata_location)
    lake.run()
    second.append("s")
    prod.append("p")
    lake.on(1).run()
    ids = entry_of(prod), entry_of(second)
    begin_anew(lake)
    lake.run()
    assert (entry_of(prod), entry_of(second)) == ids
    nights(lake, 10, 18, 26, 34)
    assert is_whole(prod) and is_whole(second)
    all_expired(prod, second)


def test_a_new_clone_is_not_the_source_that_went_with_the_control_ledger() -> None:
    lake = fresh_lake()
    prod = prod_of(lake)
    lake.run()
    before = entry_of(prod)
    clone = lake.clone(prod, BEFORE)
    prod.drop()
    begin_anew(lake)
    lake.on(1).run()
    assert entry_of(clone) == clone.uuid != before
    assert incidents(lake) == [before]


@pytest.mark.parametrize("by", ["command", "an engine"])
def test_dropped_copies_come_back_each_as_itself_after_the_control_ledger_began_anew(
    by: str,
) -> None:
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
    lake.run()
    begin_anew(lake)
    nights(lake, 3)
    assert not incidents(lake)
    for name, (location, snapshots) in was.items():
        undrop(lake.services(), str(name))
        back = Table(lake, name)
        assert (back.location, back.snapshots) == (location, snapshots) and is_whole(back)


def test_what_nobody_is_any_more_is_named_and_kept_until_a_person_has_it_forgotten() -> None:
    lake = fresh_lake()
    prod, other = prod_of(lake), lake.table("other")
    lake.run()
    before, left = entry_of(prod), {*live_paths(prod), prod.manifest_list(prod.head)}
    prod.drop()  # and no observation sees it go
    begin_anew(lake)
    nights(lake, 10, 18)
    swept(lake, 19, 26)
    assert left <= lake.paths() and incidents(lake) == [before]
    assert all("--rebuild" in f.fix for f in examine(lake.services()) if f.code == "incident")
    rebuild(lake.services())
    lake.run()
    assert not incidents(lake)
    assert entry_of(other) == other.uuid
