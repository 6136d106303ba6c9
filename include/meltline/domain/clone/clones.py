"""Builds clones: independent tables over the files of another table (TT-33, ML-22, DS-13, C-24).

A clone begins with one snapshot of its source and no earlier history. Nothing is copied: its first
metadata file references the manifest list of the source's snapshot. Tables that share files get
`gc.enabled=false`, so that engines may not purge files that the other table needs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.domain.drop.drops import KEYS
from meltline.domain.iceberg.metadata_editor import NextMetadata, first_file
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import (
    ENGINE_DELETES_METADATA,
    MAIN,
    STATISTICS,
    TableMetadata,
)
from meltline.domain.retention.policy import HOLD
from meltline.domain.units import format_instant, to_millis

GC = "gc.enabled"
GC_BEFORE = "meltline.gc-enabled-before"
"""The value of `gc.enabled` before a table shared files; `NOT_SET` if it was not set."""

OWNER_GC = "meltline.owner-gc"
"""`false`: the owner forbids deletions, also while `gc.enabled` is Meltline's own setting."""

NOT_SET = "not set"
_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_CLONED = "meltline.cloned"
_SHARED = "meltline.share"
_SHARED_UUID = f"{_SHARED}.of-uuid"
CLONED_FROM = f"{_CLONED}-from"
CLONED_UUID = f"{_CLONED}-from-uuid"
CLONED_SNAPSHOT = f"{_CLONED}-snapshot-id"
CLONED_AT = f"{_CLONED}-at"
_FORMAT_WITHOUT_NUMBER = 3
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+|^[._]+")

Document = Mapping[str, Any]


# --- engines keep their hands off -----------------------------------------------------------------


def is_guarded(properties: Mapping[str, str]) -> bool:
    """Whether engines refuse to expire and purge the table."""
    return properties.get(GC, "true").lower() != "true"  # as Java reads it: invalid is false


def owner_guard(properties: Mapping[str, str], *, recorded: bool) -> str:
    """Returns the property by which a table's owner forbids deleting its files; empty for none.

    `gc.enabled=false` is the format's statement that others may need the files. It is Meltline's
    own only if its mark is beside it, and if the control ledger has recorded it (`recorded`): tools
    copy properties from table to table.
    """
    if properties.get(OWNER_GC, "true").lower() != "true":  # an odd word keeps
        return OWNER_GC
    is_ours = recorded and (GC_BEFORE in properties or _SHARED_UUID in properties)
    return GC if is_guarded(properties) and not is_ours else ""


