"""Reads from manifests which files a snapshot has, added and removed, and each file's times.

Observation and `app/chunks` call it to assign files to chunks. It is apart from the index's reader,
because it also decodes partitions and column statistics. Starts no JVM.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias

from meltline.adapters.manifests.avro_container import AvroFile
from meltline.adapters.manifests.fastavro_reader import (
    ENTRY_FIELDS,
    FILE_FIELDS,
    Kinds,
    decoded_rows,
    fields_of,
    kind_of_file,
    read_manifest_list,
    require_counts,
    require_length,
    unreadable,
)
from meltline.concurrency import thread_map
from meltline.domain.chunks.columns import TimeColumn, bounds_range, partition_range
from meltline.domain.chunks.layout import EVERYWHERE, ChunkFile, ChunkLayout, SnapshotChange, Times
from meltline.domain.chunks.ranges import TimeRange
from meltline.domain.errors import MetadataUnreadable
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import ObjectReader

_DELETED_PATH = 2147483546
"""The field id of a position delete's file path, reserved by the spec."""
_FIRST_PARTITION_FIELD = 1000  # format 1 numbered them from here, without writing the ids
_STATISTICS = ("null_value_counts", "lower_bounds", "upper_bounds")
_OF_TIME = frozenset(("hour", "day", "month", "year", "identity"))
_MORE_FIELDS: Kinds = {
    **FILE_FIELDS,
    "partition": ("record",),
    "record_count": ("int", "long"),
    "referenced_data_file": ("string",),
}
_ALL_FIELDS: Kinds = {**_MORE_FIELDS, **dict.fromkeys(_STATISTICS, ("array",))}
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChunkEntry:
    """A file, and its status in the manifest."""

    status: EntryStatus
    file: ChunkFile


def chunk_entries(manifest: ManifestFile, content: bytes, column: TimeColumn) -> list[ChunkEntry]:
    """Returns all entries of a manifest after its length and counts agreed with its list entry.

    Args:
        manifest: As the list describes it: entries inherit from it.
        content: Its bytes.
        column: The column of times.

    Raises:
        MetadataUnreadable: It does not follow the spec, or contradicts its list.
    """
    require_length(manifest, len(content))
    try:
        entries = _entries(manifest, AvroFile.read(content), column)
    except Exception as error:  # random bytes raise anything
        raise unreadable(manifest.path, "a manifest", error) from error
    require_counts(manifest, (entry.status for entry in entries))
    return entries


def _entries(manifest: ManifestFile, file: AvroFile, column: TimeColumn) -> list[ChunkEntry]:
    clock = FileClock(column, _partitioning(file, column))
    # Statistics are most of a manifest: they are decoded only if they are needed.
    by_statistics = manifest.is_deletes or not clock.by.fields
    rows = decoded_rows(file, _with_statistics if by_statistics else _without_statistics)
    return [_entry(manifest, clock, row) for row in rows]


# --- projections of the Avro schema --------------------------------------------------------------


def _without_statistics(schema: Any) -> Any:
    return _projection(schema, _MORE_FIELDS)


def _with_statistics(schema: Any) -> Any:
    return _projection(schema, _ALL_FIELDS)


def _projection(schema: Any, of_file: Kinds) -> Any:
    projection = copy.deepcopy(schema)
    projection["fields"] = fields_of(ENTRY_FIELDS, projection)
    for entry_field in projection["fields"]:
        if entry_field["name"] == "data_file":
            record = entry_field["type"]
            record["fields"] = fields_of(of_file, record)
    return projection


# --- times of a file -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Partitioning:
    """The partitioning of one manifest's files by the column of times.

    Attributes:
        fields: Fields of the partition record, with their transforms.
        as_now: Whether the column had its current kind when the manifest was written.
    """

    spec_id: int
    fields: tuple[tuple[str, str], ...]
    as_now: bool


