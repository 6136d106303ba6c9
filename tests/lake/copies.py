"""Tables that share a UUID: copies by rewritten paths, moves, second registrations, old metadata.

`CALL rewrite_table_path` and `register_table` are Iceberg's own way to copy and move a table. Such
a copy has the UUID, the snapshot ids, the refs, the log and the sequence numbers of its source, and
none of its files.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes
from tests.lake.lake import WAREHOUSE, Lake, Table

Document = dict[str, Any]


def fresh_lake(**more: Any) -> Lake:
    """A lake in which no two metadata files have one name."""
    numbers = count(1)
    return Lake(unique=lambda: f"m{next(numbers)}", **more)


@dataclass(frozen=True)
class _Rewriting:
    """Copies a table's files to another folder, and has each name the others at their new place."""

    lake: Lake
    version: int
    source: str
    target: str

    def place(self, path: str) -> str:
        """Where a file of the table lies in the copy; one of another folder stays there."""
        inside = path.startswith(f"{self.source}/")
        return f"{self.target}{path[len(self.source) :]}" if inside else path

    def data(self, entry: Entry) -> Entry:
        moved = replace(entry, path=self.place(entry.path))
        is_there = entry.is_live and self.lake.store.size(entry.path) is not None
        if moved.path != entry.path and is_there:
            self.lake.store.write(moved.path, self.lake.store.read(entry.path))
        return moved

    def manifest(self, manifest: Manifest) -> Manifest:
        path = self.place(manifest.path)
        if path == manifest.path:
            return manifest
        entries = tuple(self.data(entry) for entry in manifest.entries)
        content = manifest_bytes(self.version, entries)
        self.lake.store.write(path, content)
        return replace(manifest, path=path, length=len(content), entries=entries)

    def manifests(self, named: Sequence[Manifest]) -> tuple[Manifest, ...]:
        return tuple(self.manifest(manifest) for manifest in named)

    def snapshot(self, snapshot: Document) -> None:
        """The list, the manifests and the files of a snapshot, as far as they are there."""
        moved = self.manifests(self.lake.manifests_of(snapshot))
        if "manifest-list" not in snapshot:
            self.lake.name_inline(dict(snapshot), moved)
            return
        old = snapshot["manifest-list"]
        new = self.place(old)
        if new != old and self.lake.store.size(old) is not None:
            self.lake.store.write(new, list_bytes(self.version, moved))
            self.lake.manifests[new] = moved

    def described(self, document: Document) -> None:
        """The files that describe an end version: its snapshots' and its statistics."""
        for snapshot in document["snapshots"]:
            self.snapshot(snapshot)
        for old in (file["statistics-path"] for file in _statistics(document)):
            if self.lake.store.size(old) is not None:
                self.lake.store.write(self.place(old), self.lake.store.read(old))

    def metadata(self, path: str, *, is_end: bool = False) -> str:
        """A metadata file at its new place; of the end version all that it refers to as well."""
        document = self.lake.document(path)
        if is_end:
            self.described(document)
        document["location"] = self.target
        for snapshot in document["snapshots"]:
            if "manifest-list" in snapshot:
                snapshot["manifest-list"] = self.place(snapshot["manifest-list"])
            else:
                snapshot["manifests"] = [self.place(path) for path in snapshot["manifests"]]
        for file in _statistics(document):
            file["statistics-path"] = self.place(file["statistics-path"])
        for entry in document["metadata-log"]:
            entry["metadata-file"] = self.place(entry["metadata-file"])
        new = self.place(path)
        self.lake.store.write(new, json.dumps(document).encode())
        return new


def _statistics(document: Document) -> list[Document]:
    return [*document["statistics"], *document["partition-statistics"]]


def rewritten(table: Table, location: str) -> str:
    """All of a table's files once more, in another folder. Returns its metadata file there.

    The metadata files of its log are copied as well, as far as they are there; of what only they
    refer to nothing is.
    """
    work = _Rewriting(table.lake, table.version, table.location, location)
    for old in (entry["metadata-file"] for entry in table.document["metadata-log"]):
        if work.place(old) != old and table.lake.store.size(old) is not None:
            work.metadata(old)
    return work.metadata(table.metadata_location, is_end=True)


def copied(table: Table, name: str, location: str = "") -> Table:
    """A copy of a table by rewritten paths, registered under a name of its own."""
    full = TableName.parse(name)
    place = location or f"{WAREHOUSE}/{'/'.join(full.namespace)}/{full.name}"
    return table.lake.register(name, rewritten(table, place))


def moved(table: Table, name: str, *, delete: bool = False) -> Table:
    """A table moved to another folder and name; an engine drops the old name.

    Args:
        table: It.
        name: Its new name.
        delete: Whether the engine deletes the old folder as well.
    """
    old = [stored.path for stored in table.lake.store.list(f"{table.location}/")]
    new = copied(table, name)
    table.drop()
    if delete:
        table.lake.store.delete(old)
    return new


def rewritten_with_log(table: Table, location: str) -> str:
    """A table's files in another folder, with the log that it had. Returns its metadata file."""
    log = [*table.document["metadata-log"]]
    now = table.document["last-updated-ms"]
    log.append({"timestamp-ms": now, "metadata-file": table.metadata_location})
    work = _Rewriting(table.lake, table.version, table.location, location)
    at = work.metadata(table.metadata_location, is_end=True)
    document = table.lake.document(at) | {"metadata-log": log}
    table.lake.store.write(at, json.dumps(document).encode())
    return at


def rewritten_in_place(table: Table, location: str) -> Table:
    """A tool rewrites a table's paths, and has its name stand for what it wrote."""
    table.catalog._tables[table.name] = rewritten_with_log(table, location)
    return table


def earlier(table: Table, commits: int) -> str:
    """The table's metadata file of so many commits ago."""
    return str(table.document["metadata-log"][-commits]["metadata-file"])


def set_back(table: Table, location: str) -> Table:
    """An engine drops a table, and registers older metadata of it under the same name."""
    table.drop()
    return table.lake.register(str(table.name), location)


def put_inline(table: Table) -> None:
    """Has every snapshot of a format 1 table name its manifests itself, without a list.

    As with `write.manifest-lists.enabled=false`, which old engines knew.
    """
    lake = table.lake

    def change(document: Document) -> None:
        for snapshot in document["snapshots"]:
            if (place := snapshot.pop("manifest-list", None)) is None:
                continue
            lake.name_inline(snapshot, lake.manifests[place])
            lake.store.delete([place])

    assert table.version == 1
    table.edit(change)


def put_list(table: Table, place: str) -> None:
    """Has the manifest list of the head lie at another place, as a tool of one's own might."""
    lake, old = table.lake, table.manifest_list(table.head)
    lake.store.write(place, lake.store.read(old))
    lake.manifests[place] = lake.manifests[old]

    def change(document: Document) -> None:
        for snapshot in document["snapshots"]:
            if snapshot["manifest-list"] == old:
                snapshot["manifest-list"] = place

    table.edit(change)
    lake.store.delete([old])


def left_over(lake: Lake, under: str = WAREHOUSE) -> set[str]:
    """Files that no table of any catalog refers to."""
    needed = lake.needed()
    return {path for path in lake.paths(under) if location_key(path) not in needed}
