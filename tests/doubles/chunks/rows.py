"""Rows in memory: a data file's bytes are its rows, and a delete file's what it deletes.

Which rows a snapshot has follows Iceberg's rules of sequence numbers and partitions.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import UNBOUNDED
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.domain.iceberg.names import TableName
from meltline.ports import ObjectReader
from tests.doubles.manifest_files import PartitionSpec, read_avro

Row = tuple[tuple[int, Any], ...]
"""Values by field id, in order; those that are null are left out."""
_KINDS = {
    (0, False): FileKind.DATA,
    (1, False): FileKind.POSITION_DELETE,
    (1, True): FileKind.DELETION_VECTOR,
    (2, False): FileKind.EQUALITY_DELETE,
}


def row(values: Mapping[int, Any]) -> Row:
    """A row of some values by field id."""
    return tuple(sorted((column, value) for column, value in values.items() if value is not None))


def chunk_of(layout: ChunkLayout, values: Row) -> str:
    """The chunk in which a row lies."""
    moment = layout.column.instant(dict(values).get(layout.column.field_id))
    return UNBOUNDED if moment is None else layout.unit.label(layout.unit.floor(moment))


def data_bytes(rows: Iterable[Row]) -> bytes:
    """A data file that has these rows."""
    return json.dumps({"rows": [dict(values) for values in rows]}).encode()


def position_bytes(positions: Iterable[tuple[str, int]]) -> bytes:
    """A file of position deletes, or a deletion vector: data files and places in them."""
    return json.dumps({"positions": list(positions)}).encode()


def equality_bytes(keys: Iterable[Row]) -> bytes:
    """A file of equality deletes: it is about rows that have all of one key's values."""
    return json.dumps({"equal": [dict(key) for key in keys]}).encode()


def data_rows(content: bytes) -> list[Row]:
    """The rows of a data file's bytes."""
    return [_row(values) for values in json.loads(content)["rows"]]


def _row(written: Mapping[str, Any]) -> Row:
    return row({int(column): value for column, value in written.items()})


@dataclass(frozen=True)
class FileEntry:
    """One row of a manifest, what it inherits filled in.

    Attributes:
        partition: Its partition's values, in the order of its spec.
        referenced: The one data file that its deletes are about, where it says so.
    """

    path: str
    kind: FileKind
    status: EntryStatus
    snapshot_id: int
    sequence: int
    spec_id: int
    partition: tuple[Any, ...]
    referenced: str

    @property
    def is_live(self) -> bool:
        """Whether it keeps the file in its snapshot."""
        return self.status is not EntryStatus.DELETED

    def covers(self, data: "FileEntry", *, is_global: bool) -> bool:
        """Whether a delete file may be about a data file, as far as partitions tell."""
        return is_global or (self.spec_id, self.partition) == (data.spec_id, data.partition)


