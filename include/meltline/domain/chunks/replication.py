"""What one pass of replication has to copy, and which files of cold leave with it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from meltline.domain.chunks.cold.sides import FileSide, Sides
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange, chunks_of
from meltline.domain.iceberg.files import FileKind


@dataclass(frozen=True)
class ReplicationBacklog:
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


def backlog_of(layout: ChunkLayout, changes: Iterable[SnapshotChange]) -> ReplicationBacklog:
    """What has to be copied of some commits, in whatever order their rows came and went."""
    replaced: set[str] = set()
    appends = False
    for change in changes:
        if change.rewrites_only:
            continue
        names = change.rewritten(layout)
        if names is None:
            return ReplicationBacklog(None, appends=False)
        if change.operation != "append":
            # Only appends are read commit by commit: what an overwrite adds is taken as a whole.
            added = chunks_of(layout, change.added)
            if added is None:
                return ReplicationBacklog(None, appends=False)
            names |= added
        replaced |= names
        appends |= change.operation == "append" and bool(change.added)
    return ReplicationBacklog(frozenset(replaced), appends)


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
    sides: Sides, files: Sequence[ChunkFile], replaced: frozenset[str] | None
) -> LeavingFiles:
    """What leaves cold where chunks are replaced; what cold alone has never does (LT-26).

    Args:
        sides: Which rows cold alone has.
        files: The live data files of cold.
        replaced: The chunks; None is every one.
    """
    of_file = {file.path: sides.layout.names(file.times) for file in files}
    chunks, lost = _closed(replaced, of_file.values()), sides.lost(files)
    reached: dict[FileSide, dict[str, frozenset[str]]] = {side: {} for side in FileSide}
    for file in files:
        names = of_file[file.path]
        if chunks is None or names is None or chunks & set(names):
            of_dropped = sides.layout.reached(file.times, sides.bases)
            reached[sides.side(file, lost)][file.path] = of_dropped
    copies, mixed = reached[FileSide.COPY], reached[FileSide.MIXED]
    if chunks is not None and any(of_file[path] is None for path in mixed):
        return leaving_files(sides, files, None)
    kept = frozenset[str]().union(*mixed.values())
    shared = [path for path, of_dropped in copies.items() if kept & of_dropped]
    return LeavingFiles((*copies, *mixed), chunks, (*mixed, *shared), kept)


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
