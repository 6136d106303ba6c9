"""A share is updated: to the present, to what left and came, to another name."""

from contextlib import suppress

import pytest

from meltline.app.clone.shares import drop_share, list_shares, update_share
from meltline.app.drop.drop import drop, rename
from meltline.app.safety.audit import decisions
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import (
    ObjectDropped,
    ShareNotFound,
)
from meltline.domain.iceberg.names import TableName
from tests.lake.copies import copied
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed, Process
from tests.unit.clone.test_shares import NAME, TAG, live, names, shared, table_of, written


def test_an_update_shows_the_present_and_lets_go_of_the_old_state() -> None:
    lake, table = written()
    shared(lake)
    old, uuid = table.data("f1"), table_of(lake).uuid
    lake.run()
    table.overwrite("later")
    lake.on(30).run()
    done = update_share(lake.services(), "s")
    copy = table_of(lake)
    assert done.tables[0].behind and copy.uuid == uuid
    assert live(copy) == live(table) == {table.data("later")}
    assert table.refs[TAG]["snapshot-id"] == table.head and copy.snapshots == [table.head]
    lake.run()
    assert old in lake.waiting()
    lake.on(45).run()
    assert old not in lake.paths()


def a_share_to_update() -> tuple[Lake, Table]:
    """A share that shows what its source has not needed any more for weeks."""
    lake, table = written()
    shared(lake)
    lake.run()
    table.overwrite("later")
    lake.on(30).run()
    return lake, table


def test_wherever_an_update_is_killed_the_share_can_be_read_and_updated_again() -> None:
    process = Process()
    lake, _ = a_share_to_update()
    update_share(process.of(lake.services()), "s")
    for number in range(1, len(process.calls) + 1):
        lake, table = a_share_to_update()
        with pytest.raises(Killed):
            update_share(Process(number).of(lake.services()), "s")
        lake.let_leases_end()
        for day in (31, 40):
            lake.on(day).run()
        assert live(table_of(lake)) <= lake.paths().difference(lake.waiting())
        update_share(lake.services(), "s")
        assert live(table_of(lake)) == live(table)
        for day in (41, 50):
            lake.on(day).run()
        assert table.data("f1") not in lake.paths()


def test_wherever_dropping_a_share_is_killed_it_can_be_dropped_again_or_is_gone() -> None:
    process = Process()
    lake, _ = a_share_to_update()
    drop_share(process.of(lake.services()), "s")
    for number in range(1, len(process.calls) + 1):
        lake, table = a_share_to_update()
        with pytest.raises(Killed):
            drop_share(Process(number).of(lake.services()), "s")
        lake.let_leases_end()
        with suppress(ShareNotFound):
            drop_share(lake.services(), "s")
        assert list_shares(lake.services()) == [] and TAG not in table.refs, process.calls[number]


def test_an_update_of_what_has_not_moved_commits_nothing() -> None:
    lake, table = written()
    shared(lake)
    before = (table.metadata_location, table_of(lake).metadata_location, lake.paths())
    done = update_share(lake.services(), "s")
    assert not done.tables[0].behind and not done.tables[0].written
    assert (table.metadata_location, table_of(lake).metadata_location, lake.paths()) == before


def test_what_somebody_writes_to_a_share_is_said_and_undone() -> None:
    # DS-14
    lake, table = written()
    shared(lake)
    copy = table_of(lake)
    copy.append("theirs")
    lake.run()
    (found,) = list_shares(lake.services())
    assert [one.written for one in found.tables] == [True]
    done = update_share(lake.services(), "s")
    assert [one.written for one in done.tables] == [True] and live(copy) == live(table)
    (entry,) = [e for e in decisions(lake.services(), "lake.s") if e.action == "share update"]
    assert "writes undone" in entry.detail and "lake.s.t" in entry.detail
    assert not list_shares(lake.services())[0].tables[0].written
    lake.run()
    for day in (10, 20):
        lake.on(day).run()
    assert copy.data("theirs") not in lake.paths() and live(copy) <= lake.paths()


def test_a_changed_property_or_column_of_a_share_is_a_write_too() -> None:
    lake, _ = written()
    shared(lake)
    table_of(lake).configure(owner="eve")
    assert update_share(lake.services(), "s").tables[0].written
    assert "owner" not in table_of(lake).document["properties"]


