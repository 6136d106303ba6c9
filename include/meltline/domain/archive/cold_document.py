"""A cold table's metadata: snapshots of hot, added in any order, each as it was (AR-33, AR-34).

Iceberg's own commits cannot do it: they refuse a snapshot that is older than the newest one. So
the document is written whole. Nothing that it holds ever goes or falls: snapshots, schemas, specs,
tags, sequence numbers, row ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from meltline.domain.archive.archive import COLD_OF, Validity, archived_property
from meltline.domain.clone.clones import ENGINE_DELETES_METADATA, GC, copied_properties
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.units import to_millis

Document = dict[str, Any]

_DESCRIPTIONS = (
    ("schemas", "schema-id", "current-schema-id"),
    ("partition-specs", "spec-id", "default-spec-id"),
    ("sort-orders", "order-id", "default-sort-order-id"),
)
_COUNTERS = ("last-sequence-number", "last-column-id", "last-partition-id", "next-row-id")
_FORMAT_1_ONLY = ("schema", "partition-spec")
_STATISTICS = ("statistics", "partition-statistics")
_NOT_COPIED = ("meltline.", "history.expire.")


@dataclass(frozen=True)
class Registration:
    """A snapshot whose copy is whole, as it is to stand in cold.

    Attributes:
        raw: As hot's metadata has it.
        manifest_list: The copy of its list; empty where format 1 names manifests one by one.
        manifests: Then their copies.
        statistics: The copies of its statistics files, by the originals' paths.
        validity: When readers of main saw it.
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
        """As cold's metadata has it: paths aside, as hot's.

        Its parent stays named, there or not: that is how every table looks whose history has been
        expired, readers end there, and the line closes when the parent comes later.
        """
        made = deepcopy(dict(self.raw))
        if self.manifest_list:
            made["manifest-list"] = self.manifest_list
        else:
            made["manifests"] = list(self.manifests)
        return made


@dataclass(frozen=True)
class Addition:
    """What one commit adds to a cold table.

    Attributes:
        hot: The hot table's metadata, in full.
        hot_uuid: The hot table's UUID.
        snapshots: The snapshots.
    """

    hot: Mapping[str, Any]
    hot_uuid: str
    snapshots: Sequence[Registration] = field(default_factory=tuple)


