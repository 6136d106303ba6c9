"""Chunks, their policies and their replication, as the control ledger has them.

All of it hangs on the registration's id. A table's rows here are derived from its metadata and
from cold, and can be rebuilt; only its policies are said here alone, so that no copy of the table
brings them along.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType
from meltline.domain.chunks.sync import TableSync, TrackedTable


@dataclass(frozen=True)
class ChunkSum:
    """All chunks of a table that have one status, added up.

    Attributes:
        newest_write: The highest place of a last write among them; None where one has none.
    """

    table_uuid: str
    status: ChunkStatus
    chunks: int
    rows: int
    bytes: int
    newest_write: int | None


@dataclass(frozen=True)
class DropSum:
    """Chunks of a table whose last drop is in force or unknown, and that one plan dropped last.

    Attributes:
        plan: The plan; empty where the ledger knows of none.
        bytes: What left hot by it.
    """

    table_uuid: str
    plan: str
    bytes: int


class ChunkReader(Protocol):
    """Which tables are cut into chunks, and what is known of these."""

    def tracked(self, uuids: Collection[str] | None = None) -> Sequence[TrackedTable]:
        """Such tables by name; None is all."""
        ...

    def of(self, table_uuid: str, *, resident: bool = False) -> Mapping[str, Chunk]:
        """All chunks of a table by name, or those of which hot has rows."""
        ...

    def sums(self) -> Sequence[ChunkSum]:
        """Every table's chunks by status: one query, however many tables there are."""
        ...

    def drop_sums(self) -> Sequence[DropSum]:
        """What every plan dropped of each table: one query, too."""
        ...


class ChunkLedger(ChunkReader, Protocol):
    """Remembers chunks. What it is told is refused where another run has moved on meanwhile."""

    def advance(
        self,
        before: TrackedTable | None,
        after: TrackedTable,
        chunks: Collection[Chunk],
        *,
        anew: bool = False,
    ) -> None:
        """Stores chunks and up to where they are stamped, in one transaction.

        Args:
            before: The table as it was read; None for one that is not tracked yet.
            after: The table as it is now.
            chunks: Those that changed.
            anew: Whether they replace all that are stored.

        Raises:
            CommitConflict: What is stored was walked to elsewhere than `before`; or a chunk, which
                no commit makes cold's own, was made that meanwhile (`cold_base`).
        """
        ...

    def move(self, moves: Sequence[tuple[Chunk, Chunk]]) -> Sequence[bool]:
        """Changes chunks, each from what it was read as; False where it was written meanwhile.

        Compared are status, last write, generation and drop plan, in the same transaction. Only
        what the move changes is stored: a compaction may have changed the files since.
        """
        ...

    def forget(self, table_uuid: str) -> None:
        """Forgets a table with its chunks."""
        ...


class SyncReader(Protocol):
    """Which tables are replicated."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[TableSync]:
        """By table; None is all."""
        ...


class SyncLedger(SyncReader, Protocol):
    """Remembers replication."""

    def save(self, before: TableSync | None, after: TableSync) -> None:
        """Stores it where what is stored is what was read.

        Raises:
            CommitConflict: Somebody else has changed it; compared are generation, state,
                committed position and heartbeat.
        """
        ...


class ChunkPolicyReader(Protocol):
    """Policies of chunks."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ChunkPolicy]:
        """By id; None is all."""
        ...


class ChunkPolicyLedger(ChunkPolicyReader, Protocol):
    """Remembers policies."""

    def add(self, policy: ChunkPolicy) -> ChunkPolicy:
        """Stores one under an id of its own, which it returns it with.

        Raises:
            PolicyExists: The table has one of that type, or one that says the same thing: of two
                people one comes first (`require_fits`).
            InvalidHorizons: It contradicts one that came first (LT-35).
        """
        ...

    def remove(self, table_uuid: str, type: PolicyType) -> bool:
        """Removes one; False where there is none."""
        ...
