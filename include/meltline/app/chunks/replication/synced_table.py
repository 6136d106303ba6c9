"""Synced table: creates, finds and reshapes the table in cold with all rows of a hot one.

Passes, declarations and reads of cold call it. It is never the archive table: main of the archive
is the newest archived snapshot, main of this one the union of all rows (chunk-facts, section 2).
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.metadata import load_document
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.refusals import diverged, replaced_way_out
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.services import ColdTier, ReadContext, ReadSources
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.chunks.layout import ChunkLayout, separating_spec
from meltline.domain.chunks.sync import (
    SYNC_COMMIT,
    SYNC_GENERATION,
    SYNC_OF,
    SYNC_PLACE,
    SYNC_SNAPSHOT,
    SYNC_SOURCE,
    Position,
    TableSync,
)
from meltline.domain.errors import (
    NameConflict,
    SchemaIncompatible,
    SyncRefused,
    TableNotFound,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor, first_file
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.schema_compatibility import require_readable
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import to_millis
from meltline.ports import NewTable

NAMESPACE = "meltline_synced"
"""In cold, above the namespaces of the hot tables."""
_CARRIED = (
    "schemas",
    "current-schema-id",
    "last-column-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
)
_WRITTEN_ALIKE = ("write.format.default", "write.parquet.", "write.avro.", "write.orc.")


@dataclass(frozen=True)
class SyncedTable:
    """Current state of the table in cold.

    Attributes:
        position: The position of hot up to which it has all rows; None before its first copy.
    """

    state: TableMetadata
    document: Mapping[str, Any]

    @property
    def position(self) -> Position | None:
        """Reads the position from the table's own properties, committed with the rows."""
        properties = self.state.properties
        try:
            return Position(
                int(properties[SYNC_GENERATION]),
                int(properties[SYNC_PLACE]),
                int(properties[SYNC_SNAPSHOT]),
            )
        except (KeyError, ValueError):
            return None

    def left_by(self, position: Position) -> int | None:
        """The snapshot that replication committed for a position; None if there is none."""
        head = self.state.current_snapshot_id
        for snapshot in () if head is None else self.state.ancestry(head):
            if snapshot.summary.get(SYNC_COMMIT) == str(position.snapshot_id):
                return snapshot.snapshot_id
        return None

    @property
    def newest(self) -> int:
        """Its newest sequence number, which no file of it exceeds."""
        return int(self.document["last-sequence-number"])

    def goes_on_from(self, snapshot_id: int | None) -> bool:
        """Whether main still descends from a snapshot: it was not rolled back, or that is unknown.

        Cold's owner may compact it and expire its many small snapshots; an expired snapshot is no
        longer found among the ancestors.
        """
        head = self.state.current_snapshot_id
        if snapshot_id is None or snapshot_id not in self.state.snapshots:
            return head is not None or snapshot_id is None
        return head is not None and self.state.descends_from(head, snapshot_id)


def cold_name(context: ReadContext, hot: HotTable, wish: str = "") -> TableName:
    """Chooses a table's name in cold: the user's, else its own below `NAMESPACE`.

    Raises:
        ColdMissing: No cold tier is configured.
        NameConflict: The user's name is taken.
        UsageInvalid: It is not a valid name.
    """
    tier = require_cold(context)
    # A sync that is only declared has no table in cold yet; its name is taken all the same.
    syncs: Sequence[TableSync] = context.control.syncs.all()
    promised = {sync.cold for sync in syncs if sync.table_uuid != hot.state.uuid}
    if wish:
        parts = tuple(wish.removeprefix(f"{tier.catalog.name}.").split("."))
        name = TableName(tier.catalog.name, parts[:-1] or (NAMESPACE,), parts[-1])
        if name in promised or not _is_free(tier, name, hot.state.uuid):
            raise _taken(name, hot.state.name)
        return name
    own = TableName(tier.catalog.name, (NAMESPACE, *hot.state.name.namespace), hot.state.name.name)
    if own not in promised and _is_free(tier, own, hot.state.uuid):
        return own
    return replace(own, name=f"{own.name}__{hot.state.uuid.replace('-', '')}")


