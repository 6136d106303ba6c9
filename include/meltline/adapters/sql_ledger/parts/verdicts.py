"""The gates' verdicts on plans, and people's approvals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, in_parts, to_row
from meltline.adapters.sql_ledger.tables.schema import approvals, gate_results
from meltline.domain.deletion.gate import GateResult
from meltline.ports import Approval


@dataclass(frozen=True)
class VerdictRows:
    """The port `VerdictLedger`."""

    database: Database

    def save(self, results: Sequence[GateResult]) -> None:
        if results:
            with self.database.writing() as connection:
                refused = [verdict.plan_id for verdict in results if not verdict.passed]
                if over := _last_refusals(connection, refused):
                    for part in in_parts(over):
                        outdated = delete(gate_results).where(gate_results.c.seq.in_(part))
                        connection.execute(outdated)
                connection.execute(insert(gate_results), [to_row(verdict) for verdict in results])

    def newest(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        query = select(gate_results).order_by(gate_results.c.seq)
        verdicts: dict[str, GateResult] = {}
        with self.database.reading() as connection:
            for part in in_parts(plan_ids):
                for row in connection.execute(query.where(gate_results.c.plan_id.in_(part))):
                    verdicts[row.plan_id] = from_row(GateResult, row)
        return verdicts

    def approve(self, approval: Approval) -> None:
        with self.database.writing() as connection:
            connection.execute(insert(approvals), to_row(approval))

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        query = select(approvals).where(
            approvals.c.plan_id == plan_id, approvals.c.digest == digest
        )
        with self.database.reading() as connection:
            row = connection.execute(query.order_by(approvals.c.seq.desc()).limit(1)).first()
        return None if row is None else from_row(Approval, row)

    def forget_approvals(self) -> int:
        with self.database.writing() as connection:
            return connection.execute(delete(approvals)).rowcount


def _last_refusals(connection: Connection, plan_ids: Sequence[str]) -> list[int]:
    """The newest verdict on each of these plans, where that is a refusal, by its number."""
    newest: dict[str, tuple[int, GateResult]] = {}
    query = select(gate_results).order_by(gate_results.c.seq)
    for part in in_parts(plan_ids):
        for row in connection.execute(query.where(gate_results.c.plan_id.in_(part))):
            newest[row.plan_id] = (row.seq, from_row(GateResult, row))
    return [seq for seq, verdict in newest.values() if not verdict.passed]
