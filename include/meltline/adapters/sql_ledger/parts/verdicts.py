"""Stores the gates' verdicts on plans, and operators' approvals and rejections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import delete_in, from_row, rows_in, to_row
from meltline.adapters.sql_ledger.tables.decision_tables import rejections
from meltline.adapters.sql_ledger.tables.schema import approvals, gate_results
from meltline.domain.deletion.gate import GateResult
from meltline.ports import Approval, Rejection


@dataclass(frozen=True)
class VerdictRows:
    """The port `VerdictLedger`."""

    database: Database

    def save(self, results: Sequence[GateResult]) -> None:
        if results:
            with self.database.writing() as connection:
                refused = [verdict.plan_id for verdict in results if not verdict.passed]
                newest = _newest(connection, refused).values()
                over = [number for number, verdict in newest if not verdict.passed]
                delete_in(connection, gate_results.c.seq, over)
                connection.execute(insert(gate_results), [to_row(verdict) for verdict in results])

    def newest(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        with self.database.reading() as connection:
            return {id: verdict for id, (_, verdict) in _newest(connection, plan_ids).items()}

    def approve(self, approval: Approval) -> None:
        self.database.change(insert(approvals).values(to_row(approval)))

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        query = select(approvals).where(
            approvals.c.plan_id == plan_id, approvals.c.digest == digest
        )
        return self.database.record(Approval, query.order_by(approvals.c.seq.desc()))

    def reject(self, rejection: Rejection) -> None:
        self.database.change(insert(rejections).values(to_row(rejection)))

    def rejections(self, digests: Sequence[str]) -> Mapping[str, Rejection]:
        query = select(rejections).order_by(rejections.c.seq)
        with self.database.reading() as connection:
            rows = rows_in(connection, query, rejections.c.digest, digests)
            return {row.digest: from_row(Rejection, row) for row in rows}

    def forget_approvals(self) -> int:
        return self.database.change(delete(approvals))


def _newest(connection: Connection, plan_ids: Sequence[str]) -> dict[str, tuple[int, GateResult]]:
    """Returns the newest verdict on each of the plans, with its number."""
    query = select(gate_results).order_by(gate_results.c.seq)
    rows = rows_in(connection, query, gate_results.c.plan_id, plan_ids)
    return {row.plan_id: (row.seq, from_row(GateResult, row)) for row in rows}
