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


@dataclass(frozen=True)
class Rejection:
    """A person's no to one digest: nobody is asked about it again."""

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


class ApprovalReader(Protocol):
    """What people said of large purges last."""

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        """The last word on this very digest."""
        ...

    def rejections(self, digests: Sequence[str]) -> Mapping[str, Rejection]:
        """The last no to each of these digests, whichever plan had it; absent where none was."""
        ...


class VerdictLedger(VerdictReader, ApprovalReader, Protocol):
    """The gates' verdicts on plans, and people's approvals."""

    def save(self, results: Sequence[GateResult]) -> None:
        """Adds verdicts; earlier ones stay as history, but a refusal for the last refusal."""
        ...

    def approve(self, approval: Approval) -> None:
        """Adds a person's word; earlier ones stay as history."""
        ...

    def reject(self, rejection: Rejection) -> None:
        """Adds a person's no; earlier ones stay as history."""
        ...

    def forget_approvals(self) -> int:
        """No approval counts any more; returns how many there were."""
        ...
