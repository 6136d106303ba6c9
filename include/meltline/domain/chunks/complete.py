"""Plan of a union read: rows of hot, and rows that only cold has.

`app/chunks/reading` builds it, and the engine adapters execute it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.chunks.cold.sides import Sides
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.iceberg.names import TableName


@dataclass(frozen=True)
class PinnedTable:
    """A table at one of its metadata files.

    Attributes:
        location: The file.
        snapshot_id: Main's snapshot; None for a table without one.
    """

    table: TableName
    location: str
    snapshot_id: int | None


@dataclass(frozen=True)
class LateCopies:
    """Files of cold with late rows of dropped chunks, which are in hot as well.

    Attributes:
        whole: Files to skip completely.
        parts: Files with rows of several dropped chunks, by the chunks whose rows to skip.
    """

    whole: frozenset[str] = frozenset()
    parts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ColdPart:
    """The part of cold to read.

    Attributes:
        pinned: The synced table.
        layout: The chunk layout.
        chunks: Only their rows are read.
        copies: Rows of them to skip.
        instead: Chunks among them that are read from cold alone: hot has the same late rows.
    """

    pinned: PinnedTable
    layout: ChunkLayout
    chunks: frozenset[str]
    copies: LateCopies
    instead: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CompleteRead:
    """All rows of a table: those in hot, and those that only cold has."""

    hot: PinnedTable
    cold: ColdPart | None = None

    @property
    def table(self) -> TableName:
        """The table's name."""
        return self.hot.table


def late_copies(sides: Sides, files: Sequence[ChunkFile]) -> LateCopies:
    """Finds the files of cold that are later than their chunks' drops, and so repeat rows of hot.

    Args:
        sides: Which rows only cold has.
        files: The live data files of cold.
    """
    whole = set[str]()
    parts: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for file in files:
        copies = sides.late_chunks(file)
        if copies and copies == sides.layout.reached(file.times, sides.bases):
            whole.add(file.path)
        elif copies:
            parts[copies].add(file.path)
    return LateCopies(
        frozenset(whole), {chunks: frozenset(paths) for chunks, paths in parts.items()}
    )
