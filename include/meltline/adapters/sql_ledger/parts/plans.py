"""Stores the headers of plans, without their items."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Select, bindparam, func, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.parts.locks import LockRows
from meltline.adapters.sql_ledger.refusals import no_plan, plan_after, require_move
from meltline.adapters.sql_ledger.rows import from_row, insert_new, rows_in, to_row
from meltline.adapters.sql_ledger.tables.schema import plans
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import MeltlineError, PlanNotFound, PlanStale
from meltline.ports import Lock, PlanTransition


@dataclass(frozen=True)
class PlanRows:
    """The port `PlanLedger`: plans change state by compare-and-swap, so one of two runs wins."""

    database: Database
    locks: LockRows

    def add(self, new: Sequence[Plan]) -> Sequence[Plan]:
        with self.database.writing() as connection:
            insert_new(connection, plans, [to_row(plan) for plan in new])
            stored = _by_ids(connection, [plan.id for plan in new])
        return [stored[plan.id] for plan in new]

    def repeat(self, again: Sequence[Plan]) -> None:
        if not again:
            return
        with self.database.writing() as connection:
            stored = _by_ids(connection, [plan.id for plan in again], update=True)
            for plan in again:
                before = stored.get(plan.id)
                if before is not None and before.is_refused_as(plan):
                    row = to_row(before.again(plan))
                    connection.execute(update(plans).where(plans.c.id == plan.id), row)

    def get(self, id_or_prefix: str) -> Plan:
        with self.database.reading() as connection:
            if id_or_prefix == "last":
                row = connection.execute(_newest_first().limit(1)).first()
                if row is None:
                    raise no_plan("last")
                return from_row(Plan, row)
            if exact := _by_ids(connection, [id_or_prefix]):
                return exact[id_or_prefix]
            # Not LIKE, which ignores case on SQLite. This scans every plan that ever existed.
            begins = func.substr(plans.c.id, 1, len(id_or_prefix)) == id_or_prefix
            matches = connection.execute(select(plans.c.id).where(begins).limit(5)).scalars().all()
            if len(matches) != 1 or not id_or_prefix:
                raise no_plan(id_or_prefix, matches)
            return _by_ids(connection, matches)[matches[0]]

    def current(self, ids: Sequence[str]) -> Mapping[str, Plan]:
        with self.database.reading() as connection:
            by_id = _by_ids(connection, ids)
        if missing := [id for id in ids if id not in by_id]:
            raise no_plan(missing[0])
        return by_id

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
        query = _newest_first().limit(limit)
        if since is not None:
            query = query.where(plans.c.created_at >= since)
        if until is not None:
            query = query.where(plans.c.created_at < until)
        if run_id:
            query = query.where(plans.c.run_id == run_id)
        if in_states := tuple(states):
            query = query.where(plans.c.state.in_(in_states))
        if table_uuid:
            query = query.where(plans.c.table_uuid == table_uuid)
        return self.database.records(Plan, query)

    def sizes_before(self, plan: Plan, limit: int) -> Sequence[int]:
        c = plans.c
        query = _newest_first().with_only_columns(c.bytes).limit(limit)
        query = query.where(c.table_uuid == plan.table_uuid, c.kind == plan.kind, c.id != plan.id)
        query = query.where(c.state == PlanState.APPLIED, c.bytes != 0)
        with self.database.reading() as connection:
            return connection.execute(query).scalars().all()

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
        """Moves plans to new states, if they are in the states in which the caller read them.

        The errors among the answers: PlanStale, if a plan is in another state or the move does not
        exist; PlanNotFound; LockLost.
        """
        if not moves:
            return []
        with self.database.writing() as connection:
            lost = self.locks.lost_within(
                connection, [move.lock for move in moves if move.lock is not None]
            )
            stored = _by_ids(connection, [move.plan.id for move in moves], update=True)
            answers = [_outcome_of(move, stored.get(move.plan.id), lost) for move in moves]
            rows = [
                {
                    "of_id": plan.id,
                    "state": plan.state,
                    "note": plan.note,
                    "committed_base": plan.committed_base,
                }
                for plan in answers
                if isinstance(plan, Plan)
            ]
            if rows:
                connection.execute(update(plans).where(plans.c.id == bindparam("of_id")), rows)
        return answers


def _newest_first() -> Select[tuple[object, ...]]:
    return select(plans).order_by(plans.c.created_at.desc(), plans.c.seq.desc())


def _by_ids(connection: Connection, ids: Iterable[str], *, update: bool = False) -> dict[str, Plan]:
    """Returns plans by their ids; an update locks them against concurrent changes on Postgres."""
    query = select(plans).order_by(plans.c.id)
    query = query.with_for_update() if update else query
    return {row.id: from_row(Plan, row) for row in rows_in(connection, query, plans.c.id, ids)}


def _outcome_of(
    move: PlanTransition, stored: Plan | None, lost: Mapping[Lock, MeltlineError]
) -> Plan | MeltlineError:
    try:
        require_move(move.plan, move.to)
        if move.lock is not None and move.lock in lost:
            return lost[move.lock]
        return plan_after(move, stored)
    except (PlanNotFound, PlanStale) as refused:
        return refused
