"""A table made of an archived snapshot: its first metadata file (AR-28).

It is a table of its own: its files lie below its own location, it names none of cold, engines may
write to it and expire it, and nothing of the archive's guards is left in it.
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
"""Properties that say where a restored table comes from begin so."""

_OURS = "meltline."
_GUARDS = (GC, ENGINE_DELETES_METADATA)


@dataclass(frozen=True)
class Retrieved:
    """Where the copies of an archived snapshot's files lie in hot.

    Attributes:
        manifest_list: The copy of its list; empty where format 1 names manifests one by one.
        manifests: Then their copies.
        statistics: The copies of its statistics files, by the originals' paths.
        spec_id: The partitioning of what was written last; None where the list does not say.
        files: How many, its list and manifests among them; `bytes` their sizes.
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
    """The first metadata file of a restored table.

    Args:
        source: The cold table, and which snapshot of it.
        files: The copies in hot.
        own: What is the new table's own.
        now: By the clock that the catalog dates commits with; its history begins then.
        unique: A fresh UUID for the file's name.

    Raises:
        MetadataUnreadable: The table asks for a compression that Iceberg does not know.
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
    """The snapshot's partitioning, where its columns are the present ones of cold.

    Where they are not, `document_of` has seen to it that columns and partitioning fit.
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
