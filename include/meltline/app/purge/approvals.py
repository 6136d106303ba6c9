"""Approvals of purges above the limit: an operator must consent to each such plan.

Planning, `meltline approval`, the lifecycle, doctor and status call it. Whether a purge may start
now is decided apart from it, in `purge_claims.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.services import ReadContext
from meltline.domain.clock import CLOCK_TOLERANCE, Clock
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import PlanStale, UsageInvalid
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.units import format_instant
from meltline.ports import Approval, ApprovalReader, PlanReader, Rejection


@dataclass(frozen=True)
class Approvals:
    """Purges that wait for an operator's approval.

    Attributes:
        above: Bytes above which a purge needs one.
        wait: How long an operator is asked about a purge.
    """

    plans: PlanReader
    words: ApprovalReader
    clock: Clock
    above: int
    wait: timedelta

    @classmethod
    def of(cls, context: ReadContext) -> "Approvals":
        """Reads the limit and the wait from the configuration."""
        config, control = context.config, context.control
        above, wait = config.limits.approve_above, config.gates.approval_wait
        return cls(control.plans, control.verdicts, context.clock, above, wait)

    def awaited(self) -> list[Plan]:
        """Returns all plans that wait for an approval now, the oldest first."""
        return self.among(reversed(self.plans.find(states=[PlanState.PASSED])))

    def among(self, plans: Iterable[Plan]) -> list[Plan]:
        """Selects plans that wait: passed, large, requested not too long ago, and not rejected."""
        now = self.clock.now()
        asked = [
            plan
            for plan in plans
            if self._needs_word(plan)
            and plan.created_at - CLOCK_TOLERANCE <= now < self.until(plan)
        ]
        rejected = self.words.rejections([plan.digest for plan in asked])
        return [plan for plan in asked if plan.digest not in rejected]

    def until(self, plan: Plan) -> datetime:
        """Returns when the approval request ends; from then on the files are planned as usual."""
        return plan.created_at + self.wait

    def require(self, plan: Plan, digest: str) -> None:
        """Requires that an answer is about the current content of a plan.

        Raises:
            PlanStale: The plan is not the one that the operator has seen, or it waits for no
                approval.
        """
        if plan.digest != digest:
            raise PlanStale(
                f"plan {plan.id} has other files than those the word is about",
                object=plan.id,
                expected=plan.digest,
                found=digest,
                next=f"`meltline approval show {plan.id}`, then answer for its digest",
            )
        if not self._needs_word(plan):
            raise PlanStale(
                f"plan {plan.id} waits for no approval",
                object=plan.id,
                expected="a passed purge above `limits.approve-above`",
                found=f"{plan.kind}, {plan.state}{f': {plan.note}' if plan.note else ''}",
                next="`meltline approval list` has those that wait",
            )

    def _needs_word(self, plan: Plan) -> bool:
        is_passed = plan.kind is PlanKind.PURGE and plan.state is PlanState.PASSED
        return is_passed and plan.bytes > self.above


@dataclass(frozen=True)
class FileChanges:
    """Differences between the files of a plan and those of the plan that it replaced."""

    came: Sequence[PlannedFile]
    went: Sequence[PlannedFile]

    @classmethod
    def between(cls, before: Sequence[PlannedFile], after: Sequence[PlannedFile]) -> "FileChanges":
        """Compares the files by their paths."""
        return cls(_without(after, before), _without(before, after))


def _without(files: Sequence[PlannedFile], others: Sequence[PlannedFile]) -> list[PlannedFile]:
    paths: Collection[str] = {file.path for file in others}
    return [file for file in files if file.path not in paths]


def approve(
    context: ReadContext, plans: Sequence[Plan], reason: str, *, at: datetime | None = None
) -> None:
    """Records an operator's approval of exactly these digests. Raises as `raise_epoch` does.

    Args:
        context: Where it is recorded, and who approves.
        plans: The plans to approve.
        reason: Why.
        at: When the operator answered, if that was before now; the approval lasts from then.
    """
    if not plans:
        return
    raise_epoch(context, "approve")
    now = context.clock.now()
    for plan in plans:
        word = Approval(plan.id, plan.digest, context.who, reason, at or now)
        context.control.verdicts.approve(word)
        audit(context, "approve", plan.id, reason)


def reject(context: ReadContext, plan: Plan, reason: str) -> None:
    """Records an operator's rejection of a digest: no operator is asked about it again.

    It ends an earlier approval of the digest, so it is stored before the epoch begins. Raises as
    `raise_epoch` does.
    """
    now = context.clock.now()
    word = Rejection(plan.id, plan.digest, context.who, reason, now)
    context.control.verdicts.reject(word)
    audit(context, "reject", plan.id, reason)
    raise_epoch(context, "reject")


def require_answered(plan: Plan, at: datetime, now: datetime) -> None:
    """Raises UsageInvalid if the answer predates the plan, or lies in the future."""
    if not plan.created_at - CLOCK_TOLERANCE <= at <= now + CLOCK_TOLERANCE:
        made = format_instant(plan.created_at)
        raise UsageInvalid(
            f"nobody can have answered about plan {plan.id} then",
            object="--answered-at",
            expected=f"an instant from {made}, when it was made, until now",
            found=format_instant(at),
            next="leave it out to answer now",
        )
