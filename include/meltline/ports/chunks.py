"""Chunks: reading which files they have, copying them to cold, proving and dropping them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot


class ChunkFileReader(Protocol):
    """Reads manifests with what decides to which chunk a file belongs. Starts no JVM."""

    def live(self, snapshot: Snapshot, layout: ChunkLayout) -> Sequence[ChunkFile]:
        """Every data and delete file of a snapshot. Raises MetadataUnreadable."""
        ...

    def change(self, snapshot: Snapshot, layout: ChunkLayout, place: int) -> SnapshotChange:
        """What a snapshot added and removed: it opens the manifests that it wrote, and no other.

        Args:
            snapshot: The snapshot.
            layout: What the table's chunks are.
            place: Where it stands on main's line.

        Raises:
            MetadataUnreadable: One of them cannot be read, or does not hold what its list says.
        """
        ...


@dataclass(frozen=True)
class MixedRows:
    """Files of cold in which rows that cold alone has, and late rows, lie together.

    Attributes:
        files: They, by path.
        chunks: Their rows of these chunks, less the late ones, are what cold alone has.
        late: The late ones are what hot had of some chunks at a snapshot, by snapshot. Each takes
            off one equal row.
    """

    files: tuple[str, ...]
    chunks: frozenset[str]
    late: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class CopyRequest:
    """What one pass of replication is to do, in one commit that everybody sees at once.

    Attributes:
        hot: The table.
        cold: Where its rows go; it exists, with the table's columns under their field ids.
        cold_base: The metadata file of the cold table that this was decided on.
        layout: What the table's chunks are.
        after: Rows that were appended after this snapshot are added; None adds none of these.
        upto: The snapshot up to which cold will have everything.
        replaced: Chunks of which cold is to have what hot has at `upto`; None is all of them. What
            was appended to these is not added besides.
        removed: Data files of cold that leave in the same commit, by path.
        mixed: What cold alone has in files among these is written anew, in a snapshot of its own
            whose summary has `SYNC_DROPPED`.
        properties: Properties of the cold table from then on: up to where it has the rows.
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
    """What a pass has done: the cold table's new head, its metadata, and the rows it wrote."""

    snapshot_id: int | None
    location: str
    rows: int


Prove = Callable[[int], Mapping[str, str]]
"""Judges a snapshot of cold that nobody else sees yet; answers with properties to publish too."""


class Replicator(Protocol):
    """Copies rows from a table to its synced table in cold."""

    def copy(self, request: CopyRequest, prove: Prove | None = None) -> CopyOutcome | None:
        """Carries out one pass.

        Args:
            request: What is to be done.
            prove: Is shown the snapshot of cold before anybody else sees it, and raises where it
                does not have what it must have: then nothing is published.

        Returns:
            What was done; None where the cold table has moved on, and nothing was published.

        Raises:
            SyncRefused: The table has what cannot be copied, or the engine could not.
        """
        ...


SPANNING = "*"
"""In place of a chunk's name: the files that may have rows of several chunks."""


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
        """What the rows of some chunks come to, deletes applied, all chunks in one job.

        Args:
            table: Of hot or of cold; columns count by field id.
            snapshot_id: As of when.
            layout: What its chunks are.
            chunks: These; None is every one that has rows. One without rows is left out.
            only_files: Rows of these data files alone; None is all.

        Raises:
            SyncRefused: It cannot be read.
        """
        ...

    def files(
        self,
        table: TableName,
        snapshot_id: int,
        layout: ChunkLayout,
        chunks: Collection[str],
    ) -> Mapping[str, Collection[str]]:
        """The live data files that may have rows of each chunk, as the engine's own plan has them.

        A file that may have rows of others too stands under `SPANNING`. Raises SyncRefused.
        """
        ...


@dataclass(frozen=True)
class DropRequest:
    """Files that leave a table's main, because a gate has passed them.

    Attributes:
        base_snapshot: The snapshot on which the gate judged.
        chunks: The chunks that leave.
        files: Data files, by path: all that the chunks have at the base snapshot. Delete files that
            are about these alone go with them.
        summary: What the commit says of itself.
    """

    table: TableName
    base_snapshot: int
    layout: ChunkLayout
    chunks: tuple[str, ...]
    files: frozenset[str]
    summary: Mapping[str, str]


@dataclass(frozen=True)
class DropOutcome:
    """The snapshot that a drop made, or why the table allowed none."""

    snapshot_id: int | None
    conflict: str = ""


class ChunkDropper(Protocol):
    """Drops chunks by one metadata-only commit."""

    def drop(self, request: DropRequest) -> DropOutcome:
        """Removes exactly these files, if nothing was written to the chunks since the base.

        Every retry inside the engine validates anew: a row that comes late, in whatever way, and
        a compaction make it stop (LT-36).

        Raises:
            MeltlineError: Nobody knows what became of it: the catalog decides, on the next run.
        """
        ...


ChunkFrame = Any
"""A DataFrame, or an Arrow table."""


class GuardedWriter(Protocol):
    """Writes rows so that none lands in a chunk that was dropped (LT-30)."""

    def late(
        self, rows: ChunkFrame, layout: ChunkLayout, dropped: Collection[str]
    ) -> Mapping[str, int]:
        """How many of some rows lie in dropped chunks, by chunk."""
        ...

    def append(
        self,
        table: TableName,
        rows: ChunkFrame,
        expected_head: int | None,
        accept: Callable[[int], None] | None = None,
    ) -> bool:
        """Appends them if main's head is still that; False where it has moved on.

        Args:
            table: Where to.
            rows: These.
            expected_head: Main's snapshot; None of a table without one.
            accept: Is shown the snapshot that has them before anybody else sees it, and raises
                where it must not be: rows of a query can be others each time they are made.

        Raises:
            MeltlineError: Nobody knows what became of it.
        """
        ...
