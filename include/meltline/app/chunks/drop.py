"""Executes drop plans: one metadata-only commit removes all chunks that passed the gate.

Chunk runs and `chunks drop` call it. The crash protocol (docs/chunks-crash-points.md) has these
steps, and a crash may follow any of them: plan items; plan header; verdict; in the ledger the rows
that cold alone will have; the same in cold; intent `applying`; the commit with the plan's id; the
chunks, stamped by the table's own history; `applied`. A run that finds a plan in progress asks the
table: the plan is committed if a commit with its id removed exactly its files (LT-23).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from meltline.app.archive.cold_tables import require_cold
from meltline.app.catalog.listings import Listings
from meltline.app.catalog.tables import retention_of
from meltline.app.chunks.gate import COLD_SNAPSHOT
from meltline.app.chunks.lookups import ChunkedTable, HotTable, chunked_tables
from meltline.app.chunks.plan_drops import Force
from meltline.app.chunks.proofs import ColdSide, positions
from meltline.app.chunks.replication.cold_rows import ColdCount
from meltline.app.chunks.tracking import Tracking, chunk_lock, tracking_of, written_since
from meltline.app.expire.expire import altered
from meltline.app.gate.gate import not_passed
from meltline.app.observe.own_drops import own_drop
from meltline.app.safety.audit import audit
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import require_clock, require_generation, require_go
from meltline.app.safety.stored_plans import PlanLocks
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.chunk import Chunk, Deferral
from meltline.domain.chunks.cold.row_digests import ColdDigest
from meltline.domain.chunks.durability import Deferred, is_gated
from meltline.domain.chunks.sync import (
    DROP_PLAN,
    SYNC_COMMIT,
    SYNC_DROPPED,
    TableSync,
    read_dropped,
    written_dropped,
)
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import GateNotPassed, MeltlineError, PlanStale
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.ports import DropRequest, Lock


@dataclass(frozen=True)
class DroppedChunks:
    """Result of a drop plan.

    Attributes:
        chunks: Chunks that have left hot.
        out_of_hot: When they left hot; None if nothing has.
        out_of_history: Until then time travel in hot still reads them; None is for ever.
        gone: When their bytes may be deleted.
        deferred: Chunks that stayed, and why.
        error: Why the plan was not carried out.
    """

    plan: Plan
    chunks: Sequence[str] = ()
    out_of_hot: datetime | None = None
    out_of_history: datetime | None = None
    gone: datetime | None = None
    deferred: Sequence[Deferred] = field(default_factory=tuple)
    error: MeltlineError | None = None


def drop_chunks(
    context: RunContext, plans: Sequence[Plan], force: Force | None = None
) -> list[DroppedChunks]:
    """Carries out drop plans. Idempotent; a failed plan does not stop the others."""
    return [_dropped(context, plan, force) for plan in plans]


def _dropped(context: RunContext, plan: Plan, force: Force | None) -> DroppedChunks:
    try:
        with (
            PlanLocks.of(context).take([plan]) as locks,
            chunk_lock(context, plan.table_uuid),
        ):
            lock = next(iter(locks.values()))
            if isinstance(lock, MeltlineError):
                raise lock
            return _tried(context, plan, lock, force)
    except MeltlineError as error:
        current = context.control.plans.current([plan.id])[plan.id]
        return DroppedChunks(current, error=error, deferred=_all(plan, error))


def _tried(context: RunContext, plan: Plan, lock: Lock, force: Force | None) -> DroppedChunks:
    """Carries out one plan; one that became stale before it began is closed and planned again."""
    plans = context.control.plans
    stored = plans.current([plan.id])[plan.id]
    try:
        return _Drop.of(context, stored, lock, force).run()
    except PlanStale as overtaken:
        if plans.current([plan.id])[plan.id].state is PlanState.PASSED:
            plans.move(stored, PlanState.STALE, lock=lock, note=overtaken.found)
        raise


def _all(plan: Plan, error: MeltlineError) -> list[Deferred]:
    is_gate = isinstance(error, GateNotPassed)
    reason = Deferral.GATE_REFUSED if is_gate else Deferral.CHANGED_MEANWHILE
    return [Deferred(name, reason, error.message) for name in plan.chunks]


@dataclass
class _Drop:
    """One plan in progress, under the locks of its sharing group and of its chunks."""

    context: RunContext
    plan: Plan
    lock: Lock
    force: Force | None
    table: ChunkedTable
    items: Sequence[PlannedFile]

    @classmethod
    def of(cls, context: RunContext, plan: Plan, lock: Lock, force: Force | None) -> "_Drop":
        tables = chunked_tables(context, only=[plan.table_uuid])
        if len(tables) != 1:
            raise _stale(plan, "its table is not there, or cannot be read")
        items = context.files.items.of([plan.id])[plan.id]
        return cls(context, plan, lock, force, tables[0], items)

    def run(self) -> DroppedChunks:
        plan, context = self.plan, self.context
        if plan.state is PlanState.APPLIED:
            return self._dropped()
        if mismatch := altered(plan, self.items):
            raise mismatch
        if plan.state is PlanState.APPLYING:
            tracking_of(context, self.table)  # records the drop before the plan is given up
            if self._is_committed():
                return self._finished()
            self.plan = self._moved(PlanState.STALE, note="it was begun and never committed")
            raise _stale(self.plan, "an earlier run began it and did not commit")
        tracking = tracking_of(self.context, self.table)
        self._require_allowed(tracking)
        self._tell_cold(tracking)
        self.plan = self._moved(PlanState.APPLYING)
        self._require_go()
        assert context.dropper is not None  # an engine is configured
        outcome = context.dropper.drop(self._request(tracking))
        if outcome.snapshot_id is None:
            self.plan = self._moved(PlanState.STALE, note=outcome.conflict)
            raise _stale(self.plan, outcome.conflict)
        return self._finished()

    def _require_go(self) -> None:
        require_go(self.context.control.switch)
        self.context.control.locks.check(self.lock)

    def _require_allowed(self, tracking: Tracking) -> None:
        """Checks every condition of a drop before anything is destroyed, and proves again (LT-17).

        Raises:
            MeltlineError: A condition does not hold.
        """
        context, plan = self.context, self.plan
        require_go(context.control.switch)
        require_clock(context, CLOCK_TOLERANCE)
        listings = Listings(context.catalogs)
        require_generation(context, listings.of(context.config.hot))
        verdict = context.control.verdicts.newest([plan.id]).get(plan.id)
        if refused := not_passed(plan, verdict, context.clock.now()):
            raise refused
        if self.table.observed.held:
            raise _stale(plan, "a hold has been put on the table since")
        layout, base = tracking.table.layout, plan.base_head
        if written_since(context.chunk_files, tracking.hot, layout, base, plan.chunks):
            raise _stale(plan, "a chunk was written since the gate")
        if self.force is None:
            self._require_due([tracking.chunks[name] for name in plan.chunks], tracking)
        if verdict is not None:
            self._require_cold_as_judged(verdict)
        RunEpoch(context).require()

    def _require_due(self, chunks: Sequence[Chunk], tracking: Tracking) -> None:
        """Stops if the policy was changed or removed since the gate, or if the sync is behind."""
        policy, sync = self.table.drop_policy, self.table.sync
        if policy is None or policy.drop_after is None:
            raise _stale(self.plan, "its policy was forgotten since the gate")
        cutoff = policy.drop_after.before(self.plan.as_of)
        if any(chunk.end is None or chunk.end > cutoff for chunk in chunks):
            raise _stale(self.plan, "its policy lets less go since the gate")
        if is_gated(sync, policy.type):
            for deferred in positions(self.context, sync, tracking, chunks).values():
                raise _stale(self.plan, f"{deferred.chunk}: {deferred.reason} {deferred.detail}")

    def _require_cold_as_judged(self, verdict: GateResult) -> None:
        """Stops if others have changed cold since the gate: those changes were never evaluated."""
        judged = next((h.observed for h in verdict.held if h.fact == COLD_SNAPSHOT), "0")
        cold = self._cold if judged != "0" else None
        if cold is None:
            return
        for snapshot in cold.table.state.ancestry(cold.snapshot_id):
            if str(snapshot.snapshot_id) == judged:
                return
            if SYNC_COMMIT not in snapshot.summary:
                raise _stale(self.plan, f"others have changed cold: {snapshot.snapshot_id}")
        raise _stale(self.plan, f"cold does not come from {judged}, whose rows were compared")

    @cached_property
    def _cold(self) -> ColdSide | None:
        """Cold before the drop; None if nothing was copied, or by force if it is unverifiable.

        Cold is updated only if it is still at the snapshot that was compared with the gate's.
        """
        sync = self.table.sync
        if sync is None or sync.committed is None:
            return None
        try:
            return ColdSide.read(self.context, sync, self.context.chunk_rows)
        except MeltlineError:
            if self.force is None:
                raise
            return None

    def _tell_cold(self, tracking: Tracking) -> None:
        """Records in the ledger, then in cold, the chunks whose only rows will be in cold.

        This is before the commit. So the rows that cold has of them now are never taken for a copy
        of rows in hot. That holds whatever fails afterwards, and whichever ledger backup is
        restored. The ledger is first: a record in cold that the ledger lacks counts as one of a
        lost ledger.
        """
        sync, cold = self.table.sync, self._cold
        if sync is None or cold is None:
            return
        base = int(cold.table.document["last-sequence-number"])
        files, layout = self.context.cold_chunk_files, tracking.table.layout
        count = ColdCount.of(files, cold.table, layout)
        rows, digests = count.total(self.plan.chunks), self._digests(count)
        moves = [
            (c, replace(c, cold_base=base, cold_rows=rows[name], cold_digest=digests.get(name)))
            for name, c in ((name, tracking.chunks[name]) for name in self.plan.chunks)
        ]
        if not all(self.context.control.chunks.move(moves)):
            raise _stale(self.plan, "a chunk was written since the gate")
        _tell(self.context, sync, cold.snapshot_id, dict.fromkeys(self.plan.chunks, base))

    def _digests(self, count: ColdCount) -> Mapping[str, ColdDigest]:
        """Digests of the rows in cold; a forced drop continues if they cannot be read."""
        try:
            bases = dict.fromkeys(self.plan.chunks, count.synced.newest)
            return count.digests(self.context.chunk_rows, bases)
        except MeltlineError:
            if self.force is None:
                raise
            return {}

    def _request(self, tracking: Tracking) -> DropRequest:
        plan = self.plan
        assert plan.base_head is not None
        return DropRequest(
            table=self.table.state.name,
            base_snapshot=plan.base_head,
            layout=tracking.table.layout,
            chunks=plan.chunks,
            files=frozenset(item.path for item in self.items),
            summary={DROP_PLAN: plan.id, "meltline.run-id": plan.run_id},
        )

    def _moved(self, to: PlanState, note: str = "") -> Plan:
        plans = self.context.control.plans
        base = self.table.state.metadata_location
        return plans.move(self.plan, to, lock=self.lock, note=note, committed_base=base)

    # --- reads the result from the table
    # -----------------------------------------------------------

    def _is_committed(self) -> bool:
        """Whether main's history has the plan's commit."""
        hot = HotTable.load(self.context, self.table.state.name)
        if hot.state.uuid != self.plan.table_uuid:
            raise _stale(self.plan, "another table bears the name now")
        layout = self.table.tracked.layout
        for snapshot in hot.since(self.plan.base_head) or ():
            if snapshot.summary.get(DROP_PLAN) == self.plan.id:
                change = self.context.chunk_files.change(snapshot, layout, 0)
                found = own_drop(self.context.control.plans, change, self.plan.table_uuid)
                return found is not None
        return False

    def _finished(self) -> DroppedChunks:
        tables = chunked_tables(self.context, only=[self.plan.table_uuid])
        self.table = tables[0] if tables else self.table
        done = self._dropped()
        self.plan = self._moved(PlanState.APPLIED, note=self.plan.note)
        reason = self.force.reason if self.force else ""
        names = f": {', '.join(self.plan.chunks)}" if self.force else ""
        chunks = f"{len(self.plan.chunks)} chunks{names}"
        detail = f"{chunks}, {self.plan.files} files, {self.plan.digest}"
        word = "chunks drop --force" if self.force else "chunks drop"
        audit(self.context, word, str(self.plan.table), reason=reason, detail=detail)
        return replace(done, plan=self.plan)

    def _dropped(self) -> DroppedChunks:
        chunks = tracking_of(self.context, self.table).chunks
        return dropped_by(self.context, self.table, self.plan, chunks)


def dropped_by(
    context: ReadContext, table: ChunkedTable, plan: Plan, chunks: Mapping[str, Chunk]
) -> DroppedChunks:
    """Returns a plan's dropped chunks with the three times: out of hot, out of history, gone."""
    dropped = [c for name in plan.chunks if (c := chunks.get(name)) and c.drop_plan == plan.id]
    at = max((c.dropped_at for c in dropped if c.dropped_at), default=None)
    policies = context.control.policies.all()
    retention = retention_of(context.config.account, table.observed, policies)
    until = at + retention.window if at and retention.window is not None else None
    gone = until + retention.failsafe if until else None
    return DroppedChunks(plan, [c.name for c in dropped], at, until, gone)


