"""Gate of a prune: one row of gate facts, a suite of expectations, a stored verdict.

`cold_prune.py` calls it before it removes snapshots, and the deletes before each batch. From the
plan it takes only the snapshots and files to remove. It reads cold, hot, holds and the ledger
again; an unreadable object forbids the prune. Every delete in cold needs a passed, recent verdict
on the digest of exactly these snapshots and files (PX-1).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from meltline.app.archive.permanent_store import missing_in_deep
from meltline.app.catalog.metadata import load_document
from meltline.app.catalog.tables import ObservedTable
from meltline.app.gate.gate import reasons
from meltline.app.prune.prune_evidence import (
    Duties,
    held_by_hold,
    known_duties,
    needed,
    readable_tables,
    refused,
)
from meltline.app.safety.epochs import RunEpoch
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.archive.pruning import PrunePlan, newest, read_plan
from meltline.domain.deletion.gate import GateFacts, GateResult
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import GateEngine

_Facts = TypeVar("_Facts")
_EXAMPLES = 5


@dataclass(frozen=True)
class PruneGate:
    """Evaluates the prunes of one table.

    Attributes:
        engine: Evaluates gate facts.
        cold: The cold table's name.
        name: The hot table's name; `uuid` its registration.
    """

    context: ReadContext
    engine: GateEngine
    tier: ColdTier
    cold: TableName
    name: TableName
    uuid: str

    def judge(self, plan: PrunePlan, place: str = "", *, removed: bool = False) -> None:
        """Evaluates a plan, stores the verdict, and refuses unless it has passed.

        Args:
            plan: The plan to evaluate.
            place: The path of the stored plan; empty in a dry run, which stores nothing.
            removed: Whether its snapshots have left their table: files that are needed since stay.

        Raises:
            GateNotPassed: With the causes.
        """
        now = self.context.clock.now()
        evidence = _PruneScan(self, plan, place, removed).evidence()
        try:
            (verdict,) = self.engine.judge([evidence], now)
        except Exception as crash:
            error = f"the gate could not judge: {crash!r}"
            verdict = GateResult(
                evidence.plan_id, plan.digest, "none", 0, (), now, now, error=error
            )
        if place:
            RunEpoch(self.context).require()
            self.context.control.verdicts.save([verdict])
        if not verdict.passed:
            raise refused(plan, reasons(verdict))

    def require_passed(self, plan: PrunePlan) -> None:
        """Refuses without a stored, passed, recent verdict on exactly this digest.

        Raises:
            GateNotPassed: There is none.
        """
        id = verdict_id(plan)
        verdict = self.context.control.verdicts.newest([id]).get(id)
        if verdict is None or not verdict.approves(plan.digest, self.context.clock.now()):
            raise refused(plan, "no passed, fresh verdict on this digest is stored")


def verdict_id(plan: PrunePlan) -> str:
    """Returns the id under which a plan's verdicts are stored."""
    return f"c{plan.digest.partition(':')[2][:15]}"


@dataclass
class _PruneScan:
    """One read of everything that may forbid a plan."""

    gate: PruneGate
    plan: PrunePlan
    place: str
    removed: bool
    unreadable: list[str] = field(default_factory=list)

    def _read(self, read: Callable[[], _Facts], otherwise: _Facts) -> _Facts:
        try:
            return read()
        except (MeltlineError, FileNotFoundError, ValueError) as error:
            detail = getattr(error, "found", "")
            self.unreadable.append(f"{error}: {detail}" if detail else str(error))
            return otherwise

    def evidence(self) -> GateFacts:
        """Collects the facts; one that cannot be determined gets its worst value."""
        plan = self.plan
        measures: dict[str, Collection[str]] = self._read(self._by_tables, {})
        used = self._read(self._needed, None)
        going = [path for path in plan.files if not self.removed or path not in (used or ())]
        measures = {
            **measures,
            "planned_outside": [p for p in going if not lies_under(p, self.gate.tier.warehouse)],
            "planned_needed": going if used is None else sorted(used.intersection(going)),
            "planned_not_deep": self._read(lambda: self._not_deep(going), going),
        }
        measures["unreadable"] = self.unreadable
        facts: dict[str, int | float | bool | str] = {k: len(v) for k, v in measures.items()}
        facts["digest_matches"] = self._read(self._is_as_kept, False)
        examples = {
            fact: tuple(sorted(examples_of)[:_EXAMPLES]) for fact, examples_of in measures.items()
        }
        return GateFacts(verdict_id(plan), plan.digest, PlanKind.PRUNE, facts, examples)

    def _is_as_kept(self) -> bool:
        written = self.gate.tier.store.read(self.place) if self.place else self.plan.written
        return read_plan(written).digest == self.plan.digest

    def _needed(self) -> set[str]:
        return needed(self.gate.context, self.gate.tier, self.plan, removed=self.removed)

    @cached_property
    def _sides(self) -> tuple[TableMetadata, Mapping[str, Any], ObservedTable | None, Duties]:
        """The cold table and its document, the hot one, and the duties."""
        gate, context = self.gate, self.gate.context
        at = gate.tier.catalog.location(gate.cold)
        state, document = load_document(gate.tier.store, gate.cold, at)
        table = next((t for t in readable_tables(context) if t.state.uuid == gate.uuid), None)
        return state, document, table, known_duties(context, state, gate.name, gate.uuid, table)

    @property
    def _ids(self) -> Sequence[int]:
        """The planned snapshots that have not left their table yet."""
        return () if self.removed else self.plan.snapshots

    def _by_tables(self) -> dict[str, Collection[str]]:
        """Facts about the planned snapshots from the cold table, the hot one and the ledger."""
        gate, context = self.gate, self.gate.context
        state, document, table, duty = self._sides
        now, ids = context.clock.now(), self._ids
        until = {id: duty.keep_until(id) for id in ids}
        held = held_by_hold(context, gate.name, table)
        wrong = {state.uuid} - {self.plan.cold_uuid}
        return {
            "planned_newest": [str(id) for id in ids if id == newest(document)],
            "planned_not_in_table": [*wrong, *(str(id) for id in ids if id not in state.snapshots)],
            "planned_early": [str(id) for id, end in until.items() if end is None or end > now],
            "planned_held": [str(gate.name)] if held else [],
        }

    def _not_deep(self, going: list[str]) -> Collection[str]:
        """Planned files that the permanent store must have and lacks."""
        gate, context = self.gate, self.gate.context
        *_, duty = self._sides
        if not duty.deep_due:
            return ()
        if context.deep is None:
            return [f"{path}: no permanent store is configured" for path in going]
        never = [
            id for id in self._ids if not any(copy.deep_at for copy in duty.copies.get(id, ()))
        ]
        lost = missing_in_deep(context.deep, gate.tier, going)
        return [*(f"snapshot {id}: never copied whole" for id in never), *lost]
