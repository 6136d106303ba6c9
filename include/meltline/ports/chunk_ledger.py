"""Protocols of the control ledger for chunks, their policies and their replication.

Every row belongs to a registration's id. A table's rows here are derived from its metadata and
from cold, and can be rebuilt. Only its policies are stored here alone, so that no copy of the
table inherits them. `app/chunks` uses them; tables without chunks need none of them, so they are
apart from `ports/control`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.sync import TableSync, TrackedTable


@dataclass(frozen=True)
class ChunkSum:
    """Totals of a table's chunks of one status.

    Attributes:
        newest_write: The highest position of a last write among them; None if a chunk has none.
    """

    table_uuid: str
    status: ChunkStatus
    chunks: int
    rows: int
    bytes: int
    newest_write: int | None


@dataclass(frozen=True)
class DropSum:
    """Totals of a table's chunks by the plan that dropped them last, in force or unknown.

    Attributes:
        plan: The plan; empty if the ledger knows of none.
        bytes: The bytes that it removed from hot.
    """

    table_uuid: str
    plan: str
    bytes: int


class ChunkReader(Protocol):
    """Reads which tables have chunks, and the stored state of their chunks."""

    def tracked(self, uuids: Collection[str] | None = None) -> Sequence[TrackedTable]:
        """Returns tables with chunks, by name; None is all."""
        ...

    def of(self, table_uuid: str, *, resident: bool = False) -> Mapping[str, Chunk]:
        """Returns all chunks of a table by name, or only those that have rows in hot."""
        ...

    def sums(self) -> Sequence[ChunkSum]:
        """Returns every table's totals by status, in one query for any number of tables."""
        ...

    def drop_sums(self) -> Sequence[DropSum]:
        """Returns what every plan dropped of each table, in one query."""
        ...


class ChunkLedger(ChunkReader, Protocol):
    """Stores chunks; a write is refused if another run has written meanwhile."""

    def advance(
        self,
        before: TrackedTable | None,
        after: TrackedTable,
        chunks: Collection[Chunk],
        *,
        anew: bool = False,
    ) -> None:
        """Stores chunks and the position up to which they are stamped, in one transaction.

        Args:
            before: The table as it was read; None for one that is not tracked yet.
            after: The table as it is now.
            chunks: The changed chunks.
            anew: Whether they replace all that are stored.

        Raises:
            CommitConflict: The stored position is not that of `before`. Or a chunk became cold's
                only copy meanwhile (`cold_base`), which no commit shows.
        """
        ...

    def move(self, moves: Sequence[tuple[Chunk, Chunk]]) -> Sequence[bool]:
        """Changes chunks by compare-and-swap; False for a chunk that was written meanwhile.

        Compared are status, last write, generation and drop plan, in the same transaction. Only
        what the move changes is stored: a compaction may have changed the files since.
        """
        ...

    def forget(self, table_uuid: str) -> None:
        """Removes a table with its chunks."""
        ...


class SyncReader(Protocol):
    """Reads which tables are replicated."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[TableSync]:
        """Returns them by table; None is all."""
        ...


class SyncLedger(SyncReader, Protocol):
    """Stores the state of replication."""

    def save(self, before: TableSync | None, after: TableSync) -> None:
        """Stores a state by compare-and-swap.

        Raises:
            CommitConflict: Another run has changed it; compared are generation, state,
                committed position and heartbeat.
        """
        ...


class ChunkPolicyReader(Protocol):
    """Reads policies of chunks."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ChunkPolicy]:
        """Returns them by id; None is all."""
        ...


class ChunkPolicyLedger(ChunkPolicyReader, Protocol):
    """Stores policies of chunks."""

    def add(self, policy: ChunkPolicy) -> ChunkPolicy:
        """Stores a policy under a new id, and returns it with the id.

        Raises:
            PolicyExists: The table has one of the same type or meaning; of two concurrent
                requests one fails (`require_fits`).
            InvalidHorizons: It contradicts an earlier one (LT-35).
        """
        ...

    def remove(self, table_uuid: str, type: PolicyType) -> bool:
        """Removes a policy; False if there is none."""
        ...
