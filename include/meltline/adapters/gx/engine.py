"""The gate engine on Great Expectations: one validation per kind of plan, a verdict per plan.

The gate step calls it. A crash refuses the plans that it could not evaluate.
"""

import logging
import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from meltline.domain.deletion.gate import (
    FailedExpectation,
    GateFacts,
    GateResult,
    HeldExpectation,
)
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import UsageInvalid
from meltline.domain.redaction import cause, discreet
from meltline.extras import require_module
from meltline.file_permissions import Access
from meltline.gates.suites import SUITES, Suite, SuiteOf

if TYPE_CHECKING:
    from great_expectations.data_context.data_context.abstract_data_context import (
        AbstractDataContext,
    )

    from meltline.adapters.gx.validation import SuiteOutcome, Validation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GreatExpectationsEngine:
    """Evaluates gate facts with Great Expectations (PX-2 to PX-5).

    Attributes:
        limits: The configured bounds that some expectations take.
        ttl: How long a verdict is valid.
        docs_dir: Folder for pages of Data Docs; None for no pages.
        run_id: Names the run's page; without one the page is named by the time.
        access: File permissions of the pages.
        suites: The suite for each kind of plan.
        context_of: Creates the data context; None for one in memory.
    """

    limits: Limits
    ttl: timedelta
    docs_dir: Path | None = None
    run_id: str = ""
    access: Access = Access.OWNER
    suites: Mapping[PlanKind, SuiteOf] = field(default_factory=lambda: SUITES)
    context_of: "Callable[[], AbstractDataContext] | None" = None

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        """Returns one result per plan, in order. A crash is a failed result, never a pass.

        Args:
            evidence: At most one set of facts per plan.
            now: Wall clock.

        Raises:
            UsageInvalid: Two sets of facts have the same plan.
            MissingExtra: Great Expectations is not installed; no plan was evaluated.
        """
        _refuse_twins(evidence)
        require_module("great_expectations")
        kinds: dict[PlanKind, list[GateFacts]] = {}
        for facts in evidence:
            kinds.setdefault(facts.kind, []).append(facts)
        results = {
            verdict.plan_id: verdict
            for kind, group in kinds.items()
            for verdict in self._judge_kind(kind, group, now)
        }
        return [results[facts.plan_id] for facts in evidence]

    def _judge_kind(
        self, kind: PlanKind, evidence: Sequence[GateFacts], now: datetime
    ) -> Sequence[GateResult]:
        try:
            suite = self._suite(kind)
            validation = self._validate(suite, evidence)
            results = [self._verdict(suite, validation, facts, now) for facts in evidence]
        except Exception as crash:
            # After any crash these plans are not evaluated: that is never a pass (PX-2).
            trace = discreet(traceback.format_exc())
            log.error("the %s gate could not judge %d plans\n%s", kind, len(evidence), trace)
            reason = cause(crash)
            return [self._unjudged(kind, facts, reason, now) for facts in evidence]
        return self._with_docs(validation, evidence, results, now)

    def _suite(self, kind: PlanKind) -> Suite:
        if kind not in self.suites:
            raise LookupError(f"there is no suite for plans of kind {kind}")
        suite = self.suites[kind](self.limits)
        if suite.kind != kind:
            raise LookupError(f"suite {suite.name} is for {suite.kind}, not for {kind}")
        if not suite.expectations:
            raise LookupError(f"suite {suite.name} is empty: nothing would be evaluated")
        return suite

    def _validate(self, suite: Suite, evidence: Sequence[GateFacts]) -> "Validation":
        _quieten_great_expectations()
        from meltline.adapters.gx import validation  # noqa: PLC0415 - takes seconds

        return validation.validate(suite, evidence, self.context_of or validation.ephemeral_context)

    def _verdict(
        self, suite: Suite, validation: "Validation", facts: GateFacts, now: datetime
    ) -> GateResult:
        answered = [o for o in validation.outcomes if not o.crash and facts.plan_id not in o.absent]
        return GateResult(
            plan_id=facts.plan_id,
            digest=facts.digest,
            suite=suite.name,
            evaluated=len(answered),
            failed=tuple(_failures(validation.outcomes, facts)),
            ran_at=now,
            valid_until=now + self.ttl,
            error="" if answered else "no expectation could be evaluated for this plan",
            held=tuple(_held(answered, facts)),
        )

    def _unjudged(self, kind: PlanKind, facts: GateFacts, reason: str, now: datetime) -> GateResult:
        return GateResult(
            plan_id=facts.plan_id,
            digest=facts.digest,
            suite=str(kind),
            evaluated=0,
            failed=(),
            ran_at=now,
            valid_until=now + self.ttl,
            error=reason,
        )

    def _with_docs(
        self,
        validation: "Validation",
        evidence: Sequence[GateFacts],
        results: Sequence[GateResult],
        now: datetime,
    ) -> Sequence[GateResult]:
        if self.docs_dir is None:
            return results
        from meltline.adapters.gx.docs import add_to_page  # noqa: PLC0415 - takes seconds

        name = self.run_id or f"{now:%Y%m%dT%H%M%S%z}"
        page = self.docs_dir / f"gates-{re.sub(r'[^A-Za-z0-9._+-]', '_', name)}.html"
        try:
            title = f"Gates of {name}"
            subjects = {facts.plan_id: facts.subject for facts in evidence}
            add_to_page(page, title, validation.report, results, now, self.access, subjects)
        except Exception:
            # The page only shows the verdicts; they are valid and stored without it.
            trace = discreet(traceback.format_exc())
            log.error("the page of Data Docs %s could not be written\n%s", page, trace)
            return results
        return [replace(verdict, docs=str(page)) for verdict in results]


