"""How far a table's rows are in cold."""

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
"""The same: the hot table's name, for people."""
SYNC_GENERATION = "meltline.sync-generation"
SYNC_SNAPSHOT = "meltline.sync-snapshot"
"""The same: the snapshot of hot whose rows it has; committed with these rows, as is the next."""
SYNC_PLACE = "meltline.sync-place"
SYNC_DROPPED = "meltline.sync-dropped"
"""The same: chunks that cold alone has, each with cold's newest sequence number at that time, as
JSON. It is written before hot drops them, so that no lost ledger makes anybody take them away."""
SYNC_LATE = "meltline.sync-late"
"""The same: files with rows of dropped chunks that hot has as well, by chunk, as JSON."""
SYNC_COMMIT = "meltline.sync"
"""In the summary of replication's own commits in cold: the snapshot of hot up to which they go."""
DROP_PLAN = "meltline.plan-id"
"""In the summary of a commit of ours: its plan."""

LARGE_DELETES = "LARGE_DELETES"
"""Why replication waits for a person's word: others have deleted much of hot."""
MIXED_FILES = "MIXED_FILES"
"""Why it stops: a compaction of cold mixed rows, and the history that tells them apart expired."""


class SyncState(StrEnum):
    """How replication of a table stands."""

    COPYING = "COPYING"
    """The first full copy is not verified yet (H1)."""
    STREAMING = "STREAMING"
    LAGGING = "LAGGING"
    """It follows, and was behind at its last look by more than one pass could take."""
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    """A person has stopped it; cold keeps what it has."""


@dataclass(frozen=True)
class Position:
    """A place on main's line, as far as one sync has counted it.

    Numbers of snapshots do not tell an order after a rollback, and format 1 has none (H6).

    Attributes:
        generation: Of the sync; positions of two generations cannot be compared (H2).
        place: Counted along main's line; it is never used again.
        snapshot_id: What stands there.
    """

    generation: int
    place: int
    snapshot_id: int


@dataclass(frozen=True)
class TrackedTable:
    """A table whose chunks are known, up to some snapshot.

    Attributes:
        table_uuid: The registration; all of this hangs on it.
        table: Its name when it was looked at last.
        walked: Up to where its chunks are stamped; None of a table without a snapshot.
        judged: Main's head when it was recorded last which drops are in force.
        last_run_at: When its policies were carried out last.
        last_run: What came of that, in words.
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
        state: How it stands; `reason` and `detail` say why it failed.
        committed: What cold has, all of it; None before the first copy is verified.
        cold_snapshot: The snapshot of the cold table that has it.
        cold_compared: The snapshot of cold at which rows of dropped chunks were compared last with
            what was recorded.
        heartbeat: When replication last looked and was able to go on.
        allowed_deletes: The foreign snapshots whose large deletes a person said to mirror;
            `kept_deletes` those whose deleted rows cold is to keep.
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
    """What a person has cold do about a large delete by others."""

    MIRROR = "mirror"
    KEEP = "keep"

    def said_of(self, sync: TableSync, snapshot_id: int) -> TableSync:
        """The replication, with this said about a commit of hot."""
        if self is Deletes.MIRROR:
            return replace(sync, allowed_deletes=(*sync.allowed_deletes, snapshot_id))
        return replace(sync, kept_deletes=(*sync.kept_deletes, snapshot_id))


@dataclass(frozen=True)
class RowDigest:
    """What a chunk's rows come to, in whatever order and files they stand.

    Attributes:
        rows: How many.
        checksum: A sum of hashes of all rows, each over every column by field id, nulls told apart.
        nulls: Null values by field id.
    """

    rows: int
    checksum: int
    nulls: tuple[tuple[int, int], ...] = field(default=())


def read_dropped(properties: Mapping[str, str]) -> dict[str, int]:
    """The chunks that cold alone has, with the newest sequence number that is not late.

    Raises:
        ValueError: What stands there cannot be read: nothing may leave cold then.
    """
    raw = json.loads(properties.get(SYNC_DROPPED, "{}"))
    if not isinstance(raw, dict) or not all(isinstance(base, int) for base in raw.values()):
        raise ValueError(f"{SYNC_DROPPED} is no list of chunks")
    return {str(name): int(base) for name, base in raw.items()}


def written_dropped(dropped: Mapping[str, int]) -> str:
    """The same as the property holds it."""
    return json.dumps(dict(sorted(dropped.items())), separators=(",", ":"))
