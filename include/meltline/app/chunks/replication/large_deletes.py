"""Detects large deletes by others, alone or together within a window of time.

Replication passes call it before anything is mirrored. Deletes that were mirrored before are read
from cold's own snapshots: each records the table's number of rows, and no delete is missing there.
So no other state is needed; if cold's or hot's snapshots have expired, the window is only as long
as they reach.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.kept_chunks import files_of
from meltline.app.chunks.replication.refusals import deletes_way_out, refusal
from meltline.app.chunks.replication.staged_copy import StagedCopy
from meltline.app.chunks.replication.synced_table import SyncedTable
from meltline.app.chunks.tracking import Tracking
from meltline.app.observe.own_drops import own_drop
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.services import RunContext
from meltline.domain.chunks.kept_deletes import counts_before, emptying
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.replication import LeavingFiles, empties_only, rows_removed
from meltline.domain.chunks.sync import (
    LARGE_DELETES,
    SYNC_COMMIT,
    SYNC_DROPPED,
    SYNC_GENERATION,
    SYNC_PLACE,
    SYNC_SNAPSHOT,
    Deletes,
    Position,
    TableSync,
)
from meltline.domain.errors import CommitConflict, SyncRefused
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import CopyOutcome, CopyRequest


@dataclass(frozen=True)
class Removal:
    """Rows that were removed.

    Attributes:
        at: When.
        rows: How many.
        before: How many hot had before, by its totals; zero if they are unknown.
        change: The commit of hot; None if it was mirrored before.
    """

    at: datetime
    rows: int
    before: int
    change: SnapshotChange | None = None


@dataclass(frozen=True)
class LargeDeletes:
    """Decides which deletes by others are mirrored, and which an operator has cold keep.

    Attributes:
        sync: The sync with the operator's decisions so far; `deletes` is the current one.
        synced: The table in cold.
    """

    context: RunContext
    hot: HotTable
    sync: TableSync
    synced: SyncedTable
    deletes: Deletes | None

    def decided(self, tracking: Tracking, changes: Sequence[SnapshotChange]) -> TableSync:
        """Returns the sync with the operator's decisions about large deletes among some commits.

        A decision covers all undecided deletes in these commits, since others may have deleted by
        many small commits. `keep` covers small ones only if those beside the large ones exceed the
        limit, and then only those that emptied their chunks: rows that a user deleted stay deleted.

        Args:
            tracking: The chunks as they are after the commits.
            changes: Main's changes, including own drops.

        Raises:
            SyncRefused: They would remove a large share of cold, and are undecided.
        """
        past, removals = self._mirrored(), self._removals(tracking, changes)
        large = self._first_large([*past, *removals])
        if large is None:
            return self.sync
        if self.deletes is None:
            raise self._undecided(*large)
        sync, mirrored = self.sync, removals
        if self.deletes is Deletes.KEEP:
            files, layout = files_of(tracking), tracking.table.layout
            emptied = emptying(layout, changes, files, in_parts=False)
            whole = [r for r in removals if r.change and r.change.snapshot_id in emptied]
            alone = [r for r in whole if self._first_large([r])]
            if not self._first_large([*past, *(r for r in removals if r not in alone)]):
                whole = alone
            sync = _said(Deletes.KEEP, sync, whole)
            mirrored = [r for r in removals if r not in whole]
        word = self.deletes if self._first_large(mirrored) else Deletes.MIRROR
        return _said(word, sync, mirrored)

    def _first_large(self, removals: Sequence[Removal]) -> tuple[Removal, int, int] | None:
        """Returns the first commit that exceeds the limit in its window, with rows removed."""
        limits = self.context.config.chunks
        if limits.max_foreign_deletes >= 1:  # all rows: no approval is needed
            return None
        for number, last in enumerate(removals):
            since = last.at - limits.foreign_deletes_window
            together = [r for r in removals[: number + 1] if r.at > since or r is last]
            removed, rows = sum(r.rows for r in together), max(r.before for r in together)
            if last.change and removed > limits.max_foreign_deletes * rows:
                return last, removed, rows
        return None

    def _undecided(self, last: Removal, removed: int, rows: int) -> SyncRefused:
        change, limits = last.change, self.context.config.chunks
        assert change is not None
        verb = "empties partitions" if empties_only(change) else "deletes rows"
        days = limits.foreign_deletes_window.total_seconds() / 86400
        together = "" if removed == last.rows else f", with the deletes of {days:g} days before it"
        return refusal(
            LARGE_DELETES,
            f"snapshot {change.snapshot_id} of {self.hot.state.name} {verb}{together}: {removed} "
            f"of {rows} rows, more than replication mirrors unasked",
            object=f"{self.hot.state.name}@{change.snapshot_id}",
            expected=f"at most {limits.max_foreign_deletes:.0%} of the rows in {days:g} days "
            "(chunks.max-foreign-deletes, chunks.foreign-deletes-window)",
            found=f"{removed} of {rows} rows",
            next=deletes_way_out(self.hot.state.name),
        )

    # --- commits that are not mirrored yet
    # -----------------------------------------------------------

    def _removals(self, tracking: Tracking, changes: Sequence[SnapshotChange]) -> list[Removal]:
        """Rows that each undecided commit removed."""
        plans, uuid = self.context.control.plans, self.hot.state.uuid
        decided = {*self.sync.allowed_deletes, *self.sync.kept_deletes}
        undecided = [
            change
            for change in changes
            if change.snapshot_id not in decided and own_drop(plans, change, uuid) is None
        ]
        by_key = self._by_key(tracking, changes, undecided)
        removals = []
        for change in undecided:
            rows = by_key.get(change.snapshot_id, rows_removed(change))
            if rows:
                at = self.hot.state.snapshots[change.snapshot_id].committed_at
                before = _rows_before(self.hot.state, change)
                removals.append(Removal(at, rows, before, change))
        return removals

    def _by_key(
        self,
        tracking: Tracking,
        changes: Sequence[SnapshotChange],
        undecided: Sequence[SnapshotChange],
    ) -> Mapping[int, int]:
        """Estimates the rows removed by deletes by key: their files only count the keys.

        Together they affect no more rows than their chunks have. Rows are read only if that would
        be a large share; else the keys count, and cold's totals report any excess to the next pass.
        """
        layout = tracking.table.layout
        rows = Counter({name: chunk.rows for name, chunk in tracking.chunks.items()})
        reach, keyed = Counter[str](), [c for c in undecided if _deletes_by_key(c)]
        for change in reversed(changes if keyed else ()):
            rows = counts_before(layout, rows, [change], lambda file: file.rows)
            if change in keyed:
                touched = change.touched(layout)
                reach |= Counter({name: rows[name] for name in touched or rows})
        most = self.context.config.chunks.max_foreign_deletes
        before = max((_rows_before(self.hot.state, change) for change in keyed), default=0)
        if reach.total() <= most * before / 2:
            return {}
        return {change.snapshot_id: 0 for change in keyed} | dict(
            self._counted(tracking, undecided)
        )

    def _counted(
        self, tracking: Tracking, undecided: Sequence[SnapshotChange]
    ) -> Iterator[tuple[int, int]]:
        """Counts the rows removed by runs of deletes by key, each at the run's last commit.

        Within a run the only other commits are compactions and appends, whose rows are subtracted.
        """
        layout = tracking.table.layout
        for is_run, group in groupby(undecided, lambda c: _deletes_by_key(c) or _adds_only(c)):
            run = list(group)
            keyed = [change for change in run if _deletes_by_key(change)]
            if not is_run or not keyed:
                continue
            within = run[run.index(keyed[0]) : run.index(keyed[-1]) + 1]
            reached = [change.touched(layout) for change in keyed]
            names = None if None in reached else frozenset[str]().union(*filter(None, reached))
            parent = self.hot.state.snapshots[keyed[0].snapshot_id].parent_id
            before, after = (
                self._rows_at(tracking, id, names) for id in (parent, keyed[-1].snapshot_id)
            )
            appended = sum(
                file.rows
                for change in within
                if change.operation == "append"
                for file in change.added
                if names is None or names.intersection(layout.names(file.times) or names)
            )
            yield keyed[-1].snapshot_id, max(0, before + appended - after)

    def _rows_at(
        self, tracking: Tracking, snapshot_id: int | None, names: frozenset[str] | None
    ) -> int:
        rows = self.context.chunk_rows
        assert rows is not None  # a cold tier is configured
        if snapshot_id is None:
            return 0
        table, layout = self.hot.state.name, tracking.table.layout
        return sum(d.rows for d in rows.digests(table, snapshot_id, layout, names).values())

    # --- mirrored before
    # -----------------------------------------------------------------------------

    def _mirrored(self) -> list[Removal]:
        """Rows that passes removed from cold since the operator's last decision about deletes."""
        line = list(reversed(self.hot.line))
        place = {snapshot.snapshot_id: number for number, snapshot in enumerate(line)}
        decided = {*self.sync.allowed_deletes, *self.sync.kept_deletes}
        begin = max((place[id] for id in decided if id in place), default=-1)
        removals, before = [], None
        for upto, passes in groupby(self._passes(), lambda s: s.summary[SYNC_COMMIT]):
            snapshots, at = list(passes), place.get(int(upto))
            if before is not None and at is not None and begin <= before < at:
                rows = sum(map(self._lost, snapshots)) + _appended(line[before : at + 1])
                if rows > 0:
                    had = _total(line[before]) or 0
                    removals.append(Removal(snapshots[-1].committed_at, rows, had))
            before = at
        return removals

    def _passes(self) -> list[Snapshot]:
        """Replication's commits in cold, oldest first."""
        head, cold = self.synced.state.current_snapshot_id, self.synced.state
        line = [] if head is None else list(cold.ancestry(head))
        passes = [s for s in line if s.summary.get(SYNC_COMMIT, "").isdecimal()]
        return list(reversed(passes))

    def _lost(self, snapshot: Snapshot) -> int:
        cold = self.synced.state
        parent = cold.snapshots.get(snapshot.parent_id) if snapshot.parent_id else None
        rows = [_total(each) for each in (parent, snapshot)]
        return 0 if parent is None or None in rows else (rows[0] or 0) - (rows[1] or 0)