@dataclass(frozen=True)
class TableRows:
    """A table's metadata, and the rows of its snapshots."""

    table: TableName
    document: Mapping[str, Any]
    store: ObjectReader

    def snapshot(self, snapshot_id: int) -> Mapping[str, Any]:
        """A snapshot as it is written. Raises SyncRefused where there is none."""
        for snapshot in self.document["snapshots"]:
            if snapshot["snapshot-id"] == snapshot_id:
                written: Mapping[str, Any] = snapshot
                return written
        raise refused(self.table, f"there is no snapshot {snapshot_id}")

    @cached_property
    def _specs(self) -> Mapping[int, PartitionSpec]:
        ids = [spec["spec-id"] for spec in self.document["partition-specs"]]
        return {id: PartitionSpec.of(self.document, id) for id in ids}

    def spec(self, spec_id: int) -> PartitionSpec:
        """A partition spec."""
        return self._specs[spec_id]

    def entries(self, snapshot_id: int, *, own: bool = False) -> list[FileEntry]:
        """All entries of a snapshot's manifests; `own` is of those that it wrote itself."""
        at = self.snapshot(snapshot_id)["manifest-list"]
        return [
            _entry(manifest, file)
            for manifest in read_avro(self.store.read(at)).rows
            if not own or manifest["added_snapshot_id"] == snapshot_id
            for file in read_avro(self.store.read(manifest["manifest_path"])).rows
        ]

    def live(self, snapshot_id: int) -> list[FileEntry]:
        """The entries of the files that a snapshot has."""
        return [file for file in self.entries(snapshot_id) if file.is_live]

    def changed(self, snapshot_id: int) -> list[FileEntry]:
        """The entries of the files that a snapshot added and removed."""
        return [
            file
            for file in self.entries(snapshot_id, own=True)
            if file.status is not EntryStatus.EXISTING and file.snapshot_id == snapshot_id
        ]

    def line(self, head: int | None, after: int | None) -> list[int]:
        """Snapshots from one that came later, newest first, without the earlier one.

        Raises:
            SyncRefused: The later one does not come from the earlier one, as far as is known.
        """
        written: list[int] = []
        while head is not None and head != after:
            written.append(head)
            head = self.snapshot(head).get("parent-snapshot-id")
        if head != after:
            raise refused(self.table, f"main does not come from snapshot {after}")
        return written

    def written(self, path: str) -> list[Row]:
        """The rows of a data file, deleted ones too."""
        return data_rows(self.store.read(path))

    def rows_at(self, snapshot_id: int, only_files: Collection[str] | None = None) -> list[Row]:
        """The rows of a snapshot, deletes applied; of some of its data files, or of all."""
        live = self.live(snapshot_id)
        deletes = [file for file in live if file.kind is not FileKind.DATA]
        return [
            values
            for file in live
            if file.kind is FileKind.DATA and (only_files is None or file.path in only_files)
            for _, values in self._surviving(file, deletes)
        ]

    def places_at(self, snapshot_id: int, data: FileEntry) -> list[int]:
        """Which places in a data file have rows that a snapshot has not deleted."""
        deletes = [file for file in self.live(snapshot_id) if file.kind is not FileKind.DATA]
        return [place for place, _ in self._surviving(data, deletes)]

    def _surviving(
        self, data: FileEntry, deletes: Sequence[FileEntry]
    ) -> Iterator[tuple[int, Row]]:
        keys, positions = self._deleted(data, deletes)
        for place, values in enumerate(self.written(data.path)):
            own = set(values)
            if place not in positions and not any(key <= own for key in keys):
                yield place, values

    def _deleted(
        self, data: FileEntry, deletes: Sequence[FileEntry]
    ) -> tuple[list[set[tuple[int, Any]]], set[int]]:
        """What some delete files delete of a data file: by key, and by place."""
        keys: list[set[tuple[int, Any]]] = []
        positions: set[int] = set()
        vectors = [d for d in deletes if d.referenced == data.path and _is_vector(d)]
        for delete in deletes:
            by_key = delete.kind is FileKind.EQUALITY_DELETE
            is_late = delete.sequence > data.sequence - (not by_key)
            is_global = by_key and not self.spec(delete.spec_id).fields
            if not is_late or not delete.covers(data, is_global=is_global):
                continue
            if by_key:
                keys += [set(key) for key in self.keys(delete)]
            elif not vectors or delete in vectors:  # a vector stands for all earlier positions
                positions |= {at for path, at in self.positions(delete) if path == data.path}
        return keys, positions

    def positions(self, delete: FileEntry) -> list[tuple[str, int]]:
        """What position deletes are about."""
        return [(path, at) for path, at in json.loads(self.store.read(delete.path))["positions"]]

    def keys(self, delete: FileEntry) -> list[Row]:
        """What equality deletes are about."""
        return [_row(key) for key in json.loads(self.store.read(delete.path))["equal"]]

    def chunks(self, layout: ChunkLayout, data: str) -> Counter[str]:
        """How many rows of each chunk a data file has."""
        return Counter(chunk_of(layout, values) for values in self.written(data))

    def columns(self) -> list[int]:
        """The table's present columns."""
        schemas, now = self.document.get("schemas"), self.document.get("current-schema-id")
        schema = next(s for s in schemas if s["schema-id"] == now) if schemas else None
        return [field["id"] for field in (schema or self.document["schema"])["fields"]]


def _is_vector(file: FileEntry) -> bool:
    return file.kind is FileKind.DELETION_VECTOR


def _entry(manifest: Mapping[str, Any], listed: Mapping[str, Any]) -> FileEntry:
    file = listed["data_file"]
    sequence, snapshot_id = listed.get("sequence_number"), listed.get("snapshot_id")
    is_puffin = str(file["file_format"]).upper() == "PUFFIN"
    return FileEntry(
        path=file["file_path"],
        kind=_KINDS[file.get("content") or 0, is_puffin],
        status=EntryStatus(listed["status"]),
        snapshot_id=manifest["added_snapshot_id"] if snapshot_id is None else snapshot_id,
        sequence=(manifest.get("sequence_number") or 0) if sequence is None else sequence,
        spec_id=manifest["partition_spec_id"],
        partition=tuple(file["partition"].values()),
        referenced=file.get("referenced_data_file") or "",
    )


def refused(table: TableName, why: str) -> SyncRefused:
    """That a table cannot be read or copied."""
    return SyncRefused(
        f"{table} cannot be copied: {why}",
        object=str(table),
        expected="snapshots and rows that can be read",
        found=why,
        next="`meltline chunks sync` begins anew with a full copy",
    )