def test_tables_that_come_to_the_source_come_and_those_that_leave_it_go() -> None:
    lake, _ = written("t", "u")
    shared(lake, "lake.air")
    drop(lake.services(), "lake.air.u")
    lake.table("lake.air.v").append("v")
    done = update_share(lake.services(), "s")
    assert [str(table) for table in done.removed] == ["lake.s.u"]
    assert {n for n in names(lake) if n.startswith("lake.s.")} == {"lake.s.t", "lake.s.v"}
    dropped = [e for e in lake.catalogs["lake"].listing().entries if "dropped" in str(e.name)]
    assert all(TAG not in Table(lake, entry.name).refs for entry in dropped)


def test_a_shared_table_that_is_renamed_is_followed() -> None:
    lake, _ = written()
    shared(lake)
    lake.run()
    rename(lake.services(), NAME, "lake.air.other")
    renamed = Table(lake, TableName.parse("lake.air.other"))
    lake.on(3)
    renamed.overwrite("later")
    lake.run()
    update_share(lake.services(), "s")
    assert live(table_of(lake, "other")) == {renamed.data("later")}
    assert renamed.refs[TAG]["snapshot-id"] == renamed.head


def test_a_table_whose_name_another_has_now_keeps_its_tag_where_it_is_shown_under_its_new_one() -> (
    None
):
    lake, _ = written()
    shared(lake, "lake.air")
    rename(lake.services(), NAME, "lake.air.old")
    new = lake.table("t", location="file:///w/air/t2")
    new.append("n")
    update_share(lake.services(), "s")
    for name in ("t", "old"):
        source = Table(lake, TableName.parse(f"lake.air.{name}"))
        assert live(table_of(lake, name)) == live(source)
        assert source.refs[TAG]["snapshot-id"] == source.head


def test_a_table_that_was_made_anew_under_the_old_name_is_shown_and_the_old_one_let_go() -> None:
    lake, _ = written()
    shared(lake)
    drop(lake.services(), NAME)
    new = lake.table("t", location="file:///w/air/t2")
    new.append("n")
    update_share(lake.services(), "s")
    assert live(table_of(lake)) == {new.data("n")}
    (old,) = [
        Table(lake, e.name)
        for e in lake.catalogs["lake"].listing().entries
        if e.name.namespace == ("meltline_dropped",)
    ]
    assert TAG not in old.refs and TAG in new.refs


def test_a_copy_under_the_old_name_is_shown_though_it_has_the_snapshot_ids_of_the_old_one() -> None:
    lake, table = written()
    shared(lake)
    lake.run()
    copy = copied(table, "lake.air.copy")
    drop(lake.services(), NAME)
    rename(lake.services(), "lake.air.copy", NAME)
    copy = Table(lake, TableName.parse(NAME))
    assert copy.head == table_of(lake).head and not live(copy) & live(table_of(lake))
    done = update_share(lake.services(), "s")
    assert live(table_of(lake)) == live(copy) and [one.behind for one in done.tables] == [True]
    assert [one.condition for one in list_shares(lake.services())[0].tables] == ["current"]
    assert copy.refs[TAG]["snapshot-id"] == copy.head
    entries = lake.catalogs["lake"].listing().entries
    (old,) = [Table(lake, e.name) for e in entries if is_dropped_name(e.name.namespace)]
    assert TAG not in old.refs


def test_a_share_that_ends_takes_its_tag_from_every_registration_of_its_source() -> None:
    lake, table = written()
    shared(lake)
    lake.register("lake.air.twin", table.metadata_location)
    lake.run()
    drop_share(lake.services(), "s")
    twin = Table(lake, TableName.parse("lake.air.twin"))
    assert twin.uuid == table.uuid and TAG not in {**twin.refs, **table.refs}


def test_a_tag_that_somebody_took_away_comes_back() -> None:
    lake, table = written()
    shared(lake)
    table.drop_ref(TAG)
    update_share(lake.services(), "s")
    assert table.refs[TAG]["snapshot-id"] == table.head


def test_a_share_of_a_dropped_source_shows_what_it_showed_and_says_so() -> None:
    lake, table = written()
    shared(lake)
    shown = live(table)
    lake.run()
    drop(lake.services(), NAME)
    with pytest.raises(ObjectDropped):
        update_share(lake.services(), "s")
    for day in (12, 20, 30):
        lake.on(day).run()
    assert live(table_of(lake)) == shown <= lake.paths()
