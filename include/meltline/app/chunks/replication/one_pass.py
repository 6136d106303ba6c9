"""One pass of replication over one table: what main did since the last one, in one commit of cold.

Rows that were appended are read from the files that were added; a chunk in which rows left or
changed is taken anew as a whole, so that it does not matter how often and by what kind of deletes
they did. What cold has by then and its position are one commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from meltline.app.chunks.lookups import ChunkedTable, HotTable
from meltline.app.chunks.replication.cold_content import ColdContent
from meltline.app.chunks.replication.cold_rows import record_rows, require_recorded_rows
from meltline.app.chunks.replication.kept_chunks import KeptChunks
from meltline.app.chunks.replication.kept_history import keep_from
from meltline.app.chunks.replication.mixed_rows import LateRows
from meltline.app.chunks.replication.refusals import (
    diverged,
    unknown_drops,
)
from meltline.app.chunks.replication.staged_copy import StagedCopy
from meltline.app.chunks.replication.synced_table import (
    SyncedTable,
    carry_shape,
    next_shape,
    open_synced,
)
from meltline.app.chunks.tracking import (
    Tracking,
    changes_of,
    own_drop,
    retrack,
    track,
)
from meltline.app.ground.cold_owner import ColdOwner
from meltline.app.services import RunContext
from meltline.domain.chunks.layout import SnapshotChange
from meltline.domain.chunks.replication import EVERYTHING, LeavingFiles, backlog_of
from meltline.domain.chunks.sync import (
    DROP_PLAN,
    SYNC_DROPPED,
    SYNC_GENERATION,
    SYNC_PLACE,
    SYNC_SNAPSHOT,
    Deletes,
    Position,
    SyncState,
    TableSync,
    written_dropped,
)
from meltline.domain.errors import CommitConflict, MeltlineError, SyncRefused
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.ports import CopyOutcome, CopyRequest

_SHOWN = 3


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
    """

    context: RunContext
    hot: HotTable
    table: ChunkedTable
    sync: TableSync
    deletes: Deletes | None
    changes: int = field(default=0, init=False)
    shape: Mapping[str, Any] | None = field(default=None, init=False)

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
        require_recorded_rows(context, self.sync, synced, tracking.chunks.values())
        layout = tracking.table.layout
        noted = record_rows(context, synced, layout, tracking.chunks)
        tracking = replace(tracking, chunks={**tracking.chunks, **noted})
        head = tracking.head
        if head is None:
            return Replicated(name, self._ended(None, None))
        committed = self.sync.committed
        if committed is None:
            outcome = self._copy_all(tracking, synced, head)
            return Replicated(name, self._ended(head, outcome), 1, outcome.rows, changes=1)
        since = self.hot.since(committed.snapshot_id)
        if since is None:
            raise self._diverged(f"cold is at {committed.snapshot_id}, which main does not know")
        cold = ColdContent(context, self.sync, synced, tracking)
        if not since and not cold.lost(cold.dropped):
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
        if not is_ahead:
            raise self._diverged(f"{sync.cold} says {position}, the ledger {sync.committed}")
        head = synced.state.current_snapshot_id
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
        tracking = self._keeper.with_bases(tracking, newest_in(synced))
        cold = ColdContent(self.context, self.sync, synced, tracking)
        if emptied := self._keeper.emptied(cold):
            bases = dict.fromkeys(emptied, newest_in(synced))
            tracking = self._keeper.mark_dropped(tracking, bases)
            cold = ColdContent(self.context, self.sync, synced, tracking)
        dropped = cold.dropped
        request, resolved = self._replacing(cold, head, None, dropped)
        resident = {c.name for c in tracking.chunks.values() if c.is_resident}
        proven = resident - dropped.keys()
        prove = partial(self._prove, head.snapshot_id, proven)
        return self._carried_out(StagedCopy(request, cold, dropped, resolved, prove))

    def _copy_since(
        self, tracking: Tracking, synced: SyncedTable, head: Position, since: Sequence[Snapshot]
    ) -> CopyOutcome:
        """What main did since the last pass: added rows, and whole chunks where others changed."""
        committed, layout = self.sync.committed, tracking.table.layout
        assert committed is not None
        changes = list(tracking.changes)
        if [change.snapshot_id for change in changes] != [s.snapshot_id for s in since]:
            changes = changes_of(self.context.chunk_files, layout, since, committed.place + 1)
        foreign = self._foreign(changes)
        self.changes = sum(not change.rewrites_only for change in foreign)
        self.sync = self._keeper.decided(foreign)
        kept = self._keeper.kept(tracking, foreign)
        mirrored = [c for c in foreign if c.snapshot_id not in self.sync.kept_deletes]
        backlog = backlog_of(layout, mirrored)
        cold = ColdContent(self.context, self.sync, synced, tracking)
        kept_bases = dict.fromkeys(kept, newest_in(synced))
        dropped = cold.dropped | kept_bases
        request, resolved = self._replacing(cold, head, backlog.replaced, dropped)
        request = replace(request, after=committed.snapshot_id if backlog.appends else None)
        # Before anybody sees the copy: what died in between would have cold forget its word.
        self._keeper.mark_dropped(tracking, kept_bases)
        return self._carried_out(StagedCopy(request, cold, dropped, resolved))

    def _replacing(
        self,
        cold: ColdContent,
        head: Position,
        replaced: frozenset[str] | None,
        dropped: Mapping[str, int],
    ) -> tuple[CopyRequest, Mapping[str, int]]:
        """A copy that replaces chunks, and those in which a compaction of cold mixed late rows.

        Returns:
            The request, and the mixed chunks with their bases.

        Raises:
            SyncRefused: Nothing tells their rows apart, or the ledger does not know of a drop.
        """
        lost, leaving = cold.lost(dropped), LeavingFiles()
        late = LateRows(self.context, cold.tracking, cold.synced)
        kept = {n for n in lost if self.deletes is Deletes.KEEP and not cold.is_resident(n)}
        alone = late.without(lost, kept)
        if replaced is not None:
            replaced |= lost
        if replaced is None or replaced:
            bases = {**dropped, **dict.fromkeys(alone, EVERYTHING)}
            leaving = cold.leaving(replaced, bases)
        request = self._request(cold, head, leaving, dropped)
        resolved = {name: dropped[name] for name in lost}
        return replace(request, mixed=late.mixed(leaving)), resolved

    def _foreign(self, changes: Sequence[SnapshotChange]) -> list[SnapshotChange]:
        """What others did: our own drops are never mirrored.

        Raises:
            SyncRefused: A commit says that it is such a drop and is not, as far as we know: of an
                old backup of the ledger, or of a copied table.
        """
        uuid = self.hot.state.uuid
        foreign = [c for c in changes if own_drop(self.context.control.plans, c, uuid) is None]
        for change in foreign:
            if plan := change.summary.get(DROP_PLAN):
                at = f"snapshot {change.snapshot_id}"
                raise self._diverged(f"{at} drops by plan {plan}, of which this ledger has nothing")
        return foreign

    def _request(
        self,
        cold: ColdContent,
        head: Position,
        leaving: LeavingFiles,
        dropped: Mapping[str, int],
    ) -> CopyRequest:
        return CopyRequest(
            hot=self.hot.state.name,
            cold=cold.synced.state.name,
            cold_base=cold.synced.state.metadata_location,
            layout=self.table.tracked.layout,
            upto=head.snapshot_id,
            replaced=leaving.chunks,
            removed=leaving.paths,
            properties={
                SYNC_GENERATION: str(self.sync.generation),
                SYNC_SNAPSHOT: str(head.snapshot_id),
                SYNC_PLACE: str(head.place),
                SYNC_DROPPED: written_dropped(cold.words(dropped)),
                **ColdOwner.of(self.context).properties,
            },
        )

    # --- how it ends -----------------------------------------------------------------------------

    def _carried_out(self, copy: StagedCopy) -> CopyOutcome:
        replicator = self.context.replicator
        assert replicator is not None  # there is a cold tier
        shaped = carry_shape(self.context, copy.cold.synced, self.shape)
        request = replace(copy.request, cold_base=shaped.state.metadata_location)
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

    def _prove(self, hot_snapshot: int, chunks: set[str], cold_snapshot: int) -> None:
        """Holds every chunk's rows against hot's: rows, nulls, checksum. Raises SyncRefused."""
        rows, layout = self.context.chunk_rows, self.table.tracked.layout
        assert rows is not None
        hot = rows.digests(self.hot.state.name, hot_snapshot, layout, chunks)
        cold = rows.digests(self.sync.cold, cold_snapshot, layout, chunks)
        differing = sorted(n for n in {*hot, *cold} if hot.get(n) != cold.get(n))
        if differing:
            raise SyncRefused(
                f"the copy of {self.hot.state.name} has other rows than the table",
                object=str(self.hot.state.name),
                expected=f"equal rows in {len(chunks)} chunks",
                found=f"{len(differing)} differ: {', '.join(differing[:_SHOWN])}",
                next="the next pass copies them anew; nothing of this copy was published",
            )

    def _ended(self, position: Position | None, outcome: CopyOutcome | None) -> TableSync:
        """Says that it streams, and keeps in hot what it has still to read."""
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
            heartbeat=context.clock.now(),
        )
        context.control.syncs.save(before, after)
        if position is not None:
            keep_from(context, self.hot, position.snapshot_id)
        return after


def newest_in(synced: SyncedTable) -> int:
    """Cold's newest sequence number: whatever it has by now bears none that is higher."""
    return int(synced.document["last-sequence-number"])
