"""Views and tables of other formats: listings pass them over, and their owners are named."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import CatalogUnlistable
from meltline.ports import Catalog, OtherOwner
from tests.contract.catalogs.rest_catalog import RestCatalogServer, rest_catalog
from tests.contract.catalogs.test_catalog import NAME, sql_shop, store
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.store import MemoryStore

__all__ = ["store"]

VIEW = replace(NAME, name="v")
FOLDER, METADATA = "file:///w/air/v", "file:///w/air/v/metadata/0.metadata.json"
UUID = "6b1a0f7e-5a42-4f5d-9a55-1f6f9f2e0b11"


@contextmanager
def memory(store: MemoryStore, folder: Path) -> Iterator[Catalog]:
    catalog = MemoryCatalog("lake", store)
    catalog.add_owner(OtherOwner(VIEW, "view", FOLDER, METADATA, UUID))
    yield catalog


@contextmanager
def sql(store: MemoryStore, folder: Path) -> Iterator[Catalog]:
    url = f"sqlite:///{folder}/catalog.db"
    with ExitStack() as closing:
        shop = sql_shop(url, store, closing)
        execute(
            url,
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            f" metadata_location, iceberg_type) VALUES ('lake', 'air', 'v', '{METADATA}', 'VIEW'),"
            " ('other', 'air', 'theirs', 'v.json', 'VIEW')",
        )
        yield shop.catalog


@contextmanager
def rest(store: MemoryStore, folder: Path) -> Iterator[Catalog]:
    with served(store) as (server, catalog):
        server.views["air", "v"] = {"location": FOLDER, "view-uuid": UUID}
        yield catalog


@contextmanager
def served(store: MemoryStore) -> Iterator[tuple[RestCatalogServer, Catalog]]:
    with rest_catalog(store) as server:
        server.namespaces["air"] = {}
        yield (
            server,
            RestTables(CatalogConfig("lake", "rest", server.uri, "", "", False, {}), store),
        )


def execute(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


KINDS = {"memory": memory, "sqlite": sql, "rest": rest}
TELLS_FOLDER = {"memory", "rest"}
"""The catalogs that know more of a view than where its metadata file is."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_is_named_with_all_that_its_catalog_knows_of_it(
    kind: str, store: MemoryStore, tmp_path: Path
) -> None:
    with KINDS[kind](store, tmp_path) as catalog:
        (owner,) = catalog.other_owners()
        assert VIEW not in {entry.name for entry in catalog.listing().entries}
    assert (owner.name, owner.kind, owner.metadata_location) == (VIEW, "view", METADATA)
    assert (owner.location, owner.uuid) == ((FOLDER, UUID) if kind in TELLS_FOLDER else ("", ""))


def test_a_sql_catalog_whose_rows_know_no_views_has_none(
    store: MemoryStore, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    with ExitStack() as closing:
        catalog = sql_shop(url, store, closing).catalog
        execute(url, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
        assert not catalog.other_owners() and len(catalog.listing().entries) == 1


def test_a_sql_catalog_that_cannot_be_read_does_not_say_that_it_has_no_views(
    store: MemoryStore, tmp_path: Path
) -> None:
    with sql(store, tmp_path) as catalog:
        (tmp_path / "catalog.db").unlink()
        with pytest.raises(CatalogUnlistable, match="could not be listed"):
            catalog.other_owners()


def test_the_views_of_every_page_of_a_rest_catalog_are_named(store: MemoryStore) -> None:
    names = [f"v{number}" for number in range(3)]
    with served(store) as (server, catalog):
        for name in names:
            server.views["air", name] = {"location": f"file:///w/air/{name}"}
        assert [owner.name.name for owner in catalog.other_owners()] == names


@pytest.mark.parametrize("code", [400, 404, 405, 406, 501])
def test_a_rest_server_without_views_has_none(store: MemoryStore, code: int) -> None:
    with served(store) as (server, catalog):
        server.views_answer = code
        assert not catalog.other_owners()


@pytest.mark.parametrize("code", [401, 403, 500, 503])
def test_a_rest_server_that_refuses_or_fails_does_not_say_that_it_has_no_views(
    store: MemoryStore, code: int
) -> None:
    with served(store) as (server, catalog):
        server.views_answer = code
        with pytest.raises(CatalogUnlistable, match="could not be listed"):
            catalog.other_owners()


def test_a_view_that_is_gone_before_it_was_loaded_leaves_the_answer_incomplete(
    store: MemoryStore,
) -> None:
    class Vanishing(dict[tuple[str, str], dict[str, str]]):
        def __contains__(self, name: object) -> bool:
            return False

    with served(store) as (server, catalog):
        server.views = Vanishing({("air", "v"): {"location": FOLDER}})
        with pytest.raises(CatalogUnlistable):
            catalog.other_owners()
