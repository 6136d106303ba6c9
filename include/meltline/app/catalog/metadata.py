"""Loads metadata files: many at once, each failure its own table's."""

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
_LARGE = 4 * 1024 * 1024  # bytes; taken apart, a document is some ten times as large
_one_large = Lock()
_LOOKS = 5  # at a table whose metadata file is gone before it is read

Loaded = Mapping[CatalogEntry, TableMetadata | MeltlineError]
"""Tables as they were loaded, or why one could not be had."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def load_state(store: ObjectReader, name: TableName, location: str) -> TableMetadata:
    """One table, from one metadata file.

    Raises:
        MetadataMissing: There is no such file.
        MetadataUnreadable: It does not follow the spec.
        FormatUnsupported: It is of a format Meltline does not handle.
        StoreRefused: The store would not give it.
    """
    return load_document(store, name, location)[0]


def load_if_readable(store: ObjectReader, name: TableName, location: str) -> TableMetadata | None:
    """One table, from one metadata file; None where it cannot be had."""
    try:
        return load_state(store, name, location)
    except MeltlineError:
        return None


def load_document(
    store: ObjectReader, name: TableName, location: str, *, with_namesakes: bool = False
) -> tuple[TableMetadata, Mapping[str, Any]]:
    """One table and the document that says so. Raises as `load_state` does.

    Args:
        store: Where it lies.
        name: Under which name the catalog has it.
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
    """The UUID of a table of a format that cannot be managed, and the folders that it states.

    Both are empty where the metadata file does not state them.
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
    """The tables that could be had."""
    return [state for state in answers if isinstance(state, TableMetadata)]


def errors_of(loaded: Loaded) -> dict[CatalogEntry, MeltlineError]:
    """Why the others could not be had."""
    return {at: answer for at, answer in loaded.items() if isinstance(answer, MeltlineError)}


def load_states(store: ObjectReader, entries: Iterable[CatalogEntry]) -> Loaded:
    """Every table's state, or why it could not be had. Two snapshots may have one id."""
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
    """Every listed table's state: as it was listed, or a newer one where that is gone already."""
    return _followed(catalogs, store, load_states(store, entries))


def _followed(catalogs: Mapping[str, Catalog], store: ObjectReader, loaded: Loaded) -> Loaded:
    """Looks again, a few times, for tables that moved on between their listing and their reading.

    Some engines delete a metadata file as soon as a commit or two have replaced it. Each answer
    stands for the entry that was asked for.
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
    """Those of some tables that are listed elsewhere than when they were read last, and where."""
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
    """Every table's state; where its metadata file has not moved, without reading any file.

    Iceberg never changes a metadata file, so what it said when it was first seen is remembered;
    that what lies there is still the same object, by its size, time and ETag, is asked of the
    store: a catalog that numbers its metadata files may use a path again. This serves the planner
    alone: gates and re-proofs read the files.
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
        # As it was before it was read: where another took its place meanwhile, it is read again.
        if stored and stored.bytes == state.metadata_bytes <= _MOST_REMEMBERED:
            content = zlib.compress(json.dumps(_needed_of(raw)).encode(), 1)
            fresh[location] = RememberedMetadata(location, stored.bytes, content, stored.version)
        return state

    states = dict(zip(entries, load_concurrently(load, entries), strict=True))
    observations.save_documents(list(fresh.values()), current=locations)
    return _followed(catalogs, store, states)


def recalled(name: TableName, document: RememberedMetadata) -> TableMetadata | None:
    """A table by what the ledger remembers; None where the ledger's copy has come to harm.

    Raises:
        MetadataUnreadable: It does not follow the spec.
        FormatUnsupported: It is of a format Meltline does not handle.
    """
    with _room_for(document.size):
        raw = _unpacked(document)
        if not raw:
            return None
        return parse_table(name, document.location, document.size, raw, with_namesakes=True)


def ref_targets(document: RememberedMetadata) -> set[object]:
    """The snapshots that the refs of a remembered table name, at a third of `recalled`'s cost."""
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
    """Runs small reads, in parallel where the store lets one wait; answers in the order asked."""
    return list(thread_map(work, requests, threads))
