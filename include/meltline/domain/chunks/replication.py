"""What one pass of replication has to copy, and which files of cold leave with it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange, chunks_of
from meltline.domain.iceberg.files import FileKind

EVERYTHING = 1 << 62
"""A sequence number for chunks of which all that cold has is the only copy."""


@dataclass(frozen=True)
class Backlog:
    """What main did since cold was last brought up to it; our own drops are not in it.

    Attributes:
        replaced: Chunks in which rows left or changed: cold is to have them as hot has them now.
            None is all there are.
        appends: Whether rows were added in other chunks.
    """

    replaced: frozenset[str] | None
    appends: bool

    @property
    def is_empty(self) -> bool:
        """Whether no row is another one than before: compactions, and what we dropped."""
        return self.replaced == frozenset() and not self.appends


def backlog_of(layout: ChunkLayout, changes: Iterable[SnapshotChange]) -> Backlog:
    """What has to be copied of some commits, in whatever order their rows came and went."""
    replaced: set[str] = set()
    appends = False
    for change in changes:
        if change.rewrites_only:
            continue
        names = change.rewritten(layout)
        if names is None:
            return Backlog(None, appends=False)
        if change.operation != "append":
            # Only appends are read commit by commit: what an overwrite adds is taken as a whole.
            added = chunks_of(layout, change.added)
            if added is None:
                return Backlog(None, appends=False)
            names |= added
        replaced |= names
        appends |= change.operation == "append" and bool(change.added)
    return Backlog(frozenset(replaced), appends)


@dataclass(frozen=True)
class ColdFile:
    """A file of the synced table.

    Attributes:
        is_ours: Whether replication wrote it: a compaction of cold by its owner did not.
    """

    file: ChunkFile
    is_ours: bool

    def is_copy_after(self, base: int | None) -> bool:
        """Whether replication wrote it after some sequence number; None is none."""
        return self.is_ours and base is not None and self.file.sequence_number > base


@dataclass(frozen=True)
class LeavingFiles:
    """Files of cold that a pass replaces.

    Attributes:
        paths: Those that leave.
        chunks: Of which chunks cold is then to get everything that hot has: those asked for, and
            those that share a file with them.
        mixed: Files of which nobody can tell whether they hold what cold alone has.
    """

    paths: tuple[str, ...]
    chunks: frozenset[str]
    mixed: tuple[str, ...]


def leaving_files(
    layout: ChunkLayout,
    files: Sequence[ColdFile],
    replaced: frozenset[str] | None,
    dropped: Mapping[str, int],
    resident: Collection[str],
) -> LeavingFiles:
    """What leaves cold where chunks are replaced; what cold alone has never does (LT-26).

    Args:
        layout: What the table's chunks are.
        files: The live data files of cold.
        replaced: The chunks; None is every one.
        dropped: Chunks that cold alone has, with the newest sequence number of what was dropped:
            later files of them are late rows that hot has as well.
        resident: Chunks of which hot has rows.
    """
    of_file = {cold.file.path: layout.names(cold.file.times) for cold in files}
    chunks = _closed(replaced, of_file.values())
    parts: dict[_Part, list[str]] = {part: [] for part in _Part}
    for cold in files:
        names = of_file[cold.file.path]
        if chunks is None or names is None or chunks & set(names):
            parts[_part(cold, names, dropped, resident)].append(cold.file.path)
    known = frozenset(name for names in of_file.values() for name in names or ())
    return LeavingFiles(
        tuple(parts[_Part.COPY]),
        known if chunks is None else chunks,
        tuple(parts[_Part.NOBODY_KNOWS]),
    )


class _Part(StrEnum):
    """What a file of cold is to hot."""

    COPY = "hot has its rows"
    ONLY = "nobody else has its rows"
    NOBODY_KNOWS = "both together, or nobody can tell"


def _part(
    cold: ColdFile,
    names: Collection[str] | None,
    dropped: Mapping[str, int],
    resident: Collection[str],
) -> _Part:
    """What a file is, by when it was written: late rows of a dropped chunk came after the drop.

    What cold's owner has written of a chunk that hot has no rows of is the only copy, too.
    """
    bases = [base for name, base in dropped.items() if names is None or name in names]
    number = cold.file.sequence_number
    if not bases:
        return _Part.COPY
    is_foreign = not cold.is_ours and names is not None and not set(names) & set(resident)
    if number <= min(bases) or is_foreign:
        return _Part.ONLY
    is_late = number > max(bases) and cold.is_ours
    is_within = names is not None and set(names) <= dropped.keys()
    return _Part.COPY if is_late and is_within else _Part.NOBODY_KNOWS


def _closed(
    replaced: frozenset[str] | None, files: Iterable[Collection[str] | None]
) -> frozenset[str] | None:
    """The chunks with all that share a file with them; None where that is all of them."""
    if replaced is None:
        return None
    spans = [set(names) for names in files if names is not None and len(names) > 1]
    chunks, size = set(replaced), -1
    while size != len(chunks):
        size = len(chunks)
        for names in spans:
            if names & chunks:
                chunks |= names
    return frozenset(chunks)


def rows_removed(change: SnapshotChange) -> int:
    """How many rows a commit has taken away, at least: what it wrote anew is taken off.

    A delete file that another one stands for from then on has taken its rows away before.
    """
    if change.rewrites_only:
        return 0
    signs = {FileKind.DATA: -1, FileKind.EQUALITY_DELETE: 1}
    added = sum(file.rows * signs.get(file.kind, 1) for file in change.added)
    removed = sum(
        file.rows * -signs.get(file.kind, 1)
        for file in change.removed
        if file.kind is not FileKind.EQUALITY_DELETE
    )
    return max(0, removed + added)


def empties_only(change: SnapshotChange) -> bool:
    """Whether a commit did nothing but to take data files away, as an expiry of partitions does."""
    return bool(change.removed) and not change.added
