"""Commits on tables in memory: files that come and go, in one snapshot with real manifests."""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.ranges import EPOCH, Unit
from meltline.domain.clock import Clock
from meltline.domain.iceberg.files import EntryStatus
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import MAIN
from meltline.domain.units import to_millis
from meltline.ports import ObjectReader
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.chunks.rows import Row, TableRows, data_bytes
from tests.doubles.manifest_files import (
    PartitionSpec,
    list_schema,
    manifest_schema,
    read_avro,
    written_avro,
)
from tests.doubles.store import MemoryStore

_COUNTS = ("existing", "added", "deleted")  # as statuses are numbered


@dataclass(frozen=True)
class NewFile:
    """A data file that was written and is in no snapshot yet.

    Attributes:
        partition: By name of the partition field.
    """

    path: str
    bytes: int
    partition: Mapping[str, Any]
    rows: Sequence[Row]


@dataclass
class TableCommit:
    """One commit on a table: what it adds and removes, and what it says of itself.

    Attributes:
        rows: The table as it stands.
        store: Where its files lie.
        clock: When it happens.
        snapshot_id: The new snapshot's.
        summary: Beside the operation.
        added: Files of the table's present spec.
        removed: Data and delete files, by path.
    """

    rows: TableRows
    store: MemoryStore
    clock: Clock
    snapshot_id: int
    operation: str
    summary: Mapping[str, str] = field(default_factory=dict)
    added: Sequence[NewFile] = ()
    removed: frozenset[str] = frozenset()

    def document(self, *, is_staged: bool = False) -> dict[str, Any]:
        """The table's metadata with the new snapshot; of a staged one no branch knows."""
        document: dict[str, Any] = json.loads(json.dumps(self.rows.document))
        version = document["format-version"]
        sequence = document.get("last-sequence-number", 0) + 1 if version > 1 else 0
        parent = (document.get("refs") or {}).get(MAIN, {}).get("snapshot-id")
        path = f"{document['location']}/metadata/snap-{self.snapshot_id}-1-m.avro"
        manifests = [*self._standing(parent, sequence), *self._new(sequence)]
        summary = {"operation": self.operation, **self._totals(manifests), **self.summary}
        header = {"format-version": str(version)}
        self.store.write(path, written_avro(list_schema(version), manifests, header))
        snapshot = {
            "snapshot-id": self.snapshot_id,
            "timestamp-ms": to_millis(self.clock.now()),
            "manifest-list": path,
            "schema-id": document.get("current-schema-id", 0),
            "summary": summary,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        if version > 1:
            snapshot["sequence-number"] = document["last-sequence-number"] = sequence
        if version > 2:
            snapshot |= {"first-row-id": 0, "added-rows": sum(len(f.rows) for f in self.added)}
        document["snapshots"].append(snapshot)
        return document if is_staged else published(document, self.snapshot_id, self.clock.now())

    def _standing(self, parent: int | None, sequence: int) -> list[Mapping[str, Any]]:
        """The parent's manifests; those that lose a file are written anew."""
        if parent is None:
            return []
        listed = read_avro(self.store.read(self.rows.snapshot(parent)["manifest-list"]))
        standing = []
        for number, manifest in enumerate(listed.rows):
            content = read_avro(self.store.read(manifest["manifest_path"]))
            live = [e for e in content.rows if e["status"] != EntryStatus.DELETED]
            if any(file["data_file"]["file_path"] in self.removed for file in live):
                turned = [self._turned(manifest, file) for file in live]
                written = content.bytes(turned)
                standing.append(self._listed(f"k{number}", written, turned, sequence, manifest))
            elif live:
                standing.append(manifest)
        return standing

    def _turned(self, manifest: Mapping[str, Any], file: dict[str, Any]) -> dict[str, Any]:
        is_gone = file["data_file"]["file_path"] in self.removed
        sequence = manifest.get("sequence_number") or 0
        added_by = file["snapshot_id"] or manifest["added_snapshot_id"]
        numbers: dict[str, Any] = {
            key: sequence if file[key] is None else file[key]
            for key in ("sequence_number", "file_sequence_number")
            if key in file
        }
        status = EntryStatus.DELETED if is_gone else EntryStatus.EXISTING
        by = self.snapshot_id if is_gone else added_by
        return {**file, **numbers, "status": int(status), "snapshot_id": by}

    def _new(self, sequence: int) -> list[Mapping[str, Any]]:
        if not self.added:
            return []
        document = self.rows.document
        version, spec = document["format-version"], self.rows.spec(document["default-spec-id"])
        entries = [self._entry(version, file) for file in self.added]
        header = {"format-version": str(version), **spec.header}
        written = written_avro(manifest_schema(version, spec), entries, header)
        first = {"partition_spec_id": spec.id, "content": 0, "min_sequence_number": sequence}
        return [self._listed("m0", written, entries, sequence, first)]

    def _entry(self, version: int, file: NewFile) -> dict[str, Any]:
        nulls = nulls_of(file.rows, self.rows.columns())
        bounds = bounds_of(file.rows)
        return {
            "status": int(EntryStatus.ADDED),
            "snapshot_id": None if version > 1 else self.snapshot_id,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "content": 0,
                "file_path": file.path,
                "file_format": "PARQUET",
                "partition": file.partition,
                "record_count": len(file.rows),
                "file_size_in_bytes": file.bytes,
                "block_size_in_bytes": 67108864,
                "value_counts": pairs({column: len(file.rows) for column in nulls}),
                "null_value_counts": pairs(nulls),
                "lower_bounds": pairs({column: least for column, (least, _) in bounds.items()}),
                "upper_bounds": pairs({column: most for column, (_, most) in bounds.items()}),
            },
        }

    def _totals(self, manifests: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        rows = sum(
            (manifest["added_rows_count"] or 0) + (manifest["existing_rows_count"] or 0)
            for manifest in manifests
            if not manifest.get("content")
        )
        return {"total-records": str(rows)}

    def _listed(
        self,
        name: str,
        content: bytes,
        entries: Sequence[Mapping[str, Any]],
        sequence: int,
        like: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """A new manifest's row in the list."""
        location = self.rows.document["location"]
        path = f"{location}/metadata/{self.snapshot_id}-{name}.avro"
        self.store.write(path, content)
        files = Counter(file["status"] for file in entries)
        rows = Counter[int]()
        for file in entries:
            rows[file["status"]] += file["data_file"]["record_count"]
        return {
            **like,
            "manifest_path": path,
            "manifest_length": len(content),
            "sequence_number": sequence,
            "added_snapshot_id": self.snapshot_id,
            **{f"{what}_files_count": files[status] for status, what in enumerate(_COUNTS)},
            **{f"{what}_rows_count": rows[status] for status, what in enumerate(_COUNTS)},
        }


def published(document: dict[str, Any], snapshot_id: int, at: datetime) -> dict[str, Any]:
    """Metadata whose main is at a snapshot from then on."""
    document.setdefault("refs", {}).setdefault(MAIN, {"type": "branch"})
    document["refs"][MAIN]["snapshot-id"] = snapshot_id
    document["current-snapshot-id"] = snapshot_id
    logged = {"timestamp-ms": to_millis(at), "snapshot-id": snapshot_id}
    document.setdefault("snapshot-log", []).append(logged)
    return document


def pairs(of_columns: Mapping[int, Any]) -> list[dict[str, Any]]:
    """A map by field id, as manifests have it."""
    return [{"key": column, "value": value} for column, value in sorted(of_columns.items())]


def nulls_of(rows: Sequence[Row], columns: Iterable[int]) -> dict[int, int]:
    """How many nulls each column has."""
    filled = Counter(column for values in rows for column, _ in values)
    return {column: len(rows) - filled[column] for column in columns}


def bounds_of(rows: Iterable[Row]) -> dict[int, tuple[bytes, bytes]]:
    """The least and the greatest value of each column of whole numbers, packed."""
    values: dict[int, list[int]] = {}
    for one in rows:
        for column, value in one:
            if isinstance(value, int):
                values.setdefault(column, []).append(value)
    return {
        column: (struct.pack("<q", min(all_of)), struct.pack("<q", max(all_of)))
        for column, all_of in values.items()
    }


def partition_of(spec: PartitionSpec, column: TimeColumn, values: Row) -> dict[str, Any]:
    """The partition of a row of a table that is partitioned by its column of times alone."""
    moment, of_row = column.instant(dict(values).get(column.field_id)), dict(values)
    return {
        name: of_row.get(source) if transform == "identity" else ordinal(transform, moment)
        for _, name, transform, source in spec.fields
    }


def ordinal(transform: str, moment: datetime | None) -> int | None:
    """What one of Iceberg's transforms makes of a time."""
    if moment is None or transform == "void":
        return None
    unit = Unit(transform)
    if unit in (Unit.YEAR, Unit.MONTH):
        months = (moment.year - 1970) * 12 + moment.month - 1
        return months // 12 if unit is Unit.YEAR else months
    return int((moment - EPOCH).total_seconds() // (3600 if unit is Unit.HOUR else 86400))


@dataclass(frozen=True)
class TableWriter:
    """Writes data files of tables, and looks up what tables there are.

    Attributes:
        catalogs: By name, the cold one too.
        new_id: Makes ids of snapshots, and tells files apart.
    """

    catalogs: Mapping[str, MemoryCatalog]
    store: MemoryStore
    clock: Clock
    new_id: Callable[[], int]

    def load(self, table: TableName) -> tuple[str, TableRows]:
        """A table as it stands, and where its metadata lies."""
        return load_rows(self.catalogs, self.store, table)

    def files(self, table: TableRows, column: TimeColumn, rows: Iterable[Row]) -> list[NewFile]:
        """Rows in new files, one for each partition."""
        spec = table.spec(table.document["default-spec-id"])
        parts: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
        for values in rows:
            part = tuple(partition_of(spec, column, values).items())
            parts.setdefault(part, []).append(values)
        written = []
        for part, of_part in sorted(parts.items(), key=lambda item: str(item[0])):
            path = f"{table.document['location']}/data/r{self.new_id()}.parquet"
            content = data_bytes(of_part)
            self.store.write(path, content)
            written.append(NewFile(path, len(content), dict(part), of_part))
        return written


def load_rows(
    catalogs: Mapping[str, MemoryCatalog], store: ObjectReader, table: TableName
) -> tuple[str, TableRows]:
    """A table as it stands, and where its metadata lies. Raises TableNotFound."""
    location = catalogs[table.catalog].location(table)
    return location, TableRows(table, json.loads(store.read(location)), store)
