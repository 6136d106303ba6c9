"""One suite for every catalog: in memory, SQL on SQLite and on Postgres, REST through PyIceberg."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalogBaseTable
from sqlalchemy import create_engine, make_url, text

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.adapters.catalogs.table_commits import commit_edit
from meltline.app.catalog.commit import pin, unpin
from meltline.config.load import CatalogConfig
from meltline.domain.clock import WallClock
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    MetadataUnreadable,
    NameConflict,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.ports import Catalog
from tests.contract.catalogs.rest_catalog import rest_catalog
from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.store import MemoryStore

NAME = TableName("lake", ("air",), "t")
START = "file:///w/air/t/metadata/00000-a.metadata.json"
KINDS = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "rest"]
SQL = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


def written() -> dict[str, Any]:
    """A table of one snapshot, with a field of tomorrow."""
    schema = {"type": "struct", "schema-id": 0,
              "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}  # fmt: skip
    return {
        "format-version": 2,
        "table-uuid": "0b0c2a52-6a2a-4f6c-8f5e-2f3c1d1b7a10",
        "location": "file:///w/air/t",
        "last-sequence-number": 1,
        "last-updated-ms": 1_000,
        "last-column-id": 1,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"owner": "me"},
        "current-snapshot-id": 7,
        "snapshots": [
            {"snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 1_000, "schema-id": 0,
             "manifest-list": "file:///w/air/t/metadata/l.avro",
             "summary": {"operation": "append"}}
        ],
        "snapshot-log": [{"snapshot-id": 7, "timestamp-ms": 1_000}],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        "tomorrow": {"n": 9_007_199_254_740_993},
    }  # fmt: skip


@dataclass
class Shop:
    """One catalog with one table, and further handles on it."""

    open_handle: Callable[[bool], Catalog]
    store: MemoryStore

    @property
    def catalog(self) -> Catalog:
        return self.open_handle(False)

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.store.read(self.catalog.location(NAME)))
        return document

    def files(self) -> set[str]:
        return {stored.path for stored in self.store.list("file:///w")}

    def set(self, key: str, value: str = "v") -> None:
        """Somebody else's commit."""
        self.open_handle(False).set_table_properties(NAME, {key: value})


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with throwaway_postgres() as server:
        yield server


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore({START: json.dumps(written()).encode()})


@pytest.fixture
def a_sql_shop(
    request: pytest.FixtureRequest, tmp_path: Path, store: MemoryStore
) -> Iterator[Shop]:
    url = f"sqlite:///{tmp_path}/catalog.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.create_database()
    with ExitStack() as closing:
        yield sql_shop(url, store, closing)


def sql_shop(url: str, store: MemoryStore, closing: ExitStack) -> Shop:
    """The rows of a catalog as PyIceberg makes them, with a foreign catalog's rows beside ours."""
    engine = create_engine(make_url(url.replace("postgresql:", "postgresql+psycopg:")))
    SqlCatalogBaseTable.metadata.create_all(engine)
    row = text(
        "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
        " VALUES (:catalog, 'air', 't', :at)"
    )
    with engine.begin() as connection:
        for catalog, at in (("lake", START), ("other", "file:///elsewhere.json")):
            connection.execute(row, {"catalog": catalog, "at": at})
    engine.dispose()

    def open_handle(observe_only: bool) -> Catalog:
        config = CatalogConfig("lake", "sql", url, "file:///w", "lake", observe_only, {})
        catalog = SqlTables(config, store)
        closing.callback(catalog.close)
        return catalog

    return Shop(open_handle, store)


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path, store: MemoryStore) -> Iterator[Shop]:
    if request.param == "memory":
        yield memory_shop(store)
    elif request.param == "rest":
        with rest_catalog(store) as server:
            server.namespaces["air"] = {}
            server.tables["air", "t"] = START

            def open_handle(observe_only: bool) -> Catalog:
                config = CatalogConfig("lake", "rest", server.uri, "", "", observe_only, {})
                return RestTables(config, store)

            yield Shop(open_handle, store)
    elif request.param == "sqlite":
        with ExitStack() as closing:
            yield sql_shop(f"sqlite:///{tmp_path}/catalog.db", store, closing)
    else:
        server_of_all: PostgresServer = request.getfixturevalue("postgres_server")
        with ExitStack() as closing:
            yield sql_shop(server_of_all.create_database(), store, closing)