def _tell(context: RunContext, sync: TableSync, snapshot_id: int, bases: Mapping[str, int]) -> None:
    """Adds chunks to cold's list of only copies, if cold is still at a given snapshot."""

    def edit(document: MetadataEditor) -> None:
        if document.state.current_snapshot_id != snapshot_id:
            raise PlanStale(
                f"{sync.cold} has moved on since the proof",
                object=str(sync.cold),
                expected=str(snapshot_id),
                found=str(document.state.current_snapshot_id),
                next="run again: the chunks are proved anew",
            )
        before: Mapping[str, int] = read_dropped(document.properties)
        marks = ColdOwner.of(context).properties
        document.set_properties({SYNC_DROPPED: written_dropped({**before, **bases}), **marks})

    require_cold(context).editor.edit_table(sync.cold, edit)


def _stale(plan: Plan, why: str) -> PlanStale:
    return PlanStale(
        f"the drop of {len(plan.chunks)} chunks of {plan.table} was not carried out: {why}",
        object=plan.id,
        expected="chunks as the gate has seen them",
        found=why,
        next="the next run plans and proves what is left of it anew",
    )


def begun_drops(context: RunContext) -> list[Plan]:
    """Returns drop plans that a run has begun and not finished."""
    begun = context.control.plans.find(states=[PlanState.APPLYING])
    return [plan for plan in begun if plan.kind is PlanKind.DROP_CHUNKS]