def first_document(
    addition: Addition, uuid: str, location: str, at: datetime, now: datetime
) -> Document:
    """The metadata of a new cold table.

    Args:
        addition: What it begins with.
        uuid: Its own UUID.
        location: Where it lies.
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
    """The metadata of a cold table with more snapshots in it, and all that it had.

    Args:
        cold: What it was.
        addition: What comes to it; what it has already, it has once.
        at: When the copies were verified.
    """
    hot, new = addition.hot, addition.snapshots
    made = _described(dict(cold), hot)
    added = [one.as_json() for one in new]
    made["snapshots"] = sorted(_merged(made.get("snapshots"), added, "snapshot-id"), key=_age)
    made["properties"] = _properties(cold, addition, at)
    made["snapshot-log"] = _log(cold, hot, {s["snapshot-id"] for s in made["snapshots"]})
    if made["snapshots"]:
        made["current-snapshot-id"] = made["snapshots"][-1]["snapshot-id"]
        made["refs"] = _refs(made, hot, [one.snapshot_id for one in new])
    for key in _STATISTICS:
        made[key] = _merged(made.get(key), _statistics(hot, key, new), "snapshot-id")
    return made


def _age(snapshot: Mapping[str, Any]) -> tuple[int, int]:
    return snapshot["timestamp-ms"], snapshot.get("sequence-number") or 0


def _merged(
    old: Sequence[Mapping[str, Any]] | None, new: Iterable[Mapping[str, Any]], key: str
) -> list[Document]:
    """Two lists as one, by id; what both have is as the later one has it."""
    found = {one[key]: dict(one) for one in [*(old or ()), *new]}
    return list(found.values())


# --- columns, partitions, orders ------------------------------------------------------------------


def _described(made: Document, hot: Mapping[str, Any]) -> Document:
    """What both know of columns, partitions and orders; hot's present ones are the present ones.

    Only of these three is it sure that they fit each other. A snapshot is read by its own schema.
    """
    described = {**_format_1_lists(hot), **hot}
    for lists, key, current in _DESCRIPTIONS:
        made[lists] = _merged(made.get(lists), described[lists], key)
        made[current] = described[current]
    for counter in _COUNTERS:
        known = [one[counter] for one in (made, hot) if counter in one]
        if known:
            made[counter] = max(known)
    made["format-version"] = max(made["format-version"], hot["format-version"])
    for key in _FORMAT_1_ONLY:
        made.pop(key, None)
        if made["format-version"] == 1:
            made[key] = hot[key]
    return made


def _format_1_lists(hot: Mapping[str, Any]) -> Document:
    """What the oldest tables of format 1 say in other words."""
    made: Document = {}
    if "schemas" not in hot:
        made |= {"schemas": [{**hot["schema"], "schema-id": 0}], "current-schema-id": 0}
    if "partition-specs" not in hot:
        spec = {"spec-id": 0, "fields": hot["partition-spec"]}
        made |= {"partition-specs": [spec], "default-spec-id": 0}
    if "sort-orders" not in hot:
        made |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
    return made


# --- what names snapshots -------------------------------------------------------------------------


def _log(cold: Mapping[str, Any], hot: Mapping[str, Any], archived: set[int]) -> list[Document]:
    """When main was which snapshot, as far as cold can answer.

    An entry tells readers that its snapshot was current until the next entry. So behind the last
    one before a gap stands what followed in hot, which cold does not have: a reader who asks for
    a time in the gap is refused, instead of being given what was current before it.
    """
    entries = {
        (one["timestamp-ms"], one["snapshot-id"]): dict(one)
        for log in (cold, hot)
        for one in log.get("snapshot-log") or ()
    }
    line = [entries[key] for key in sorted(entries, key=lambda key: key[0])]
    before = [None, *(one["snapshot-id"] for one in line)]
    return [
        one
        for one, previous in zip(line, before[: len(line)], strict=True)
        if one["snapshot-id"] in archived or previous in archived
    ]


def _refs(
    made: Mapping[str, Any], hot: Mapping[str, Any], new: Sequence[int]
) -> dict[str, Document]:
    """main, and the tags. A name that is taken stays what it is; the other gets its id behind it.

    Ages are left out: nothing leaves cold by itself.
    """
    refs = {name: dict(ref) for name, ref in (made.get("refs") or {}).items()}
    refs[MAIN] = {"snapshot-id": made["current-snapshot-id"], "type": "branch"}
    for name, ref in (hot.get("refs") or {}).items():
        snapshot_id = ref["snapshot-id"]
        if ref["type"] != "tag" or snapshot_id not in new:
            continue
        taken = refs.get(name, {"snapshot-id": snapshot_id})["snapshot-id"] != snapshot_id
        kept = f"{name}@{snapshot_id}" if taken else name
        refs[kept] = {"snapshot-id": snapshot_id, "type": "tag"}
    return refs


def _statistics(hot: Mapping[str, Any], key: str, new: Sequence[Registration]) -> list[Document]:
    copies = {one.snapshot_id: one.statistics for one in new}
    return [
        {**one, "statistics-path": copies[one["snapshot-id"]][one["statistics-path"]]}
        for one in hot.get(key) or ()
        if one["statistics-path"] in copies.get(one["snapshot-id"], {})
    ]


def _properties(cold: Mapping[str, Any], addition: Addition, at: datetime) -> dict[str, str]:
    """Hot's, without what is said of that very table, and cold's own words about its snapshots."""
    hot = copied_properties(addition.hot.get("properties") or {})
    kept = {key: value for key, value in hot.items() if not key.startswith(_NOT_COPIED)}
    said = (
        archived_property(
            one.snapshot_id,
            one.validity,
            files=one.files,
            bytes=one.bytes,
            rows=one.rows,
            at=at,
            files_copied=one.files_copied,
            bytes_copied=one.bytes_copied,
        )
        for one in addition.snapshots
    )
    guarded = {GC: "false", ENGINE_DELETES_METADATA: "false", COLD_OF: addition.hot_uuid}
    return {**(cold.get("properties") or {}), **kept, **dict(said), **guarded}
