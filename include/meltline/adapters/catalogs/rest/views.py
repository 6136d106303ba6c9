"""Views of a REST catalog: passed over as tables, and owners of their locations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError

from meltline.adapters.catalogs.silence import no_answer
from meltline.concurrency import thread_map
from meltline.domain.iceberg.names import TableName
from meltline.ports import VIEW, OtherOwner


def views_of(name: str, connect: Callable[[], RestCatalog]) -> Sequence[OtherOwner]:
    """The views of a catalog; none of a server that does not say that it has some.

    Args:
        name: The catalog's name.
        connect: Opens it.

    Raises:
        CatalogUnlistable: A view could not be listed or loaded.
    """
    try:
        catalog = connect()
        views = [TableName(name, levels, view) for levels, view in _names(catalog)]
        return list(thread_map(partial(_loaded, catalog), sorted(views)))
    except Exception as error:
        raise no_answer(name, "every view", error) from error


def _names(catalog: RestCatalog) -> Iterator[tuple[tuple[str, ...], str]]:
    waiting = list(catalog.list_namespaces())
    while waiting:
        levels = tuple(waiting.pop())
        with suppress(NoSuchNamespaceError):  # it has gone since it was listed
            waiting.extend(catalog.list_namespaces(levels))
            yield from ((levels, str(view[-1])) for view in catalog.list_views(levels))


def _loaded(catalog: RestCatalog, name: TableName) -> OtherOwner:
    metadata = catalog.load_view((*name.namespace, name.name)).metadata
    return OtherOwner(name, VIEW, metadata.location, uuid=str(metadata.view_uuid))


def is_view(catalog: RestCatalog, name: TableName) -> bool:
    """Whether a view has the name, where the server can tell."""
    try:
        return bool(catalog.view_exists((*name.namespace, name.name)))
    except Exception:  # few catalogs know views, and one that does not may say so in any way
        return False
