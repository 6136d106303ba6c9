"""Loads table metadata files concurrently; a failure affects only its own table.

Everything that reads tables calls it. The planner may use remembered copies, gates and rechecks
read the files.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, TypeVar

from meltline.concurrency import thread_map
from meltline.domain.errors import CatalogUnlistable, MeltlineError, MetadataMissing
from meltline.domain.iceberg.metadata_editor import parse_json, unreadable
from meltline.domain.iceberg.metadata_parser import parse_table, stated_locations
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import (
    Catalog,
    CatalogEntry,
    ObjectReader,
    ObservationLedger,
    RememberedMetadata,
)

_MOST_REMEMBERED = 32 * 1024 * 1024  # bytes; a larger file is read each time
_LARGE = 4 * 1024 * 1024  # bytes; a parsed document takes some ten times as much memory
_one_large = Lock()
_LOOKS = 5  # attempts, if a metadata file is gone before it is read

Loaded = Mapping[CatalogEntry, TableMetadata | MeltlineError]
"""Loaded tables, or the error of each that failed."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def load_state(store: ObjectReader, name: TableName, location: str) -> TableMetadata:
    """Loads one table from one metadata file.

    Raises:
        MetadataMissing: The file does not exist.
        MetadataUnreadable: It does not follow the spec.
        FormatUnsupported: It is of a format that Meltline does not handle.
        StoreRefused: The store refused the read.
    """
    return load_document(store, name, location)[0]


def load_if_readable(store: ObjectReader, name: TableName, location: str) -> TableMetadata | None:
    """Loads one table from one metadata file; None if that fails."""
    try:
        return load_state(store, name, location)
    except MeltlineError:
        return None


def load_document(
    store: ObjectReader, name: TableName, location: str, *, with_namesakes: bool = False
) -> tuple[TableMetadata, Mapping[str, Any]]:
    """Loads one table and its metadata document. Raises as `load_state` does.

    Args:
        store: Has the file.
        name: The table's name in its catalog.
        location: Its metadata file.
        with_namesakes: Whether two snapshots may have one id (`TableMetadata.namesakes`).
    """
    content = _read(store, name, location)
    with _room_for(len(content)):
        document = parse_json(name, location, content)
        state = parse_table(name, location, len(content), document, with_namesakes=with_namesakes)
    assert isinstance(document, dict)  # parse_table refuses all else
    return state, document


def load_unmanaged(
    store: ObjectReader, name: TableName, location: str
) -> tuple[str, tuple[str, ...]]:
    """Reads the UUID and the stated folders of a table in an unsupported format.

    Both are empty if the metadata file does not state them.
    """
    document = parse_json(name, location, _read(store, name, location))
    if not isinstance(document, dict):
        return "", ()
    return str(document.get("table-uuid") or ""), stated_locations(location, document)


def _room_for(size: int) -> AbstractContextManager[object]:
    return _one_large if size > _LARGE else nullcontext()


def _read(store: ObjectReader, name: TableName, location: str) -> bytes:
    try:
        return store.read(location)
    except FileNotFoundError as missing:
        raise unreadable(name, location, "no such file", MetadataMissing) from missing
    except OSError as error:
        raise unreadable(name, location, f"{type(error).__name__}: {error}") from error


def metadata_of(answers: Iterable[TableMetadata | MeltlineError]) -> list[TableMetadata]:
    """Returns the tables that were loaded."""
    return [state for state in answers if isinstance(state, TableMetadata)]


def errors_of(loaded: Loaded) -> dict[CatalogEntry, MeltlineError]:
    """Returns the errors of the tables that were not loaded."""
    return {at: answer for at, answer in loaded.items() if isinstance(answer, MeltlineError)}


def load_states(store: ObjectReader, entries: Iterable[CatalogEntry]) -> Loaded:
    """Loads every table, or returns its error. Two snapshots may have one id."""
    pointers = list(entries)

    def load(pointer: CatalogEntry) -> TableMetadata | MeltlineError:
        try:
            at = pointer.metadata_location
            return load_document(store, pointer.name, at, with_namesakes=True)[0]
        except MeltlineError as refused:
            return refused

    return dict(zip(pointers, load_concurrently(load, pointers), strict=True))


def standing_states(
    catalogs: Mapping[str, Catalog], store: ObjectReader, entries: Iterable[CatalogEntry]
) -> Loaded:
    """Loads every listed table; a newer state if the listed metadata file is gone already."""
    return _followed(catalogs, store, load_states(store, entries))