def _is_free(tier: ColdTier, name: TableName, uuid: str) -> bool:
    listing = tier.catalog.listing()
    if (entry := listing.of(name)) is None:
        return True
    state, _ = load_document(tier.store, name, entry.metadata_location)
    return state.properties.get(SYNC_OF) == uuid


def _taken(name: TableName, hot: TableName) -> NameConflict:
    return NameConflict(
        f"{name} is another table",
        object=str(name),
        expected=f"a free name, or the table that has the rows of {hot}",
        found="a table of something else",
        next="choose another name with --to, or leave it out",
    )


def open_synced(context: ReadContext, hot: HotTable, sync: TableSync) -> SyncedTable:
    """Opens the table in cold; creates it if it does not exist and nothing was ever copied.

    Raises:
        SyncRefused: It is gone, though it had rows: only an operator may begin again.
        NameConflict: It is another table.
        LedgerOutOfStep: It is another installation's.
    """
    tier = require_cold(context)
    if synced := read_synced(context, hot, sync):
        return synced
    chunks = context.control.chunks.of(hot.state.uuid).values()
    if sync.committed is not None or any(c.only_copy_base for c in chunks):
        raise SyncRefused(
            f"{sync.cold} is gone, and had rows of {hot.state.name} that hot may not have",
            object=str(sync.cold),
            expected="the table in cold",
            found="no such table",
            next="bring it back under its name; chunks that were dropped had their only copy "
            "there. To begin anew: `meltline chunks stop-sync`, then `sync`",
        )
    marks = ColdOwner.of(context).properties
    first = NewTable(sync.cold, lambda now: _first(tier, hot, sync, marks, now))
    location = tier.registrar.create([first])[sync.cold]
    return SyncedTable(*load_document(tier.store, sync.cold, location))


def read_synced(context: ReadContext, hot: HotTable, sync: TableSync) -> SyncedTable | None:
    """Reads the table in cold; None if it does not exist.

    Raises:
        NameConflict: It is another table.
        LedgerOutOfStep: It is another installation's.
    """
    tier = require_cold(context)
    try:
        location = tier.catalog.location(sync.cold)
    except TableNotFound:
        return None
    state, document = load_document(tier.store, sync.cold, location)
    if state.properties.get(SYNC_OF) != hot.state.uuid or COLD_OF in state.properties:
        raise _taken(sync.cold, hot.state.name)
    synced = SyncedTable(state, document)
    require_own(context, synced)
    return synced


def require_own(context: ReadSources, synced: SyncedTable) -> None:
    """Rejects a table in cold that another installation writes, whichever table it copies.

    Raises:
        LedgerOutOfStep: Which installation.
    """
    ColdOwner.of(context).require(synced.state)


def _first(
    tier: ColdTier, hot: HotTable, sync: TableSync, marks: Mapping[str, str], now: datetime
) -> Any:
    """Builds its first metadata file: hot's columns and specs under their ids, and no snapshot."""
    uuid = str(uuid4())
    warehouse = tier.warehouse.rstrip("/")
    folder = "/".join((*sync.cold.namespace, f"{sync.cold.name}-{uuid[:8]}"))
    version = hot.document["format-version"]
    document = {
        "format-version": max(2, version),
        "table-uuid": uuid,
        "location": f"{warehouse}/{folder}",
        "last-sequence-number": 0,
        "last-updated-ms": to_millis(now),
        **shape_of(hot.document),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            **_written_alike(hot.state.properties),
            SYNC_OF: hot.state.uuid,
            SYNC_SOURCE: str(hot.state.name),
            **marks,
        },
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if version >= 3:
        document["next-row-id"] = 0
    return first_file(sync.cold, document, str(uuid4()))


def _written_alike(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if key.startswith(_WRITTEN_ALIKE)}


