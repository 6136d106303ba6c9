"""Views of a catalog: passed over where tables are listed, named where a table is asked for."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import TableNotFound
from meltline.ports import Catalog
from tests.contract.catalogs.rest_catalog import rest_catalog
from tests.contract.catalogs.test_catalog import NAME, sql_shop, store

__all__ = ["store"]

VIEW = replace(NAME, name="v")


def check(catalog: Catalog) -> None:
    with pytest.raises(TableNotFound, match="is a view: it has no past") as refused:
        catalog.location(VIEW)
    assert (refused.value.object, refused.value.found) == ("lake.air.v", "a view")
    assert "SHOW CREATE TABLE lake.air.v" in refused.value.next
    with pytest.raises(TableNotFound, match="has no table"):
        catalog.location(replace(NAME, name="neither"))
    assert VIEW not in {entry.name for entry in catalog.listing().entries}


def test_a_view_of_a_sql_catalog_is_told_from_nothing(tmp_path: Path, store: object) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    with ExitStack() as closing:
        shop = sql_shop(url, store, closing)  # type: ignore[arg-type]
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                    " metadata_location, iceberg_type)"
                    " VALUES ('lake', 'air', 'v', 'v.json', 'VIEW')"
                )
            )
        engine.dispose()
        check(shop.catalog)


def test_a_view_of_a_rest_catalog_is_told_from_nothing(store: object) -> None:
    with rest_catalog(store) as server:  # type: ignore[arg-type]
        server.namespaces["air"] = {}
        server.views["air", "v"] = {"location": "file:///w/air/v"}
        config = CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        check(RestTables(config, store))  # type: ignore[arg-type]