def memory_shop(store: MemoryStore) -> Shop:
    catalogs = {only: MemoryCatalog("lake", store, observe_only=only) for only in (False, True)}
    catalogs[False].register(NAME, START)
    return Shop(catalogs.__getitem__, store)


# --- editing a table ------------------------------------------------------------------------------


def test_an_edit_changes_what_it_says_and_keeps_what_nobody_knows(shop: Shop) -> None:
    def edit(document: MetadataEditor) -> None:
        document.set_properties({"k": "v"}, ["owner"])
        document.set_ref(SnapshotRef("keep", 7, is_branch=False, max_ref_age_ms=2**63 - 1))

    new = shop.catalog.edit_table(NAME, edit)
    after = shop.document()
    assert new == shop.catalog.location(NAME) != START
    assert after["properties"] == {"k": "v"}
    assert after["refs"]["keep"] == {
        "snapshot-id": 7, "type": "tag", "max-ref-age-ms": 2**63 - 1
    }  # fmt: skip
    assert after["tomorrow"] == written()["tomorrow"]
    assert after["metadata-log"] == [{"timestamp-ms": 1_000, "metadata-file": START}]
    assert {entry.name for entry in shop.catalog.listing().entries} == {NAME}


def test_refs_that_go_are_gone(shop: Shop) -> None:
    tag = SnapshotRef("keep", 7, is_branch=False)
    shop.catalog.edit_table(NAME, lambda document: document.set_ref(tag))
    shop.catalog.edit_table(NAME, lambda document: document.remove_ref("keep"))
    assert shop.document()["refs"].keys() == {"main"}


def test_of_two_who_tag_at_once_the_later_one_looks_again_and_tag_and_words_stay_together(
    shop: Shop,
) -> None:
    key, tag = "meltline.consumer.bill", SnapshotRef("consumer__bill", 7, is_branch=False)
    seen: list[str | None] = []

    def edit(document: MetadataEditor) -> None:
        seen.append(document.state.properties.get(key))
        if len(seen) == 1:
            theirs = replace(tag, max_ref_age_ms=1_000)
            shop.open_handle(False).edit_table(
                NAME, lambda other: pin(other, theirs, {key: "theirs"})
            )
        pin(document, replace(tag, max_ref_age_ms=2_000), {key: "ours"})

    shop.catalog.edit_table(NAME, edit)
    assert seen == [None, "theirs"]
    after = shop.document()
    assert after["properties"][key] == "ours"
    assert after["refs"]["consumer__bill"]["max-ref-age-ms"] == 2_000
    shop.catalog.edit_table(NAME, lambda document: unpin(document, "consumer__bill", key))
    assert shop.document()["refs"].keys() == {"main"} and key not in shop.document()["properties"]


def test_an_edit_that_changes_nothing_commits_nothing(shop: Shop) -> None:
    before = shop.files()
    at = shop.catalog.edit_table(NAME, lambda document: document.set_properties({"owner": "me"}))
    assert (at, shop.catalog.location(NAME), shop.files()) == (START, START, before)


def test_an_edit_that_refuses_leaves_nothing_behind(shop: Shop) -> None:
    def refuse(document: MetadataEditor) -> None:
        document.set_properties({"half": "done"})
        raise NameConflict("no", object="x")

    before = shop.files()
    with pytest.raises(NameConflict):
        shop.catalog.edit_table(NAME, refuse)
    assert (shop.files(), shop.document()) == (before, written())


