"""Builds a cold table's metadata: hot's snapshots, added in any order, unchanged (AR-33, AR-34).

Iceberg's own commits cannot do this: they refuse a snapshot that is older than the newest one. So
the whole document is written. It never loses or lowers what it contains: snapshots, schemas, specs,
tags, sequence numbers, row ids.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from meltline.domain.archive.archive import COLD_OF, Validity, archived_property
from meltline.domain.clone.clones import GC, copied_properties
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA, MAIN, STATISTICS
from meltline.domain.units import to_millis

Document = dict[str, Any]

_DESCRIPTIONS = (
    ("schemas", "schema-id", "current-schema-id"),
    ("partition-specs", "spec-id", "default-spec-id"),
    ("sort-orders", "order-id", "default-sort-order-id"),
)
_COUNTERS = ("last-sequence-number", "last-column-id", "last-partition-id", "next-row-id")
_FORMAT_1_ONLY = ("schema", "partition-spec")
_NOT_COPIED = ("meltline.", "history.expire.")


@dataclass(frozen=True)
class Registration:
    """A snapshot with a complete copy, ready to be registered in cold.

    Attributes:
        raw: Its JSON in hot's metadata.
        manifest_list: The copy of its list; empty for format 1 with inline manifests.
        manifests: The copies of inline manifests.
        statistics: The copies of its statistics files, by the originals' paths.
        validity: The interval in which it was main's head.
        files: As in `ArchivedSnapshot`; `bytes` and `rows` likewise.
    """

    raw: Mapping[str, Any]
    manifest_list: str
    manifests: tuple[str, ...]
    statistics: Mapping[str, str]
    validity: Validity
    files: int
    bytes: int
    rows: int
    files_copied: int = 0
    bytes_copied: int = 0

    @property
    def snapshot_id(self) -> int:
        """Its id, the same in both tiers."""
        return int(self.raw["snapshot-id"])

    def as_json(self) -> Document:
        """Returns its JSON for cold's metadata: the same as hot's, except for paths.

        Its parent id stays, even if the parent is missing. Every table with expired history looks
        like that, readers end there, and the history is joined if the parent is added later.
        """
        raw = deepcopy(dict(self.raw))
        if self.manifest_list:
            raw["manifest-list"] = self.manifest_list
        else:
            raw["manifests"] = list(self.manifests)
        return raw


@dataclass(frozen=True)
class Addition:
    """The content that one commit adds to a cold table.

    Attributes:
        hot: The hot table's metadata, in full.
        hot_uuid: The hot table's UUID.
        snapshots: The snapshots.
        marks: The properties that mark the table as one installation's.
    """

    hot: Mapping[str, Any]
    hot_uuid: str
    snapshots: Sequence[Registration] = field(default_factory=tuple)
    marks: Mapping[str, str] = field(default_factory=dict)


def first_document(
    addition: Addition, uuid: str, location: str, at: datetime, now: datetime
) -> Document:
    """Builds the metadata of a new cold table.

    Args:
        addition: Its first content.
        uuid: Its own UUID.
        location: Its location.
        at: When the copies were verified.
        now: By the clock that the catalog dates commits with.
    """
    empty = {
        "format-version": addition.hot["format-version"],
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": max(to_millis(now), addition.hot["last-updated-ms"]),
        "metadata-log": [],
    }
    return with_snapshots(empty, addition, at)


def with_snapshots(cold: Mapping[str, Any], addition: Addition, at: datetime) -> Document:
    """Builds the metadata of a cold table with additional snapshots, and all existing content.

    Args:
        cold: Its metadata before.
        addition: The new content; duplicates are added once.
        at: When the copies were verified.
    """
    hot, new = addition.hot, addition.snapshots
    merged = _described(dict(cold), hot)
    added = [registration.as_json() for registration in new]
    merged["snapshots"] = sorted(_merged(merged.get("snapshots"), added, "snapshot-id"), key=_age)
    merged["properties"] = _properties(cold, addition, at)
    merged["snapshot-log"] = _log(cold, hot, {s["snapshot-id"] for s in merged["snapshots"]})
    if merged["snapshots"]:
        merged["current-snapshot-id"] = merged["snapshots"][-1]["snapshot-id"]
        merged["refs"] = _refs(merged, hot, [registration.snapshot_id for registration in new])
    for key in STATISTICS:
        merged[key] = _merged(merged.get(key), _statistics(hot, key, new), "snapshot-id")
    return merged


def _age(snapshot: Mapping[str, Any]) -> tuple[int, int]:
    return snapshot["timestamp-ms"], snapshot.get("sequence-number") or 0


def _merged(
    old: Sequence[Mapping[str, Any]] | None, new: Iterable[Mapping[str, Any]], key: str
) -> list[Document]:
    """Merges two lists by id; for duplicates the later list wins."""
    by_id = {record[key]: dict(record) for record in [*(old or ()), *new]}
    return list(by_id.values())


# --- columns, partitions, orders ------------------------------------------------------------------


def _described(document: Document, hot: Mapping[str, Any]) -> Document:
    """Merges both tables' schemas, specs and sort orders; hot's current ones become current.

    Only these three are certain to fit each other. A snapshot is read by its own schema.
    """
    described = {**_format_1_lists(hot), **hot}
    for lists, key, current in _DESCRIPTIONS:
        document[lists] = _merged(document.get(lists), described[lists], key)
        document[current] = described[current]
    for counter in _COUNTERS:
        counts = [metadata[counter] for metadata in (document, hot) if counter in metadata]
        if counts:
            document[counter] = max(counts)
    document["format-version"] = max(document["format-version"], hot["format-version"])
    for key in _FORMAT_1_ONLY:
        document.pop(key, None)
        if document["format-version"] == 1:
            document[key] = hot[key]
    return document


def _format_1_lists(hot: Mapping[str, Any]) -> Document:
    """Returns the lists that the oldest tables of format 1 express in other fields."""
    lists: Document = {}
    if "schemas" not in hot:
        lists |= {"schemas": [{**hot["schema"], "schema-id": 0}], "current-schema-id": 0}
    if "partition-specs" not in hot:
        spec = {"spec-id": 0, "fields": hot["partition-spec"]}
        lists |= {"partition-specs": [spec], "default-spec-id": 0}
    if "sort-orders" not in hot:
        lists |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
    return lists


# --- what names snapshots -------------------------------------------------------------------------


def _log(cold: Mapping[str, Any], hot: Mapping[str, Any], archived: set[int]) -> list[Document]:
    """Merges the logs of when main was at which snapshot, as far as cold can answer.

    An entry tells readers that its snapshot was current until the next entry. So the last entry
    before a gap is followed by the hot snapshot that replaced it, which cold does not have. A query
    for a time in the gap then fails, instead of returning the snapshot from before the gap.
    """
    entries = {
        (logged["timestamp-ms"], logged["snapshot-id"]): dict(logged)
        for log in (cold, hot)
        for logged in log.get("snapshot-log") or ()
    }
    return with_gaps([entries[key] for key in sorted(entries, key=lambda key: key[0])], archived)


def with_gaps(log: Sequence[Document], archived: Collection[int]) -> list[Document]:
    """Returns the log's entries of snapshots in cold, and the entries that replaced those."""
    before = [None, *(logged["snapshot-id"] for logged in log)]
    return [
        logged
        for logged, previous in zip(log, before, strict=False)
        if logged["snapshot-id"] in archived or previous in archived
    ]


