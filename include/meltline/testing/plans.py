"""Plans, gates, claims and locks, in memory: the guarding part of the control ledger."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from meltline.adapters.sql_ledger import refusals
from meltline.adapters.sql_ledger.holding import Holding, hold, hold_all
from meltline.domain.clock import Clock
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import LockLost, MeltlineError
from meltline.domain.units import format_instant, from_millis
from meltline.ports import Approval, Claim, Lock, PlanTransition
from meltline.testing.journal import MemoryJournal

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

_LONG_AGO = from_millis(0)


@dataclass
class _LockRow:
    token: int = 0
    holder: str = ""
    since: datetime = _LONG_AGO
    until: datetime = _LONG_AGO


@dataclass
class _Batch:
    claimed_under: Lock | None = None
    done: bool = False
    paths: dict[str, None] = field(default_factory=dict)


class MemoryPlans(MemoryJournal):
    """`ports.PlanLedger` in this process's memory; leases run on `lease_time`, in seconds."""

    def __init__(self, clock: Clock, lease_time: Callable[[], float]) -> None:
        super().__init__(clock)
        self._lease_time = lease_time
        self._plans: dict[str, Plan] = {}
        self._results: dict[str, GateResult] = {}
        self._approvals: dict[tuple[str, str], Approval] = {}
        self._batches: dict[tuple[str, int], _Batch] = {}
        self._locks: dict[str, _LockRow] = {}

    # plans and gates

    def add_plans(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        with self._writing():
            return [self._plans.setdefault(plan.id, plan) for plan in plans]

    def plan_again(self, plans: Sequence[Plan]) -> None:
        with self._writing():
            for plan in plans:
                before = self._plans.get(plan.id)
                if before is not None and before.is_refused_as(plan):
                    self._plans[plan.id] = before.again(plan)

    def plan(self, id_or_prefix: str) -> Plan:
        if id_or_prefix == "last":
            if newest := self.plans(limit=1):
                return newest[0]
            raise refusals.no_plan("last")
        with self._reading():
            if id_or_prefix in self._plans:
                return self._plans[id_or_prefix]
            matches = [one for one in self._plans if one.startswith(id_or_prefix)]
            if len(matches) != 1 or not id_or_prefix:
                raise refusals.no_plan(id_or_prefix, matches[:5])
            return self._plans[matches[0]]

    def plans_now(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        with self._reading():
            if missing := [id for id in ids if id not in self._plans]:
                raise refusals.no_plan(missing[0])
            return {id: self._plans[id] for id in ids}

    def plans(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        limit: int | None = None,
    ) -> Sequence[Plan]:
        wanted = frozenset(states)
        with self._reading():
            found = [
                plan
                for plan in reversed(self._plans.values())
                if run_id in ("", plan.run_id)
                and table_uuid in ("", plan.table_uuid)
                and (not wanted or plan.state in wanted)
            ]
        found.sort(key=lambda plan: plan.created_at, reverse=True)
        return found[:limit]

    def move_plan(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        (moved,) = self.move_plans([PlanTransition(plan, to, lock, note, committed_base)])
        if isinstance(moved, MeltlineError):
            raise moved
        return moved

    def move_plans(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        with self._writing():
            return _answers(self._move, moves)

    def _move(self, move: PlanTransition) -> Plan:
        plan, to = move.plan, move.to
        refusals.require_move(plan, to)
        if move.lock is not None:
            self.check_lock(move.lock)
        stored = self._plans.get(plan.id)
        if stored is None:
            raise refusals.no_plan(plan.id)
        if stored.state is not plan.state:
            raise refusals.moved_meanwhile(plan, to, stored.state)
        base = move.committed_base or stored.committed_base
        moved = replace(stored, state=to, note=move.note, committed_base=base)
        self._plans[plan.id] = moved
        return moved

    def save_gate_results(self, results: Sequence[GateResult]) -> None:
        with self._writing():
            self._results.update({result.plan_id: result for result in results})

    def gate_results(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        with self._reading():
            return {id: self._results[id] for id in plan_ids if id in self._results}

    def save_approval(self, approval: Approval) -> None:
        with self._writing():
            self._approvals[approval.plan_id, approval.digest] = approval

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        with self._reading():
            return self._approvals.get((plan_id, digest))

    def forget_approvals(self) -> int:
        with self._writing():
            forgotten = len(self._approvals)
            self._approvals.clear()
            return forgotten

    # purge batches

    def claim_batches(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        with self._writing():
            return _answers(self._claim, claims)

    def _claim(self, claim: Claim) -> bool:
        self.check_lock(claim.lock)
        batch = self._batches.setdefault((claim.plan_id, claim.number), _Batch())
        if batch.done:
            return False
        former = batch.claimed_under
        if former is not None and former.key != claim.lock.key and self._is_held(former):
            raise refusals.living_claim(claim.plan_id, claim.number, former.holder, former.key)
        batch.claimed_under = claim.lock
        batch.paths.update(dict.fromkeys(claim.paths))
        return True

    def finish_batches(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        with self._writing():
            return _answers(self._finish, claims)

    def _finish(self, claim: Claim) -> None:
        self.check_lock(claim.lock)
        batch = self._batches.get((claim.plan_id, claim.number))
        if batch is None or batch.claimed_under != claim.lock:
            raise refusals.batch_not_ours(claim.plan_id, claim.number, claim.lock)
        batch.done = True
        batch.paths.clear()

    def drop_claims(self, claims: Sequence[Claim]) -> None:
        with self._writing():
            for claim in claims:
                batch = self._batches.get((claim.plan_id, claim.number))
                if batch is not None and not batch.done and batch.claimed_under == claim.lock:
                    del self._batches[claim.plan_id, claim.number]

    def claimed_paths(self) -> Mapping[str, str]:
        with self._reading():
            return {path: key[0] for key, batch in self._batches.items() for path in batch.paths}

    # locks

    def lock(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        return hold(self, key, holder, wait=wait, lease=lease)

    def locks(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        return hold_all(self, holders, wait=wait, lease=lease)

    def check_lock(self, lock: Lock) -> None:
        for lost in self.lost_locks([lock]).values():
            raise lost

    def lost_locks(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        with self._reading():
            return {lock: self._lost(lock) for lock in locks if not self._is_held(lock)}

    def _lost(self, lock: Lock) -> LockLost:
        row = self._locks.get(lock.key, _LockRow())
        until = f"lease until {format_instant(row.until)}"
        found = f"{row.holder} with token {row.token}, {until}" if row.holder else "free"
        return refusals.lock_lost(lock, found)

    def take(self, holders: Mapping[str, str], lease: timedelta) -> Sequence[Lock]:
        taken: list[Lock] = []
        with self._reading():
            now = self._real_now()
            for key, holder in sorted(holders.items()):
                row = self._locks.get(key, _LockRow())
                if row.until > now:
                    break
                self._locks[key] = _LockRow(row.token + 1, holder, now, now + lease)
                taken.append(Lock(key, holder, row.token + 1))
        return taken

    def renew(self, locks: Sequence[Lock], lease: timedelta) -> Sequence[Lock]:
        with self._reading():
            until = self._real_now() + lease
            for lock in filter(self._is_ours, locks):
                self._locks[lock.key].until = until
            return [lock for lock in locks if not self._is_ours(lock)]

    def release(self, locks: Sequence[Lock]) -> None:
        with self._reading():
            for lock in filter(self._is_ours, locks):
                # The token stays, so that it is never used again.
                self._locks[lock.key] = _LockRow(lock.token)

    def holding(self, key: str) -> Holding | None:
        with self._reading():
            row = self._locks.get(key, _LockRow())
            is_held = row.until > self._real_now()
            return Holding(row.holder, row.since, row.until) if is_held else None

    def _free_locks_to_come(self) -> None:
        now = self._real_now()
        for row in self._locks.values():
            if row.since > now:
                row.until = _LONG_AGO

    def _is_ours(self, lock: Lock) -> bool:
        row = self._locks.get(lock.key, _LockRow())
        return (row.token, row.holder) == (lock.token, lock.holder)

    def _is_held(self, lock: Lock) -> bool:
        return self._is_ours(lock) and self._locks[lock.key].until > self._real_now()

    def _real_now(self) -> datetime:
        return from_millis(int(self._lease_time() * 1000))


def _answers(
    work: Callable[[Asked], Answer], asked: Iterable[Asked]
) -> list[Answer | MeltlineError]:
    """What is refused of one is its answer, and the others go on."""
    answers: list[Answer | MeltlineError] = []
    for one in asked:
        try:
            answers.append(work(one))
        except MeltlineError as refused:
            answers.append(refused)
    return answers
