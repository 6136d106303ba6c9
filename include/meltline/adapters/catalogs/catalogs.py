"""Catalogs: SQL ones read row by row, all others through PyIceberg."""

from typing import TYPE_CHECKING

from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.config.load import CatalogConfig
from meltline.ports import MetadataFiles

if TYPE_CHECKING:
    from meltline.adapters.catalogs.rest.tables import RestTables


def open_catalog(config: CatalogConfig, store: MetadataFiles) -> "SqlTables | RestTables":
    """The adapter for a configured catalog. Nothing is contacted yet."""
    if config.type == "sql":
        return SqlTables(config, store)
    from meltline.adapters.catalogs.rest.tables import RestTables  # noqa: PLC0415 - PyIceberg

    return RestTables(config, store)
