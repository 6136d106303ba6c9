"""Loads metadata files: many at once, each failure its own table's."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, TypeVar

from meltline.app.services import ReadContext
from meltline.concurrency import THREADS, thread_map
from meltline.domain.errors import CatalogUnlistable, MeltlineError, MetadataMissing
from meltline.domain.iceberg.metadata_editor import parse_json, unreadable
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, ObjectReader, RememberedMetadata

_MOST_REMEMBERED = 32 * 1024 * 1024  # bytes; a larger file is read each time
_LARGE = 4 * 1024 * 1024  # bytes; taken apart, a document is some ten times as large
_one_large = Lock()
_LOOKS = 5  # at a table whose metadata file is gone before it is read

Asked = TypeVar("Asked")
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


def load_document(
    store: ObjectReader, name: TableName, location: str
) -> tuple[TableMetadata, Mapping[str, Any]]:
    """One table and the document that says so. Raises as `load_state` does."""
    content = _read(store, name, location)
    with _room_for(len(content)):
        document = parse_json(name, location, content)
        state = parse_table(name, location, len(content), document)
    assert isinstance(document, dict)  # parse_table refuses all else
    return state, document


def _room_for(size: int) -> AbstractContextManager[object]:
    return _one_large if size > _LARGE else nullcontext()


def _read(store: ObjectReader, name: TableName, location: str) -> bytes:
    try:
        return store.read(location)
    except FileNotFoundError as missing:
        raise unreadable(name, location, "no such file", MetadataMissing) from missing
    except OSError as error:
        raise unreadable(name, location, f"{type(error).__name__}: {error}") from error


def load_states(
    store: ObjectReader, entries: Iterable[CatalogEntry]
) -> Mapping[CatalogEntry, TableMetadata | MeltlineError]:
    """Every table's state, or why it could not be had."""
    pointers = list(entries)

    def load(pointer: CatalogEntry) -> TableMetadata | MeltlineError:
        try:
            return load_state(store, pointer.name, pointer.metadata_location)
        except MeltlineError as refused:
            return refused

    return dict(zip(pointers, load_concurrently(load, pointers), strict=True))


def standing_states(
    context: ReadContext, entries: Iterable[CatalogEntry]
) -> Mapping[CatalogEntry, TableMetadata | MeltlineError]:
    """Every listed table's state: as it was listed, or a newer one where that is gone already."""
    return _followed(context, load_states(context.store, entries))


def _followed(
    context: ReadContext, loaded: Mapping[CatalogEntry, TableMetadata | MeltlineError]
) -> Mapping[CatalogEntry, TableMetadata | MeltlineError]:
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
        try:
            listings = {c: context.catalogs[c].listing() for c in {e.name.catalog for e in missing}}
        except CatalogUnlistable:
            break
        now = {pointer: listings[pointer.name.catalog].of(pointer.name) for pointer in missing}
        newer = {
            pointer: at for pointer, at in now.items() if at is not None and at != newest[pointer]
        }
        if not newer:
            break
        newest |= newer
        again = load_states(context.store, newer.values())
        states |= {pointer: again[at] for pointer, at in newer.items()}
    return states


def remembered_states(
    context: ReadContext, entries: Iterable[CatalogEntry]
) -> Mapping[CatalogEntry, TableMetadata | MeltlineError]:
    """Every table's state; where its metadata file has not moved, without reading any file.

    Iceberg never changes a metadata file, so what it said when it was first seen is remembered;
    that what lies there is still the same object, by its size, time and ETag, is asked of the
    store: a catalog that numbers its metadata files may use a path again. This serves the planner
    alone: gates and re-proofs read the files.
    """
    pointers = list(entries)
    documents = context.control.observations.documents(
        [pointer.metadata_location for pointer in pointers]
    )
    fresh: dict[str, RememberedMetadata] = {}

    def load(pointer: CatalogEntry) -> TableMetadata | MeltlineError:
        location = pointer.metadata_location
        try:
            document, stored = documents.get(location), context.store.measure(location)
            if document and stored and stored.version == document.version:
                with _room_for(document.size):
                    raw = json.loads(zlib.decompress(document.content))
                    return parse_table(pointer.name, location, document.size, raw)
        except (zlib.error, ValueError):  # the ledger's copy has come to harm: the file tells
            pass
        except MeltlineError as refused:
            return refused
        try:
            state, raw = load_document(context.store, pointer.name, location)
        except MeltlineError as refused:
            return refused
        # As it was before it was read: where another took its place meanwhile, it is read again.
        if stored and stored.bytes == state.metadata_bytes <= _MOST_REMEMBERED:
            content = zlib.compress(json.dumps(_needed_of(raw)).encode(), 1)
            fresh[location] = RememberedMetadata(location, stored.bytes, content, stored.version)
        return state

    states = dict(zip(pointers, load_concurrently(load, pointers), strict=True))
    context.control.observations.save_documents(
        list(fresh.values()), current=[pointer.metadata_location for pointer in pointers]
    )
    return _followed(context, states)


def _needed_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    unused = ("schemas", "schema", "partition-specs", "partition-spec", "sort-orders")
    return {key: node for key, node in raw.items() if key not in unused}


def load_concurrently(
    work: Callable[[Asked], Answer], requests: Sequence[Asked], threads: int = THREADS
) -> list[Answer]:
    """Runs small reads, in parallel where the store lets one wait; answers in the order asked."""
    return list(thread_map(work, requests, threads))