def _followed(catalogs: Mapping[str, Catalog], store: ObjectReader, loaded: Loaded) -> Loaded:
    """Retries tables that moved between their listing and their read, a few times.

    Some engines delete a metadata file one or two commits after it was replaced. Each result
    belongs to the entry that was requested.
    """
    states = dict(loaded)
    newest = {pointer: pointer for pointer in states}
    for _ in range(_LOOKS):
        missing = [
            pointer for pointer, state in states.items() if isinstance(state, MetadataMissing)
        ]
        newer = _newer(catalogs, {pointer: newest[pointer] for pointer in missing})
        if not newer:
            break
        newest |= newer
        again = load_states(store, newer.values())
        states |= {pointer: again[at] for pointer, at in newer.items()}
    return states


def _newer(
    catalogs: Mapping[str, Catalog], newest: Mapping[CatalogEntry, CatalogEntry]
) -> dict[CatalogEntry, CatalogEntry]:
    """Returns the new entries of tables that moved since they were read last."""
    try:
        listings = {name: catalogs[name].listing() for name in {e.name.catalog for e in newest}}
    except CatalogUnlistable:
        return {}
    now = {pointer: listings[pointer.name.catalog].of(pointer.name) for pointer in newest}
    return {pointer: at for pointer, at in now.items() if at is not None and at != newest[pointer]}


def remembered_states(
    catalogs: Mapping[str, Catalog],
    store: ObjectReader,
    observations: ObservationLedger,
    entries: Sequence[CatalogEntry],
) -> Loaded:
    """Loads every table; a metadata file that has not moved is not read again.

    Iceberg never changes a metadata file, so its content is cached in the ledger. A catalog that
    numbers its metadata files may use a path again: so the store is asked whether the object is
    still the same, by size, time and ETag. Only the planner uses this: gates and purge rechecks
    read the files.
    """
    locations = [pointer.metadata_location for pointer in entries]
    documents = observations.documents(locations)
    fresh: dict[str, RememberedMetadata] = {}

    def load(pointer: CatalogEntry) -> TableMetadata | MeltlineError:
        location = pointer.metadata_location
        try:
            document, stored = documents.get(location), store.measure(location)
            if document and stored and stored.version == document.version:
                remembered = recalled(pointer.name, document)
                if remembered is not None:
                    return remembered
            state, raw = load_document(store, pointer.name, location, with_namesakes=True)
        except MeltlineError as refused:
            return refused
        # Measured before the read: if the object was replaced in between, the next run reads it
        # again.
        if stored and stored.bytes == state.metadata_bytes <= _MOST_REMEMBERED:
            content = zlib.compress(json.dumps(_needed_of(raw)).encode(), 1)
            fresh[location] = RememberedMetadata(location, stored.bytes, content, stored.version)
        return state

    states = dict(zip(entries, load_concurrently(load, entries), strict=True))
    observations.save_documents(list(fresh.values()), current=locations)
    return _followed(catalogs, store, states)


def recalled(name: TableName, document: RememberedMetadata) -> TableMetadata | None:
    """Returns a table from the ledger's cached copy; None if that copy is damaged.

    Raises:
        MetadataUnreadable: It does not follow the spec.
        FormatUnsupported: It is of a format that Meltline does not handle.
    """
    with _room_for(document.size):
        raw = _unpacked(document)
        if not raw:
            return None
        return parse_table(name, document.location, document.size, raw, with_namesakes=True)


def ref_targets(document: RememberedMetadata) -> set[object]:
    """Returns the snapshots that a cached table's refs name, at a third of `recalled`'s cost."""
    with _room_for(document.size):
        raw = _unpacked(document) or {}
        refs = (raw.get("refs") or {}).values()
        return {raw.get("current-snapshot-id"), *(ref.get("snapshot-id") for ref in refs)}


def _unpacked(document: RememberedMetadata) -> dict[str, Any] | None:
    try:
        raw: dict[str, Any] = json.loads(zlib.decompress(document.content))
    except (zlib.error, ValueError):
        return None
    return raw


def _needed_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    unused = ("schemas", "schema", "partition-specs", "partition-spec", "sort-orders")
    return {key: node for key, node in raw.items() if key not in unused}


def load_concurrently(
    work: Callable[[Request], Answer], requests: Sequence[Request], threads: int | None = None
) -> list[Answer]:
    """Runs small reads, in parallel if the store is slow; keeps the order of requests."""
    return list(thread_map(work, requests, threads))