def test_who_loses_the_race_looks_again_and_nobodys_change_is_lost(shop: Shop) -> None:
    seen: list[set[str]] = []

    def edit(document: MetadataEditor) -> None:
        seen.append(set(document.state.refs))
        if len(seen) == 1:  # somebody else commits between our look and our swap
            tag = SnapshotRef("theirs", 7, is_branch=False)
            shop.open_handle(False).edit_table(NAME, lambda other: other.set_ref(tag))
        if "ours" in document.state.refs or "theirs" in document.state.refs:
            document.set_ref(SnapshotRef("both seen", 7, is_branch=False))
        document.set_ref(SnapshotRef("theirs", 7, is_branch=False))

    shop.catalog.edit_table(NAME, edit)
    assert seen == [{"main"}, {"main", "theirs"}]
    assert shop.document()["refs"].keys() == {"main", "theirs", "both seen"}
    named = {entry["metadata-file"] for entry in shop.document()["metadata-log"]}
    assert shop.files() == named | {shop.catalog.location(NAME)}


def test_a_table_that_never_stands_still_is_given_up_and_left_as_the_others_made_it(
    shop: Shop,
) -> None:
    commits = 0

    def edit(document: MetadataEditor) -> None:
        nonlocal commits
        commits += 1
        tag = SnapshotRef(f"t{commits}", 7, is_branch=False)
        shop.open_handle(False).edit_table(NAME, lambda other: other.set_ref(tag))
        document.set_ref(tag)

    with pytest.raises(CommitConflict, match="each time"):
        shop.catalog.edit_table(NAME, edit)
    after = shop.document()
    assert after["refs"].keys() == {"main", *(f"t{n + 1}" for n in range(commits))}
    named = {entry["metadata-file"] for entry in after["metadata-log"]}
    assert shop.files() == named | {shop.catalog.location(NAME)}


def test_many_at_once_lose_nothing(shop: Shop) -> None:
    def work(number: int) -> None:
        while True:
            try:
                shop.set(f"k{number}")
                return
            except CommitConflict:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert {f"k{n}" for n in range(12)} <= shop.document()["properties"].keys()


def test_a_table_that_is_not_there_is_named(shop: Shop) -> None:
    missing = replace(NAME, name="never")
    with pytest.raises(TableNotFound, match="never"):
        shop.catalog.location(missing)
    with pytest.raises(TableNotFound, match="never"):
        shop.catalog.edit_table(missing, lambda document: None)


@pytest.mark.parametrize("a_sql_shop", SQL, indirect=True)
def test_a_table_whose_metadata_is_gone_is_not_written(a_sql_shop: Shop) -> None:
    a_sql_shop.store.delete([START])
    with pytest.raises(MetadataUnreadable, match="cannot be read"):
        a_sql_shop.catalog.set_table_properties(NAME, {"k": "v"})
    assert a_sql_shop.files() == set()


def test_a_catalog_that_is_only_observed_refuses_every_change(shop: Shop) -> None:
    watched = shop.open_handle(True)
    with pytest.raises(CatalogReadOnly):
        watched.set_table_properties(NAME, {"k": "v"})
    with pytest.raises(CatalogReadOnly):
        watched.edit_table(NAME, lambda document: document.remove_ref("main"))
    with pytest.raises(CatalogReadOnly):
        watched.set_namespace_properties(("air",), {"k": "v"})
    assert shop.document() == written()


# --- namespaces -----------------------------------------------------------------------------------


def properties(shop: Shop, namespace: str = "air") -> dict[str, str]:
    return dict(shop.catalog.listing().namespaces[namespace,])


def test_a_namespaces_properties_are_set_changed_and_removed(shop: Shop) -> None:
    shop.catalog.set_namespace_properties(("air",), {"a": "1", "b": "2"})
    shop.catalog.set_namespace_properties(("air",), {"a": "3"}, ["b", "never"])
    assert properties(shop) == {"a": "3"}


def test_setting_properties_creates_the_namespace(shop: Shop) -> None:
    shop.catalog.set_namespace_properties(("new",), {"a": "1"})
    shop.catalog.set_namespace_properties(("empty",), {})
    assert properties(shop, "new") == {"a": "1"} and properties(shop, "empty") == {}


