"""The real suites, judged in plain Python: what takes Great Expectations a second takes no time.

`tests/contract/gate/test_plain_gate.py` shows that both give the same verdicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from meltline.domain.deletion.gate import (
    FailedExpectation,
    GateFacts,
    GateResult,
    HeldExpectation,
)
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind
from meltline.gates.suites import SUITES, Expectation, SuiteOf


@dataclass
class PlainGateEngine:
    limits: Limits
    ttl: timedelta
    suites: Mapping[PlanKind, SuiteOf] = field(default_factory=lambda: SUITES)

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        return [self._verdict(item, now) for item in evidence]

    def _verdict(self, item: GateFacts, now: datetime) -> GateResult:
        suite = self.suites[item.kind](self.limits)
        failed = [one for one in suite.expectations if not _holds(one, item)]
        missing = [one for one in suite.expectations if one.reading(item.facts) is None]
        return GateResult(
            plan_id=item.plan_id,
            digest=item.digest,
            suite=suite.name,
            evaluated=len(suite.expectations) - len(missing),
            failed=tuple(
                FailedExpectation(
                    str(one),
                    ", ".join(item.examples.get(one.fact, ())) or item.plan_id,
                    one.observed(item.facts),
                )
                for one in failed
            ),
            ran_at=now,
            valid_until=now + self.ttl,
            held=tuple(
                HeldExpectation(str(one), one.observed(item.facts))
                for one in suite.expectations
                if one not in failed
            ),
            error="" if len(missing) < len(suite.expectations) else "nothing was evaluated",
        )


def _holds(expectation: Expectation, item: GateFacts) -> bool:
    reading = expectation.reading(item.facts)
    if reading is None or expectation.flag:
        return reading is True
    low, high = expectation.minimum, expectation.maximum
    return (low is None or reading >= low) and (high is None or reading <= high)
