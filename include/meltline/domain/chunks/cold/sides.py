"""States on which side each row of a table's chunks counts: hot, cold, or both.

View, replication, gate and drop read this one statement (LT-26, LT-33):

- Hot's rows count, and cold has copies of them, in every chunk whose drops are all undone.
- Of a chunk with a drop in force, rows that cold had at the drop count, and nobody else has them:
  those in files up to the drop's base, and in files that a compaction has made of such.
- Hot's rows of that chunk came after the drop and count as well. Files in cold that its own record
  names (`LateFiles`) are copies of them.
- Where a compaction of cold has taken a recorded file, later files of that chunk have rows of both
  kinds. Hot's rows at cold's position tell them apart.
- Where nobody can tell whether the drop is in force, the chunk counts for neither side, unless hot
  has no row of it. Readers refuse (`Chunk.is_told`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout

EVERYTHING = 1 << 62
"""A sequence number for chunks of which all that cold has is the only copy."""


class FileSide(StrEnum):
    """What a file of cold is to hot."""

    COPY = "hot has its rows"
    ONLY = "nobody else has its rows"
    MIXED = "both together, or nobody can tell"


@dataclass(frozen=True)
class Sides:
    """The statement for one table.

    Attributes:
        layout: What the chunks are.
        bases: Chunks of which cold alone has rows, each with the newest sequence number of these.
        late: Which later files have rows that hot has as well.
    """

    layout: ChunkLayout
    bases: Mapping[str, int]
    late: LateFiles

    @classmethod
    def of(
        cls,
        layout: ChunkLayout,
        chunks: Iterable[Chunk],
        told: Mapping[str, int],
        late: LateFiles,
    ) -> "Sides":
        """Reads it off the ledger's chunks.

        Args:
            layout: What they are.
            chunks: As they stand on the state of hot in question.
            told: What cold says that it alone has: it counts where the ledger has noted no base.
            late: Cold's record of late files.
        """
        bases = {chunk.name: _base(chunk, told) for chunk in chunks if chunk.was_dropped}
        return cls(layout, bases, late)

    def all_in_cold(self, names: Iterable[str]) -> "Sides":
        """The same where cold has no late row of some chunks."""
        return replace(self, bases={**self.bases, **dict.fromkeys(names, EVERYTHING)})

    def late_chunks(self, file: ChunkFile) -> frozenset[str]:
        """The dropped chunks of which a file of cold has late rows."""
        names = self.layout.reached(file.times, self.bases)
        return frozenset(n for n in names if self.late.has(file, n, self.bases[n]))

    def lost(self, files: Collection[ChunkFile]) -> frozenset[str]:
        """The dropped chunks whose late rows lie in files that the record does not name.

        Args:
            files: The live data files of cold.
        """
        return self.late.lost(self.layout, files, self.bases)

    def side(self, file: ChunkFile, lost: Collection[str]) -> FileSide:
        """Tells what a file of cold is to hot.

        Args:
            file: The file.
            lost: As `lost` says.
        """
        names = self.layout.names(file.times)
        dropped = self.layout.reached(file.times, self.bases)
        late = self.late_chunks(file)
        if late == dropped:
            return FileSide.COPY
        is_told = all(n not in lost or file.sequence_number <= self.bases[n] for n in dropped)
        is_within = names is not None and set(names) <= self.bases.keys()
        return FileSide.MIXED if late or not (is_told and is_within) else FileSide.ONLY


def _base(chunk: Chunk, told: Mapping[str, int]) -> int:
    """Up to where cold has the only copy; its word about an earlier drop is none about the last."""
    if chunk.only_copy_base is not None:
        return chunk.only_copy_base
    base = told.get(chunk.name, EVERYTHING)
    return EVERYTHING if any(drop.base == base for drop in chunk.drops) else base
