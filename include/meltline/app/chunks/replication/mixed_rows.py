"""Tells dropped rows and late rows of cold apart again, where a compaction has mixed them.

The rows tell: of a reopened chunk cold has what was dropped, and every row that hot had at cold's
position. Hot keeps that snapshot, so that what cold alone has is the difference.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from meltline.app.chunks.replication.refusals import mixed_files
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.chunks.tracking import Tracking
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import UNKNOWN_DROP, Standing
from meltline.domain.chunks.replication import LeavingFiles
from meltline.ports import MixedRows


@dataclass(frozen=True)
class LateRows:
    """The rows of hot that cold has beside what was dropped, by snapshots of hot.

    Attributes:
        tracking: The chunks.
        synced: Cold, before a pass changes it.
    """

    context: RunContext
    tracking: Tracking
    synced: SyncedTable

    def mixed(self, leaving: LeavingFiles) -> MixedRows | None:
        """What is to be told apart in files that leave; None where nothing is mixed.

        Raises:
            SyncRefused: The snapshots of hot that would tell have expired.
        """
        if not leaving.apart:
            return None
        late, unknown = self._by_snapshot(leaving.kept)
        if unknown:
            raise mixed_files(self.tracking.hot.state.name, unknown)
        return MixedRows(leaving.apart, leaving.kept, late)

    def without(self, names: Collection[str]) -> frozenset[str]:
        """Those of some chunks of which cold has no late row at all."""
        rows = self.context.chunk_rows
        assert rows is not None  # there is a cold tier
        late, unknown = self._by_snapshot(names)
        hot, layout = self.tracking.hot.state.name, self.tracking.table.layout
        with_rows = {n for id, of in late.items() for n in rows.digests(hot, id, layout, of)}
        return frozenset(names) - with_rows - unknown

    def _by_snapshot(
        self, names: Collection[str]
    ) -> tuple[Mapping[int, frozenset[str]], frozenset[str]]:
        """The snapshots whose rows of some chunks are late, and the chunks of unknown ones."""
        late: defaultdict[int, set[str]] = defaultdict(set)
        unknown = set[str]()
        for name in names:
            try:
                for snapshot_id in self._snapshots(name):
                    late[snapshot_id].add(name)
            except LookupError:
                unknown.add(name)
        return {id: frozenset(of) for id, of in late.items()}, frozenset(unknown)

    def _snapshots(self, name: str) -> tuple[int, ...]:
        """The snapshots whose rows of a chunk, together, are late; none where nothing is.

        That is cold's position, unless main dropped the chunk after it. A rollback may have left
        drops behind that cold has seen: the rows that these took are late again.

        Raises:
            LookupError: The history that would tell has expired.
        """
        chunk, hot = self.tracking.chunks.get(name), self.tracking.hot
        drops = [d for d in chunk.drops if d.standing is not Standing.UNDONE] if chunk else []
        if chunk is None or not drops:
            return ()  # it is kept from now on: all that cold has
        position = self.synced.position
        if position is None or position.snapshot_id not in hot.state.snapshots:
            raise LookupError
        at = position.snapshot_id
        line = {snapshot.snapshot_id for snapshot in hot.line}
        seen = {snapshot.snapshot_id for snapshot in hot.state.ancestry(at)}
        last = drops[-1].snapshot_id
        if last != UNKNOWN_DROP and last in line - seen and at in line:
            return ()
        if seen.isdisjoint(line) or last in line - seen:
            raise LookupError
        undone = [d.snapshot_id for d in chunk.drops if d.snapshot_id in seen - line]
        parents = [hot.state.snapshots[id].parent_id for id in undone]
        if not all(parent in hot.state.snapshots for parent in parents):
            raise LookupError
        return (at, *(parent for parent in parents if parent is not None))