@dataclass(frozen=True)
class FileClock:
    """Computes the times of one manifest's files, once for each partition."""

    column: TimeColumn
    by: Partitioning
    _told: dict[tuple[Any, ...], Times] = field(default_factory=dict)

    def times(self, file: Row, kind: FileKind) -> Times:
        """Returns the times of its rows, or of the rows that it may delete."""
        if self.by.fields:
            values = tuple(file["partition"][name] for name, _ in self.by.fields)
            if values not in self._told:
                self._told[values] = self._of_partition(values)
            return self._told[values]
        if kind is not FileKind.DATA or not self.by.as_now:
            return EVERYWHERE
        return self._of_statistics(file)

    def _of_partition(self, values: Sequence[Any]) -> Times:
        ranges = []
        for (_, transform), value in zip(self.by.fields, values, strict=True):
            if transform == "identity" and not self.by.as_now:
                continue
            if (times := partition_range(self.column, transform, value)) is None:
                return Times(None)
            ranges.append(times)
        if not ranges:
            return EVERYWHERE
        common = TimeRange(max(r.start for r in ranges), min(r.end for r in ranges))
        # Fields that contradict one another prove nothing.
        return Times(common) if common.start < common.end else EVERYWHERE

    def _of_statistics(self, file: Row) -> Times:
        nulls, lower, upper = (_of_column(file, name, self.column.field_id) for name in _STATISTICS)
        if nulls is not None and nulls == file["record_count"] > 0:
            return Times(None)
        times = bounds_range(self.column, lower, upper, nulls)
        return EVERYWHERE if times is None else Times(times)


def _of_column(file: Row, statistic: str, field_id: int) -> Any:
    """Returns a column's value in a statistic; None if it has none."""
    pairs = file.get(statistic) or ()
    return next((pair["value"] for pair in pairs if pair["key"] == field_id), None)


def _partitioning(file: AvroFile, column: TimeColumn) -> Partitioning:
    header = file.header
    return _prepared(
        header["partition-spec"],
        header.get("partition-spec-id", b"0"),
        header.get("schema", b"{}"),
        header["avro.schema"],
        column,
    )


@lru_cache(maxsize=256)
def _prepared(
    spec: bytes, spec_id: bytes, schema: bytes, entries: bytes, column: TimeColumn
) -> Partitioning:
    names = _partition_names(json.loads(entries))
    fields = []
    for place, part in enumerate(json.loads(spec)):
        if part.get("source-id") == column.field_id and part["transform"] in _OF_TIME:
            number = part.get("field-id", _FIRST_PARTITION_FIELD + place)
            fields.append((names.get(number) or names[part["name"]], str(part["transform"])))
    columns = json.loads(schema).get("fields", ())
    written = next((c["type"] for c in columns if c["id"] == column.field_id), column.type)
    as_now = _kind_of(written) == _kind_of(column.type)
    return Partitioning(int(spec_id), tuple(fields), as_now)


def _kind_of(type: object) -> object:
    return "long" if type == "int" else type


def _partition_names(schema: Any) -> Mapping[int | str, str]:
    """Maps field ids to the names of the partition record: Avro escapes some letters of names.

    A field without an id is keyed by its name.
    """
    (file,) = (f["type"] for f in schema["fields"] if f["name"] == "data_file")
    (partition,) = (f["type"] for f in file["fields"] if f["name"] == "partition")
    return {f.get("field-id", f["name"]): f["name"] for f in partition["fields"]}


# --- entries -------------------------------------------------------------------------------------


def _entry(manifest: ManifestFile, clock: FileClock, row: Row) -> ChunkEntry:
    file, status = row["data_file"], EntryStatus(row["status"])
    kind = kind_of_file(file.get("content") or 0, file["file_format"])
    return ChunkEntry(
        status,
        ChunkFile(
            path=file["file_path"],
            kind=kind,
            bytes=file["file_size_in_bytes"],
            rows=file["record_count"],
            times=clock.times(file, kind),
            spec_id=clock.by.spec_id,
            sequence_number=_sequence_number(manifest, row, status),
            snapshot_id=_snapshot_id(manifest, row),
            referenced=_referenced(file, kind),
            part=file.get("content_offset"),
        ),
    )


def _snapshot_id(manifest: ManifestFile, row: Row) -> int:
    number = row.get("snapshot_id")
    inherited: int | None = manifest.added_snapshot_id if number is None else number
    if inherited is None:
        raise ValueError("nobody says which snapshot an entry is of")
    return inherited


def _sequence_number(manifest: ManifestFile, row: Row, status: EntryStatus) -> int:
    """Returns the data sequence number. Only added files inherit it; format 1 has none."""
    number: int | None = row.get("sequence_number")
    if number is not None:
        return number
    if status is EntryStatus.ADDED:
        return manifest.sequence_number
    if "sequence_number" in row and manifest.sequence_number:
        raise ValueError(f"an entry that is {status.name} has no sequence number")
    return 0


