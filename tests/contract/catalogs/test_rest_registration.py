"""New tables in a catalog behind HTTP: what answers are lost, or come twice, loses no file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from pyiceberg.exceptions import ForbiddenError

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import NameConflict
from meltline.domain.iceberg.metadata_editor import NextMetadata, first_file
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import to_millis
from meltline.ports import NewTable
from tests.contract.catalogs.rest_catalog import Refused, RestCatalogServer, rest_catalog
from tests.contract.catalogs.test_catalog import written
from tests.doubles.store import MemoryStore


@dataclass
class Shop:
    """A catalog, its server, and the store they share."""

    server: RestCatalogServer
    catalog: RestTables
    store: MemoryStore

    def standing(self) -> dict[str, str]:
        return {name: at for (_, name), at in self.server.tables.items()}

    def files(self) -> set[str]:
        return {stored.path for stored in self.store.list("file:///w")}


@pytest.fixture
def shop() -> Iterator[Shop]:
    store = MemoryStore()
    with rest_catalog(store) as server:
        server.namespaces["air"] = {}
        config = CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        yield Shop(server, RestTables(config, store), store)


def new_table(name: str) -> NewTable:
    full = TableName("lake", ("air",), name)

    def first(now: datetime) -> NextMetadata:
        own = {"location": f"file:///w/{name}", "last-updated-ms": to_millis(now)}
        return first_file(full, written() | own, "u")

    return NewTable(full, first)


def test_a_registration_that_a_gateway_sends_twice_is_done_once(shop: Shop) -> None:
    register = shop.server._register

    def twice(*words: Any) -> Any:
        register(*words)
        return register(*words)

    shop.server._register = twice  # type: ignore[method-assign]
    at = shop.catalog.create([new_table("a")])
    assert shop.standing() == {"a": next(iter(at.values()))}
    assert shop.files() == set(at.values())


def test_a_name_that_another_table_has_is_taken_all_the_same(shop: Shop) -> None:
    before = shop.catalog.create([new_table("a")])
    with pytest.raises(NameConflict):
        shop.catalog.create([_at_a_free_place(new_table("a"))])
    assert shop.files() == set(before.values())


def test_a_new_table_that_somebody_builds_on_keeps_its_files_when_the_others_fail(
    shop: Shop,
) -> None:
    taken = shop.catalog.create([new_table("b")])
    register = shop.server._register

    def built_on(name: tuple[str, str], at: str) -> Any:
        answer = register(name, at)
        document = json.loads(shop.store.read(at))
        document["metadata-log"] = [{"metadata-file": at, "timestamp-ms": 1}]
        shop.store.write(f"{at}.next", json.dumps(document).encode())
        shop.server.tables[name] = f"{at}.next"
        return answer

    shop.server._register = built_on  # type: ignore[method-assign]
    with pytest.raises(NameConflict):
        shop.catalog.create([new_table("a"), _at_a_free_place(new_table("b"))])
    standing = shop.standing()
    assert standing["a"].endswith(".next") and standing["b"] in taken.values()
    assert {standing["a"], standing["a"].removesuffix(".next")} <= shop.files()


def test_a_table_that_somebody_commits_to_as_it_is_taken_out_keeps_the_commit(shop: Shop) -> None:
    (at,) = shop.catalog.create([new_table("a")]).values()
    rename, renamed = shop.server._rename, []

    def meanwhile(body: Any) -> Any:
        if not renamed:
            shop.server.tables["air", "a"] = f"{at}.next"
        renamed.append(body)
        return rename(body)

    shop.server._rename = meanwhile  # type: ignore[method-assign]
    shop.store.write(f"{at}.next", shop.store.read(at))
    assert not shop.catalog.unregister(TableName("lake", ("air",), "a"), at)
    assert renamed and shop.standing() == {"a": f"{at}.next"}


def test_a_table_that_may_not_be_dropped_has_its_name_again(shop: Shop) -> None:
    (at,) = shop.catalog.create([new_table("a")]).values()
    answer = shop.server._table

    def refuse(method: str, *words: Any, **more: Any) -> Any:
        if method == "DELETE":
            raise Refused(403, "ForbiddenException")
        return answer(method, *words, **more)

    shop.server._table = refuse  # type: ignore[method-assign]
    with pytest.raises(ForbiddenError):
        shop.catalog.unregister(TableName("lake", ("air",), "a"), at)
    assert shop.standing() == {"a": at}


def test_a_table_that_is_taken_out_leaves_no_other_name(shop: Shop) -> None:
    (at,) = shop.catalog.create([new_table("a")]).values()
    assert shop.catalog.unregister(TableName("lake", ("air",), "a"), at)
    assert not shop.standing() and at in shop.files()


def _at_a_free_place(table: NewTable) -> NewTable:
    return NewTable(table.name, lambda now: _elsewhere(table.first(now)))


def _elsewhere(file: NextMetadata) -> NextMetadata:
    return NextMetadata(file.location.replace("-u.", "-v."), file.content)
