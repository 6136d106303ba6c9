"""Tables behind a REST server under other names: nobody commits to a name that nobody knows."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from meltline.domain.iceberg.names import TableName


def rename(catalog: RestCatalog, source: TableName, target: TableName) -> None:
    """One request: all of it or nothing."""
    catalog.rename_table((*source.namespace, source.name), (*target.namespace, target.name))


@contextmanager
def under_another_name(catalog: RestCatalog, name: TableName) -> Iterator[TableName]:
    """A table under a name that nobody knows; afterwards it has its own again, unless it is gone.

    Killed in between it stays listed under the other one.
    """
    aside = TableName(name.catalog, name.namespace, f"{name.name}__aside_{uuid4().hex}")
    rename(catalog, name, aside)
    try:
        yield aside
    finally:
        with suppress(NoSuchTableError):
            rename(catalog, aside, name)
