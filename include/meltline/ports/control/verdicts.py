"""What gates and people said of plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.gate import GateResult


@dataclass(frozen=True)
class Approval:
    """A person's word for one digest."""

    plan_id: str
    digest: str
    who: str
    reason: str
    at: datetime


class VerdictReader(Protocol):
    """What gates said of plans last."""

    def newest(self, plan_ids: Sequence[str]) -> Mapping[str, GateResult]:
        """The verdict on each plan that was stored last; absent where there is none."""
        ...


class VerdictLedger(VerdictReader, Protocol):
    """The gates' verdicts on plans, and people's approvals."""

    def save(self, results: Sequence[GateResult]) -> None:
        """Adds verdicts; earlier ones stay as history, but a refusal for the last refusal."""
        ...

    def approve(self, approval: Approval) -> None:
        """Adds a person's word; earlier ones stay as history."""
        ...

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        """The last word on this very digest."""
        ...

    def forget_approvals(self) -> int:
        """No approval counts any more; returns how many there were."""
        ...
