"""Protocols of the gates' verdicts on plans, and of operators' answers to large purges.

Expire and purge store them, and gates read them; `adapters/sql_ledger` implements the protocols.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.gate import GateResult


@dataclass(frozen=True)
class Approval:
    """An operator's approval of one digest."""

    plan_id: str
    digest: str
    who: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class Rejection:
    """An operator's rejection of one digest: it is never presented for approval again."""

    plan_id: str
    digest: str
    who: str
    reason: str
    at: datetime


class VerdictReader(Protocol):
    """Reads the gates' newest verdicts on plans."""

    def newest(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        """Returns the verdict on each plan that was stored last; plans without one are absent."""
        ...


class ApprovalReader(Protocol):
    """Reads the operators' newest answers to large purges."""

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        """Returns the newest approval of exactly this digest."""
        ...

    def rejections(self, digests: Sequence[str]) -> Mapping[str, Rejection]:
        """Returns the newest rejection of each digest, of whichever plan; absent if none."""
        ...


class VerdictLedger(VerdictReader, ApprovalReader, Protocol):
    """Stores the gates' verdicts on plans, and operators' answers."""

    def save(self, results: Sequence[GateResult]) -> None:
        """Adds verdicts. Earlier ones stay as history; of refusals only the last one stays."""
        ...

    def approve(self, approval: Approval) -> None:
        """Adds an approval; earlier ones stay as history."""
        ...

    def reject(self, rejection: Rejection) -> None:
        """Adds a rejection; earlier ones stay as history."""
        ...

    def forget_approvals(self) -> int:
        """Invalidates all approvals; returns how many there were."""
        ...
