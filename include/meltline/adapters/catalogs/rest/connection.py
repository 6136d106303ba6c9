"""Connects to a REST catalog with PyIceberg's client.

Each process connects on its own, executors that need vended credentials included.
"""

from pyiceberg.catalog.rest import RestCatalog

from meltline.adapters.catalogs.pyiceberg_properties import reading_regular_files
from meltline.config.load import CatalogConfig


def connect(config: CatalogConfig) -> RestCatalog:
    """Creates PyIceberg's client, which fetches the server's configuration and logs in."""
    words = {
        "uri": config.uri,
        "warehouse": config.warehouse,
        **reading_regular_files(config.properties, config.warehouse),
    }
    return RestCatalog(config.name, **{key: word for key, word in words.items() if word})
