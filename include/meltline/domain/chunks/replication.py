"""Backlog of one replication pass: the chunks to copy, and the files of cold to remove.

`app/chunks/replication` uses it. It decides from file metadata alone; the engine copies the rows.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from meltline.domain.chunks.cold.sides import FileSide, Sides
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange, chunks_of
from meltline.domain.iceberg.files import FileKind


@dataclass(frozen=True)
class ReplicationBacklog:
    """Main's changes since cold was last updated, without own drops.

    Attributes:
        replaced: Chunks with removed or changed rows, to be copied as hot has them now. None means
            all.
        appends: Whether rows were added in other chunks.
    """

    replaced: frozenset[str] | None
    appends: bool

    @property
    def is_empty(self) -> bool:
        """Whether no row has changed: compactions and own drops only."""
        return self.replaced == frozenset() and not self.appends


def backlog_of(layout: ChunkLayout, changes: Iterable[SnapshotChange]) -> ReplicationBacklog:
    """Computes the backlog of some commits, in whatever order rows were added and removed."""
    replaced: set[str] = set()
    appends = False
    for change in changes:
        if change.rewrites_only:
            continue
        names = change.rewritten(layout)
        if names is None:
            return ReplicationBacklog(None, appends=False)
        if change.operation != "append":
            # Only appends are read commit by commit: chunks that an overwrite adds to are copied
            # whole.
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
        paths: The files to remove.
        chunks: Chunks that are then copied from hot: the requested ones, and those that share a
            file with them; None means every one.
        apart: Files among them that mix rows of cold alone with others: these rows are rewritten.
        kept: The chunks whose rows in these files only cold has.
    """

    paths: tuple[str, ...] = ()
    chunks: frozenset[str] | None = frozenset()
    apart: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


def leaving_files(
    sides: Sides, files: Sequence[ChunkFile], replaced: frozenset[str] | None
) -> LeavingFiles:
    """Finds the files that leave cold when chunks are replaced; only copies never leave (LT-26).

    Args:
        sides: Which rows only cold has.
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
    """Adds the chunks that share a file with given ones, transitively; None means all."""
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
    """Returns the minimum number of rows that a commit removed, rewritten rows subtracted.

    A delete file that is replaced by a newer one had already removed its rows.
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
    """Whether a commit only removed data files, as an expiry of partitions does."""
    return bool(change.removed) and not change.added