def guarded(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties to set so that engines refuse; empty if they do already."""
    if is_guarded(properties):
        return {}
    return {GC: "false", GC_BEFORE: properties.get(GC, NOT_SET)}


def unguarded(properties: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the properties to set and to remove once a table no longer shares files.

    If the owner set `gc.enabled=false`, it stays.
    """
    before = properties.get(GC_BEFORE)
    if before is None:
        return {}, ()
    if before == NOT_SET:
        return {}, (GC, GC_BEFORE)
    return {GC: before}, (GC_BEFORE,)


# --- the new table's metadata ---------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The columns, partitioning and sort order of a table at some point, by their ids.

    An id is None if it is unknown.
    """

    schema_id: int | None
    spec_id: int | None = None
    order_id: int | None = None


@dataclass(frozen=True)
class Source:
    """The source of a clone.

    Attributes:
        state: The source, from one metadata file, and `document`, that file.
        snapshot_id: The snapshot that it begins with; None for an empty table.
        columns: Its columns then; None for the current ones.
    """

    state: TableMetadata
    document: Document
    snapshot_id: int | None
    columns: Columns | None = None


@dataclass(frozen=True)
class Identity:
    """The identity of a clone: its name, UUID and location."""

    name: TableName
    uuid: str
    location: str


def new_location(folder: str, name: str, uuid: str) -> str:
    """Returns a location that no other table has or had: the new table's UUID is part of it."""
    return f"{folder.rstrip('/')}/{spelled(name)}-{uuid}"


def spelled(name: str) -> str:
    """Makes a part of a name valid as a folder in every store; for people only."""
    return _UNSAFE.sub("-", name).lstrip("-") or "-"


def first_metadata(source: Source, own: Identity, now: datetime, unique: str) -> NextMetadata:
    """Builds a clone's first metadata file.

    Args:
        source: The source table and snapshot.
        own: The clone's own identity.
        now: By the clock that the catalog dates commits with; its history begins then.
        unique: A new UUID for the file's name.

    Raises:
        MetadataUnreadable: The table requires a compression that Iceberg does not know.
    """
    at = first_moment(source, now)
    properties = {
        **_guarded_copy(source.state.properties, shares=source.snapshot_id is not None),
        **_provenance(source.state, source.snapshot_id, at),
    }
    return first_file(own.name, document_of(source, own, at, properties), unique)


def first_moment(source: Source, now: datetime) -> datetime:
    """Returns when a new table's history begins: now, and never before its snapshot's commit."""
    if source.snapshot_id is None:
        return now
    return max(now, source.state.snapshots[source.snapshot_id].committed_at)


def document_of(
    source: Source, own: Identity, at: datetime, properties: Mapping[str, str]
) -> dict[str, Any]:
    """Builds the metadata of a new table over its source's files; its history begins at `at`."""
    document = only_snapshot(source.document, source.snapshot_id)
    document |= _columns(source.document, source.columns) if source.columns else {}
    first = {"timestamp-ms": to_millis(at), "snapshot-id": source.snapshot_id}
    return document | {
        "table-uuid": own.uuid,
        "location": own.location,
        "last-updated-ms": to_millis(at),
        "metadata-log": [],
        "snapshot-log": [] if source.snapshot_id is None else [first],
        "properties": {**properties, ENGINE_DELETES_METADATA: "false"},
    }


def _guarded_copy(properties: Mapping[str, str], *, shares: bool) -> dict[str, str]:
    """Returns a source's properties for its clone; a clone without a snapshot shares no files."""
    copied = copied_properties(properties)
    if shares:
        return {**copied, **guarded(copied)}
    updates, removals = unguarded(copied)
    return {**{key: text for key, text in copied.items() if key not in removals}, **updates}


def _provenance(state: TableMetadata, snapshot_id: int | None, at: datetime) -> dict[str, str]:
    origin = {CLONED_FROM: str(state.name), CLONED_UUID: state.uuid, CLONED_AT: format_instant(at)}
    return origin if snapshot_id is None else origin | {CLONED_SNAPSHOT: str(snapshot_id)}


def copied_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns a table's properties without those about that table itself.

    Left out are its write paths, the facts of a drop, holds, consumers, shares and its origin.
    """
    own = (f"{HOLD}.", "meltline.snapshot-hold.", "meltline.consumer.", _SHARED, _CLONED)
    left_out = {*KEYS, *_PATHS, HOLD}
    return {
        key: text
        for key, text in properties.items()
        if key not in left_out and not key.startswith(own)
    }


def only_snapshot(document: Document, snapshot_id: int | None) -> dict[str, Any]:
    """Returns the document with that one snapshot, on main, and no other references to snapshots.

    Sequence numbers and row ids continue from the document's: files written next are newer than
    every file that the snapshot references.
    """
    copy = dict(document)
    snapshots = [dict(s) for s in copy.get("snapshots") or [] if s["snapshot-id"] == snapshot_id]
    for snapshot in snapshots:
        snapshot.pop("parent-snapshot-id", None)
    copy["snapshots"] = snapshots
    copy["current-snapshot-id"] = snapshot_id
    copy["refs"] = {MAIN: {"snapshot-id": snapshot_id, "type": "branch"}}
    if snapshot_id is None:
        copy["refs"] = {}
        if copy["format-version"] < _FORMAT_WITHOUT_NUMBER:
            copy["current-snapshot-id"] = -1
    for key in STATISTICS:
        if key in copy:
            copy[key] = []
    return copy


# --- columns as they were -------------------------------------------------------------------------


def columns_then(document: Document, snapshot_id: int | None, earlier: Document | None) -> Columns:
    """Returns the columns of a table at a point of its past.

    Args:
        document: Its metadata.
        snapshot_id: The snapshot that was current then.
        earlier: The metadata file that was current then; None if it is not available. Then the
            snapshot's schema is used.
    """
    if earlier is not None and earlier.get("current-schema-id") is not None:
        return Columns(
            earlier["current-schema-id"],
            earlier.get("default-spec-id"),
            earlier.get("default-sort-order-id"),
        )
    raw = (s for s in document.get("snapshots") or [] if s["snapshot-id"] == snapshot_id)
    return Columns(next((snapshot.get("schema-id") for snapshot in raw), None))


def _columns(document: Document, columns: Columns) -> dict[str, Any]:
    """Returns the fields that make these columns current.

    Empty if the metadata no longer describes them, or if no partitioning of the table fits them.
    Then the current columns stay, under which every row is readable.
    """
    schema = _by_id(document, "schemas", "schema-id", columns.schema_id)
    if schema is None or columns.schema_id == document.get("current-schema-id"):
        return {}
    fields = frozenset(_field_ids(schema))
    spec = _fitting(
        document,
        "partition-specs",
        "spec-id",
        (columns.spec_id, document["default-spec-id"]),
        fields,
    )
    order = _fitting(
        document,
        "sort-orders",
        "order-id",
        (columns.order_id, document["default-sort-order-id"]),
        fields,
    )
    if spec is None or order is None:
        return {}
    updates: dict[str, Any] = {
        "current-schema-id": columns.schema_id,
        "default-spec-id": spec["spec-id"],
        "default-sort-order-id": order["order-id"],
    }
    # Format 1 repeats both in fields of their own, for old readers.
    legacy = {"schema": schema, "partition-spec": spec["fields"]}
    return updates | {key: field for key, field in legacy.items() if key in document}


def _fitting(
    document: Document, key: str, id: str, preferred: Sequence[object], fields: frozenset[int]
) -> Document | None:
    """Returns the first preferred record, else the newest, whose columns all exist."""
    every: Sequence[Document] = document.get(key) or []
    newest_first = sorted(every, key=lambda number: int(number[id]), reverse=True)
    first = [record for number in preferred if (record := _by_id(document, key, id, number))]
    for record in (*first, *newest_first):
        sources = (s for field in record["fields"] for s in _sources(field))
        if fields.issuperset(sources):
            return record
    return None


def _sources(field: Document) -> Sequence[int]:
    """Returns the columns of a partition or sort field: format 3 allows several."""
    several: Sequence[int] = field.get("source-ids") or []
    return several or [field["source-id"]]


def _by_id(document: Document, key: str, id: str, record_id: object) -> Document | None:
    records: Sequence[Document] = document.get(key) or []
    return next((record for record in records if record.get(id) == record_id), None)


def _field_ids(kind: object) -> list[int]:
    """Returns the ids of all fields of a type, including nested ones."""
    if not isinstance(kind, Mapping):
        return []
    field_ids: list[int] = []
    for field in kind.get("fields") or []:
        field_ids += [field["id"], *_field_ids(field["type"])]
    for part in ("element", "key", "value"):
        if part in kind:
            field_ids += [kind[f"{part}-id"], *_field_ids(kind[part])]
    return field_ids
