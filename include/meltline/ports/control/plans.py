"""Plans, as they move from state to state.

A run over ten thousand tables has as many plans. So what is said of plans is said of many at once,
in one transaction, and each gets an answer of its own: what is wrong with one stops no other.
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


class PlanReader(Protocol):
    """Plans' headers."""

    def get(self, id_or_prefix: str) -> Plan:
        """A plan by id, unique prefix or `last`. Raises PlanNotFound."""
        ...

    def current(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        """Plans as they are stored now, by their whole ids. Raises PlanNotFound."""
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
        """Plans, newest first; an empty filter lets all pass.

        Args:
            run_id: Of this run.
            states: In one of these states.
            table_uuid: Of this table.
            since: Made then or later.
            until: Made before then.
            limit: So many, the newest.
        """
        ...

    def sizes_before(self, plan: Plan, limit: int) -> Sequence[int]:
        """Bytes of other applied plans of its kind and table, newest first, where there are any.

        Not the plans: a table's past may have named more snapshots than a gate can read each day.
        """
        ...


class PlanLedger(PlanReader, Protocol):
    """Stores headers, and moves plans."""

    def add(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Stores headers; where one of the same id is there already, that one is returned."""
        ...

    def repeat(self, plans: Sequence[Plan]) -> None:
        """Makes refused plans those of a later run that planned the very same: to be judged anew.

        Each repeat is counted. One that is not refused any more, or has another digest, stays.
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
        """One plan's move (see `PlanTransition`).

        Raises:
            PlanStale: The stored plan is in another state, or the move does not exist.
            PlanNotFound: It was never stored.
            LockLost: The lock has been taken over or has ended.
        """
        ...

    def move_all(self, moves: Sequence[PlanTransition]) -> Sequence[Plan | MeltlineError]:
        """Many plans' moves, each plan's once: the plan as it is then, or what `move` raises.

        Compare-and-set, all in one transaction; one that cannot move stops no other.
        """
        ...
