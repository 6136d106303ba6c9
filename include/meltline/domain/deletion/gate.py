"""Gates: the evidence about a plan, and the verdict that approves one digest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.deletion.plan import PlanKind

FOLLOWS: Mapping[str, frozenset[str]] = {
    "unreadable": frozenset(
        {
            "planned_referenced",
            "planned_in_window",
            "planned_not_in_metadata",
            "planned_unowned",
            "planned_young_refs",
            "head_files_lost",
            "head_totals_differ",
            "delete_ratio",
            "tables_read",
            "planned_needed",
            "planned_newest",
            "planned_not_in_table",
            "planned_early",
            "planned_held",
            "planned_not_deep",
            "files_differ",
            "chunks_written_since",
            "drops_unknown",
            "chunks_proved",
            "rows_differ",
        }
    ),
    "cold_unreadable": frozenset(
        {
            "cold_missing",
            "cold_differs",
            "cold_files_missing",
            "cold_rows_differ",
            "cold_unproved",
            "rows_differ",
        }
    ),
}
"""What may fail only because another fact failed: of what cannot be read nothing else is certain.

Whatever cannot be read counts as referred to, differs from its totals, and has no window.
"""


@dataclass(frozen=True)
class GateFacts:
    """What was found out about one plan, from the other end than the planner's.

    Attributes:
        plan_id: The plan.
        digest: The stored digest that is to be approved.
        kind: Decides the suite.
        facts: One number or flag per question; the suite's expectations are about these.
        examples: For a question with a bad answer, the objects that make it bad (a few).
        subject: What the plan is about, for people: its table, files and bytes.
    """

    plan_id: str
    digest: str
    kind: PlanKind
    facts: Mapping[str, int | float | bool | str]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subject: str = ""


@dataclass(frozen=True)
class FailedExpectation:
    """One expectation that did not hold."""

    expectation: str
    object: str
    observed: str

    @property
    def fact(self) -> str:
        """What it asks about."""
        return self.expectation.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class HeldExpectation:
    """One expectation that held, and what was found."""

    expectation: str
    observed: str

    @property
    def fact(self) -> str:
        """What it asks about."""
        return self.expectation.partition(" ")[0]


@dataclass(frozen=True)
class GateResult:
    """A gate's verdict on one digest.

    Attributes:
        plan_id: The plan.
        digest: What was approved or refused: nothing else is.
        suite: The expectation suite's name.
        evaluated: How many expectations were evaluated for this plan.
        failed: Those that did not hold.
        ran_at: Wall clock.
        valid_until: After this the result is worth nothing.
        error: Why the gate could not judge; empty when it could.
        docs: Where the rendered Data Docs page of the run lies, if any.
        held: Those that held.
    """

    plan_id: str
    digest: str
    suite: str
    evaluated: int
    failed: tuple[FailedExpectation, ...]
    ran_at: datetime
    valid_until: datetime
    error: str = ""
    docs: str = ""
    held: tuple[HeldExpectation, ...] = ()

    @property
    def passed(self) -> bool:
        """Fail closed: something was evaluated, nothing failed, nothing crashed (PX-2)."""
        return self.evaluated > 0 and not self.failed and not self.error

    def approves(self, digest: str, now: datetime) -> bool:
        """Whether this result allows applying that digest now (PX-3).

        One that a clock gave that was ahead would be fresh for as long as that was ahead.
        """
        is_fresh = self.ran_at - CLOCK_TOLERANCE <= now < self.valid_until
        return self.passed and self.digest == digest and is_fresh

    def failed_on(self, fact: str) -> bool:
        """Whether an expectation about that fact did not hold."""
        return any(failed.fact == fact for failed in self.failed)

    @property
    def consequences(self) -> tuple[FailedExpectation, ...]:
        """What failed and may have done so only because something else did."""
        facts = {failed.fact for failed in self.failed}
        after = frozenset[str]().union(*(FOLLOWS.get(fact, frozenset()) for fact in facts))
        return tuple(failed for failed in self.failed if failed.fact in after)
