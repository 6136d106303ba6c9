"""Schemas and databases are dropped, undropped and renamed with all that is in them."""

import pytest

from meltline.app.drop.drop import rename
from meltline.domain.drop.drops import read_drop
from meltline.domain.errors import (
    ContainerDropped,
    NameConflict,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectKind
from tests.lake.lake import Table
from tests.unit.drop.test_drops import back, container, dropped, keep, names


def test_a_database_goes_and_comes_back_with_all_that_is_in_it_and_its_own_properties() -> None:
    # TT-53
    lake = container()
    before, there = lake.catalogs["lake"].listing(), names(lake)
    done = dropped(lake, "lake.air")
    assert done.drop.object.kind is ObjectKind.DATABASE and len(done.tables) == 3
    listing = lake.catalogs["lake"].listing()
    assert [n for n in listing.namespaces if n[0] == "air"] == []
    assert {n for n in names(lake) if DROPPED_NAMESPACE not in n} == {"lake.sea.t"}
    assert len(back(lake, "lake.air").tables) == 3
    after = lake.catalogs["lake"].listing()
    assert names(lake) == there
    assert {n: p for n, p in after.namespaces.items() if n != (DROPPED_NAMESPACE,)} == (
        before.namespaces
    )


def test_children_take_the_containers_retention_shorter_or_longer_than_their_own() -> None:
    # TT-24
    lake = container()
    keep(lake, "lake.air.t", 90)
    keep(lake, "lake.air.eu.a", 1)
    keep(lake, "lake.air", 5, ObjectKind.DATABASE)
    dropped(lake, "lake.air")
    entries = lake.catalogs["lake"].listing().entries
    dropped_ones = [e.name for e in entries if e.name.namespace == (DROPPED_NAMESPACE,)]
    kept = {read_drop("lake", Table(lake, n).document["properties"]) for n in dropped_ones}
    assert {fact.retention_days for fact in kept if fact} == {5} and len(kept) == 3


def test_what_was_dropped_one_by_one_keeps_its_own_time_and_stays_dropped() -> None:
    # TT-25
    lake = container()
    keep(lake, "lake.air.eu.a", 30)
    dropped(lake, "lake.air.eu.a")
    lake.on(1)
    dropped(lake, "lake.air.eu", ObjectKind.SCHEMA)
    lake.on(2)
    back(lake, "lake.air.eu", ObjectKind.SCHEMA)
    assert "lake.air.eu.b" in names(lake) and "lake.air.eu.a" not in names(lake)
    assert back(lake, "lake.air.eu.a").drop.retention_days == 30


def test_a_table_waits_for_its_container_to_come_back_first() -> None:
    # TT-53
    lake = container()
    dropped(lake, "lake.air.eu", ObjectKind.SCHEMA)
    there = names(lake)
    with pytest.raises(ContainerDropped) as refused:
        back(lake, "lake.air.eu.a")
    assert "meltline undrop lake.air.eu" in refused.value.next and names(lake) == there


def test_a_container_does_not_come_back_where_another_has_its_name() -> None:
    lake = container()
    dropped(lake, "lake.air")
    lake.table("lake.air.new")
    with pytest.raises(NameConflict):
        back(lake, "lake.air")
    rename(lake.services(), "lake.air", "lake.air2")
    back(lake, "lake.air")
    assert {"lake.air.t", "lake.air2.new"} <= names(lake)


def test_where_a_table_and_a_schema_of_a_name_were_dropped_the_kind_must_be_said() -> None:
    lake = container()
    lake.table("lake.air.eu")
    dropped(lake, "lake.air.eu", ObjectKind.TABLE)
    dropped(lake, "lake.air.eu", ObjectKind.SCHEMA)
    with pytest.raises(UsageInvalid, match="have been dropped"):
        back(lake, "lake.air.eu")
    assert back(lake, "lake.air.eu", ObjectKind.TABLE).object.kind is ObjectKind.TABLE
    assert len(back(lake, "lake.air.eu", ObjectKind.SCHEMA).tables) == 2


def test_a_database_is_renamed_with_its_properties_and_the_tables_stay_the_same() -> None:
    lake = container()
    uuid = Table(lake, TableName.parse("lake.air.eu.a")).uuid
    assert rename(lake.services(), "lake.air", "lake.sky").tables == 3
    assert Table(lake, TableName.parse("lake.sky.eu.a")).uuid == uuid
    listing = lake.catalogs["lake"].listing()
    assert listing.namespaces["sky",] == {"owner": "ann"}
    assert listing.namespaces["sky", "eu"] == {"comment": "west"}
    assert ("air",) not in listing.namespaces