def _referenced(file: Row, kind: FileKind) -> str:
    """Returns the one data file that deletes apply to; empty if there may be several."""
    if kind not in (FileKind.POSITION_DELETE, FileKind.DELETION_VECTOR):
        return ""
    if written := file.get("referenced_data_file"):
        return str(written)
    lower, upper = (_of_column(file, name, _DELETED_PATH) for name in _STATISTICS[1:])
    return lower.decode() if lower and lower == upper else ""


class AvroChunkFiles:
    """Implements `ChunkFileReader` over an object store.

    Args:
        store: The table's object store: that of hot or that of cold.
    """

    def __init__(self, store: ObjectReader) -> None:
        self._store = store

    def live(self, snapshot: Snapshot, layout: ChunkLayout) -> Sequence[ChunkFile]:
        """Returns every data and delete file of a snapshot. Raises MetadataUnreadable."""
        entries = self._entries(self._manifests(snapshot), layout)
        return [entry.file for entry in entries if entry.status in _LIVE]

    def change(self, snapshot: Snapshot, layout: ChunkLayout, place: int) -> SnapshotChange:
        """Returns what a snapshot added and removed, from the manifests that it wrote."""
        own = snapshot.snapshot_id
        manifests = [
            manifest
            for manifest in self._manifests(snapshot)
            if manifest.added_snapshot_id in (own, None) and _may_have(manifest, _CHANGED)
        ]
        entries = [
            entry for entry in self._entries(manifests, layout) if entry.file.snapshot_id == own
        ]
        change = SnapshotChange(
            snapshot_id=own,
            operation=snapshot.summary.get("operation", ""),
            place=place,
            summary=snapshot.summary,
            added=[entry.file for entry in entries if entry.status is EntryStatus.ADDED],
            removed=[entry.file for entry in entries if entry.status is EntryStatus.DELETED],
        )
        _require_explained(snapshot, change)
        return change

    def _manifests(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        if not snapshot.manifest_list:  # the oldest form of format 1 has no counts
            return [ManifestFile(path, 0) for path in snapshot.inline_manifests]
        content = self._read(snapshot.manifest_list, "a manifest list")
        return read_manifest_list(snapshot.manifest_list, content)

    def _entries(
        self, manifests: Iterable[ManifestFile], layout: ChunkLayout
    ) -> Iterable[ChunkEntry]:
        for entries in thread_map(partial(self._of_manifest, layout), manifests):
            yield from entries

    def _of_manifest(self, layout: ChunkLayout, manifest: ManifestFile) -> Sequence[ChunkEntry]:
        content = self._read(manifest.path, "a manifest")
        return chunk_entries(manifest, content, layout.column)

    def _read(self, path: str, kind: str) -> bytes:
        try:
            return self._store.read(path)
        except FileNotFoundError as missing:
            raise unreadable(path, kind, missing) from missing


_LIVE = frozenset((EntryStatus.ADDED, EntryStatus.EXISTING))
_CHANGED = frozenset((EntryStatus.ADDED, EntryStatus.DELETED))


def _may_have(manifest: ManifestFile, statuses: Iterable[EntryStatus]) -> bool:
    """Returns whether it may have entries of some status: counted, or never counted."""
    counts = {
        EntryStatus.ADDED: manifest.added_files,
        EntryStatus.EXISTING: manifest.existing_files,
        EntryStatus.DELETED: manifest.deleted_files,
    }
    return any(counts[status] != 0 for status in statuses)


def _require_explained(snapshot: Snapshot, change: SnapshotChange) -> None:
    """Refuses a change that contradicts its snapshot's summary.

    A snapshot may add or remove a file twice, which some writers count once and some twice.
    """
    for total, files in (
        ("added-data-files", change.added),
        ("deleted-data-files", change.removed),
    ):
        said = snapshot.summary.get(total)
        paths = [file.path for file in files if file.kind is FileKind.DATA]
        if said is not None and not len(set(paths)) <= _number(said) <= len(paths):
            raise MetadataUnreadable(
                f"the manifests of snapshot {snapshot.snapshot_id} do not explain its summary",
                object=snapshot.place,
                expected=f"{total}={said}",
                found=f"{len(paths)} such entries",
                next="find out who wrote the snapshot: its summary or a manifest is wrong",
            )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
