"""Commit times, staged honestly: a table written today gets the past that it describes.

Spark writes the table as it always does; then its head metadata file is written anew with other
times and the catalog is pointed at it. Snapshots, manifests, data files and every older metadata
file stay exactly as Spark wrote them.
"""

import json
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from meltline.domain.errors import MetadataUnreadable, PlanStale, TableNotFound, UsageInvalid
from meltline.domain.units import format_instant, from_millis, to_millis

_VERSION = re.compile(r"^(\d+)-[^/]+(?<!\.gz)\.metadata\.json$")


def local_path(location: str) -> Path:
    """The file behind a `file:` location, or behind a bare path.

    Raises:
        MetadataUnreadable: It does not lie on the local disk.
    """
    if location.startswith("file:/"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    if location.startswith("/"):
        return Path(location)
    raise MetadataUnreadable(
        "only tables on the local disk can be staged",
        object=location,
        expected="a file: location",
        found=location.partition(":")[0],
        next="stage the times before the table is copied elsewhere",
    )


def read_head(catalog_db: Path, catalog_name: str, namespace: str, table: str) -> dict[str, Any]:
    """The current metadata document of a table in a SQL catalog on SQLite.

    Raises:
        TableNotFound: The catalog has no such row.
    """
    location = _Row(catalog_db, catalog_name, namespace, table).location()
    return _read(location)


def stage_commit_times(
    catalog_db: Path,
    catalog_name: str,
    namespace: str,
    table: str,
    times: Mapping[int, datetime],
) -> None:
    """Moves the commits of a table to the given instants, as its newest metadata tells them.

    Nobody may write to the table meanwhile; if somebody does, nothing is changed.

    Args:
        catalog_db: The SQLite file of the catalog.
        catalog_name: The name in the catalog's rows.
        namespace: The namespace, levels joined by dots.
        table: The table.
        times: Snapshot id to the instant of its commit. Snapshots that are not named keep theirs.
            What happened between two commits (a tag, a rollback, a property) stays between them.

    Raises:
        TableNotFound: The catalog has no such table.
        UsageInvalid: A snapshot is unknown, or the times would change the order of the commits.
        MetadataUnreadable: The metadata file is not a local, uncompressed one.
        PlanStale: Somebody committed to the table meanwhile.
    """
    row = _Row(catalog_db, catalog_name, namespace, table)
    old = row.location()
    document = _read(old)
    folder, _, name = old.rpartition("/")
    version = _VERSION.match(name)
    if version is None:
        raise MetadataUnreadable(
            "the metadata file's name carries no version to count on from",
            object=old,
            expected="NNNNN-uuid.metadata.json",
            found=name,
            next="let Spark commit to the table once, without metadata compression",
        )
    staged = _restaged(document, _Timeline.of(document, times), old)
    new = f"{folder}/{int(version[1]) + 1:05d}-{uuid4()}.metadata.json"
    with local_path(new).open("x", encoding="utf-8") as file:
        json.dump(staged, file)
    try:
        row.swap(old, new)
    except BaseException:
        local_path(new).unlink()
        raise


@dataclass(frozen=True)
class _Timeline:
    """Old milliseconds to new ones, without changing the order of anything."""

    commits: Mapping[tuple[int, int], int]
    """Snapshot id and when it was made, to when it is to have been made."""
    anchors: tuple[tuple[int, int], ...]
    """The same without ids, oldest first."""

    @classmethod
    def of(cls, document: Mapping[str, Any], times: Mapping[int, datetime]) -> "_Timeline":
        made = {s["snapshot-id"]: s["timestamp-ms"] for s in document.get("snapshots", [])}
        unknown = sorted(times.keys() - made.keys())
        if unknown:
            raise UsageInvalid(
                "times were given for snapshots that the table does not have",
                object=document["table-uuid"],
                expected=f"some of its {len(made)} snapshots",
                found=", ".join(map(str, unknown)),
                next="take the ids from the table's snapshots",
            )
        commits = {
            (id, old): to_millis(times[id]) if id in times else old for id, old in made.items()
        }
        anchors = sorted((old, new) for (_, old), new in commits.items())
        for (old, new), (later_old, later_new) in pairwise(anchors):
            if later_new <= new and (old, new) != (later_old, later_new):
                raise UsageInvalid(
                    "the times would change the order of the commits",
                    object=document["table-uuid"],
                    expected=f"a time after {format_instant(from_millis(new))}",
                    found=format_instant(from_millis(later_new)),
                    next="give every commit a later time than the one before it",
                )
        return cls(commits, tuple(anchors))

    def at(self, millis: int, snapshot: int | None = None) -> int:
        """The staged time of what happened at `millis`, be it the commit of `snapshot` or not."""
        if snapshot is not None and (snapshot, millis) in self.commits:
            return self.commits[snapshot, millis]
        if not self.anchors:
            return millis
        next = bisect_right(self.anchors, millis, key=lambda anchor: anchor[0])
        old, new = self.anchors[max(next - 1, 0)]  # before the first commit: as long before it
        moved = new + millis - old
        if 0 < next < len(self.anchors):
            moved = min(moved, self.anchors[next][1] - 1)
        return moved


def _restaged(document: Mapping[str, Any], timeline: _Timeline, location: str) -> dict[str, Any]:
    """The document with other times, its former self in the log, all else as it was."""

    def moved(entry: Mapping[str, Any]) -> dict[str, Any]:
        when = timeline.at(entry["timestamp-ms"], entry.get("snapshot-id"))
        return {**entry, "timestamp-ms": when}

    updated = timeline.at(document["last-updated-ms"])
    log = [moved(entry) for entry in document.get("metadata-log", [])]
    staged = {
        **document,
        "last-updated-ms": updated,
        "metadata-log": [*log, {"timestamp-ms": updated, "metadata-file": location}],
    }
    for key in ("snapshots", "snapshot-log"):
        if key in document:
            staged[key] = [moved(entry) for entry in document[key]]
    return staged


def _read(location: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(local_path(location).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MetadataUnreadable(
            "the table's metadata file cannot be read",
            object=location,
            expected="a metadata file in plain JSON",
            found=str(error),
            next="check the warehouse folder",
        ) from error
    return document


@dataclass(frozen=True)
class _Row:
    """The table's row in the SQL catalog, which says where its metadata is."""

    catalog_db: Path
    catalog_name: str
    namespace: str
    table: str

    def location(self) -> str:
        with closing(sqlite3.connect(self.catalog_db, timeout=30)) as connection:
            found = connection.execute(
                "SELECT metadata_location FROM iceberg_tables"
                " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
                (self.catalog_name, self.namespace, self.table),
            ).fetchone()
        if found is None or found[0] is None:
            raise TableNotFound(
                "the catalog has no such table",
                object=f"{self.catalog_name}.{self.namespace}.{self.table}",
                expected=f"a row in {self.catalog_db.name}",
                found="none",
                next="check the names: the catalog's is the one in its rows",
            )
        return str(found[0])

    def swap(self, old: str, new: str) -> None:
        with closing(sqlite3.connect(self.catalog_db, timeout=30)) as connection, connection:
            changed = connection.execute(
                "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
                " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
                " AND metadata_location = ?",
                (new, old, self.catalog_name, self.namespace, self.table, old),
            ).rowcount
        if changed != 1:
            raise PlanStale(
                "somebody committed to the table while its times were staged",
                object=f"{self.catalog_name}.{self.namespace}.{self.table}",
                expected=old,
                found=self.location(),
                next="stage the times again when nobody writes",
            )
