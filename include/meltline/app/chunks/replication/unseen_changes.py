"""Main's changes while nothing was replicated, as far as hot's history still shows them.

A full copy reads them to find deletes that cold must not repeat.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.tracking import changes_of
from meltline.app.services import ReadContext
from meltline.domain.chunks.layout import ChunkLayout, SnapshotChange
from meltline.domain.chunks.sync import Position
from meltline.domain.iceberg.table_metadata import Snapshot


@dataclass(frozen=True)
class UnseenChanges:
    """The commits after cold's position.

    Attributes:
        changes: Commits whose previous state hot still has, oldest first.
        is_whole: Whether these are all commits since.
        oldest: The change of main's oldest snapshot, if it is not among them.
        missing: How many commits were between cold's position and that snapshot; None if unknown.
    """

    changes: Sequence[SnapshotChange]
    is_whole: bool
    oldest: SnapshotChange | None = None
    missing: int | None = None

    def is_before(self, layout: ChunkLayout, chunk: str) -> bool:
        """Whether cold's rows of an emptied chunk are those that hot had before the delete.

        They are if a single commit, which has expired, can have changed the chunk since cold's
        position: that commit is then the delete.
        """
        visible = [*self.changes, *([self.oldest] if self.oldest else [])]
        reached = [change.touched(layout) for change in visible]
        return self.missing == 1 and not any(names is None or chunk in names for names in reached)


def unseen_changes(
    context: ReadContext, hot: HotTable, position: Position | None, layout: ChunkLayout
) -> UnseenChanges:
    """Reads the commits after cold's position.

    Raises:
        MetadataUnreadable: A manifest cannot be read.
    """
    files = context.chunk_files
    if position is None:
        return UnseenChanges((), is_whole=False)
    since = hot.since(position.snapshot_id)
    if since is not None:
        return UnseenChanges(changes_of(files, layout, since, position.place + 1), is_whole=True)
    if not hot.line:
        return UnseenChanges((), is_whole=False)
    oldest, *shown = reversed(hot.line)
    (first,) = changes_of(files, layout, [oldest], position.place + 1)
    changes = changes_of(files, layout, shown, position.place + 2)
    missing = _between(hot.state.snapshots.get(position.snapshot_id), oldest)
    return UnseenChanges(changes, is_whole=False, oldest=first, missing=missing)


def _between(before: Snapshot | None, after: Snapshot) -> int | None:
    """Number of commits between two snapshots; in format 1 snapshots have no numbers."""
    if before is None or not before.sequence_number:
        return None
    return after.sequence_number - before.sequence_number - 1
