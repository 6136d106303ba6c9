"""Loads metadata files: many at once, each failure its own table's."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from meltline.domain.errors import MeltlineError, MetadataUnreadable
from meltline.domain.names import TableName
from meltline.domain.table import TableState, parse_table
from meltline.ports import CatalogEntry, ObjectStore

_THREADS = 16
_GZIP = b"\x1f\x8b"

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def load_state(store: ObjectStore, name: TableName, location: str) -> TableState:
    """One table, from one metadata file.

    Raises:
        MetadataUnreadable: The file is missing or does not follow the spec.
        FormatUnsupported: It is of a format Meltline does not handle.
        StoreRefused: The store would not give it.
    """
    try:
        content = store.read(location)
        plain = gzip.decompress(content) if content.startswith(_GZIP) else content
        document = json.loads(plain)
    except FileNotFoundError as missing:
        raise _unreadable(name, location, "no such file") from missing
    except (ValueError, EOFError, OSError, zlib.error) as odd:
        raise _unreadable(name, location, f"{type(odd).__name__}: {odd}") from odd
    return parse_table(name, location, len(content), document)


def _unreadable(name: TableName, location: str, found: str) -> MetadataUnreadable:
    return MetadataUnreadable(
        f"{name}: its metadata file cannot be read",
        object=location,
        expected="the JSON document that the catalog points to",
        found=found,
        next="restore the file, register an older one, or drop the table",
    )


def load_states(
    store: ObjectStore, entries: Iterable[CatalogEntry]
) -> Mapping[CatalogEntry, TableState | MeltlineError]:
    """Every table's state, or why it could not be had."""
    asked = list(entries)

    def load(entry: CatalogEntry) -> TableState | MeltlineError:
        try:
            return load_state(store, entry.name, entry.metadata_location)
        except MeltlineError as refused:
            return refused

    return dict(zip(asked, at_once(load, asked), strict=True))


def at_once(work: Callable[[Asked], Answer], asked: Sequence[Asked]) -> list[Answer]:
    """Runs small reads in parallel threads; answers come in the order asked."""
    if len(asked) < 2:
        return [work(one) for one in asked]
    with ThreadPoolExecutor(min(_THREADS, len(asked))) as pool:
        return list(pool.map(work, asked))
