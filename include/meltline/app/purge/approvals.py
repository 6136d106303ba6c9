"""Purges above the limit, each of which waits for a person's word of its own."""

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
    """Which purges wait for a person's word.

    Attributes:
        above: Bytes above which a purge does.
        wait: How long a person is asked about one.
    """

    plans: PlanReader
    words: ApprovalReader
    clock: Clock
    above: int
    wait: timedelta

    @classmethod
    def of(cls, context: ReadContext) -> "Approvals":
        """By the configuration."""
        config, control = context.config, context.control
        above, wait = config.limits.approve_above, config.gates.approval_wait
        return cls(control.plans, control.verdicts, context.clock, above, wait)

    def awaited(self) -> list[Plan]:
        """Every plan about which a person is asked now, the oldest first."""
        return self.among(reversed(self.plans.find(states=[PlanState.PASSED])))

    def among(self, plans: Iterable[Plan]) -> list[Plan]:
        """Those of some plans: passed and large, asked about not too long ago, and not rejected."""
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
        """When the question about a plan is over: its files are planned as ever from then on."""
        return plan.created_at + self.wait

    def require(self, plan: Plan, digest: str) -> None:
        """Sees to it that a person's word is about what a plan does now.

        Raises:
            PlanStale: The plan is another one than the person has seen, or waits for no word.
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
    """How the files of a plan differ from those of the plan whose place it took."""

    came: Sequence[PlannedFile]
    went: Sequence[PlannedFile]

    @classmethod
    def between(cls, before: Sequence[PlannedFile], after: Sequence[PlannedFile]) -> "FileChanges":
        """By the files' paths."""
        return cls(_without(after, before), _without(before, after))


def _without(files: Sequence[PlannedFile], others: Sequence[PlannedFile]) -> list[PlannedFile]:
    paths: Collection[str] = {file.path for file in others}
    return [file for file in files if file.path not in paths]


def approve(
    context: ReadContext, plans: Sequence[Plan], reason: str, *, at: datetime | None = None
) -> None:
    """Records a person's word for exactly these digests. Raises as `raise_epoch` does.

    Args:
        context: Where it is recorded, and whose word it is.
        plans: What they approve.
        reason: Why.
        at: When they said so, where that was before now; the word lasts from then.
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
    """Records a person's no to a digest: nobody is asked about it again.

    It ends an earlier approval of it, so it is stored before the epoch begins. Raises as
    `raise_epoch` does.
    """
    now = context.clock.now()
    word = Rejection(plan.id, plan.digest, context.who, reason, now)
    context.control.verdicts.reject(word)
    audit(context, "reject", plan.id, reason)
    raise_epoch(context, "reject")


def require_answered(plan: Plan, at: datetime, now: datetime) -> None:
    """Raises UsageInvalid where a plan was answered before it was made, or in time to come."""
    if not plan.created_at - CLOCK_TOLERANCE <= at <= now + CLOCK_TOLERANCE:
        made = format_instant(plan.created_at)
        raise UsageInvalid(
            f"nobody can have answered about plan {plan.id} then",
            object="--answered-at",
            expected=f"an instant from {made}, when it was made, until now",
            found=format_instant(at),
            next="leave it out to answer now",
        )
