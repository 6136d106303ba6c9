"""The probe of a server: what each thing that it asks would let slip, where it is not so."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyiceberg.exceptions import BadRequestError

from meltline.adapters.catalogs.rest.probe import RestProbe
from meltline.adapters.catalogs.rest.protocol import Json, LoadedTable, RestProtocol
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig
from meltline.domain.clock import WallClock
from meltline.ports import ProbedFact
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    with iceberg_server(tmp_path_factory.mktemp("rest")) as running:
        yield running


class Lax(RestProtocol):
    """Iceberg's own server, but for one thing that it passes over or does not tell."""

    passes_over = ""
    tells_log = True

    def commit(
        self, name: object, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> LoadedTable:
        strict = [r for r in requirements if r["type"] != self.passes_over]
        done = super().commit(name, strict, updates)  # type: ignore[arg-type]
        if self.tells_log:
            return done
        return replace(done, metadata={**done.metadata, "metadata-log": []})


def passing_over(requirement: str) -> Callable[[Lax], None]:
    def make(protocol: Lax) -> None:
        protocol.passes_over = requirement

    return make


def telling_no_log(protocol: Lax) -> None:
    protocol.tells_log = False


def purging_what_is_dropped(protocol: Lax) -> None:
    catalog = protocol.catalog
    drop = catalog.drop_table

    def purge(name: tuple[str, ...]) -> None:
        metadata = Path(urlsplit(catalog.load_table(name).metadata_location).path)
        drop(name)
        metadata.unlink()

    catalog.drop_table = purge  # type: ignore[method-assign,assignment]


def insisting_on_purge(protocol: Lax) -> None:
    catalog = protocol.catalog
    request = catalog._session.request

    def refuse(method: str, url: str, **words: Any) -> Any:
        purges = str((words.get("params") or {}).get("purgeRequested")).lower() == "true"
        if method == "DELETE" and "/tables/" in url and not purges:
            raise BadRequestError("purgeRequested must be true")
        return request(method, url, **words)

    catalog._session.request = refuse  # type: ignore[method-assign]


def keeping_no_properties(protocol: Lax) -> None:
    protocol.catalog.update_namespace_properties = lambda *a, **k: None  # type: ignore[method-assign,assignment]


def facts_of(server: IcebergServer, make: Callable[[Lax], None]) -> Sequence[ProbedFact]:
    store = ObjectStores({})
    config = CatalogConfig("lake", "rest", server.uri, "", "lake", False, {})
    tables = RestTables(config, store)
    lax = Lax("lake", tables.protocol._connect, server.uri)
    make(lax)
    tables.protocol = lax
    facts = RestProbe(tables, store, store, WallClock()).facts()
    assert not [n for n in lax.catalog.list_namespaces() if "probe" in n[0]], "it cleans up"
    return facts


LIES: Mapping[str, tuple[Callable[[Lax], None], str]] = {
    "no UUID counts": (passing_over("assert-table-uuid"), "another table of the name"),
    "no ref counts": (passing_over("assert-ref-snapshot-id"), "a ref that has moved"),
    "no log": (telling_no_log, "names the metadata file"),
    "a drop purges": (purging_what_is_dropped, "a drop leaves the files"),
    "only with purge": (insisting_on_purge, "a drop leaves the files"),
    "no properties": (keeping_no_properties, "namespaces keep properties"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_server_does_otherwise_is_found_and_nothing_more_is_tried(
    server: IcebergServer, lie: str
) -> None:
    make, question = LIES[lie]
    *before, last = facts_of(server, make)
    assert question in last.question and last.is_needed and not last.is_so, last
    assert all(fact.is_so for fact in before)


def test_icebergs_own_server_keeps_the_files_of_a_dropped_table(server: IcebergServer) -> None:
    store = ObjectStores({})
    tables = RestTables(CatalogConfig("lake", "rest", server.uri, "", "lake", False, {}), store)
    probe = RestProbe(tables, store, store, WallClock())
    dropped = probe.drop_scratch()
    assert store.size(dropped) is not None
    assert not probe.deleted_since(dropped)
    assert store.size(dropped) is not None, "a run that dies now looks once more"
    again = probe.drop_scratch()
    Path(urlsplit(again).path).unlink()
    assert probe.deleted_since(again)
    assert not [n for n in tables.protocol.catalog.list_namespaces() if "probe" in n[0]]


def test_icebergs_own_server_is_fit(server: IcebergServer) -> None:
    facts = facts_of(server, lambda protocol: None)
    assert all(fact.is_so for fact in facts if fact.is_needed), facts
