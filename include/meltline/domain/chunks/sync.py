"""Sync state of a table: how far its rows are in cold, and the properties that record it.

Replication, proofs and the ledger use it. `replication` decides what a pass copies.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.iceberg.names import TableName

SYNC_OF = "meltline.sync-of"
"""Property of a table in cold: the registration whose rows it has. Never of an archived table."""
SYNC_SOURCE = "meltline.sync-source"
"""The same: the hot table's name, for display."""
SYNC_GENERATION = "meltline.sync-generation"
SYNC_SNAPSHOT = "meltline.sync-snapshot"
"""The same: the snapshot of hot whose rows it has; committed with these rows, as is the next."""
SYNC_PLACE = "meltline.sync-place"
SYNC_DROPPED = "meltline.sync-dropped"
"""The same: chunks that only cold has, as JSON.

Each has cold's newest sequence number at that time. It is written before hot drops them, so that a
lost ledger never leads to their deletion.
"""
SYNC_LATE = "meltline.sync-late"
"""The same: files with rows of dropped chunks that hot has as well, by chunk, as JSON."""
SYNC_COMMIT = "meltline.sync"
"""In the summary of replication's own commits in cold: the last snapshot of hot that they copy."""
DROP_PLAN = "meltline.plan-id"
"""In the summary of an own drop: its plan."""

LARGE_DELETES = "LARGE_DELETES"
"""Why replication waits for an operator's decision: others have deleted a large part of hot."""
MIXED_FILES = "MIXED_FILES"
"""Why it stops: a compaction of cold mixed rows, and the history to separate them has expired."""


class SyncState(StrEnum):
    """State of a table's replication."""

    COPYING = "COPYING"
    """The first full copy is not verified yet (H1)."""
    STREAMING = "STREAMING"
    LAGGING = "LAGGING"
    """It continues, and was behind at its last pass by more than one pass could copy."""
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    """An operator has stopped it; cold keeps its rows."""


@dataclass(frozen=True)
class Position:
    """An offset in main's history, as one sync counts it.

    Snapshot numbers give no order after a rollback, and format 1 has none (H6).

    Attributes:
        generation: The sync's; positions of two generations cannot be compared (H2).
        place: Counted along main's history; never reused.
        snapshot_id: The snapshot at this offset.
    """

    generation: int
    place: int
    snapshot_id: int


@dataclass(frozen=True)
class TrackedTable:
    """A table whose chunks are tracked, up to some snapshot.

    Attributes:
        table_uuid: The registration, which identifies the table.
        table: Its last known name.
        walked: Position up to which its chunks are stamped; None for a table without a snapshot.
        judged: Main's head when the status of drops was recorded last.
        last_run_at: When its policies were applied last.
        last_run: Its result, as text.
    """

    table_uuid: str
    table: TableName
    layout: ChunkLayout
    walked: Position | None = None
    last_run_at: datetime | None = None
    last_run: str = ""
    judged: int | None = None


@dataclass(frozen=True)
class TableSync:
    """The replication of one table to cold.

    Attributes:
        cold: The table in cold.
        generation: Grows with each full copy.
        state: Its state; `reason` and `detail` say why it failed.
        committed: Position up to which cold is complete; None before the first copy is verified.
        cold_snapshot: The snapshot of the cold table at that position.
        cold_compared: The snapshot of cold at which rows of dropped chunks were last compared with
            the recorded ones.
        heartbeat: When replication last succeeded.
        allowed_deletes: The foreign snapshots whose large deletes an operator has mirrored;
            `kept_deletes` those whose deleted rows cold keeps.
    """

    table_uuid: str
    table: TableName
    cold: TableName
    generation: int
    state: SyncState
    started_at: datetime
    reason: str = ""
    detail: str = ""
    committed: Position | None = None
    cold_snapshot: int | None = None
    cold_compared: int | None = None
    heartbeat: datetime | None = None
    allowed_deletes: tuple[int, ...] = ()
    kept_deletes: tuple[int, ...] = ()


class Deletes(StrEnum):
    """An operator's decision about a large delete by others."""

    MIRROR = "mirror"
    KEEP = "keep"

    def said_of(self, sync: TableSync, snapshot_id: int) -> TableSync:
        """Records this decision about a commit of hot in the sync."""
        if self is Deletes.MIRROR:
            return replace(sync, allowed_deletes=(*sync.allowed_deletes, snapshot_id))
        return replace(sync, kept_deletes=(*sync.kept_deletes, snapshot_id))


@dataclass(frozen=True)
class RowDigest:
    """Checksum of a chunk's rows, independent of their order and files.

    Attributes:
        rows: How many.
        checksum: A sum of hashes of all rows, each over every column by field id, nulls
            distinguished.
        nulls: Null values by field id.
    """

    rows: int
    checksum: int
    nulls: tuple[tuple[int, int], ...] = field(default=())


def read_dropped(properties: Mapping[str, str]) -> dict[str, int]:
    """Reads the chunks that only cold has, with the newest sequence number that is not late.

    Raises:
        ValueError: The record cannot be read: nothing may leave cold then.
    """
    raw = json.loads(properties.get(SYNC_DROPPED, "{}"))
    if not isinstance(raw, dict) or not all(isinstance(base, int) for base in raw.values()):
        raise ValueError(f"{SYNC_DROPPED} is no list of chunks")
    return {str(name): int(base) for name, base in raw.items()}


def written_dropped(dropped: Mapping[str, int]) -> str:
    """Formats the list for the property."""
    return json.dumps(dict(sorted(dropped.items())), separators=(",", ":"))
