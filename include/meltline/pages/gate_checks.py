"""What a gate asked about a plan: the found value beside its limit, what did not hold first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from meltline.app.run_history.plan_log import JudgedPlan
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.limits import Limits
from meltline.gates.suites import SUITES


@dataclass(frozen=True)
class Check:
    """One expectation and its answer.

    Attributes:
        fact: What it asks about.
        meaning: What that says; empty for one that no suite has any more.
        found: The value.
        limit: What it must be.
        examples: The objects that make it bad.
        follows: Whether it may have failed only because another one did.
    """

    fact: str
    meaning: str
    found: str
    limit: str
    held: bool
    examples: str = ""
    follows: bool = False


_ORDER = {"refused": 0, "none": 1, "passed": 2}


def refused_first(plans: Iterable[JudgedPlan]) -> list[JudgedPlan]:
    """Plans with what their gates said: the refused ones first, then by table."""
    return sorted(plans, key=lambda each: (_ORDER[each.gate], str(each.plan.table), each.plan.id))


def checks_of(verdict: GateResult | None) -> list[Check]:
    """What a gate asked, what did not hold first; nothing where there is no verdict."""
    return [] if verdict is None else _checks(verdict)


def _checks(verdict: GateResult) -> list[Check]:
    after = set(verdict.consequences)
    failed = [
        _check(f.expectation, f.observed, held=False, examples=f.object, follows=f in after)
        for f in verdict.failed
    ]
    failed.sort(key=lambda check: check.follows)
    return [*failed, *(_check(each.expectation, each.observed, held=True) for each in verdict.held)]


def _check(
    expectation: str, found: str, *, held: bool, examples: str = "", follows: bool = False
) -> Check:
    fact, _, limit = expectation.partition(" ")
    meaning = _meanings().get(fact, "")
    return Check(fact, meaning, found, limit.removeprefix("is "), held, examples, follows)


@cache
def _meanings() -> Mapping[str, str]:
    """What each fact says, over all suites; where two differ, the first one's words."""
    suites = [suite(Limits()) for suite in SUITES.values()]
    every = [expectation for suite in reversed(suites) for expectation in suite.expectations]
    return {expectation.fact: expectation.meaning for expectation in every}
