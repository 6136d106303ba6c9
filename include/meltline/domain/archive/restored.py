"""Builds the first metadata file of a table restored from an archived snapshot (AR-28).

The table is independent: its files are below its own location, it references no file of cold,
engines may write to it and expire it, and it has none of the archive's guards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.domain.clone.clones import (
    GC,
    Columns,
    Identity,
    Source,
    columns_then,
    copied_properties,
    document_of,
    first_moment,
)
from meltline.domain.iceberg.metadata_editor import NextMetadata, first_file
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA, STATISTICS
from meltline.domain.units import format_instant

RESTORED = "meltline.restored-"
"""The prefix of properties that record where a restored table comes from."""

_OURS = "meltline."
_GUARDS = (GC, ENGINE_DELETES_METADATA)


@dataclass(frozen=True)
class Retrieved:
    """The copies in hot of an archived snapshot's files.

    Attributes:
        manifest_list: The copy of its list; empty for format 1 with inline manifests.
        manifests: The copies of inline manifests.
        statistics: The copies of its statistics files, by the originals' paths.
        spec_id: The partitioning of the newest files; None if the list does not state it.
        files: How many, including its list and manifests; `bytes` their sizes.
        rows: Rows of its data files.
    """

    manifest_list: str
    manifests: tuple[str, ...]
    statistics: Mapping[str, str]
    spec_id: int | None
    files: int
    bytes: int
    rows: int


def restored_metadata(
    source: Source, files: Retrieved, own: Identity, now: datetime, unique: str
) -> NextMetadata:
    """Builds the first metadata file of a restored table.

    Args:
        source: The cold table, and its snapshot.
        files: The copies in hot.
        own: The new table's own identity.
        now: By the clock that the catalog dates commits with; its history begins then.
        unique: A new UUID for the file's name.

    Raises:
        MetadataUnreadable: The table requires a compression that Iceberg does not know.
    """
    then = columns_then(source.document, source.snapshot_id, None)
    columns = Columns(then.schema_id, files.spec_id)
    dated = Source(source.state, source.document, source.snapshot_id, columns)
    at = first_moment(dated, now)
    restored = document_of(dated, own, at, {})
    restored["properties"] = _properties(source, at)
    restored |= _partitioning(source.document, restored, files.spec_id)
    restored["snapshots"] = [_snapshot(raw, files) for raw in restored["snapshots"]]
    for key in STATISTICS:
        restored[key] = _statistics(source, key, files.statistics)
    return first_file(own.name, restored, unique)


def _properties(source: Source, at: datetime) -> dict[str, str]:
    copied = copied_properties(source.state.properties)
    provenance = {
        f"{RESTORED}from": str(source.state.name),
        f"{RESTORED}snapshot-id": str(source.snapshot_id),
        f"{RESTORED}at": format_instant(at),
    }
    plain = {k: v for k, v in copied.items() if not k.startswith(_OURS) and k not in _GUARDS}
    return plain | provenance


def _partitioning(
    cold: Mapping[str, Any], restored: Mapping[str, Any], spec_id: int | None
) -> dict[str, Any]:
    """Returns the snapshot's partitioning, if its columns are cold's current ones.

    If they are not, `document_of` has made sure that columns and partitioning fit.
    """
    if restored["current-schema-id"] != cold["current-schema-id"]:
        return {}
    for spec in restored["partition-specs"]:
        if spec["spec-id"] == spec_id:
            legacy = {"partition-spec": spec["fields"]} if "partition-spec" in restored else {}
            return {"default-spec-id": spec_id, **legacy}
    return {}


def _snapshot(raw: Mapping[str, Any], files: Retrieved) -> dict[str, Any]:
    copy = {key: field for key, field in raw.items() if key not in ("manifest-list", "manifests")}
    if files.manifest_list:
        return {**copy, "manifest-list": files.manifest_list}
    return {**copy, "manifests": list(files.manifests)}


def _statistics(source: Source, key: str, copies: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {**file, "statistics-path": copies[file["statistics-path"]]}
        for file in source.document.get(key) or ()
        if file["snapshot-id"] == source.snapshot_id and file["statistics-path"] in copies
    ]
