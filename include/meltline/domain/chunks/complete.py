"""All rows of a table that is cut into chunks: hot's, and of cold those that nobody else has."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.chunks.cold.sides import Sides
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.iceberg.names import TableName


@dataclass(frozen=True)
class PinnedTable:
    """A table as one of its metadata files has it.

    Attributes:
        location: The file.
        snapshot_id: Main's; None of a table without one.
    """

    table: TableName
    location: str
    snapshot_id: int | None


@dataclass(frozen=True)
class LateCopies:
    """Files of cold with rows of dropped chunks that came after the drop: hot has them as well.

    Attributes:
        whole: Files of which no row counts.
        parts: Files that have rows of several dropped chunks, by those chunks of which theirs do
            not count.
    """

    whole: frozenset[str] = frozenset()
    parts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ColdPart:
    """What is read of cold.

    Attributes:
        pinned: The synced table.
        layout: What the chunks are.
        chunks: Rows of these alone.
        copies: What is left out of them.
        instead: Chunks among them that are read from cold alone: hot has the same late rows.
    """

    pinned: PinnedTable
    layout: ChunkLayout
    chunks: frozenset[str]
    copies: LateCopies
    instead: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CompleteRead:
    """All rows of a table: those that hot has, and those that cold alone has."""

    hot: PinnedTable
    cold: ColdPart | None = None

    @property
    def table(self) -> TableName:
        """The table's name."""
        return self.hot.table


def late_copies(sides: Sides, files: Sequence[ChunkFile]) -> LateCopies:
    """Which files of cold came after the drops of their chunks, and so repeat what hot has.

    Args:
        sides: Which rows cold alone has.
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