def _appended(line: Sequence[Snapshot]) -> int:
    """Rows that appends added after the first of some snapshots."""
    totals = [_total(snapshot) for snapshot in line]
    return sum(
        now - before
        for snapshot, before, now in zip(line[1:], totals, totals[1:], strict=False)
        if snapshot.summary.get("operation") == "append" and before is not None and now
    )


def _said(word: Deletes, sync: TableSync, removals: Sequence[Removal]) -> TableSync:
    for removal in removals:
        if removal.change is not None:
            sync = word.said_of(sync, removal.change.snapshot_id)
    return sync


def _deletes_by_key(change: SnapshotChange) -> bool:
    return any(file.kind is FileKind.EQUALITY_DELETE for file in change.added)


def _adds_only(change: SnapshotChange) -> bool:
    return change.operation == "append" or change.rewrites_only


def _total(snapshot: Snapshot | None) -> int | None:
    total = snapshot.summary.get("total-records", "") if snapshot else ""
    return int(total) if total.isdecimal() else None


def _rows_before(hot: TableMetadata, change: SnapshotChange) -> int:
    """The table's rows before a commit, by its parent's totals; zero if they are unknown."""
    snapshot = hot.snapshots[change.snapshot_id]
    parent = hot.snapshots.get(snapshot.parent_id) if snapshot.parent_id else None
    return _total(parent) or 0