def test_what_is_expected_decides_whether_anything_happens(shop: Shop) -> None:
    set_properties = shop.catalog.set_namespace_properties
    set_properties(("air",), {"a": "1"}, expected={"a": None})
    set_properties(("air",), {"a": "2"}, expected={"a": "1", "b": None})
    for expected in ({"a": None}, {"a": "1"}, {"a": "2", "b": "x"}):
        with pytest.raises(CommitConflict):
            set_properties(("air",), {"a": "3", "b": "4"}, expected=expected)
    assert properties(shop) == {"a": "2"}
    set_properties(("air",), {}, ["a"], expected={"a": "2"})
    assert properties(shop) == {}


@pytest.mark.parametrize("a_sql_shop", SQL, indirect=True)
def test_of_several_who_expect_the_same_one_wins(a_sql_shop: Shop) -> None:
    shop = a_sql_shop
    shop.catalog.set_namespace_properties(("air",), {"before": "0"})

    def claim(number: int) -> int:
        try:
            shop.open_handle(False).set_namespace_properties(
                ("air",), {"mine": str(number)}, expected={"mine": None}
            )
        except CommitConflict:
            return 0
        return number

    with ThreadPoolExecutor(4) as pool:
        (winner,) = [n for n in pool.map(claim, range(1, 9)) if n]
    assert properties(shop)["mine"] == str(winner)


@pytest.mark.parametrize("a_sql_shop", ["sqlite"], indirect=True)
def test_a_sql_catalog_refuses_a_level_with_a_dot_which_it_could_not_tell_from_two(
    a_sql_shop: Shop,
) -> None:
    shop = a_sql_shop
    with pytest.raises(CatalogReadOnly, match="dot"):
        shop.catalog.set_namespace_properties(("a.b",), {"k": "v"})
    with pytest.raises(CatalogReadOnly, match="dot"):
        shop.catalog.location(TableName("lake", ("a.b",), "t"))


# --- when the swap goes wrong ---------------------------------------------------------------------


@dataclass
class Pointer:
    """A pointer whose swap does as it is told."""

    outcome: Callable[[], bool]

    def location(self, name: TableName) -> str:
        return START

    def swap(self, name: TableName, base: str, new: str) -> bool:
        return self.outcome()


def test_a_file_whose_swap_surely_failed_is_taken_away_again(store: MemoryStore) -> None:
    with pytest.raises(CommitConflict):
        commit_edit(
            Pointer(lambda: False), store, NAME, lambda d: d.set_properties({"k": "v"}),
            WallClock(), pause=lambda seconds: None,
        )  # fmt: skip
    assert [stored.path for stored in store.list("file:///w")] == [START]


def test_a_file_whose_swap_may_have_happened_stays(store: MemoryStore) -> None:
    def nobody_knows() -> bool:
        raise CommitConflict("the connection broke", object=str(NAME))

    with pytest.raises(CommitConflict):
        commit_edit(
            Pointer(nobody_knows), store, NAME, lambda d: d.set_properties({"k": "v"}), WallClock()
        )
    assert len(list(store.list("file:///w"))) == 2


@pytest.mark.parametrize("a_sql_shop", ["sqlite"], indirect=True)
def test_a_database_that_breaks_during_the_swap_is_not_taken_for_a_conflict(
    a_sql_shop: Shop, tmp_path: Path
) -> None:
    shop = a_sql_shop

    def edit(document: MetadataEditor) -> None:
        document.set_properties({"k": "v"})
        engine = create_engine(f"sqlite:///{tmp_path}/catalog.db")
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE iceberg_tables"))
        engine.dispose()

    with pytest.raises(CommitConflict, match="nobody knows"):
        shop.catalog.edit_table(NAME, edit)
    assert len(shop.files()) == 2


def test_where_an_edit_is_out_of_reach_it_says_what_to_do_instead(store: MemoryStore) -> None:
    with rest_catalog(store) as server:
        server.namespaces["air"] = {}
        server.tables["air", "t"] = START
        config = CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        with pytest.raises(CatalogReadOnly) as refused:
            RestTables(config, store).edit_table(
                NAME, lambda document: document.replace({**document.document, "next": 1})
            )
    assert "engine" in refused.value.next
