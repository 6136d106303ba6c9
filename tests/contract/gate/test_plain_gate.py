"""The gate of the unit tests, in plain Python, gives the verdicts that Great Expectations gives."""

import math
from collections.abc import Sequence

import pytest

from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.domain.deletion.gate import GateFacts, GateResult
from meltline.domain.deletion.plan import PlanKind
from tests.contract.gate.test_gate_engine import GOOD, LIMITS, NOW, TTL, VIOLATIONS, evidence
from tests.lake.plain_gate import PlainGateEngine

ODD = (math.nan, math.inf, "many", None, True, 1)


def cases() -> list[GateFacts]:
    """Plans that pass, and plans with one wrong, odd or missing fact each, at all bounds."""
    found = [evidence(kind) for kind in PlanKind]
    found += [evidence(kind, **{fact: value}) for kind, fact, value in VIOLATIONS]
    for kind, facts in GOOD.items():
        found += [evidence(kind, **{fact: odd}) for fact in facts for odd in ODD]
        found += [evidence(kind, without=fact) for fact in facts]
    named = (f"{item.kind}{number}" for number, item in enumerate(found))
    return [
        GateFacts(plan_id, f"sha256:{plan_id}", item.kind, item.facts)
        for plan_id, item in zip(named, found, strict=True)
    ]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, tuple[GateFacts, GateResult, GateResult]]:
    """Each case with the verdict of the real gate and of the plain one."""
    asked = cases()
    real = by_plan(GreatExpectationsEngine(LIMITS, TTL).judge(asked, NOW))
    plain = by_plan(PlainGateEngine(LIMITS, TTL).judge(asked, NOW))
    return {item.plan_id: (item, real[item.plan_id], plain[item.plan_id]) for item in asked}


def by_plan(results: Sequence[GateResult]) -> dict[str, GateResult]:
    return {result.plan_id: result for result in results}


def test_both_pass_and_refuse_the_same_plans(
    verdicts: dict[str, tuple[GateFacts, GateResult, GateResult]],
) -> None:
    differing = [item for item, real, plain in verdicts.values() if real.passed != plain.passed]
    assert differing == []
    passed = [item.kind for item, real, _ in verdicts.values() if real.passed]
    assert set(passed) == set(PlanKind) and len(passed) < len(verdicts) / 4


def test_both_refuse_for_the_same_expectations_and_approve_the_same_digest(
    verdicts: dict[str, tuple[GateFacts, GateResult, GateResult]],
) -> None:
    for item, real, plain in verdicts.values():
        told = [{failed.expectation for failed in result.failed} for result in (real, plain)]
        assert told[0] == told[1], item
        assert (
            (real.suite, real.digest) == (plain.suite, plain.digest) == (plain.suite, item.digest)
        )
        assert (real.ran_at, real.valid_until) == (plain.ran_at, plain.valid_until)
