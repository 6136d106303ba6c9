"""Protocols of plans and their transitions from state to state.

Each destructive step moves its plans; `adapters/sql_ledger` implements the protocols. A run over
ten thousand tables has as many plans, so each method takes many in one transaction. Each plan has
its own result: an error of one stops no other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError
from meltline.ports.control.locks import Lock


@dataclass(frozen=True)
class PlanTransition:
    """A requested transition of a plan to another state.

    Attributes:
        plan: The plan as it was read: it moves only if it still is in that state.
        lock: Must still be held, in the same transaction; None if no lock is needed.
        note: Replaces the former note, which explained the former state.
        committed_base: Stored unless empty.
    """

    plan: Plan
    to: PlanState
    lock: Lock | None = None
    note: str = ""
    committed_base: str = ""


class PlanReader(Protocol):
    """Reads the headers of plans."""

    def get(self, id_or_prefix: str) -> Plan:
        """Returns a plan by id, unique prefix or `last`. Raises PlanNotFound."""
        ...

    def current(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        """Returns the stored plans by their complete ids. Raises PlanNotFound."""
        ...

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
        """Returns plans, newest first; an empty filter matches all.

        Args:
            run_id: Plans of this run.
            states: Plans in any of the given states.
            table_uuid: Plans of this table.
            since: Created then or later.
            until: Created before then.
            limit: The greatest number of plans.
        """
        ...

    def sizes_before(self, plan: Plan, limit: int) -> Sequence[int]:
        """Returns bytes of other applied plans of its kind and table, newest first.

        Only sizes, because a table's plans may name more snapshots than a gate can read each day.
        """
        ...


class PlanLedger(PlanReader, Protocol):
    """Stores headers of plans, and moves plans."""

    def add(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Stores headers; if a plan of the same id exists, that one is returned."""
        ...

    def repeat(self, plans: Sequence[Plan]) -> None:
        """Assigns refused plans to a later run that planned the same, to be evaluated again.

        Each repeat is counted. A plan that is no longer refused, or has another digest, is
        unchanged.
        """
        ...

    def move(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        """Moves one plan (see `PlanTransition`).

        Raises:
            PlanStale: The stored plan is in another state, or the transition does not exist.
            PlanNotFound: It was never stored.
            LockLost: The lock was taken over or has expired.
        """
        ...

    def move_all(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        """Moves many plans, each once; returns the moved plan, or the error that `move` raises.

        Compare-and-swap, all in one transaction; a plan that cannot move stops no other.
        """
        ...
