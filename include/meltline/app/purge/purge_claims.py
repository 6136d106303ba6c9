"""Reads from the control ledger whether a plan may be purged, and claims its batches.

It checks the gate's verdict and the operator's approval. `apply_purges` uses it before each wave.
The list of purges that wait for an approval is in `approvals.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.gate.gate import not_passed
from meltline.app.purge.purge_batches import DeleteBatch, claim_of, stop_all
from meltline.app.safety.epochs import RunEpoch
from meltline.app.safety.preconditions import require_go
from meltline.app.services import ReadContext
from meltline.domain.clock import CLOCK_TOLERANCE, Clock
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import (
    ApprovalMissing,
    ApprovalRejected,
    GateNotPassed,
    MeltlineError,
)
from meltline.domain.iceberg.files import Departure
from meltline.domain.safe_text import quote
from meltline.domain.units import format_size
from meltline.ports import ClaimLedger, Rejection, SwitchLedger, VerdictLedger


@dataclass(frozen=True)
class PurgePermits:
    """Checks whether plans may be purged now.

    Attributes:
        approve_above: Bytes above which an operator must approve a plan.
        approval_lasts: How long an approval counts.
    """

    verdicts: VerdictLedger
    clock: Clock
    approve_above: int
    approval_lasts: timedelta

    @classmethod
    def of(cls, context: ReadContext) -> "PurgePermits":
        """Reads the configured limits."""
        limits, gates = context.config.limits, context.config.gates
        return cls(context.control.verdicts, context.clock, limits.approve_above, gates.ttl)

    def gate_refusals(self, plans: Sequence[Plan]) -> Mapping[str, GateNotPassed]:
        """Returns plans without a passed gate that counts now, by their ids, with the reason."""
        verdicts = self.verdicts.newest([plan.id for plan in plans])
        now = self.clock.now()
        refusals = {plan.id: not_passed(plan, verdicts.get(plan.id), now) for plan in plans}
        return {id: refused for id, refused in refusals.items() if refused}

    def not_approved(self, plan: Plan) -> ApprovalMissing | None:
        """Returns the error for a large plan that lacks an approval; None if it may be purged."""
        if plan.bytes <= self.approve_above:
            return None
        approval, ttl = self.verdicts.approval(plan.id, plan.digest), self.approval_lasts
        rejection = self.verdicts.rejections([plan.digest]).get(plan.digest)
        now = self.clock.now()
        if rejection is not None and (approval is None or approval.at <= rejection.at):
            return _rejected(plan, rejection)
        if approval is not None and approval.at - CLOCK_TOLERANCE <= now < approval.at + ttl:
            return None
        return ApprovalMissing(
            f"plan {plan.id} purges {format_size(plan.bytes)}: a person must approve it",
            object=plan.id,
            expected=f"an approval, or at most {format_size(self.approve_above)}",
            found="no approval" if approval is None else "an approval that does not count now",
            next=f"`meltline approval show {plan.id}`, then "
            f"`meltline apply {plan.id} --approve REASON`",
        )


def _rejected(plan: Plan, rejection: Rejection) -> ApprovalRejected:
    return ApprovalRejected(
        f"plan {plan.id} purges {format_size(plan.bytes)}, and a person has said no to that",
        object=plan.id,
        expected="an approval since then",
        found=f"{rejection.who}: {rejection.reason}",
        next=f"to keep its files, `meltline hold add {quote(plan.table)} --reason TEXT` or a "
        "longer "
        f"failsafe by `meltline policy set`; to delete them, "
        f"`meltline apply {plan.id} --approve REASON`",
    )


@dataclass(frozen=True)
class BatchClaims:
    """Claims batches before they are deleted, and finishes or drops the claims afterwards.

    Attributes:
        epoch: Begins before the first file is deleted.
        waiting: The departures that may be purged, by path.
    """

    ledger: ClaimLedger
    permits: PurgePermits
    switch: SwitchLedger
    epoch: RunEpoch
    waiting: Mapping[str, Departure]

    def take(self, batches: Sequence[DeleteBatch]) -> list[DeleteBatch]:
        """Claims batches, and returns those that this purge may delete now."""
        if not batches:
            return []
        require_go(self.switch)
        permitted = self._permitted(batches)
        if any(batch.files for batch in permitted):
            self.epoch.require()
        claims = [claim_of(batch, [file.path for file in batch.files]) for batch in permitted]
        claimed = []
        for batch, answer in zip(permitted, self.ledger.take(claims), strict=True):
            if isinstance(answer, MeltlineError):
                batch.of.error = answer
            elif answer:
                claimed.append(batch)
            else:  # an earlier run has deleted it
                batch.of.deleted += batch.files
        return claimed

    def _permitted(self, batches: Sequence[DeleteBatch]) -> list[DeleteBatch]:
        """Returns batches of plans that may be purged, each with its files that still wait."""
        jobs = {batch.of.plan.id: batch.of for batch in batches}
        refused = self.permits.gate_refusals([job.plan for job in jobs.values()])
        for id, job in jobs.items():
            job.error = refused.get(id) or self.permits.not_approved(job.plan)
        permitted = [batch for batch in batches if batch.of.is_open]
        for batch in permitted:
            batch.files = [file for file in batch.files if file.path in self.waiting]
        return permitted

    def settle(self, whole: Sequence[DeleteBatch], claimed: Sequence[DeleteBatch]) -> None:
        """Finishes completely deleted batches; drops the other claims, so that a run can resume."""
        finished = set(whole)
        try:
            answers = self.ledger.finish([claim_of(batch) for batch in whole])
            self.ledger.drop([claim_of(batch) for batch in claimed if batch not in finished])
        except MeltlineError as stop:
            stop_all(claimed, stop)
            return
        for batch, lost in zip(whole, answers, strict=True):
            batch.of.stop(lost)
