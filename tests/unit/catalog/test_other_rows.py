"""Rows of a metastore that are no Iceberg tables, and the hidden tables behind some of them."""

from dataclasses import replace

import pytest

from meltline.adapters.catalogs.metastores.rows import LOCATION, Row
from meltline.adapters.catalogs.metastores.tables import MetastoreTables
from meltline.config.load import CatalogConfig
from meltline.domain.errors import CatalogUnlistable, TableNotFound
from tests.contract.catalogs.test_catalog import NAME
from tests.doubles.store import MemoryStore
from tests.unit.catalog.rows_in_memory import MemoryDatabases, MemoryMetastore

FOLDER, FILE = "s3://b/air/x", "s3://b/air/x/metadata/0.metadata.json"
TRINO = {"comment": "Presto Materialized View", "presto_view": "true"}
ROWS = {
    "plain": Row("air", "plain", {}, None, "EXTERNAL_TABLE", FOLDER),
    "delta": Row("air", "delta", {"spark.sql.sources.provider": "DELTA"}, None, "", FOLDER),
    "glue": Row("air", "glue", {"classification": "parquet"}, None, "EXTERNAL_TABLE", FOLDER),
    "hive": Row("air", "hive", {}, None, "VIRTUAL_VIEW"),
    "iceberg": Row(
        "air", "iceberg", {"table_type": "iceberg-view", LOCATION: FILE}, None, "VIRTUAL_VIEW"
    ),
    "stored": Row("air", "stored", {}, None, "MATERIALIZED_VIEW", FOLDER),
    "older": Row("air", "older", {**TRINO, "storage_table": "st_1"}, None, "VIRTUAL_VIEW"),
    "hidden": Row("air", "hidden", {**TRINO, LOCATION: FILE}, None, "VIRTUAL_VIEW"),
}
KINDS = {
    "plain": ("table", FOLDER, ""),
    "delta": ("delta", FOLDER, ""),
    "glue": ("parquet", FOLDER, ""),
    "hive": ("view", "", ""),
    "iceberg": ("view", "", FILE),
    "stored": ("materialized view", FOLDER, ""),
    "older": ("materialized view", "", ""),
}


class Stored(MemoryMetastore):
    """A metastore with rows that others made."""

    is_down = False

    def rows(self, database: str) -> list[Row]:
        if self.is_down:
            raise ConnectionError
        return list(ROWS.values())

    def row(self, database: str, table: str) -> Row | None:
        return ROWS.get(table)


def tables(metastore: MemoryMetastore) -> MetastoreTables:
    databases = MemoryDatabases()
    databases.make("air", {})
    config = CatalogConfig("lake", "glue", "", "", "", False, {})
    return MetastoreTables(config, MemoryStore({}), metastore, databases)


def test_every_row_that_is_no_iceberg_table_is_named_with_what_it_owns() -> None:
    owners = {owner.name: owner for owner in tables(Stored()).other_owners()}
    assert {
        name.name: (owner.kind, owner.location, owner.metadata_location)
        for name, owner in owners.items()
    } == KINDS


def test_the_hidden_table_of_a_materialized_view_is_listed_and_found_and_never_changed() -> None:
    catalog, hidden = tables(Stored()), replace(NAME, name="hidden")
    listing = catalog.listing()
    assert [entry.name for entry in listing.entries] == [hidden] and listing.hidden == {hidden}
    assert catalog.location(hidden) == FILE
    with pytest.raises(TableNotFound, match="is a view"):
        catalog.set_table_properties(hidden, {"k": "v"})


def test_a_metastore_that_does_not_answer_does_not_say_that_there_are_no_views() -> None:
    metastore = Stored()
    metastore.is_down = True
    with pytest.raises(CatalogUnlistable):
        tables(metastore).other_owners()
