"""Protocols of chunks: listing their files, copying them to cold, proving and dropping them.

`app/chunks` calls them; `adapters/chunks` implements them. The ledger's side of chunks is in
`chunk_ledger`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot


class ChunkFileReader(Protocol):
    """Reads manifests together with the values that assign a file to a chunk. Starts no JVM."""

    def live(self, snapshot: Snapshot, layout: ChunkLayout) -> Sequence[ChunkFile]:
        """Returns every data and delete file of a snapshot. Raises MetadataUnreadable."""
        ...

    def change(self, snapshot: Snapshot, layout: ChunkLayout, place: int) -> SnapshotChange:
        """Returns what a snapshot added and removed; reads only the manifests that it wrote.

        Args:
            snapshot: The snapshot.
            layout: The definition of the table's chunks.
            place: Its position in main's linear history.

        Raises:
            MetadataUnreadable: A manifest is unreadable, or contradicts its manifest list.
        """
        ...


@dataclass(frozen=True)
class MixedRows:
    """Files of cold that mix rows that only cold has with late rows.

    Attributes:
        files: Their paths.
        chunks: Their rows in the files, less the late ones, are in cold only.
        late: By snapshot, chunks whose rows of hot at that snapshot are the late ones. Each late
            row cancels one equal row.
    """

    files: tuple[str, ...]
    chunks: frozenset[str]
    late: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class CopyRequest:
    """One pass of replication, published in one commit.

    Attributes:
        hot: The table.
        cold: The synced table; it exists, with the table's columns under their field ids.
        cold_base: The metadata file of the cold table on which the pass was decided.
        layout: The definition of the table's chunks.
        after: Rows that were appended after this snapshot are added; None adds no such rows.
        upto: The snapshot up to which cold will be complete.
        replaced: Chunks whose rows in cold are replaced by those of hot at `upto`; None is all.
            Rows appended to these are not added a second time.
        removed: Data files of cold that the same commit removes, by path.
        mixed: Rows that only cold has in these files are rewritten, in a separate snapshot whose
            summary has `SYNC_DROPPED`.
        properties: New properties of the cold table, such as the position up to which it is
            complete.
    """

    hot: TableName
    cold: TableName
    cold_base: str
    layout: ChunkLayout
    upto: int
    after: int | None = None
    replaced: frozenset[str] | None = frozenset()
    removed: tuple[str, ...] = ()
    mixed: MixedRows | None = None
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True)
class CopyOutcome:
    """The result of a pass: the cold table's new head, its metadata, and the rows written."""

    snapshot_id: int | None
    location: str
    rows: int


Prove = Callable[[int], Mapping[str, str]]
"""Checks an unpublished snapshot of cold; returns properties to publish with it."""


class Replicator(Protocol):
    """Copies rows from a table to its synced table in cold."""

    def copy(self, request: CopyRequest, prove: Prove | None = None) -> CopyOutcome | None:
        """Runs one pass.

        Args:
            request: The pass.
            prove: Checks the snapshot of cold before it is published; if it raises, nothing is
                published.

        Returns:
            The result; None if the cold table has moved on, and nothing was published.

        Raises:
            SyncRefused: The table has content that cannot be copied, or the engine failed.
        """
        ...


SPANNING = "*"
"""Stands for a chunk's name: the files that may have rows of several chunks."""


class ChunkRows(Protocol):
    """Reads rows and files of chunks through the engine, for the gate."""

    def digests(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str] | None,
        only_files: Collection[str] | None = None,
    ) -> Mapping[str, RowDigest]:
        """Computes the row digest of each chunk, deletes applied, all chunks in one job.

        Args:
            table: A table of hot or cold; columns are matched by field id.
            snapshot_id: The snapshot to read.
            layout: The definition of its chunks.
            chunks: The chunks; None is every one that has rows. Chunks without rows are left out.
            only_files: Restricts the rows to these data files; None is all.

        Raises:
            SyncRefused: The table cannot be read.
        """
        ...

    def files(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str],
    ) -> Mapping[str, Collection[str]]:
        """Returns the live data files that may have rows of each chunk, by the engine's own plan.

        A file that may have rows of other chunks too is under `SPANNING`. Raises SyncRefused.
        """
        ...


@dataclass(frozen=True)
class DropRequest:
    """Files to remove from a table's main, after a gate has passed them.

    Attributes:
        base_snapshot: The snapshot that the gate checked.
        chunks: The chunks to drop.
        files: Paths of all data files that the chunks have at the base snapshot. Delete files that
            apply to these alone are removed with them.
        summary: Summary properties of the commit.
    """

    table: TableName
    base_snapshot: int
    layout: ChunkLayout
    chunks: tuple[str, ...]
    files: frozenset[str]
    summary: Mapping[str, str]


@dataclass(frozen=True)
class DropOutcome:
    """The snapshot that a drop committed, or the conflict that prevented it."""

    snapshot_id: int | None
    conflict: str = ""


class ChunkDropper(Protocol):
    """Drops chunks by one metadata-only commit."""

    def drop(self, request: DropRequest) -> DropOutcome:
        """Removes exactly these files, if nothing was written to the chunks since the base.

        The engine validates again on every retry: any late row, and a compaction, stops the drop
        (LT-36).

        Raises:
            MeltlineError: The outcome is unknown; the next run reads it from the catalog.
        """
        ...


ChunkFrame = Any
"""A DataFrame, or an Arrow table."""


class GuardedWriter(Protocol):
    """Writes rows and keeps them out of dropped chunks (LT-30)."""

    def late(
        self, rows: ChunkFrame, layout: ChunkLayout, dropped: Collection[str]
    ) -> Mapping[str, int]:
        """Returns how many of some rows lie in dropped chunks, by chunk."""
        ...

    def append(
        self,
        table: TableName,
        rows: ChunkFrame,
        expected_head: int | None,
        accept: Callable[[int], None] | None = None,
    ) -> bool:
        """Appends rows if main's head is the expected one; False if it has moved on.

        Args:
            table: The target.
            rows: The rows.
            expected_head: Main's snapshot; None for a table without one.
            accept: Checks the snapshot with the rows before it is published, and raises to refuse
                it: a query can return other rows each time it runs.

        Raises:
            MeltlineError: The outcome is unknown.
        """
        ...
