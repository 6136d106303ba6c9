"""The suites as data: what they ask for, and how a fact is read."""

import math
from dataclasses import replace

import pytest

from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind
from meltline.gates.suites import (
    SUITES,
    Expectation,
    Suite,
    expire_suite,
    purge_suite,
)

ZERO = Expectation("planned_heads", "heads in the plan", minimum=0, maximum=0)
FLAG = Expectation("digest_matches", "the items give the digest", flag=True)

COLD_FACTS = {
    "cold_missing", "cold_unreadable", "cold_differs", "cold_outside", "cold_files_missing",
    "cold_rows_differ",
}  # fmt: skip
EXPIRE_FACTS = COLD_FACTS | {
    "digest_matches", "planned_heads", "planned_ref_targets", "planned_main",
    "planned_young_refs", "planned_held", "planned_guarded",
    "planned_leased", "planned_unread", "planned_in_window", "planned_writer_walks",
    "drop_evidence_lost",
    "planned_not_in_metadata",
    "planned_referenced",
    "planned_unowned", "planned_outside_roots", "planned_half_seen",
    "planned_unknown", "planned_protected",
    "head_files_lost", "delete_ratio",
    "growth", "head_totals_differ", "unreadable", "tables_read", "manifests_read",
}  # fmt: skip
PURGE_FACTS = COLD_FACTS | {
    "digest_matches", "planned_not_due", "planned_not_in_failsafe", "planned_referenced",
    "planned_young_orphans",
    "planned_unowned", "planned_outside_roots", "planned_half_seen",
    "planned_protected", "planned_held", "planned_guarded",
    "planned_contested",
    "planned_claimed", "cold_unproved", "unreadable", "tables_read",
}  # fmt: skip


def facts_of(suite: Suite) -> set[str]:
    return {expectation.fact for expectation in suite.expectations}


def about(suite: Suite, fact: str) -> Expectation:
    return next(e for e in suite.expectations if e.fact == fact)


def test_every_kind_of_plan_has_a_suite_of_its_kind() -> None:
    assert {kind: suite_of(Limits()).kind for kind, suite_of in SUITES.items()} == {
        kind: kind for kind in PlanKind
    }


def test_an_expiration_must_answer_every_question_of_the_design() -> None:
    # PX-4
    assert facts_of(expire_suite(Limits())) == EXPIRE_FACTS


def test_a_purge_must_answer_every_question_of_the_design() -> None:
    # PX-4
    assert facts_of(purge_suite(Limits())) == PURGE_FACTS


@pytest.mark.parametrize("suite", [expire_suite(Limits()), purge_suite(Limits())], ids=str)
def test_every_count_of_planned_things_that_must_not_be_planned_is_bound_to_zero(
    suite: Suite,
) -> None:
    for expectation in suite.expectations:
        if expectation.fact.startswith("planned_"):
            assert (expectation.minimum, expectation.maximum) == (0, 0), expectation


def test_the_configured_limits_are_the_bounds() -> None:
    limits = replace(Limits(), max_head_loss=7, max_delete_ratio=0.25, max_growth=3.5)
    suite = expire_suite(limits)
    assert about(suite, "head_files_lost").maximum == 7
    assert about(suite, "delete_ratio").maximum == 0.25
    assert about(suite, "growth").maximum == 3.5


@pytest.mark.parametrize("limit", [None, math.nan, math.inf, "5", True])
def test_a_limit_that_bounds_nothing_makes_no_suite(limit: object) -> None:
    limits = Limits()
    object.__setattr__(limits, "max_growth", limit)
    with pytest.raises(ValueError, match="growth"):
        expire_suite(limits)


def test_a_number_without_bounds_is_no_expectation() -> None:
    with pytest.raises(ValueError, match="needs bounds"):
        Expectation("growth", "size against earlier plans")


def test_a_suite_does_not_ask_twice_about_one_fact() -> None:
    with pytest.raises(ValueError, match="asks twice"):
        Suite("expire", PlanKind.EXPIRE, (ZERO, ZERO))


@pytest.mark.parametrize("number", [0, 3, -1, 0.5])
def test_a_number_is_read_as_it_stands(number: float) -> None:
    assert ZERO.reading({"planned_heads": number}) == number


@pytest.mark.parametrize(
    "odd", [None, math.nan, math.inf, -math.inf, "0", True, False, 10**400, []]
)
def test_what_is_no_number_is_read_as_absent(odd: object) -> None:
    assert ZERO.reading({"planned_heads": odd}) is None


@pytest.mark.parametrize("odd", [None, 1, 0, 1.0, "true", math.nan])
def test_what_is_no_flag_is_read_as_absent(odd: object) -> None:
    assert FLAG.reading({"digest_matches": odd}) is None


def test_a_fact_that_is_not_there_is_absent() -> None:
    assert ZERO.reading({}) is None
    assert FLAG.reading({}) is None


def test_expectations_and_observations_read_like_sentences() -> None:
    assert str(FLAG) == "digest_matches is true"
    assert str(ZERO) == "planned_heads is 0"
    assert str(Expectation("r", "", minimum=0, maximum=0.95)) == "r is between 0 and 0.95"
    assert str(Expectation("t", "", minimum=1)) == "t is at least 1"
    assert str(Expectation("t", "", maximum=2)) == "t is at most 2"
    observed = [ZERO.observed({"planned_heads": value}) for value in (2, 0.5, True, "0", None)]
    assert observed == ["2", "0.5", "true", "'0'", "None"]
    assert ZERO.observed({}) == "missing"
