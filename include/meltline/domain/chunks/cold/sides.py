"""Decides for each row of a table's chunks whether it counts in hot, in cold, or in both.

The union read, replication, gate and drop all use this one statement (LT-26, LT-33):

- Chunks whose drops are all undone: hot's rows count, and cold has copies of them.
- Chunks with a drop in force: rows that cold had at the drop count, and only cold has them. They
  are in files up to the drop's base, and in files that a compaction made from these.
- Hot's rows of such a chunk arrived after the drop and count as well. Files in cold that its own
  record names (`LateFiles`) are copies of them.
- If a compaction of cold has rewritten a recorded file, later files of the chunk have rows of both
  kinds. Hot's rows at cold's position separate them.
- If it is unknown whether the drop is in force, the chunk counts for neither side, unless hot has
  no row of it. Readers refuse (`Chunk.is_told`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout

EVERYTHING = 1 << 62
"""Base of chunks for which all rows in cold are the only copy."""


class FileSide(StrEnum):
    """Relation of a file of cold to hot."""

    COPY = "hot has its rows"
    ONLY = "nobody else has its rows"
    MIXED = "both together, or nobody can tell"


@dataclass(frozen=True)
class Sides:
    """The sides of one table.

    Attributes:
        layout: The chunk layout.
        bases: Chunks with rows of cold alone, each with their newest sequence number.
        late: Later files with rows that are in hot as well.
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
        """Computes the sides from the ledger's chunks.

        Args:
            layout: Their layout.
            chunks: The chunks with their status on the given state of hot.
            told: Cold's own record of its only copies, used where the ledger has no base.
            late: Cold's record of late files.
        """
        bases = {chunk.name: _base(chunk, told) for chunk in chunks if chunk.was_dropped}
        return cls(layout, bases, late)

    def all_in_cold(self, names: Iterable[str]) -> "Sides":
        """Treats some chunks as ones without late rows in cold."""
        return replace(self, bases={**self.bases, **dict.fromkeys(names, EVERYTHING)})

    def late_chunks(self, file: ChunkFile) -> frozenset[str]:
        """Returns the dropped chunks with late rows in a file of cold."""
        names = self.layout.reached(file.times, self.bases)
        return frozenset(n for n in names if self.late.has(file, n, self.bases[n]))

    def lost(self, files: Collection[ChunkFile]) -> frozenset[str]:
        """Returns the dropped chunks whose late rows are in files that the record does not name.

        Args:
            files: The live data files of cold.
        """
        return self.late.lost(self.layout, files, self.bases)

    def side(self, file: ChunkFile, lost: Collection[str]) -> FileSide:
        """Classifies a file of cold by its relation to hot.

        Args:
            file: The file.
            lost: The result of `lost`.
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
    """Base of the only copy; cold's record of an earlier drop does not apply to the last one."""
    if chunk.only_copy_base is not None:
        return chunk.only_copy_base
    base = told.get(chunk.name, EVERYTHING)
    return EVERYTHING if any(drop.base == base for drop in chunk.drops) else base
