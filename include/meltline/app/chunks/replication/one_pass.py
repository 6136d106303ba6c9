"""One pass of replication over one table: what main did since the last one, in one commit of cold.

Rows that were appended are read from the files that were added; a chunk in which rows left or
changed is taken anew as a whole, so that it does not matter how often and by what kind of deletes
they did. What cold has by then and its position are one commit.

The rows tell: of a reopened chunk cold has what was dropped, and every row that hot had at cold's
position. Hot keeps that snapshot, so that what cold alone has is the difference.
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
    """What a pass over one table came to.

    Attributes:
        commits: How many commits of hot it has caught up with.
        rows: How many rows it wrote.
        changes: How many of the commits changed rows, beside our own drops.
        error: Why it could not go on; None where it could.
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
        table: As the ledger has it; `hot` as its catalog has it.
        deletes: What a person says about large deletes by others that are waiting.
        changes: How many of the commits changed rows, beside our own drops.
        shape: What the table in cold is to have of hot's columns and specs; None for nothing.
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
        """Carries it out. Raises MeltlineError where it cannot go on."""
        context, name = self.context, str(self.hot.state.name)
        synced = open_synced(context, self.hot, self.sync)
        # Judged before anything is written: a pass that refuses leaves cold as it was.
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
        """Takes cold's own word for its position: a pass may have died before the ledger knew.

        Raises:
            SyncRefused: Cold was changed by somebody else, or belongs to another ledger.
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

    # --- what is copied --------------------------------------------------------------------------

    def _copy_all(self, tracking: Tracking, synced: SyncedTable, head: Position) -> CopyOutcome:
        """Everything that hot has, verified before anybody sees it (H1, H2)."""
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
        """Has cold keep what deletes took from hot while nothing was replicated.

        Hot's history shows what their chunks had before; where it does not, see `emptied`.
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
        """Brings chunks in cold to what hot had before deletes, and notes that cold keeps it.

        Cold's position stays: of other chunks it has what it had.
        """
        for delete in deletes:
            if delete.is_marked(tracking.chunks):
                continue
            parent = self.hot.state.snapshots[delete.first.snapshot_id].parent_id
            assert parent is not None  # a first commit takes nothing away
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
        """What main did since the last pass: added rows, and whole chunks where others changed.

        What a delete takes whose rows cold keeps is copied first, in a commit of its own: cold has
        the state of the moment before it then.
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
        """What main did after cold's position, up to some place, in one commit of cold."""
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
            # Cold has by now what it was to have of these, and may have the only copy.
            replaced = (
                frozenset(tracking.chunks) if replaced is None else replaced
            ) - dropped_later
        request = self._replacing(cold, upto, replaced)
        request = replace(request, after=committed.snapshot_id if backlog.appends else None)
        return self._carried_out(StagedCopy(request, cold))

    def _replacing(
        self, cold: ColdContent, upto: Position, replaced: frozenset[str] | None
    ) -> CopyRequest:
        """A copy that replaces chunks, and those in which a compaction of cold mixed late rows.

        Raises:
            SyncRefused: Nothing tells their rows apart, or the ledger does not know of a drop.
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
        """Has the ledger know a person's word before anything is done by it."""
        if decided != self.sync:
            state = SyncState.LAGGING if decided.committed else decided.state
            now = replace(decided, state=state, reason="", detail="")
            self.context.control.syncs.save(self.sync, now)
            self.sync = now

    def _foreign(self, changes: Sequence[SnapshotChange]) -> list[SnapshotChange]:
        """What others did: our own drops are never mirrored.

        Raises:
            SyncRefused: A commit says that it is such a drop and is not, as far as we know: of an
                old backup of the ledger, or of a copied table.
        """
        for change in self._own.unknown(changes):
            at, plan = f"snapshot {change.snapshot_id}", change.summary[DROP_PLAN]
            raise self._diverged(f"{at} drops by plan {plan}, of which this ledger has nothing")
        return self._own.others(changes)

    def _kept(
        self, tracking: Tracking, synced: SyncedTable, changes: Sequence[SnapshotChange]
    ) -> list[KeptDelete]:
        """The deletes that cold keeps; a person's word is recorded once it can be carried out.

        Raises:
            SyncRefused: Nobody has decided about much, or cold cannot keep it: nothing is recorded.
        """
        large = LargeDeletes(self.context, self.hot, self.sync, synced, self.deletes)
        decided = large.decided(tracking, changes)
        deletes = replace(self._keeper, sync=decided).kept(tracking, changes)
        self._say(decided)
        return deletes

    # --- how it ends -----------------------------------------------------------------------------

    def _carried_out(self, copy: StagedCopy) -> CopyOutcome:
        shaped = carry_shape(self.context, copy.cold.synced, self.shape)
        self.shape = None
        return carry_out(self.context, copy, shaped)

    def _ended(self, position: Position | None, outcome: CopyOutcome | None) -> TableSync:
        """Says that it streams, and keeps in hot what it has still to read."""
        after = self._streams(position, outcome)
        if position is not None:
            keep_from(self.context, self.hot, position.snapshot_id)
        return after

    def _streams(self, position: Position | None, outcome: CopyOutcome | None) -> TableSync:
        """Has the ledger know what cold has by now."""
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
    """Has hot keep a snapshot and all that come later.

    Asked by each pass, also by one that copied nothing: an earlier one may have died before it
    came to this, and a table that lies idle for months must not lose what it keeps. It commits only
    where the consumer stands elsewhere, or half of its time is over.

    Args:
        context: Where the table is.
        hot: The table as the pass has loaded it.
        snapshot_id: Up to where cold has everything.

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
        drops = [d for d in chunk.drops if d.standing is not DropStatus.UNDONE] if chunk else []
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
