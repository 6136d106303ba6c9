"""Which registration of a table a metadata file is: carried only where the lineage proves it."""

from dataclasses import replace
from itertools import count

from meltline.app.catalog.registrations import load_standing, with_entries
from meltline.app.observe.observe import observe
from meltline.domain.iceberg.table_metadata import TableMetadata
from tests.lake.lake import Lake, Table


def a_lake() -> Lake:
    numbers = count(1)
    return Lake(unique=lambda: f"m{next(numbers)}")


def entry_of(table: Table) -> str:
    return load_standing(table.lake.services(), table.name, table.metadata_location).uuid


def seen(table: Table) -> str:
    """The table's entry, once a run has looked at it."""
    table.lake.run()
    return entry_of(table)


def test_the_first_registration_with_a_uuid_is_known_by_it() -> None:
    table = a_lake().on(0).table("t")
    assert seen(table) == table.uuid


def test_a_commit_and_a_rename_keep_the_entry() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    before = seen(table)
    table.append("a")
    assert entry_of(table) == before
    moved = lake.register("lake.air.moved", table.catalog.drop(table.name))
    moved.append("b")
    assert entry_of(moved) == before == seen(moved)


def test_a_second_name_is_a_registration_of_its_own_and_stays_it() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    first = seen(table)
    second = lake.register("lake.air.aaa", table.metadata_location)
    own = seen(second)
    assert own != first == entry_of(table)
    second.append("b")
    table.append("c")
    lake.run()
    assert (entry_of(second), entry_of(table)) == (own, first)
    table.drop()
    lake.run()
    assert entry_of(second) == own


def test_two_that_are_first_seen_together_get_one_id_each() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    second = lake.register("lake.air.second", table.metadata_location)
    assert len({seen(table), entry_of(second)}) == 2


def test_a_name_that_stands_for_other_metadata_of_the_same_uuid_is_another_registration() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    old = table.metadata_location
    table.append("b")
    before = seen(table)
    table.catalog.drop(table.name)
    set_back = lake.register(str(table.name), old)
    assert entry_of(set_back) != before
    after = seen(set_back)
    assert after != before and seen(set_back) == after


def test_who_goes_on_from_two_registrations_is_the_one_that_left_last_by_its_log() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    old = table.metadata_location
    table.append("b")
    first, last = seen(table), table.metadata_location
    table.catalog.drop(table.name)
    set_back = lake.on(1).register(str(table.name), old)
    observe(lake.services())
    observe(lake.on(2).services())
    second = entry_of(set_back)
    set_back.catalog.drop(set_back.name)
    assert second != first == entry_of(lake.register("lake.air.again", last))


def test_a_busy_table_whose_log_was_cut_is_known_by_the_head_that_was_last_seen() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    before, last_seen = seen(table), table.metadata_location
    for number in range(3):
        table.append(f"b{number}")
    table.edit(lambda document: document.update({"metadata-log": []}))
    assert last_seen not in str(table.document["metadata-log"])
    assert entry_of(table) == before == seen(table)


def test_a_head_of_the_same_id_elsewhere_proves_no_lineage() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    before = seen(table)
    state = load_standing(lake.services(), table.name, table.metadata_location)
    (snapshot,) = state.snapshots.values()
    elsewhere = replace(snapshot, manifest_list="file:///elsewhere/snap.avro")
    other = replace(
        state,
        metadata_location="file:///elsewhere/v1.metadata.json",
        metadata_log=(),
        snapshots={snapshot.snapshot_id: elsewhere},
    )
    assert entry(lake, state) == before != entry(lake, other)


def entry(lake: Lake, state: TableMetadata) -> str:
    return with_entries(lake.services(), [state])[0].uuid


def test_a_name_that_cannot_be_read_keeps_its_entry_from_others() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    table.append("a")
    first = seen(table)
    at = table.metadata_location
    content = lake.store.read(at)
    table.append("b")
    second = lake.register("lake.air.second", at)
    lake.spoil(table.metadata_location)
    assert entry_of(second) != first and content


def test_an_id_that_one_command_has_met_first_is_kept_by_the_observation() -> None:
    lake = a_lake()
    table = lake.on(0).table("t")
    second = lake.register("lake.air.second", table.metadata_location)
    services = lake.services()
    met = load_standing(services, second.name, second.metadata_location, open_in=services).uuid
    assert seen(second) == met != entry_of(table)
