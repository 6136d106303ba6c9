"""Tables are moved, registered, taken out and made, in every catalog."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest
from sqlalchemy import create_engine, text

from meltline.adapters.catalogs.sql_catalog import may_migrate
from meltline.config.load import CatalogConfig
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    MetadataUnreadable,
    NameConflict,
    NamespaceNotEmpty,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor, NextMetadata, first_file
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import from_millis, to_millis
from meltline.ports import NewTable, TableMove
from tests.contract.catalogs.test_catalog import (
    NAME,
    SQL,
    START,
    Shop,
    a_sql_shop,
    postgres_server,
    properties,
    shop,
    store,
    written,
)

__all__ = ["a_sql_shop", "postgres_server", "shop", "store"]


# --- moving, registering, taking out --------------------------------------------------------------


PLACE = TableName("lake", ("meltline_dropped",), "0b0c-2a52")


def mark(document: MetadataEditor) -> None:
    document.set_properties({"mark": "1"})


def standing(shop: Shop) -> dict[TableName, str]:
    return {e.name: e.metadata_location for e in shop.catalog.listing().entries}


def test_a_table_moves_with_its_edit_in_one_step(shop: Shop) -> None:
    shop.catalog.move([TableMove(NAME, PLACE, mark)])
    ((name, at),) = standing(shop).items()
    document = json.loads(shop.store.read(at))
    assert name == PLACE and document["properties"] == {"owner": "me", "mark": "1"}
    assert document["tomorrow"] == written()["tomorrow"]
    assert PLACE.namespace in shop.catalog.listing().namespaces


def test_a_move_without_an_edit_writes_no_file(shop: Shop) -> None:
    before = shop.files()
    shop.catalog.move([TableMove(NAME, PLACE, lambda document: None)])
    assert standing(shop) == {PLACE: START} and shop.files() == before


def test_a_table_that_keeps_its_name_may_be_made_to_say_anything(shop: Shop) -> None:
    other = written() | {"current-snapshot-id": -1, "snapshots": [], "refs": {}, "properties": {}}
    replaced = TableMove(NAME, NAME, lambda document: document.replace(other))
    shop.catalog.move([replaced])
    after = shop.document()
    assert (after["snapshots"], after["properties"]) == ([], {}) and after["tomorrow"]
    assert after["metadata-log"][-1]["metadata-file"] == START and standing(shop).keys() == {NAME}
    files = shop.files()
    shop.catalog.move([replaced])
    assert shop.files() == files


def test_a_table_does_not_move_to_a_name_that_is_taken_and_is_left_as_it_was(shop: Shop) -> None:
    shop.catalog.register(PLACE, START)
    with pytest.raises(NameConflict):
        shop.catalog.move([TableMove(NAME, PLACE, mark)])
    assert standing(shop).keys() == {NAME, PLACE}
    assert shop.document()["properties"] == {"owner": "me"}


def test_what_is_not_there_does_not_move(shop: Shop) -> None:
    with pytest.raises(TableNotFound):
        shop.catalog.move([TableMove(replace(NAME, name="never"), PLACE, mark)])
    assert standing(shop) == {NAME: START}


def test_namespaces_come_and_go_with_their_tables(shop: Shop) -> None:
    shop.catalog.set_namespace_properties(("air",), {"owner": "ann"})
    target = replace(NAME, namespace=("sky",))
    move = TableMove(NAME, target, lambda document: None)
    shop.catalog.move([move], create={("sky",): {"owner": "ann"}}, remove=[("air",)])
    listing = shop.catalog.listing()
    namespaces = {k: v for k, v in listing.namespaces.items() if k != ("default",)}  # Hive's own
    assert namespaces == {("sky",): {"owner": "ann"}}
    assert standing(shop) == {target: START}


def test_a_namespace_to_make_that_is_there_stops_everything(shop: Shop) -> None:
    shop.catalog.set_namespace_properties(("sky",), {"a": "1"})
    move = TableMove(NAME, replace(NAME, namespace=("sky",)), mark)
    with pytest.raises(NameConflict):
        shop.catalog.move([move], create={("sky",): {}})
    assert standing(shop) == {NAME: START} and properties(shop, "sky") == {"a": "1"}


@pytest.mark.parametrize("url", ["sqlite:///{}/catalog.db", "postgresql://nobody@127.0.0.1:1/no"])
def test_only_a_catalog_of_the_old_schema_or_out_of_reach_might_be_migrated_in_passing(
    tmp_path: Path, url: str
) -> None:
    config = CatalogConfig("lake", "sql", url.format(tmp_path), "file:///w", "lake", False, {})
    if url.startswith("postgresql"):
        assert may_migrate(config)
        return
    assert not may_migrate(config) and list(tmp_path.iterdir()) == []
    engine = create_engine(config.uri)
    with engine.begin() as connection:
        assert not may_migrate(config)
        connection.execute(text("CREATE TABLE iceberg_tables (catalog_name VARCHAR(9))"))
    assert may_migrate(config)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"))
    engine.dispose()
    assert not may_migrate(config)


@pytest.mark.parametrize("a_sql_shop", SQL, indirect=True)
def test_a_namespace_with_a_view_in_it_stays_and_so_does_all_else(
    a_sql_shop: Shop, tmp_path: Path
) -> None:
    shop = a_sql_shop
    late = replace(NAME, name="late")
    shop.catalog.register(late, START)
    before = shop.files()
    with pytest.raises(NamespaceNotEmpty, match="air"):
        shop.catalog.move([TableMove(NAME, PLACE, mark)], remove=[("air",)])
    assert standing(shop) == {NAME: START, late: START} and shop.files() == before


def test_who_commits_before_a_move_is_moved_along(shop: Shop) -> None:
    looks = 0

    def edit(document: MetadataEditor) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            shop.set("theirs")
        mark(document)

    shop.catalog.move([TableMove(NAME, PLACE, edit)])
    ((_, at),) = standing(shop).items()
    assert json.loads(shop.store.read(at))["properties"].keys() == {"owner", "theirs", "mark"}


@pytest.mark.parametrize("a_sql_shop", SQL, indirect=True)
def test_of_several_who_move_one_table_one_wins(a_sql_shop: Shop) -> None:
    shop = a_sql_shop

    def work(number: int) -> int:
        target = replace(PLACE, name=f"p{number}")
        try:
            shop.open_handle(False).move([TableMove(NAME, target, mark)])
        except (TableNotFound, CommitConflict):
            return 0
        return number

    with ThreadPoolExecutor(4) as pool:
        (winner,) = [n for n in pool.map(work, range(1, 9)) if n]
    ((name, at),) = standing(shop).items()
    assert name.name == f"p{winner}"
    assert shop.files() == {START, at}


def test_a_registered_table_can_be_taken_out_where_it_stands_and_nowhere_else(shop: Shop) -> None:
    shop.catalog.register(PLACE, START)
    with pytest.raises(NameConflict):
        shop.catalog.register(PLACE, START)
    assert not shop.catalog.unregister(PLACE, "file:///elsewhere.json")
    assert not shop.catalog.unregister(replace(PLACE, name="never"), START)
    assert shop.catalog.unregister(PLACE, START)
    assert standing(shop) == {NAME: START} and START in shop.files()


def test_a_metadata_file_is_registered_with_an_edit_and_itself_stays_as_it_is(shop: Shop) -> None:
    shop.catalog.register(PLACE, START, mark)
    at = standing(shop)[PLACE]
    document = json.loads(shop.store.read(at))
    assert at != START and document["properties"] == {"owner": "me", "mark": "1"}
    assert json.loads(shop.store.read(START)) == written()
    before = shop.files()
    with pytest.raises(NameConflict):
        shop.catalog.register(PLACE, START, mark)
    assert shop.files() == before


def test_nothing_moves_in_a_catalog_that_is_only_observed(shop: Shop) -> None:
    watched = shop.open_handle(True)
    with pytest.raises(CatalogReadOnly):
        watched.move([TableMove(NAME, PLACE, mark)])
    with pytest.raises(CatalogReadOnly):
        watched.unregister(NAME, START)
    with pytest.raises(CatalogReadOnly):
        watched.create([new_table("a")])
    assert standing(shop) == {NAME: START} and shop.files() == {START}


# --- new tables -----------------------------------------------------------------------------------


def new_table(name: str, *namespace: str) -> NewTable:
    """A table with a first metadata file that says when it was dated."""
    full = TableName("lake", namespace or ("air",), name)

    def first(now: datetime) -> NextMetadata:
        location = f"file:///w/new/{name}"
        made = written() | {
            "table-uuid": str(uuid5(NAMESPACE_URL, name)),
            "location": location,
            "last-updated-ms": to_millis(now),
        }
        return first_file(full, made, "u")

    return NewTable(full, first)


def test_new_tables_and_namespaces_come_together(shop: Shop) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    tables = [new_table("a"), new_table("b", "deep")]
    at = shop.catalog.create(tables, {("sky",): {"owner": "ann"}, ("sea",): {}})
    assert standing(shop) == {NAME: START, **at} and len(at) == 2
    assert properties(shop, "sky") == {"owner": "ann"}
    for location in at.values():
        dated = from_millis(json.loads(shop.store.read(location))["last-updated-ms"])
        assert before <= dated <= datetime.now(UTC)


def test_of_new_tables_none_comes_where_one_name_is_taken(shop: Shop) -> None:
    before = shop.catalog.listing().namespaces.keys()
    with pytest.raises(NameConflict, match="t is taken"):
        shop.catalog.create([new_table("a"), new_table("t")], {("sky",): {}})
    assert standing(shop) == {NAME: START} and shop.files() == {START}
    assert shop.catalog.listing().namespaces.keys() == before


def test_of_new_tables_none_comes_where_a_namespace_to_make_is_there(shop: Shop) -> None:
    shop.catalog.set_namespace_properties(("sky",), {"a": "1"})
    with pytest.raises(NameConflict, match="sky"):
        shop.catalog.create([new_table("a", "sky")], {("sky",): {}})
    assert standing(shop) == {NAME: START} and shop.files() == {START}
    assert properties(shop, "sky") == {"a": "1"}


def test_a_new_table_that_cannot_be_written_leaves_nothing(shop: Shop) -> None:
    def refuse(now: datetime) -> NextMetadata:
        raise MetadataUnreadable("no such codec")

    odd = NewTable(replace(NAME, name="odd"), refuse)
    with pytest.raises(MetadataUnreadable):
        shop.catalog.create([new_table("a"), odd], {("sky",): {}})
    assert standing(shop) == {NAME: START} and shop.files() == {START}


@pytest.mark.parametrize("a_sql_shop", SQL, indirect=True)
def test_of_several_who_make_one_table_one_wins(a_sql_shop: Shop) -> None:
    def work(number: int) -> int:
        try:
            a_sql_shop.open_handle(False).create([new_table("a", f"n{number % 2}")])
        except NameConflict:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(8))) == 2
    assert len(standing(a_sql_shop)) == 3
