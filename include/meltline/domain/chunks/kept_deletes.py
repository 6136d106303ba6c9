"""Deletes by others that cold keeps: the chunks they emptied, and the state before them.

Replication passes use it. Cold keeps a chunk as hot had it before the first such delete. Deletes
that found their chunks in the same state are grouped, so that a single copy is enough.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.layout import ChunkFile, ChunkLayout, SnapshotChange
from meltline.domain.chunks.replication import empties_only
from meltline.domain.iceberg.files import FileKind


@dataclass
class KeptDelete:
    """Commits that together emptied chunks without other changes to these chunks in between.

    Attributes:
        first: The first commit: cold keeps hot's state before it.
        chunks: The emptied chunks, by the commit that removed their last files.
    """

    first: SnapshotChange
    chunks: dict[str, int] = field(default_factory=dict)

    def is_marked(self, chunks: Mapping[str, Chunk]) -> bool:
        """Whether the ledger already records all of it, with the rows that cold keeps."""
        return all(
            name in chunks
            and any(drop.snapshot_id == id and drop.base is not None for drop in chunks[name].drops)
            for name, id in self.chunks.items()
        )


def kept_together(
    layout: ChunkLayout, changes: Sequence[SnapshotChange], kept: Collection[int]
) -> list[KeptDelete]:
    """Groups the deletes that cold keeps by the state in which they found their chunks.

    Args:
        layout: The table's chunk layout.
        changes: Main's changes, oldest first.
        kept: The commits that cold does not apply; each reaches into known chunks.
    """
    together: list[KeptDelete] = []
    written: list[frozenset[str] | None] = []
    for change in changes:
        touched = change.touched(layout)
        if change.snapshot_id not in kept:
            written.append(touched)
            continue
        names = touched or frozenset()
        reach = names.union(together[-1].chunks if together else ())
        if not together or any(other is None or other & reach for other in written):
            together.append(KeptDelete(change))
            written = []
        together[-1].chunks |= dict.fromkeys(names, change.snapshot_id)
    return together


def counts_before(
    layout: ChunkLayout,
    counts: Mapping[str, int],
    later: Iterable[SnapshotChange],
    count: Callable[[ChunkFile], int] = lambda _: 1,
) -> Counter[str]:
    """Computes each chunk's counts before some commits.

    Args:
        layout: The table's chunk layout.
        counts: The counts after them.
        later: The commits.
        count: A file's count in each chunk into which it reaches.
    """
    before = Counter(counts)
    for change in later:
        for sign, files in ((-1, change.added), (1, change.removed)):
            for file in files:
                if file.kind is FileKind.DATA:
                    names = layout.names(file.times)
                    for name in list(before) if names is None else names:
                        before[name] += sign * count(file)
    return before


def emptying(
    layout: ChunkLayout,
    changes: Sequence[SnapshotChange],
    files: Mapping[str, int],
    *,
    in_parts: bool,
) -> dict[int, frozenset[str]]:
    """Finds commits that left no file in any chunk that they touched, with these chunks.

    Args:
        layout: The table's chunk layout.
        changes: Main's changes, oldest first.
        files: How many data files each chunk has after all of them.
        in_parts: Whether a commit also counts if the next one that touches its chunks removes the
            rest.
    """
    after, emptied = Counter(files), dict[int, frozenset[str]]()
    finished: set[str] = set()
    for change in reversed(changes):
        touched = change.touched(layout)
        if touched is None:
            finished = set()
        elif empties_only(change) and all(n in finished or not after[n] for n in touched):
            emptied[change.snapshot_id] = touched
            finished |= touched if in_parts else set()
        else:
            finished -= touched
        after = counts_before(layout, after, [change])
    return emptied
