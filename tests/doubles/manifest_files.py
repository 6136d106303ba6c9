"""Manifest lists and manifests as the Iceberg spec has them, for formats 1, 2 and 3."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro

_INHERITED = ("avro.schema", "avro.codec")
_MARKER = b"0123456789abcdef"  # a fixed one, so that the same history makes the same bytes


@dataclass(frozen=True)
class PartitionSpec:
    """How some manifests' files are partitioned.

    Attributes:
        id: Of the spec.
        fields: Field id, name, transform and source column of each partition field.
        types: What Avro type each has.
    """

    id: int = 0
    fields: tuple[tuple[int, str, str, int], ...] = ()
    types: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any], spec_id: int) -> "PartitionSpec":
        """A spec of a table, by its metadata."""
        written = next(s for s in document["partition-specs"] if s["spec-id"] == spec_id)
        schemas = document.get("schemas") or [document["schema"]]
        columns = {f["id"]: str(f["type"]) for schema in schemas for f in schema["fields"]}
        fields, types = [], []
        for part in written["fields"]:
            fields.append((part["field-id"], part["name"], part["transform"], part["source-id"]))
            types.append(_avro_type(part["transform"], columns[part["source-id"]]))
        return cls(spec_id, tuple(fields), tuple(types))

    @property
    def header(self) -> dict[str, str]:
        """What a manifest's header says of it."""
        fields = [
            {"field-id": number, "name": name, "transform": transform, "source-id": source}
            for number, name, transform, source in self.fields
        ]
        return {"partition-spec": json.dumps(fields), "partition-spec-id": str(self.id)}


def _avro_type(transform: str, column: str) -> str:
    if transform == "day" or (transform == "identity" and column == "date"):
        return "date"
    if transform != "identity":
        return "int"
    return {"string": "string", "int": "int"}.get(column, "long")


UNPARTITIONED = PartitionSpec()


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"field-id": number, "name": name, "type": ["null", kind], "default": None}
    return {"field-id": number, "name": name, "type": kind}


def _numbered(number: int, name: str, key: int, value: int, kind: str) -> dict[str, Any]:
    """A map by field id, as manifests write it: an array of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int"), _field(value, "value", kind)],
    }
    return _field(
        number, name, {"type": "array", "logicalType": "map", "items": pair}, optional=True
    )


def _partition(spec: PartitionSpec) -> dict[str, Any]:
    kinds = {"date": {"type": "int", "logicalType": "date"}}
    return {
        "type": "record",
        "name": "r102",
        "fields": [
            _field(number, name, kinds.get(kind, kind), optional=True)
            for (number, name, _, _), kind in zip(spec.fields, spec.types, strict=True)
        ],
    }


@cache
def manifest_schema(version: int, spec: PartitionSpec | None = None) -> Any:
    """The schema of a manifest; without a spec that of one with nothing but paths and sizes."""
    file = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", _partition(spec or UNPARTITIONED)),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
    ]
    if version == 1:
        file = [*file[1:], _field(105, "block_size_in_bytes", "long")]
    if spec is not None:
        file += [
            _numbered(109, "value_counts", 119, 120, "long"),
            _numbered(110, "null_value_counts", 121, 122, "long"),
            _numbered(125, "lower_bounds", 126, 127, "bytes"),
            _numbered(128, "upper_bounds", 129, 130, "bytes"),
        ]
    if version == 3:
        file.append(_field(142, "first_row_id", "long", optional=True))
    if version == 3 or (version == 2 and spec is not None):
        file.append(_field(143, "referenced_data_file", "string", optional=True))
    if version == 3:
        file += [
            _field(144, "content_offset", "long", optional=True),
            _field(145, "content_size_in_bytes", "long", optional=True),
        ]
    entry = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=version > 1),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": file}),
    ]
    if version > 1:
        entry[2:2] = [
            _field(3, "sequence_number", "long", optional=True),
            _field(4, "file_sequence_number", "long", optional=True),
        ]
    return fastavro.parse_schema({"type": "record", "name": "manifest_entry", "fields": entry})


@cache
def list_schema(version: int) -> Any:
    """The schema of a manifest list."""
    optional = version == 1
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int", optional=optional),
        _field(505, "existing_files_count", "int", optional=optional),
        _field(506, "deleted_files_count", "int", optional=optional),
        _field(512, "added_rows_count", "long", optional=optional),
        _field(513, "existing_rows_count", "long", optional=optional),
        _field(514, "deleted_rows_count", "long", optional=optional),
    ]
    if version > 1:
        fields[3:3] = [
            _field(517, "content", "int"),
            _field(515, "sequence_number", "long"),
            _field(516, "min_sequence_number", "long"),
        ]
    if version == 3:
        fields.append(_field(520, "first_row_id", "long", optional=True))
    return fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})


def written_avro(
    schema: Any, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]
) -> bytes:
    """An Avro file, the same bytes for the same rows."""
    body = io.BytesIO()
    fastavro.writer(body, schema, rows, metadata=dict(metadata), sync_marker=_MARKER)
    return body.getvalue()


@dataclass(frozen=True)
class AvroContent:
    """An Avro file, read whole, so that it can be written again with other rows."""

    schema: Any
    metadata: Mapping[str, str]
    rows: Sequence[dict[str, Any]]

    def bytes(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """The same file with other rows."""
        return written_avro(self.schema, rows, self.metadata)


def read_avro(content: bytes) -> AvroContent:
    """Reads one. Raises ValueError and whatever else fastavro does."""
    reader = fastavro.reader(io.BytesIO(content))
    rows: list[dict[str, Any]] = [row for row in reader if isinstance(row, dict)]
    metadata = {key: text for key, text in reader.metadata.items() if key not in _INHERITED}
    return AvroContent(reader.writer_schema, metadata, rows)
