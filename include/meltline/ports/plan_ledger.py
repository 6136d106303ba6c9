"""The part of the control ledger that guards what is destroyed: plans, gates, claims and locks.

A run over ten thousand tables has as many plans. So what is said of plans is said of many at once,
in one transaction, and each gets an answer of its own: what is wrong with one stops no other.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError


@dataclass(frozen=True)
class Lock:
    """A held lock: whoever took it later has a larger token."""

    key: str
    holder: str
    token: int


@dataclass(frozen=True)
class Approval:
    """A person's word for one digest."""

    plan_id: str
    digest: str
    who: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class PlanTransition:
    """A plan on its way to another state.

    Attributes:
        plan: As it was read: it moves only if it still is in that state.
        lock: Must still be held, in the same transaction; None: no lock is needed.
        note: Replaces the former note, which explained the former state.
        committed_base: Kept as it was where none is given.
    """

    plan: Plan
    to: PlanState
    lock: Lock | None = None
    note: str = ""
    committed_base: str = ""


@dataclass(frozen=True)
class Claim:
    """A purge batch that is to be deleted under a lock.

    Attributes:
        paths: What will be deleted; those that a dead holder claimed stay claimed besides.
    """

    plan_id: str
    number: int
    lock: Lock
    paths: Sequence[str] = ()


class PlanLedger(Protocol):
    """Plans and what may be done by them."""

    # plans and gates
    def add_plans(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Stores headers; where one of the same id is there already, that one is returned."""
        ...

    def plan_again(self, plans: Sequence[Plan]) -> None:
        """Makes refused plans those of a later run that planned the very same: to be judged anew.

        Each repeat is counted. One that is not refused any more, or has another digest, stays.
        """
        ...

    def plan(self, id_or_prefix: str) -> Plan:
        """A plan by id, unique prefix or `last`. Raises PlanNotFound."""
        ...

    def plans_now(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        """Plans as they are stored now, by their whole ids. Raises PlanNotFound."""
        ...

    def plans(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        limit: int | None = None,
    ) -> Sequence[Plan]:
        """Plans, newest first."""
        ...

    def move_plan(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        """One plan's move (see `PlanTransition`).

        Raises:
            PlanStale: The stored plan is in another state, or the move does not exist.
            PlanNotFound: It was never stored.
            LockLost: The lock has been taken over or has ended.
        """
        ...

    def move_plans(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        """Many plans' moves, each plan's once: the plan as it is then, or what `move_plan` raises.

        Compare-and-set, all in one transaction; one that cannot move stops no other.
        """
        ...

    def save_gate_results(self, results: Sequence[GateResult]) -> None:
        """Adds verdicts; earlier ones stay as history, but a refusal for the last refusal."""
        ...

    def gate_results(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        """The newest verdict on each plan; absent where there is none."""
        ...

    def save_approval(self, approval: Approval) -> None: ...
    def approval(self, plan_id: str, digest: str) -> Approval | None: ...
    def forget_approvals(self) -> int:
        """No approval counts any more; returns how many there were."""
        ...

    # purge batches
    def claim_batches(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        """`due → purging`, each batch once, in one transaction; False for one that is done already.

        The error of a claim is LockLost where its lock has been taken over or has ended, and
        LockHeld where another lock, still alive, holds the batch.
        """
        ...

    def finish_batches(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        """`purging → done`; finishing a batch that is done changes nothing.

        The error is LockLost where the lock has ended, or the batch is not claimed under it.
        """
        ...

    def drop_claims(self, claims: Sequence[Claim]) -> None:
        """`purging → due`: nothing of these batches is being deleted any more.

        A claim that a later lock has taken over is left to its holder.
        """
        ...

    def claimed_paths(self) -> Mapping[str, str]:
        """Paths in claimed, unfinished batches, and the plan that claimed each."""
        ...

    # locks
    def lock(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        """Takes a lock row with a growing token, renews it while held, frees it at the end.

        Raises:
            LockHeld: Somebody else kept it for the whole wait; names the holder.
        """
        ...

    def locks(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Takes many locks as `lock` does, each for its holder, in the order of their keys.

        So two runs never wait for each other in a ring. Where somebody else keeps a lock for the
        whole wait, LockHeld stands in its place, and the others are taken all the same.
        """
        ...

    def check_lock(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held."""
        ...

    def lost_locks(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Those of the locks that are not held any more, each with what `check_lock` raises."""
        ...