def shape_of(hot: Mapping[str, Any]) -> dict[str, Any]:
    """Extracts columns and partition specs of a document, with ids and all former ones."""
    if "schemas" not in hot:  # the oldest form of format 1
        schema = {**hot["schema"], "schema-id": 0}
        spec = {"spec-id": 0, "fields": hot.get("partition-spec", [])}
        numbered = [{"field-id": 1000 + n, **f} for n, f in enumerate(spec["fields"])]
        last = max((f["field-id"] for f in numbered), default=999)
        return {
            "schemas": [schema],
            "current-schema-id": 0,
            "last-column-id": hot["last-column-id"],
            "partition-specs": [{**spec, "fields": numbered}],
            "default-spec-id": 0,
            "last-partition-id": last,
        }
    return {key: deepcopy(hot[key]) for key in _CARRIED if key in hot}


def next_shape(hot: HotTable, synced: SyncedTable, layout: ChunkLayout) -> Mapping[str, Any] | None:
    """Returns the shape that gives cold hot's current columns and specs; None if it has them.

    If hot's partitions are now coarser than its chunks, cold keeps its former spec: dropped and
    late rows must not share a file.

    Raises:
        SyncRefused: Cold has a column or spec under an id that means another thing in hot.
    """
    shape = shape_of(hot.document)
    shape["default-spec-id"] = separating_spec(shape, layout)
    version = max(2, hot.document["format-version"])
    if all(synced.document.get(key) == content for key, content in shape.items()) and (
        synced.document["format-version"] >= version
    ):
        return None
    if replaced := other_types(hot, synced) or other_specs(hot, synced):
        raise diverged(hot.state.name, replaced, replaced_way_out(hot.state.name))
    return shape | {
        "partition-specs": _with_former_specs(shape, synced),
        "format-version": max(version, synced.document["format-version"]),
    }


def carry_shape(
    context: ReadContext, synced: SyncedTable, shape: Mapping[str, Any] | None
) -> SyncedTable:
    """Gives the table in cold a shape; by field id, so no data move."""
    if shape is None:
        return synced

    def edit(document: MetadataEditor) -> None:
        shaped = document.document | dict(shape)
        if shaped["format-version"] >= 3:
            shaped.setdefault("next-row-id", 0)
        document.replace(shaped)

    tier = require_cold(context)
    location = tier.editor.edit_table(synced.state.name, edit)
    return synced_at(context, synced.state.name, location)


def synced_at(context: ReadContext, table: TableName, location: str) -> SyncedTable:
    """Reads the table in cold at one of its metadata files."""
    return SyncedTable(*load_document(require_cold(context).store, table, location))


def other_types(hot: HotTable, synced: SyncedTable) -> str:
    """Explains why hot's columns cannot read cold's data of the same ids; empty if they can."""
    document = synced.document
    current = document["current-schema-id"]
    schema = next(s for s in document["schemas"] if s["schema-id"] == current)
    try:
        require_readable(hot.state, hot.document, schema)
    except SchemaIncompatible as error:
        return f"{error.message}: the table was replaced"
    return ""


def other_specs(hot: HotTable, synced: SyncedTable) -> str:
    """Explains why a spec of cold's files means another thing in hot; empty if none does."""
    ours = {spec["spec-id"]: spec["fields"] for spec in shape_of(hot.document)["partition-specs"]}
    for spec in synced.document["partition-specs"]:
        if ours.get(spec["spec-id"], spec["fields"]) != spec["fields"]:
            return (
                f"partition spec {spec['spec-id']} is another one in cold: the table was replaced"
            )
    return ""


def _with_former_specs(shape: Mapping[str, Any], synced: SyncedTable) -> list[Any]:
    """Merges hot's specs with those of cold's files that hot no longer has."""
    specs = list(shape["partition-specs"])
    ids = {spec["spec-id"] for spec in specs}
    former = synced.document["partition-specs"]
    return [*specs, *(spec for spec in former if spec["spec-id"] not in ids)]
