"""Prune: deletes archived snapshots past their retention in cold, at an operator's command.

It plans, passes the gate, and removes exactly the planned snapshots by one compare-and-swap. It
proves the files unreferenced once more, and deletes them. The cold table names a begun prune until
it is finished. Only the CLI calls it; no scheduled work does. The newest archived snapshot of a
table always stays (AR-36).
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from meltline.app.archive.cold_files import live_files, manifests_of, own_files
from meltline.app.archive.cold_tables import ListedColdTables, plain_name, require_cold
from meltline.app.catalog.metadata import load_document, load_state
from meltline.app.catalog.tables import ObservedTable
from meltline.app.prune.prune_deletes import Pruned, PruneDeletes
from meltline.app.prune.prune_evidence import (
    duties,
    readable_tables,
    require_past,
)
from meltline.app.prune.prune_gate import PruneGate
from meltline.app.restore.tiers import cold_pasts
from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import require_clock, require_generation, require_go
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.archive.pruning import (
    PrunePlan,
    newest,
    tags_on,
    without_snapshots,
)
from meltline.domain.archive.seals import sealing
from meltline.domain.errors import (
    MeltlineError,
    NameConflict,
    PlanStale,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import GateEngine, Lock

PRUNE = "cold prune"
"""The action's name in the audit."""

_LEASE = timedelta(minutes=2)


def prune(
    context: ReadContext,
    engine: GateEngine,
    name: TableName,
    before: datetime,
    reason: str,
    *,
    dry_run: bool,
) -> list[Pruned]:
    """Removes a table's archived snapshots that were committed before an instant.

    Prunes that were begun earlier are finished first.

    Args:
        context: The ports, with the cold tier.
        engine: Evaluates each plan; its verdict is stored, and nothing is deleted without one.
        name: The table, by its name in hot; or the cold table's own.
        before: The instant.
        reason: Why; it is recorded.
        dry_run: Check everything, report the plan, change nothing.

    Raises:
        UsageInvalid: There is no reason.
        TableNotFound: Cold has nothing of the table.
        NameConflict: Cold has several tables that had the name.
        HoldInForce: A snapshot must stay: its retention is not past, or a hold is in force.
        GateNotPassed: The gate refused; its verdict is stored.
        MetadataUnreadable: A table of hot cannot be read, so it is unknown whether it forbids the
            prune.
        PlanStale: The cold table changed meanwhile.
        PlanAltered: The stored plan of a begun prune has changed.
        Stopped: `meltline stop` is in force; ClockRefused, LedgerOutOfStep likewise.
        LockHeld: A handoff works on one of the tables.
    """
    if not reason.strip():
        raise UsageInvalid(
            "a prune needs a reason",
            object="--reason",
            expected="why history is given up",
            found="nothing",
            next="say why: the reason is recorded",
        )
    tier = require_cold(context)
    _require_allowed(context)
    tables = readable_tables(context)
    with ExitStack() as locks:
        held = [] if dry_run else _lock_all(context, tables, locks)
        cold = _cold_table(context, name)
        work = _Pruning.of(context, engine, tier, cold, name, tables, reason, held)
        if dry_run:
            plan, pruned = work.planned(before)
            if plan is not None:
                work.gate.judge(plan)
            return [pruned]
        return [*work.finished(), work.carry_out(before)]


def _require_allowed(context: ReadContext) -> None:
    require_go(context.control.switch)
    require_generation(context)
    require_clock(context)


def _cold_table(context: ReadContext, name: TableName) -> TableName:
    names = [past.state.name for past in cold_pasts(context, name)]
    if len(names) == 1:
        return names[0]
    error = NameConflict if names else TableNotFound
    raise error(
        f"cold has {'several tables' if names else 'nothing'} that had the name {name}",
        object=str(name),
        expected="one",
        found=", ".join(map(str, names)) or "none",
        next="name the one that is meant by its name in the cold catalog",
    )


def _lock_all(
    context: ReadContext, tables: Sequence[ObservedTable], locks: ExitStack
) -> list[Lock]:
    """Locks out handoffs, which may rely on files of cold.

    All tables are locked, because tables that share files share copies.
    """
    uuids = {table.state.uuid for table in tables}
    states = [
        state for state in ListedColdTables.read(context).all() if isinstance(state, TableMetadata)
    ]
    uuids |= {state.properties.get(COLD_OF, "") for state in states}
    wait, holder = context.config.limits.lock_wait, f"{context.who} cold prune"
    return [
        locks.enter_context(
            context.control.locks.take(f"handoff {uuid}", holder, wait=wait, lease=_LEASE)
        )
        for uuid in sorted(uuids - {""})
    ]


