"""One replication pass: applies main's changes since the last pass in one commit of cold.

`replicate` calls it for each synced table. Appended rows are read from the added files; a chunk in
which rows were removed or changed is copied again as a whole, so the number and kind of deletes do
not matter. Cold's rows and its position are one commit. Of a reopened chunk cold has the dropped
rows, and every row that hot had at cold's position. Hot keeps that snapshot, so the rows of cold
alone are the difference.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from meltline.app.chunks.lookups import ChunkedTable, HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.cold_rows import Compared, record_rows, require_recorded_rows
from meltline.app.chunks.replication.declare import CONSUMER
from meltline.app.chunks.replication.kept_chunks import KeptChunks, as_of
from meltline.app.chunks.replication.large_deletes import (
    LargeDeletes,
    carry_out,
    copy_request,
    require_equal,
)
from meltline.app.chunks.replication.refusals import diverged, mixed_files, unknown_drops
from meltline.app.chunks.replication.staged_copy import StagedCopy
from meltline.app.chunks.replication.synced_table import (
    SyncedTable,
    carry_shape,
    next_shape,
    open_synced,
    synced_at,
)
from meltline.app.chunks.replication.unseen_changes import UnseenChanges, unseen_changes
from meltline.app.chunks.tracking import OwnDrops, Tracking, changes_of, retrack, track
from meltline.app.retention.consumers import set_consumer
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.chunk import UNKNOWN_DROP, DropStatus
from meltline.domain.chunks.kept_deletes import KeptDelete
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.replication import LeavingFiles, backlog_of
from meltline.domain.chunks.sync import (
    DROP_PLAN,
    Deletes,
    Position,
    SyncState,
    TableSync,
    written_dropped,
)
from meltline.domain.errors import MeltlineError, SyncRefused
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.domain.retention.consumers import Consumer, consumers_of
from meltline.domain.units import counted
from meltline.ports import CopyOutcome, CopyRequest, MixedRows


@dataclass(frozen=True)
class Replicated:
    """Result of a pass over one table.

    Attributes:
        commits: How many commits of hot it has applied.
        rows: How many rows it wrote.
        changes: How many of the commits changed rows, beside own drops.
        error: Why it failed; None on success.
    """

    table: str
    sync: TableSync
    commits: int = 0
    rows: int = 0
    changes: int = 0
    error: MeltlineError | None = None


@dataclass
class Pass:
    """One pass over one table, under its lock.

    Attributes:
        table: The ledger's record; `hot` is the catalog's.
        deletes: The operator's decision about large deletes by others that are waiting.
        changes: How many of the commits changed rows, beside own drops.
        shape: Hot's columns and specs that cold is to receive; None for none.
        compared: How far rows of dropped chunks were compared before anything is written.
    """

    context: RunContext
    hot: HotTable
    table: ChunkedTable
    sync: TableSync
    deletes: Deletes | None
    changes: int = field(default=0, init=False)
    shape: Mapping[str, Any] | None = field(default=None, init=False)
    compared: Compared = field(default=Compared(None), init=False)

    def run(self) -> Replicated:
        """Runs the pass. Raises MeltlineError if it cannot continue."""
        context, name = self.context, str(self.hot.state.name)
        synced = open_synced(context, self.hot, self.sync)
        # Checked before anything is written: a pass that refuses leaves cold as it was.
        self.shape = next_shape(self.hot, synced, self.table.tracked.layout)
        self._settle(synced)
        tracking = self._tracked()
        if unknown := tracking.unknown:
            raise unknown_drops(self.hot.state.name, unknown)
        chunks, rows = tracking.chunks, context.chunk_rows
        self.compared = require_recorded_rows(context, self.sync, synced, chunks.values(), rows)
        noted = record_rows(context, synced, tracking.table.layout, chunks, rows)
        tracking = replace(tracking, chunks={**tracking.chunks, **noted})
        head, committed = tracking.head, self.sync.committed
        if head is None:
            return Replicated(name, self._ended(None, None))
        if committed is None:
            outcome = self._copy_all(tracking, synced, head)
            return Replicated(name, self._ended(head, outcome), 1, outcome.rows, changes=1)
        if forgotten := self._keeper.without_base(tracking):
            again = f"main has come again to drops of {counted(len(forgotten), 'chunk')}"
            raise self._diverged(f"{again}, without which cold got all of hot's rows")
        since = self.hot.since(committed.snapshot_id)
        if since is None:
            raise self._diverged(f"cold is at {committed.snapshot_id}, which main does not know")
        cold = ColdContent(context, self.sync, synced, tracking)
        if not since and not cold.lost:
            carry_shape(context, synced, self.shape)
            return Replicated(name, self._ended(committed, None))
        outcome = self._copy_since(tracking, synced, head, since)
        sync = self._ended(head, outcome)
        return Replicated(name, sync, len(since), outcome.rows, self.changes)

    def _settle(self, synced: SyncedTable) -> None:
        """Adopts cold's own position: a pass may have failed before the ledger recorded it.

        Raises:
            SyncRefused: Cold was changed by another writer, or belongs to another ledger.
        """
        sync, position = self.sync, synced.position
        if position is not None and sync.committed is None and position.generation > 0:
            if position.generation >= sync.generation:
                anew = replace(sync, generation=position.generation + 1)
                self.context.control.syncs.save(sync, anew)
                self.sync = anew
            return
        if position == sync.committed:
            if not synced.goes_on_from(sync.cold_snapshot):
                raise self._diverged(f"{sync.cold} was rolled back: it lacks {sync.cold_snapshot}")
            return
        is_ahead = (
            position is not None
            and sync.committed is not None
            and position.generation == sync.generation
            and position.place > sync.committed.place
        )
        if not is_ahead or position is None:
            raise self._diverged(f"{sync.cold} says {position}, the ledger {sync.committed}")
        head = synced.left_by(position) or sync.cold_snapshot  # others may have committed since
        self.sync = replace(sync, committed=position, cold_snapshot=head)
        self.context.control.syncs.save(sync, self.sync)

    def _tracked(self) -> Tracking:
        context, generation = self.context, self.sync.generation
        (tracked,) = context.control.chunks.tracked([self.hot.state.uuid])
        if self.sync.committed is None and (
            tracked.walked is None or tracked.walked.generation != generation
        ):
            chunks = context.control.chunks.of(tracked.table_uuid)
            return retrack(context, self.hot, tracked, chunks, generation=generation)
        tracking = track(context, self.hot, tracked, self.sync)
        if tracking.diverged:
            raise self._diverged(tracking.diverged)
        return tracking

    @property
    def _keeper(self) -> KeptChunks:
        return KeptChunks(self.context, self.hot, self.sync, self.deletes)

    def _diverged(self, detail: str) -> SyncRefused:
        return diverged(self.hot.state.name, detail)

    # --- copies
    # --------------------------------------------------------------------------------------

    def _copy_all(self, tracking: Tracking, synced: SyncedTable, head: Position) -> CopyOutcome:
        """Copies all rows of hot, verified before they are visible (H1, H2)."""
        cold = ColdContent(self.context, self.sync, synced, tracking)
        if unknown := cold.unknown_drops():
            tracking = self._keeper.take_up(tracking, unknown)
        tracking = self._keeper.with_bases(tracking, synced.newest)
        tracking, synced = self._keep_unseen(tracking, synced)
        cold = ColdContent(self.context, self.sync, synced, tracking)
        request = self._replacing(cold, head, None)
        resident = {c.name for c in tracking.chunks.values() if c.is_resident}
        proven = resident - cold.sides.bases.keys()

        def prove(snapshot_id: int) -> None:
            require_equal(self.context, request, proven, snapshot_id)
            self._keeper.forget_undone(cold)

        return self._carried_out(StagedCopy(request, cold, prove))

    def _keep_unseen(self, tracking: Tracking, synced: SyncedTable) -> tuple[Tracking, SyncedTable]:
        """Has cold keep rows that deletes removed from hot while nothing was replicated.

        Hot's history shows their chunks before the delete; without it, see `emptied`.
        """
        unseen = unseen_changes(self.context, self.hot, synced.position, tracking.table.layout)
        if unseen.is_whole and not self._own.unknown(unseen.changes):
            deletes = self._kept(tracking, synced, unseen.changes)
            return self._keep_states(tracking, synced, unseen, deletes)
        cold = ColdContent(self.context, self.sync, synced, tracking)
        as_it_is = self._keeper.accepted(cold)
        seen = self._keeper.seen_emptying(tracking, unseen.changes, cold)
        deletes = [delete for delete in seen if as_it_is.isdisjoint(delete.chunks)]
        tracking, synced = self._keep_states(tracking, synced, unseen, deletes)
        cold = ColdContent(self.context, self.sync, synced, tracking)
        if emptied := self._keeper.emptied(cold, unseen):
            tracking = self._keeper.mark_dropped(tracking, synced.newest, emptied)
        return tracking, synced

    def _keep_states(
        self,
        tracking: Tracking,
        synced: SyncedTable,
        unseen: UnseenChanges,
        deletes: Sequence[KeptDelete],
    ) -> tuple[Tracking, SyncedTable]:
        """Copies chunks as hot had them before deletes, and records that cold keeps them.

        Cold's position is unchanged, since its other chunks are.
        """
        for delete in deletes:
            if delete.is_marked(tracking.chunks):
                continue
            parent = self.hot.state.snapshots[delete.first.snapshot_id].parent_id
            assert parent is not None  # a first commit removes nothing
            upto = Position(self.sync.generation, delete.first.place - 1, parent)
            later = [change for change in unseen.changes if change.place > upto.place]
            before = as_of(tracking, upto, later)
            cold = ColdContent(self.context, self.sync, synced, before)
            request = self._replacing(cold, upto, frozenset(delete.chunks))
            request = replace(request, properties=None)
            outcome = self._carried_out(StagedCopy(request, cold))
            synced = synced_at(self.context, self.sync.cold, outcome.location)
            tracking = self._marked(tracking, synced, delete)
        return tracking, synced

    def _copy_since(
        self, tracking: Tracking, synced: SyncedTable, head: Position, since: Sequence[Snapshot]
    ) -> CopyOutcome:
        """Copies main's changes since the last pass: added rows, and whole rewritten chunks.

        If cold keeps rows that a delete removes, the state before the delete is copied first, in a
        commit of its own.
        """
        committed, layout = self.sync.committed, tracking.table.layout
        assert committed is not None
        changes = list(tracking.changes)
        if [change.snapshot_id for change in changes] != [s.snapshot_id for s in since]:
            changes = changes_of(self.context.chunk_files, layout, since, committed.place + 1)
        foreign = self._foreign(changes)
        self.changes = sum(not change.rewrites_only for change in foreign)
        rows = 0
        for delete in self._kept(tracking, synced, changes):
            if before := changes.index(delete.first):
                last = since[before - 1].snapshot_id
                upto = Position(committed.generation, committed.place + before, last)
                outcome = self._copy_upto(tracking, synced, changes, upto)
                rows += outcome.rows
                synced = synced_at(self.context, self.sync.cold, outcome.location)
                self.sync = self._streams(upto, outcome)
            tracking = self._marked(tracking, synced, delete)
        outcome = self._copy_upto(tracking, synced, changes, head)
        return replace(outcome, rows=rows + outcome.rows)

    def _copy_upto(
        self,
        tracking: Tracking,
        synced: SyncedTable,
        changes: Sequence[SnapshotChange],
        upto: Position,
    ) -> CopyOutcome:
        """Copies main's changes after cold's position, up to an offset, in one commit of cold."""
        committed, layout = self.sync.committed, tracking.table.layout
        assert committed is not None
        later = [change for change in changes if change.place > upto.place]
        mirrored = [
            change
            for change in self._foreign(changes)
            if committed.place < change.place <= upto.place
            and change.snapshot_id not in self.sync.kept_deletes
        ]
        backlog, before = backlog_of(layout, mirrored), as_of(tracking, upto, later)
        cold = ColdContent(self.context, self.sync, synced, before)
        replaced = backlog.replaced
        if dropped_later := self._own.chunks(later):
            # Cold already has these chunks as intended, and may have the only copy.
            replaced = (
                frozenset(tracking.chunks) if replaced is None else replaced
            ) - dropped_later
        request = self._replacing(cold, upto, replaced)
        request = replace(request, after=committed.snapshot_id if backlog.appends else None)
        return self._carried_out(StagedCopy(request, cold))

    def _replacing(
        self, cold: ColdContent, upto: Position, replaced: frozenset[str] | None
    ) -> CopyRequest:
        """Builds a copy that replaces chunks, and those whose late rows a compaction of cold mixed.

        Raises:
            SyncRefused: Their rows cannot be separated, or the ledger lacks a drop.
        """
        leaving = LeavingFiles()
        late = LateRows(self.context, cold.tracking, cold.synced)
        if replaced is not None:
            replaced |= cold.lost
        if replaced is None or replaced:
            leaving = cold.leaving(replaced, alone=late.without(cold.lost))
        upto = replace(upto, generation=self.sync.generation)
        words = written_dropped(cold.words())
        request = copy_request(self.hot, cold, upto, leaving, words)
        return replace(request, mixed=late.mixed(leaving))

    @property
    def _own(self) -> OwnDrops:
        return OwnDrops(self.context.control.plans, self.hot.state.uuid)

    def _marked(self, tracking: Tracking, synced: SyncedTable, delete: KeptDelete) -> Tracking:
        return self._keeper.mark_dropped(tracking, synced.newest, delete.chunks)

    def _say(self, decided: TableSync) -> None:
        """Records the operator's decision in the ledger before it is carried out."""
        if decided != self.sync:
            state = SyncState.LAGGING if decided.committed else decided.state
            now = replace(decided, state=state, reason="", detail="")
            self.context.control.syncs.save(self.sync, now)
            self.sync = now

    def _foreign(self, changes: Sequence[SnapshotChange]) -> list[SnapshotChange]:
        """Returns the changes by others: own drops are never mirrored.

        Raises:
            SyncRefused: A commit claims to be an own drop, and the ledger has no plan of it: of an
                old backup of the ledger, or of a copied table.
        """
        for change in self._own.unknown(changes):
            at, plan = f"snapshot {change.snapshot_id}", change.summary[DROP_PLAN]
            raise self._diverged(f"{at} drops by plan {plan}, of which this ledger has nothing")
        return self._own.others(changes)

    def _kept(
        self, tracking: Tracking, synced: SyncedTable, changes: Sequence[SnapshotChange]
    ) -> list[KeptDelete]:
        """Returns the deletes that cold keeps; records a decision once it can be carried out.

        Raises:
            SyncRefused: A large delete is undecided, or cold cannot keep it: nothing is recorded.
        """
        large = LargeDeletes(self.context, self.hot, self.sync, synced, self.deletes)
        decided = large.decided(tracking, changes)
        deletes = replace(self._keeper, sync=decided).kept(tracking, changes)
        self._say(decided)
        return deletes

    # --- finishes the pass
    # -----------------------------------------------------------------------------

    def _carried_out(self, copy: StagedCopy) -> CopyOutcome:
        shaped = carry_shape(self.context, copy.cold.synced, self.shape)
        self.shape = None
        return carry_out(self.context, copy, shaped)

    def _ended(self, position: Position | None, outcome: CopyOutcome | None) -> TableSync:
        """Records that the sync streams, and keeps in hot the history yet to be read."""
        after = self._streams(position, outcome)
        if position is not None:
            keep_from(self.context, self.hot, position.snapshot_id)
        return after

    def _streams(self, position: Position | None, outcome: CopyOutcome | None) -> TableSync:
        """Records cold's new state in the ledger."""
        context, before = self.context, self.sync
        cold = before.cold_snapshot if outcome is None else outcome.snapshot_id
        after = replace(
            before,
            table=self.hot.state.name,
            state=SyncState.STREAMING,
            reason="",
            detail="",
            committed=position or before.committed,
            cold_snapshot=cold,
            cold_compared=self.compared.after(outcome),
            heartbeat=context.clock.now(),
        )
        context.control.syncs.save(before, after)
        return after


