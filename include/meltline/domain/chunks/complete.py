"""All rows of a table that is cut into chunks: hot's, and of cold those that nobody else has."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.chunks.main_line import MainLine, with_standings
from meltline.domain.chunks.replication import EVERYTHING
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


def only_copy_bases(
    chunks: Iterable[Chunk],
    line: MainLine,
    unrecorded: Iterable[str],
    told: Mapping[str, int],
) -> dict[str, int]:
    """The chunks that were dropped on a state of hot, each with the base of what cold alone has.

    The ledger's status is not asked: it may be of another state. A drop of which nobody can tell
    counts as in force: of such a chunk hot has no rows (`unknown_chunks`).

    Args:
        chunks: As the ledger has them.
        line: That state's.
        unrecorded: Chunks that a commit of the line has dropped and the ledger has not noted yet.
        told: What cold says of itself.
    """
    bases: dict[str, int] = {}
    news = set(unrecorded)
    for chunk in chunks:
        last = with_standings(chunk, line).last_drop
        if chunk.name in news:
            base = chunk.cold_base
        elif last is not None:
            base = last.base
        else:
            continue
        bases[chunk.name] = told.get(chunk.name, EVERYTHING) if base is None else base
    return bases


def unknown_chunks(chunks: Iterable[Chunk], line: MainLine) -> frozenset[str]:
    """The chunks of which nobody can tell whether their last drop is in force on a line."""
    return frozenset(c.name for c in chunks if not with_standings(c, line).is_told)


def late_copies(
    layout: ChunkLayout, files: Sequence[ChunkFile], bases: Mapping[str, int], late: LateFiles
) -> LateCopies:
    """Which files of cold came after the drops of their chunks, and so repeat what hot has.

    Args:
        layout: What the chunks are.
        files: The live data files of cold.
        bases: Up to where they are the only copy, by chunk.
        late: Which files have late rows.
    """
    whole = set[str]()
    parts: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for file in files:
        dropped = layout.reached(file.times, bases)
        copies = frozenset(name for name in dropped if late.has(file, name, bases[name]))
        if copies and copies == dropped:
            whole.add(file.path)
        elif copies:
            parts[copies].add(file.path)
    return LateCopies(
        frozenset(whole), {chunks: frozenset(paths) for chunks, paths in parts.items()}
    )
