"""Manifest lists that several tables hold, that changed in place, or that are not there."""

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.observe.observe import observe, rebuild
from meltline.domain.drop.drops import is_dropped_name
from tests.lake.avro_files import list_bytes
from tests.lake.copies import (
    copied,
    fresh_lake,
    put_inline,
    put_list,
    rewritten,
)
from tests.lake.counting import CountingStore
from tests.lake.lake import WAREHOUSE, Lake
from tests.lake.swept import swept
from tests.unit.catalog.test_copies import (
    AFTER,
    BEFORE,
    NIGHTS,
    all_expired,
    go_apart,
    is_whole,
    nights,
    prod_of,
)

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
