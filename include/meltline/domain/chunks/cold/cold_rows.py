"""Row counts of dropped chunks in cold, by its files, for comparison with the recorded ones.

`app/chunks/replication/cold_rows` uses it. Checksums need an engine and are in `row_digests`.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.cold.late_files import LateFiles
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.chunks.sync import Position
from meltline.domain.iceberg.files import FileKind

COLD_CHANGED = "COLD_CHANGED"
"""Why replication stops: cold has other rows of dropped chunks than were recorded."""
_COUNTED = (FileKind.DATA, FileKind.POSITION_DELETE, FileKind.DELETION_VECTOR)


@dataclass(frozen=True)
class ColdRows:
    """Row counts of chunks in cold, by kinds of files.

    Replication replaces whole files: a delete file in cold is another writer's.

    Attributes:
        only: Rows of cold alone, in files from before the drop or rewritten from these.
        late: Rows that replication copied after the drop.
        doubtful: Rows written after the drop where late ones were mixed with dropped ones.
        deleted: Rows of data files that delete files name.
        uncounted: Chunks with files of several chunks.
        by_condition: Chunks with delete files whose rows cannot be counted.
        paths: The data files with rows as in `only`, of several chunks too.
        mingled: Chunks with late or doubtful rows in files of several chunks.
    """

    only: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    uncounted: set[str] = field(default_factory=set)
    by_condition: set[str] = field(default_factory=set)
    paths: dict[str, list[str]] = field(default_factory=dict)
    mingled: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        layout: ChunkLayout,
        files: Collection[ChunkFile],
        bases: Mapping[str, int],
        late: LateFiles,
    ) -> "ColdRows":
        """Counts the rows.

        Args:
            layout: The table's chunk layout.
            files: The live data and delete files of cold.
            bases: The chunks, each with cold's newest sequence number at its drop.
            late: Which files have late rows, by cold's own record.
        """
        rows = cls()
        data = [file for file in files if file.kind is FileKind.DATA]
        mixed = late.lost(layout, data, bases)
        for file in files:
            names = layout.names(file.times)
            chunks = bases.keys() if names is None else bases.keys() & set(names)
            is_counted = names is not None and len(names) == 1 and file.kind in _COUNTED
            if not is_counted:
                is_data = file.kind is FileKind.DATA
                (rows.uncounted if is_data else rows.by_condition).update(chunks)
            for name in chunks:
                is_late = late.has(file, name, bases[name])
                is_doubtful = name in mixed and file.sequence_number > bases[name]
                kind = rows._kind(file, is_late=is_late, is_doubtful=is_doubtful)
                if is_counted:
                    kind[name] += file.rows
                elif is_late or is_doubtful:
                    rows.mingled.add(name)
                if kind is rows.only:
                    rows.paths.setdefault(name, []).append(file.path)
        return rows

    def is_whole(self, name: str) -> bool:
        """Whether all rows of a chunk are rows of cold alone."""
        return not (self.late[name] or self.doubtful[name] or name in self.mingled)

    def only_paths(self, name: str) -> list[str] | None:
        """The data files with rows of cold alone; None if they have others as well."""
        is_apart = name not in self.uncounted and not self.doubtful[name]
        return self.paths.get(name, []) if is_apart else None

    def _kind(self, file: ChunkFile, *, is_late: bool, is_doubtful: bool) -> Counter[str]:
        if file.kind is not FileKind.DATA:
            return self.deleted
        if is_late:
            return self.late
        return self.doubtful if is_doubtful else self.only

    def total(self, name: str) -> int | None:
        """All rows of a chunk; None if they cannot be counted."""
        if name in self.uncounted | self.by_condition:
            return None
        return self.only[name] + self.late[name] + self.doubtful[name] - self.deleted[name]

    def recordable(self, chunk: Chunk, position: Position | None) -> int | None:
        """The rows of a dropped chunk that only cold has; None if unknown."""
        total = self.total(chunk.name)
        if total is None or (self.doubtful[chunk.name] and not _is_over(chunk, position)):
            return None
        return total - self.late[chunk.name]

    def difference(self, chunk: Chunk, position: Position | None) -> str:
        """Describes how a dropped chunk differs from the recorded one; empty if it does not.

        Late rows that others have merged into one file with dropped ones cannot be separated: then
        the counts need only be possible.

        Args:
            chunk: The chunk.
            position: The position up to which cold has the rows of hot.
        """
        name, drop = chunk.name, chunk.only_copy
        if drop is None or drop.rows is None or name in self.uncounted:
            return ""
        if name in self.by_condition:
            return f"{name}: others delete rows by condition, of {drop.rows} that were dropped"
        most = self.only[name] + self.doubtful[name] - self.deleted[name]
        least = most if _is_over(chunk, position) else most - self.doubtful[name]
        late = _late_at_most(chunk, position)
        is_more = late is not None and most + self.late[name] > drop.rows + late
        if least <= drop.rows <= most and not is_more:
            return ""
        besides = f" and {self.late[name]} late ones, hot at most {late}" if is_more else ""
        return f"{name}: {drop.rows} rows were dropped, cold has {most}{besides}"


def _is_over(chunk: Chunk, position: Position | None) -> bool:
    """Whether hot has no late rows of a chunk, and cold is up to date with that."""
    return not chunk.is_resident and _is_copied(chunk, position)


def _late_at_most(chunk: Chunk, position: Position | None) -> int | None:
    """Maximum number of late rows of a reopened chunk in cold; None if unknown."""
    is_counted = chunk.status is ChunkStatus.REOPENED and not chunk.spans
    return chunk.rows if is_counted and _is_copied(chunk, position) else None


def _is_copied(chunk: Chunk, position: Position | None) -> bool:
    """Whether cold has hot's current rows of a chunk.

    After a rollback it has hot's earlier rows, until everything is copied in the new generation.
    """
    if position is None or chunk.last_write is None:
        return position is not None and chunk.generation in (0, position.generation)
    return chunk.generation == position.generation and chunk.last_write <= position.place
