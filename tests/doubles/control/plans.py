"""Plans, and the verdicts on them, in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from meltline.adapters.sql_ledger import refusals
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError
from meltline.ports import Approval, Lock, PlanTransition, Rejection
from tests.doubles.control.answers import answers_of
from tests.doubles.control.database import MemoryDatabase
from tests.doubles.control.locks import MemoryLockRows


@dataclass
class MemoryPlans:
    """The port `PlanLedger`."""

    database: MemoryDatabase
    locks: MemoryLockRows
    rows: dict[str, Plan] = field(default_factory=dict)

    def add(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        with self.database.writing():
            return [self.rows.setdefault(plan.id, plan) for plan in plans]

    def repeat(self, plans: Sequence[Plan]) -> None:
        with self.database.writing():
            for plan in plans:
                before = self.rows.get(plan.id)
                if before is not None and before.is_refused_as(plan):
                    self.rows[plan.id] = before.again(plan)

    def get(self, id_or_prefix: str) -> Plan:
        if id_or_prefix == "last":
            if newest := self.find(limit=1):
                return newest[0]
            raise refusals.no_plan("last")
        with self.database.reading():
            if id_or_prefix in self.rows:
                return self.rows[id_or_prefix]
            matches = [id for id in self.rows if id.startswith(id_or_prefix)]
            if len(matches) != 1 or not id_or_prefix:
                raise refusals.no_plan(id_or_prefix, matches[:5])
            return self.rows[matches[0]]

    def current(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        with self.database.reading():
            if missing := [id for id in ids if id not in self.rows]:
                raise refusals.no_plan(missing[0])
            return {id: self.rows[id] for id in ids}

    def find(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Sequence[Plan]:
        chosen_states = frozenset(states)
        with self.database.reading():
            plans = [
                plan
                for plan in reversed(self.rows.values())
                if run_id in ("", plan.run_id)
                and table_uuid in ("", plan.table_uuid)
                and (not chosen_states or plan.state in chosen_states)
                and (since is None or plan.created_at >= since)
                and (until is None or plan.created_at < until)
            ]
        plans.sort(key=lambda plan: plan.created_at, reverse=True)
        return plans[:limit]

    def sizes_before(self, plan: Plan, limit: int) -> Sequence[int]:
        applied = self.find(table_uuid=plan.table_uuid, states=[PlanState.APPLIED])
        others = (other for other in applied if other.kind is plan.kind and other.id != plan.id)
        return [other.bytes for other in others if other.bytes][:limit]

    def move(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        (answer,) = self.move_all([PlanTransition(plan, to, lock, note, committed_base)])
        if isinstance(answer, MeltlineError):
            raise answer
        return answer

    def move_all(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        with self.database.writing():
            return answers_of(self._move, moves)

    def _move(self, move: PlanTransition) -> Plan:
        refusals.require_move(move.plan, move.to)
        if move.lock is not None:
            self.locks.require(move.lock)
        updated = refusals.plan_after(move, self.rows.get(move.plan.id))
        self.rows[move.plan.id] = updated
        return updated


@dataclass
class MemoryVerdicts:
    """The port `VerdictLedger`."""

    database: MemoryDatabase
    rows: dict[str, GateResult] = field(default_factory=dict)
    approvals: dict[tuple[str, str], Approval] = field(default_factory=dict)
    rejected: dict[str, Rejection] = field(default_factory=dict)

    def save(self, results: Sequence[GateResult]) -> None:
        with self.database.writing():
            self.rows.update({verdict.plan_id: verdict for verdict in results})

    def newest(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        with self.database.reading():
            return {id: self.rows[id] for id in plan_ids if id in self.rows}

    def approve(self, approval: Approval) -> None:
        with self.database.writing():
            self.approvals[approval.plan_id, approval.digest] = approval

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        with self.database.reading():
            return self.approvals.get((plan_id, digest))

    def reject(self, rejection: Rejection) -> None:
        with self.database.writing():
            self.rejected[rejection.digest] = rejection

    def rejections(self, digests: Sequence[str]) -> Mapping[str, Rejection]:
        with self.database.reading():
            return {digest: self.rejected[digest] for digest in digests if digest in self.rejected}

    def forget_approvals(self) -> int:
        with self.database.writing():
            forgotten = len(self.approvals)
            self.approvals.clear()
            return forgotten
