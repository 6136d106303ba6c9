"""A gate's checks of a plan as rows: the observed value beside its limit, failures first.

The pages of runs and plans show them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from meltline.app.run_history.plan_log import JudgedPlan
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.limits import Limits
from meltline.gates.suites import SUITES


@dataclass(frozen=True)
class Check:
    """One expectation with its result.

    Attributes:
        fact: The fact that it tests.
        meaning: The meaning of the fact; empty if no current suite has it.
        found: The observed value.
        limit: The required value.
        examples: The objects that cause a failure.
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
    """Sorts plans by their gates' verdicts: the refused ones first, then by table."""
    return sorted(plans, key=lambda each: (_ORDER[each.gate], str(each.plan.table), each.plan.id))


def checks_of(verdict: GateResult | None) -> list[Check]:
    """Returns a gate's checks, failures first; empty without a verdict."""
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
    """Returns the meaning of each fact, over all suites; if two differ, the first one's."""
    suites = [suite(Limits()) for suite in SUITES.values()]
    every = [expectation for suite in reversed(suites) for expectation in suite.expectations]
    return {expectation.fact: expectation.meaning for expectation in every}