_SHOWN = 3


def copy_request(
    hot: HotTable,
    cold: ColdContent,
    upto: Position,
    leaving: LeavingFiles,
    words: str,
) -> CopyRequest:
    """Builds a pass's request to the engine.

    Args:
        hot: The table.
        cold: Cold's content before.
        upto: The position that cold has then.
        leaving: Files of cold that leave, and the chunks that are copied from hot.
        words: Cold's list of only copies, as it is after the pass.
    """
    return CopyRequest(
        hot=hot.state.name,
        cold=cold.synced.state.name,
        cold_base=cold.synced.state.metadata_location,
        layout=cold.tracking.table.layout,
        upto=upto.snapshot_id,
        replaced=leaving.chunks,
        removed=leaving.paths,
        properties={
            SYNC_GENERATION: str(upto.generation),
            SYNC_SNAPSHOT: str(upto.snapshot_id),
            SYNC_PLACE: str(upto.place),
            SYNC_DROPPED: words,
            **ColdOwner.of(cold.context).properties,
        },
    )


def carry_out(context: RunContext, copy: StagedCopy, synced: SyncedTable) -> CopyOutcome:
    """Runs the copy in the engine.

    Raises:
        CommitConflict: Another writer has committed to cold meanwhile.
        SyncRefused: It cannot be copied, or differs from hot.
    """
    replicator = context.replicator
    assert replicator is not None  # a cold tier is configured
    request = replace(copy.request, cold_base=synced.state.metadata_location)
    outcome = replicator.copy(request, copy.judge)
    if outcome is None:
        raise CommitConflict(
            f"{request.cold} has moved on while rows were copied",
            object=str(request.cold),
            expected=request.cold_base,
            found="another metadata file",
            next="the next pass copies them",
        )
    return outcome


def require_equal(
    context: RunContext, request: CopyRequest, chunks: Collection[str], cold_snapshot: int
) -> None:
    """Compares every chunk's rows with hot's: rows, nulls, checksum. Raises SyncRefused."""
    rows, layout = context.chunk_rows, request.layout
    assert rows is not None  # a cold tier is configured
    hot = rows.digests(request.hot, request.upto, layout, chunks)
    cold = rows.digests(request.cold, cold_snapshot, layout, chunks)
    differing = sorted(n for n in {*hot, *cold} if hot.get(n) != cold.get(n))
    if differing:
        raise SyncRefused(
            f"the copy of {request.hot} has other rows than the table",
            object=str(request.hot),
            expected=f"equal rows in {len(chunks)} chunks",
            found=f"{len(differing)} differ: {', '.join(differing[:_SHOWN])}",
            next="the next pass copies them anew; nothing of this copy was published",
        )
