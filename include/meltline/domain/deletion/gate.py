"""Gates: the facts about a plan, and the verdict that approves one digest.

`app.gate` collects the facts, and Great Expectations evaluates them (`adapters.gx`). The suites are
in `gates`.
"""

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
"""Facts that may fail only as a consequence of another fact: an unreadable file proves nothing.

Files that cannot be read count as referenced, as different from their totals, and as outside any
window.
"""


@dataclass(frozen=True)
class GateFacts:
    """The facts about one plan, determined independently of the planner.

    Attributes:
        plan_id: The plan.
        digest: The stored digest that is to be approved.
        kind: Decides the suite.
        facts: One number or flag per fact; the suite's expectations test these.
        examples: For a failing fact, a few of the objects that cause it.
        subject: The plan's table, files and bytes, for people.
    """

    plan_id: str
    digest: str
    kind: PlanKind
    facts: Mapping[str, int | float | bool | str]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subject: str = ""


@dataclass(frozen=True)
class FailedExpectation:
    """One expectation that failed."""

    expectation: str
    object: str
    observed: str

    @property
    def fact(self) -> str:
        """The fact that it tests."""
        return self.expectation.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class HeldExpectation:
    """One expectation that passed, with the observed value."""

    expectation: str
    observed: str

    @property
    def fact(self) -> str:
        """The fact that it tests."""
        return self.expectation.partition(" ")[0]


@dataclass(frozen=True)
class GateResult:
    """A gate's verdict on one digest.

    Attributes:
        plan_id: The plan.
        digest: The digest that was approved or refused; the verdict is valid for no other.
        suite: The expectation suite's name.
        evaluated: How many expectations were evaluated for this plan.
        failed: Expectations that failed.
        ran_at: Wall clock.
        valid_until: When the result expires.
        error: Why the gate could not evaluate the plan; empty if it could.
        docs: The path of the run's rendered Data Docs page, if any.
        held: Expectations that passed.
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

        A result from a clock that was ahead would otherwise be fresh until `now` catches up with
        it.
        """
        is_fresh = self.ran_at - CLOCK_TOLERANCE <= now < self.valid_until
        return self.passed and self.digest == digest and is_fresh

    def failed_on(self, fact: str) -> bool:
        """Whether an expectation about that fact failed."""
        return any(failed.fact == fact for failed in self.failed)

    @property
    def consequences(self) -> tuple[FailedExpectation, ...]:
        """Failures that may be mere consequences of other failures."""
        facts = {failed.fact for failed in self.failed}
        after = frozenset[str]().union(*(FOLLOWS.get(fact, frozenset()) for fact in facts))
        return tuple(failed for failed in self.failed if failed.fact in after)