def keep_from(context: ReadContext, hot: HotTable, snapshot_id: int) -> None:
    """Keeps a snapshot of hot and all later ones.

    Every pass calls it, also one that copied nothing: an earlier pass may have failed before this
    step, and a table that is idle for months must not lose its history. It commits only if the
    consumer is at another snapshot, or half of its lease has passed.

    Args:
        context: Where the table is.
        hot: The table as the pass has loaded it.
        snapshot_id: The snapshot up to which cold has everything.

    Raises:
        MeltlineError: As `set_consumer`.
    """
    own = next((c for c in consumers_of(hot.state) if c.name == CONSUMER), None)
    if own is None or own.snapshot_id != snapshot_id or _is_old(own, context.clock.now()):
        set_consumer(context, hot.state.name, CONSUMER, snapshot_id, reset=True)


def _is_old(consumer: Consumer, now: datetime) -> bool:
    if consumer.ends_at is None:
        return False
    moved_at = consumer.moved_at
    return moved_at is None or now - moved_at > (consumer.ends_at - moved_at) / 2


@dataclass(frozen=True)
class LateRows:
    """Rows of hot that cold has beside the dropped ones, by snapshots of hot.

    Attributes:
        tracking: The chunks.
        synced: Cold, before a pass changes it.
    """

    context: RunContext
    tracking: Tracking
    synced: SyncedTable

    def mixed(self, leaving: LeavingFiles) -> MixedRows | None:
        """Describes the mixed rows in files that leave; None if nothing is mixed.

        Raises:
            SyncRefused: The snapshots of hot that would separate them have expired.
        """
        if not leaving.apart:
            return None
        late, unknown = self._by_snapshot(leaving.kept)
        if unknown:
            raise mixed_files(self.tracking.hot.state.name, unknown)
        return MixedRows(leaving.apart, leaving.kept, late)

    def without(self, names: Collection[str]) -> frozenset[str]:
        """Filters chunks for which cold has no late row at all."""
        rows = self.context.chunk_rows
        assert rows is not None  # a cold tier is configured
        late, unknown = self._by_snapshot(names)
        hot, layout = self.tracking.hot.state.name, self.tracking.table.layout
        with_rows = {n for id, of in late.items() for n in rows.digests(hot, id, layout, of)}
        return frozenset(names) - with_rows - unknown

    def _by_snapshot(
        self, names: Collection[str]
    ) -> tuple[Mapping[int, frozenset[str]], frozenset[str]]:
        """Groups chunks by the snapshots of their late rows; second, chunks of unknown ones."""
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
        """Returns the snapshots whose rows of a chunk, together, are late; none if none is.

        That is cold's position, unless main dropped the chunk after it. A rollback may have removed
        drops that cold has already applied: their rows are late again.

        Raises:
            LookupError: The history that would decide has expired.
        """
        chunk, hot = self.tracking.chunks.get(name), self.tracking.hot
        drops = [d for d in chunk.drops if d.standing is not DropStatus.UNDONE] if chunk else []
        if chunk is None or not drops:
            return ()  # it is kept from now on: all rows of cold
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
