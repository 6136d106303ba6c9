"""What one pass of replication has to copy, and which files of cold leave with it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from meltline.domain.chunks.cold.late_files import LateFiles
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
class LeavingFiles:
    """Files of cold that a pass replaces.

    Attributes:
        paths: Those that leave.
        chunks: Of which chunks cold is then to get everything that hot has: those asked for, and
            those that share a file with them; None is every one.
        apart: Those among the paths that hold what cold alone has and other rows together: it is
            written anew.
        kept: The chunks of which cold alone has rows in these files.
    """

    paths: tuple[str, ...] = ()
    chunks: frozenset[str] | None = frozenset()
    apart: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


def leaving_files(
    layout: ChunkLayout,
    files: Sequence[ChunkFile],
    replaced: frozenset[str] | None,
    dropped: Mapping[str, int],
    late: LateFiles,
) -> LeavingFiles:
    """What leaves cold where chunks are replaced; what cold alone has never does (LT-26).

    Args:
        layout: What the table's chunks are.
        files: The live data files of cold.
        replaced: The chunks; None is every one.
        dropped: Chunks that cold alone has, with the newest sequence number of what was dropped.
        late: Which later files have late rows, which hot has as well.
    """
    of_file = {file.path: layout.names(file.times) for file in files}
    chunks = _closed(replaced, of_file.values())
    lost = late.lost(layout, files, dropped)
    reached: dict[_Part, dict[str, frozenset[str]]] = {part: {} for part in _Part}
    for file in files:
        names = of_file[file.path]
        if chunks is None or names is None or chunks & set(names):
            of_dropped = layout.reached(file.times, dropped)
            part = _part(file, names, {name: dropped[name] for name in of_dropped}, late, lost)
            reached[part][file.path] = of_dropped
    copies, mixed = reached[_Part.COPY], reached[_Part.MIXED]
    if chunks is not None and any(of_file[path] is None for path in mixed):
        return leaving_files(layout, files, None, dropped, late)
    kept = frozenset[str]().union(*mixed.values())
    shared = [path for path, of_dropped in copies.items() if kept & of_dropped]
    return LeavingFiles((*copies, *mixed), chunks, (*mixed, *shared), kept)


class _Part(StrEnum):
    """What a file of cold is to hot."""

    COPY = "hot has its rows"
    ONLY = "nobody else has its rows"
    MIXED = "both together, or nobody can tell"


def _part(
    file: ChunkFile,
    names: Collection[str] | None,
    dropped: Mapping[str, int],
    late: LateFiles,
    lost: Collection[str],
) -> _Part:
    """What a file with rows of some dropped chunks is: late rows lie in files that are recorded.

    Where a recorded one is gone, any later file of the chunk may have its rows.
    """
    is_copy = {late.has(file, name, base) for name, base in dropped.items()}
    if False not in is_copy:
        return _Part.COPY
    is_told = all(n not in lost or file.sequence_number <= base for n, base in dropped.items())
    is_within = names is not None and set(names) <= dropped.keys()
    return _Part.ONLY if is_copy == {False} and is_told and is_within else _Part.MIXED


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