@contextmanager
def imported_meanwhile() -> Iterator[None]:
    """Imports Great Expectations in a thread while a block waits for something else, as a JVM.

    The import takes three seconds. The block must not import a module of an import cycle that this
    import enters too: if two threads enter one, Python fails one of them. An import that fails here
    fails again, and is reported, when plans are evaluated.
    """
    _quieten_great_expectations()
    thread = Thread(target=_import, name="import of Great Expectations", daemon=True)
    thread.start()
    yield
    thread.join()


def _import() -> None:
    with suppress(Exception):
        from meltline.adapters.gx import docs, validation  # noqa: F401, PLC0415


def _failures(outcomes: "Sequence[SuiteOutcome]", facts: GateFacts) -> Iterator[FailedExpectation]:
    for outcome in outcomes:
        expectation = outcome.expectation
        if outcome.crash:
            observed = f"not evaluated: {outcome.crash}"
            yield FailedExpectation(str(expectation), facts.plan_id, observed)
        elif facts.plan_id in outcome.absent | outcome.violated:
            examples = ", ".join(facts.examples.get(expectation.fact, ()))
            observed = expectation.observed(facts.facts)
            yield FailedExpectation(str(expectation), examples or facts.plan_id, observed)


def _held(answered: "Sequence[SuiteOutcome]", facts: GateFacts) -> Iterator[HeldExpectation]:
    for outcome in answered:
        if facts.plan_id not in outcome.violated:
            expectation = outcome.expectation
            yield HeldExpectation(str(expectation), expectation.observed(facts.facts))


def _refuse_twins(evidence: Sequence[GateFacts]) -> None:
    # Verdicts are matched by plan id: of two rows with one id, one would get the other's.
    twins = [plan for plan, times in Counter(e.plan_id for e in evidence).items() if times > 1]
    if twins:
        raise UsageInvalid(
            "two pieces of evidence are about one plan",
            object=", ".join(sorted(twins)),
            expected="one piece of evidence per plan and validation",
            found=f"{len(evidence)} pieces about {len({e.plan_id for e in evidence})} plans",
            next="collect the evidence of each plan once and judge again",
        )


def _quieten_great_expectations() -> None:
    """Before its import: disables telemetry, and 200 log lines about registrations."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