@dataclass(frozen=True)
class _Pruning:
    """A prune of one table in progress.

    Attributes:
        cold: The cold table's name.
        uuid: The hot table's UUID.
        name: The hot table's name.
        table: The hot table; None if hot no longer has it.
        locks: The locks it has taken.
    """

    context: ReadContext
    engine: GateEngine
    tier: ColdTier
    cold: TableName
    uuid: str
    name: TableName
    table: ObservedTable | None
    reason: str
    locks: Sequence[Lock]

    @classmethod
    def of(
        cls,
        context: ReadContext,
        engine: GateEngine,
        tier: ColdTier,
        cold: TableName,
        name: TableName,
        tables: Sequence[ObservedTable],
        reason: str,
        locks: Sequence[Lock],
    ) -> "_Pruning":
        state = load_state(tier.store, cold, tier.catalog.location(cold))
        uuid = ListedColdTables.read(context).require_own(state).properties[COLD_OF]
        table = next((observed for observed in tables if observed.state.uuid == uuid), None)
        own = name if table is None else plain_name(table)
        return cls(context, engine, tier, cold, uuid, own, table, reason, locks)

    def state(self) -> tuple[TableMetadata, Mapping[str, object]]:
        """Reads the cold table as it is now."""
        return load_document(self.tier.store, self.cold, self.tier.catalog.location(self.cold))

    @property
    def deletes(self) -> PruneDeletes:
        """The part that deletes files once nothing references them."""
        return PruneDeletes(self.context, self.tier, self.cold, self.uuid, self.locks, self.gate)

    @property
    def gate(self) -> PruneGate:
        """The gate that evaluates each plan."""
        return PruneGate(self.context, self.engine, self.tier, self.cold, self.name, self.uuid)

    # --- the plan --------------------------------------------------------------------------------

    def planned(self, before: datetime) -> tuple[PrunePlan | None, Pruned]:
        """Plans the prune; raises for a hold, or a retention that is not past."""
        state, document = self.state()
        head = newest(document)
        ids = sorted(
            id for id, s in state.snapshots.items() if s.committed_at < before and id != head
        )
        pruned = Pruned(self.name, self.cold)
        if not ids:
            return None, pruned
        duty = duties(self.context, state, self.name, self.uuid, self.table)
        require_past(self.context, self.name, duty, ids)
        plan = PrunePlan(self.uuid, state.uuid, tuple(ids), tuple(self._files(state, ids)))
        sizes = [self.tier.store.size(path) or 0 for path in plan.files]
        return plan, replace(
            pruned,
            snapshots=plan.snapshots,
            tags=tuple(tags_on(document, ids)),
            files=len(plan.files),
            bytes=sum(sizes),
            digest=plan.digest,
        )

    def _files(self, state: TableMetadata, ids: Sequence[int]) -> list[str]:
        """Returns files that only these snapshots reference, among all that is read of cold.

        Manifests are compared first: a manifest that stays is not searched for departing files.
        """
        context, tier = self.context, self.tier
        going = manifests_of(context, tier, [state.snapshots[id] for id in ids])
        staying, own = dict[str, ManifestFile](), set[str]()
        for cold in (
            s for s in ListedColdTables.read(context).all() if isinstance(s, TableMetadata)
        ):
            leaving = ids if cold.uuid == state.uuid else ()
            stays = {id: snapshot for id, snapshot in cold.snapshots.items() if id not in leaving}
            staying |= manifests_of(context, tier, stays.values())
            own |= own_files(cold, stays)
        alone = {path: manifest for path, manifest in going.items() if path not in staying}
        files = live_files(context, tier, alone.values())
        files -= live_files(context, tier, staying.values())
        return sorted((files | alone.keys() | own_files(state, ids)) - own)

    # --- the change ------------------------------------------------------------------------------

    def finished(self) -> list[Pruned]:
        """Deletes the files that earlier prunes have left."""
        prunes = []
        for plan in self.deletes.unfinished():
            pruned = Pruned(self.name, self.cold, plan.snapshots, files=len(plan.files), done=True)
            state, _ = self.state()
            self.gate.judge(plan, state.properties[plan.key], removed=True)
            self.deletes.finish(plan, pruned := replace(pruned, digest=plan.digest))
            prunes.append(pruned)
        return prunes

    def carry_out(self, before: datetime) -> Pruned:
        """Plans, removes the snapshots, deletes their files."""
        plan, pruned = self.planned(before)
        if plan is None:
            return pruned
        state, _ = self.state()
        place = plan.place(state.location)
        RunEpoch(self.context).require()
        self.tier.writer.write(place, plan.written)
        try:
            self.gate.judge(plan, place)
            self.deletes.require_still_allowed(plan)
        except MeltlineError:
            self.tier.remover.delete([place])
            raise
        remove = sealing(lambda document: _remove(document, plan, place))
        self.tier.editor.edit_table(self.cold, remove)
        self.context.control.archived.forget(self.uuid, plan.snapshots)
        detail = f"{len(plan.snapshots)} snapshots, {len(plan.files)} files, {plan.digest}"
        audit(self.context, PRUNE, str(self.name), reason=self.reason, detail=detail)
        done = replace(pruned, done=True)
        self.deletes.delete(plan, done)
        return done


def _remove(document: MetadataEditor, plan: PrunePlan, place: str) -> None:
    """Removes exactly the planned snapshots from a cold table.

    Raises:
        PlanStale: It is another table, lacks some of them, or one has become its newest.
    """
    state, raw = document.state, document.document
    stale = [id for id in plan.snapshots if id not in state.snapshots or id == newest(raw)]
    if stale or state.uuid != plan.cold_uuid:
        raise PlanStale(
            f"{state.name} has changed since the prune was planned",
            object=str(state.name),
            expected=f"table {plan.cold_uuid} with all planned snapshots, and a newer one",
            found=f"table {state.uuid}; {len(stale)} snapshots are gone or the newest",
            next="run the prune again",
        )
    document.replace(without_snapshots(raw, plan.snapshots, {plan.key: place}))