def _refs(
    document: Mapping[str, Any], hot: Mapping[str, Any], new: Sequence[int]
) -> dict[str, Document]:
    """Returns main and the tags. An existing tag stays; a second one gets its snapshot id appended.

    Ages are left out: nothing in cold expires automatically.
    """
    refs = {name: dict(ref) for name, ref in (document.get("refs") or {}).items()}
    refs[MAIN] = {"snapshot-id": document["current-snapshot-id"], "type": "branch"}
    for name, ref in (hot.get("refs") or {}).items():
        snapshot_id = ref["snapshot-id"]
        if ref["type"] != "tag" or snapshot_id not in new:
            continue
        is_taken = refs.get(name, {"snapshot-id": snapshot_id})["snapshot-id"] != snapshot_id
        free_name = f"{name}@{snapshot_id}" if is_taken else name
        refs[free_name] = {"snapshot-id": snapshot_id, "type": "tag"}
    return refs


def _statistics(hot: Mapping[str, Any], key: str, new: Sequence[Registration]) -> list[Document]:
    copies = {copy.snapshot_id: copy.statistics for copy in new}
    return [
        {**file, "statistics-path": copies[file["snapshot-id"]][file["statistics-path"]]}
        for file in hot.get(key) or ()
        if file["statistics-path"] in copies.get(file["snapshot-id"], {})
    ]


def _properties(cold: Mapping[str, Any], addition: Addition, at: datetime) -> dict[str, str]:
    """Returns hot's properties without those about that table itself, plus cold's own records."""
    hot = copied_properties(addition.hot.get("properties") or {})
    from_hot = {key: text for key, text in hot.items() if not key.startswith(_NOT_COPIED)}
    archived = (
        archived_property(
            registration.snapshot_id,
            registration.validity,
            files=registration.files,
            bytes=registration.bytes,
            rows=registration.rows,
            at=at,
            files_copied=registration.files_copied,
            bytes_copied=registration.bytes_copied,
        )
        for registration in addition.snapshots
    )
    guarded = {GC: "false", ENGINE_DELETES_METADATA: "false", COLD_OF: addition.hot_uuid}
    own = {**guarded, **addition.marks}
    return {**(cold.get("properties") or {}), **from_hot, **dict(archived), **own}
