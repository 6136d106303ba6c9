"""Plan headers, the gates' verdicts on them, and people's approvals."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Select, func, insert, select, update

from meltline.adapters.sql_ledger.locks import LockTable
from meltline.adapters.sql_ledger.refusals import moved_meanwhile, no_plan, require_move
from meltline.adapters.sql_ledger.rows import from_row, to_row
from meltline.adapters.sql_ledger.schema import approvals, gate_results, plans
from meltline.domain.gate import GateResult
from meltline.domain.plan import Plan, PlanState
from meltline.ports import Approval, Lock


class PlanRows(LockTable):
    """Plans move by compare-and-set, so that of two runs only one goes on (design section 4)."""

    def add_plan(self, plan: Plan) -> Plan:
        """Stores a header; when one of that id is there it stays, and is returned."""
        with self._writing() as connection:
            self._insert_new(connection, plans, [to_row(plan)])
            return _by_id(connection, plan.id)

    def plan(self, id_or_prefix: str) -> Plan:
        """A plan by id, unambiguous prefix, or `last`.

        Raises:
            PlanNotFound: None answers to it, or several do.
        """
        with self._reading() as connection:
            if id_or_prefix == "last":
                row = connection.execute(_newest_first().limit(1)).first()
                if row is None:
                    raise no_plan("last")
                return from_row(Plan, row)
            # Not LIKE: SQLite's is blind to case.
            begins = func.substr(plans.c.id, 1, len(id_or_prefix)) == id_or_prefix
            matches = connection.execute(select(plans.c.id).where(begins).limit(5)).scalars().all()
            exact = connection.execute(select(plans).where(plans.c.id == id_or_prefix)).first()
            if exact is not None:
                return from_row(Plan, exact)
            if len(matches) != 1 or not id_or_prefix:
                raise no_plan(id_or_prefix, matches)
            return _by_id(connection, matches[0])

    def plans(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        limit: int | None = None,
    ) -> Sequence[Plan]:
        """Plans, newest first; an empty filter lets all pass."""
        wanted = _newest_first().limit(limit)
        if run_id:
            wanted = wanted.where(plans.c.run_id == run_id)
        if in_states := tuple(states):
            wanted = wanted.where(plans.c.state.in_(in_states))
        if table_uuid:
            wanted = wanted.where(plans.c.table_uuid == table_uuid)
        with self._reading() as connection:
            return [from_row(Plan, row) for row in connection.execute(wanted)]

    def move_plan(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        """Moves a plan on from the state in which the caller saw it.

        Args:
            plan: As it was read.
            to: Where it goes.
            lock: Must still be held, in the same transaction.
            note: Replaces the former note, which explained the former state.
            committed_base: Kept as it was where none is given.

        Raises:
            PlanStale: It is in another state, or the move does not exist.
            PlanNotFound: It was never stored.
            LockLost: The lock has been taken over or has ended.
        """
        require_move(plan, to)
        values: dict[str, object] = {"state": to, "note": note}
        if committed_base:
            values["committed_base"] = committed_base
        move = update(plans).where(plans.c.id == plan.id, plans.c.state == plan.state)
        with self._writing() as connection:
            if lock is not None:
                self._require_lock(connection, lock)
            moved = connection.execute(move.values(values)).rowcount == 1
            stored = _by_id(connection, plan.id)
            if not moved:
                raise moved_meanwhile(plan, to, stored.state)
            return stored

    def save_gate_result(self, result: GateResult) -> None:
        """Adds a verdict; earlier ones stay as history."""
        with self._writing() as connection:
            connection.execute(insert(gate_results), to_row(result))

    def gate_result(self, plan_id: str) -> GateResult | None:
        """The verdict stored last, which is the one that counts."""
        wanted = select(gate_results).where(gate_results.c.plan_id == plan_id)
        with self._reading() as connection:
            row = connection.execute(wanted.order_by(gate_results.c.seq.desc()).limit(1)).first()
        return None if row is None else from_row(GateResult, row)

    def save_approval(self, approval: Approval) -> None:
        """Adds a person's word; earlier ones stay as history."""
        with self._writing() as connection:
            connection.execute(insert(approvals), to_row(approval))

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        """The last word on this very digest."""
        wanted = select(approvals).where(
            approvals.c.plan_id == plan_id, approvals.c.digest == digest
        )
        with self._reading() as connection:
            row = connection.execute(wanted.order_by(approvals.c.seq.desc()).limit(1)).first()
        return None if row is None else from_row(Approval, row)


def _newest_first() -> Select[tuple[object, ...]]:
    return select(plans).order_by(plans.c.created_at.desc(), plans.c.seq.desc())


def _by_id(connection: Connection, plan_id: str) -> Plan:
    row = connection.execute(select(plans).where(plans.c.id == plan_id)).first()
    if row is None:
        raise no_plan(plan_id)
    return from_row(Plan, row)
