"""Views of a catalog: passed over where tables are listed, named where a table is asked for."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from meltline.adapters.catalogs.metastores.rows import Row
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import CatalogUnlistable, TableNotFound
from meltline.ports import Catalog, OtherOwner
from tests.contract.catalogs.rest_catalog import VIEW_UUID, rest_catalog
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
        (view,) = shop.catalog.other_owners()
        assert (view.name, view.kind, view.metadata_location) == (VIEW, "view", "v.json")


def test_a_view_of_a_rest_catalog_is_told_from_nothing(store: object) -> None:
    with rest_catalog(store) as server:  # type: ignore[arg-type]
        server.namespaces["air"] = {}
        server.views.add(("air", "v"))
        config = CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        check(RestTables(config, store))  # type: ignore[arg-type]


def test_a_rest_catalog_lists_its_views_as_owners_if_its_server_says_that_it_has_some(
    store: object,
) -> None:
    with rest_catalog(store) as server:  # type: ignore[arg-type]
        server.namespaces["air"] = {}
        server.views.add(("air", "v"))
        config = CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        assert list(RestTables(config, store).other_owners()) == []  # type: ignore[arg-type]
        server.has_views = True
        owners = RestTables(config, store).other_owners()  # type: ignore[arg-type]
        assert list(owners) == [OtherOwner(VIEW, "view", "file:///w/air/v", uuid=VIEW_UUID)]


def test_a_catalog_whose_views_cannot_be_listed_says_so(store: object) -> None:
    config = CatalogConfig("lake", "rest", "http://127.0.0.1:9", "", "", False, {})
    with pytest.raises(CatalogUnlistable):
        RestTables(config, store).other_owners()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "folder", "owner"),
    [
        (
            {"table_type": "iceberg-view", "metadata_location": "s3://b/v/m.json"},
            "s3://b/v",
            OtherOwner(VIEW, "view", metadata_location="s3://b/v/m.json"),
        ),
        (
            {"spark.sql.sources.provider": "DELTA"},
            "s3://b/d",
            OtherOwner(VIEW, "delta table", "s3://b/d"),
        ),
        ({}, "s3://b/h", OtherOwner(VIEW, "hive table", "s3://b/h")),
        ({}, "", OtherOwner(VIEW, "hive table")),
    ],
)
def test_what_a_metastore_has_beside_iceberg_tables_owns_its_folder(
    store: object, parameters: dict[str, str], folder: str, owner: OtherOwner
) -> None:
    rows = [
        Row("air", "v", parameters, None, folder),
        Row("air", "t", {"table_type": "ICEBERG", "metadata_location": "m"}, None, "s3://b/t"),
    ]
    config = CatalogConfig("lake", "hive", "", "", "", False, {})
    catalog = MetastoreTables(config, store, _Rows(rows), _Databases())  # type: ignore[arg-type]
    assert list(catalog.other_owners()) == [owner]


@dataclass(frozen=True)
class _Rows:
    """A metastore's rows, to be listed alone."""

    listed: list[Row]

    def rows(self, database: str) -> list[Row]:
        return [row for row in self.listed if row.database == database]


class _Databases:
    """Its databases."""

    def properties(self) -> dict[str, dict[str, str]]:
        return {"air": {}}
