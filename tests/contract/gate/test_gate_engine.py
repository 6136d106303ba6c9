"""The contract of the port `GateEngine`, on real Great Expectations."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meltline.adapters.gx.engine import GreatExpectationsEngine
from meltline.domain.deletion.gate import GateFacts, GateResult
from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import UsageInvalid
from meltline.gates.suites import SUITES, Expectation, Suite
from meltline.ports import GateEngine

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
TTL = timedelta(hours=6)
LIMITS = Limits(max_head_loss=2, max_delete_ratio=0.95, max_growth=5.0)

COPIES: dict[str, Any] = {
    "cold_missing": 0,
    "cold_unreadable": 0,
    "cold_differs": 0,
    "cold_outside": 0,
    "cold_files_missing": 0,
    "cold_rows_differ": 0,
}
GOOD: dict[PlanKind, dict[str, Any]] = {
    PlanKind.EXPIRE: {
        "digest_matches": True,
        "planned_heads": 0,
        "planned_ref_targets": 0,
        "planned_main": 0,
        "planned_young_refs": 0,
        "planned_held": 0,
        "planned_guarded": 0,
        "planned_leased": 0,
        "planned_unread": 0,
        "planned_in_window": 0,
        "planned_writer_walks": 0,
        "drop_evidence_lost": 0,
        "planned_not_in_metadata": 0,
        "planned_referenced": 0,
        "planned_unowned": 0,
        "planned_outside_roots": 0,
        "planned_half_seen": 0,
        "planned_unknown": 0,
        "planned_protected": 0,
        "head_files_lost": 2,
        "delete_ratio": 0.95,
        "growth": 5.0,
        "head_totals_differ": 0,
        "unreadable": 0,
        **COPIES,
        "tables_read": 1,
        "manifests_read": 0,
    },
    PlanKind.PURGE: {
        "digest_matches": True,
        "planned_not_due": 0,
        "planned_not_in_failsafe": 0,
        "planned_young_orphans": 0,
        "planned_referenced": 0,
        "planned_unowned": 0,
        "planned_outside_roots": 0,
        "planned_half_seen": 0,
        "planned_protected": 0,
        "planned_held": 0,
        "planned_guarded": 0,
        "planned_contested": 0,
        "planned_claimed": 0,
        "unreadable": 0,
        **COPIES,
        "cold_unproved": 0,
        "tables_read": 1,
    },
    PlanKind.PRUNE: {
        "digest_matches": True,
        "unreadable": 0,
        "planned_newest": 0,
        "planned_not_in_table": 0,
        "planned_early": 0,
        "planned_held": 0,
        "planned_outside": 0,
        "planned_needed": 0,
        "planned_not_deep": 0,
    },
    PlanKind.DROP_CHUNKS: {
        "digest_matches": True,
        "unreadable": 0,
        "base_lost": 0,
        "chunks_written_since": 0,
        "drops_unknown": 0,
        "planned_held": 0,
        "chunks_young": 0,
        "chunks_latest": 0,
        "chunks_without_time": 0,
        "files_differ": 0,
        "files_reaching_beyond": 0,
        "rollups_behind": 0,
        "not_durable": 0,
        "cold_unreadable": 0,
        "rows_differ": 0,
        "share_allowed": 0.2,
        "cold_snapshot": 8_518_028_792_290_965_937,
        "chunks_proved": 3,
    },
}
EVERY_QUESTION = [(kind, fact) for kind, facts in GOOD.items() for fact in facts]
# Just beyond each bound that is not zero to zero.
BEYOND: dict[str, list[Any]] = {
    "digest_matches": [False],
    "head_files_lost": [3, -1],
    "delete_ratio": [0.9500001, -0.1],
    "growth": [5.01, -1],
    "tables_read": [0],
    "manifests_read": [-1],
    "share_allowed": [-0.0001, -1],
    "cold_snapshot": [-1],
    "chunks_proved": [0, -1],
}
VIOLATIONS = [
    (kind, fact, value)
    for kind, fact in EVERY_QUESTION
    for value in BEYOND.get(fact, [1, 10**9, -1])
]


def evidence(
    kind: PlanKind = PlanKind.EXPIRE,
    plan_id: str = "e1",
    without: str = "",
    examples: dict[str, tuple[str, ...]] | None = None,
    **changed: Any,
) -> GateFacts:
    """Evidence of a plan that passes, but for what is said."""
    facts = {**GOOD[kind], **changed}
    facts.pop(without, None)
    return GateFacts(plan_id, f"sha256:{plan_id}", kind, facts, examples or {})


@pytest.fixture(params=["great expectations"])
def gate() -> GateEngine:
    return GreatExpectationsEngine(LIMITS, TTL)


def judge_one(gate: GateEngine, item: GateFacts) -> GateResult:
    [result] = gate.judge([item], NOW)
    return result


class CountedContexts:
    """Makes real contexts, and counts them: a validation takes one."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self):  # type: ignore[no-untyped-def]
        from meltline.adapters.gx.validation import ephemeral_context

        self.made += 1
        return ephemeral_context()


# --- verdicts --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(PlanKind))
def test_a_plan_that_meets_every_expectation_passes(gate: GateEngine, kind: PlanKind) -> None:
    result = judge_one(gate, evidence(kind))
    assert result.passed
    assert result.failed == ()
    assert result.error == ""
    assert result.evaluated == len(GOOD[kind])
    assert result.suite == kind.value
    assert (result.plan_id, result.digest) == ("e1", "sha256:e1")
    assert len(result.held) == result.evaluated


def test_a_verdict_has_what_was_found_beside_each_expectation_held_or_not(
    gate: GateEngine,
) -> None:
    result = judge_one(gate, evidence(delete_ratio=0.25, planned_heads=2, without="growth"))
    held = {each.expectation: each.observed for each in result.held}
    assert held[f"delete_ratio is between 0 and {LIMITS.max_delete_ratio}"] == "0.25"
    assert held["digest_matches is true"] == "true"
    assert {failed.fact for failed in result.failed} == {"planned_heads", "growth"}
    assert len(held) == len(GOOD[PlanKind.EXPIRE]) - 2


ODD: list[Any] = ["nothing", math.nan, None, "0", math.inf]


def name_of(kind: PlanKind, fact: str, value: object) -> str:
    return f"{kind}/{fact}/{value!r}"


@pytest.fixture(scope="module")
def verdicts() -> dict[str, GateResult]:
    """One call about every way to be refused, each a plan of its own beside one that passes.

    A verdict that leaked from a row to another would refuse a neighbour.
    """
    items = []
    for kind, fact, value in VIOLATIONS:
        plan = name_of(kind, fact, value)
        items += [evidence(kind, plan, **{fact: value}), evidence(kind, f"beside {plan}")]
    for kind, fact in EVERY_QUESTION:
        for odd in ODD:
            plan = name_of(kind, fact, odd)
            without = fact if odd == "nothing" else ""
            items += [
                evidence(kind, plan, without, **{fact: odd}),
                evidence(kind, f"beside {plan}"),
            ]
    results = GreatExpectationsEngine(LIMITS, TTL).judge(items, NOW)
    return {result.plan_id: result for result in results}


@pytest.mark.parametrize(("kind", "fact", "value"), VIOLATIONS)
def test_a_violated_expectation_refuses_its_plan_and_not_its_neighbour(
    verdicts: dict[str, GateResult], kind: PlanKind, fact: str, value: Any
) -> None:
    plan = name_of(kind, fact, value)
    assert verdicts[f"beside {plan}"].passed
    bad = verdicts[plan]
    assert not bad.passed
    [failure] = bad.failed
    assert failure.expectation.startswith(f"{fact} is ")
    assert failure.object == plan
    assert failure.observed == str(value).lower()
    assert bad.evaluated == len(GOOD[kind])


@pytest.mark.parametrize(("kind", "fact"), EVERY_QUESTION)
@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_fact_that_cannot_be_judged_refuses_its_plan_and_not_its_neighbour(
    verdicts: dict[str, GateResult], kind: PlanKind, fact: str, odd: Any
) -> None:
    plan = name_of(kind, fact, odd)
    assert verdicts[f"beside {plan}"].passed
    bad = verdicts[plan]
    assert not bad.passed
    assert [failure.expectation.split()[0] for failure in bad.failed] == [fact]
    assert bad.evaluated == len(GOOD[kind]) - 1


@pytest.mark.parametrize("fact", ["digest_matches", "planned_referenced", "growth", "tables_read"])
def test_a_fact_that_no_plan_of_the_batch_has_refuses_them_all(gate: GateEngine, fact: str) -> None:
    results = gate.judge([evidence(plan_id=plan, without=fact) for plan in "ab"], NOW)
    assert [result.passed for result in results] == [False, False]
    assert [result.failed[0].observed for result in results] == ["missing", "missing"]


def test_a_number_where_a_flag_belongs_is_no_flag(gate: GateEngine) -> None:
    assert not judge_one(gate, evidence(digest_matches=1)).passed


def test_a_flag_where_a_count_belongs_is_no_count(gate: GateEngine) -> None:
    assert not judge_one(gate, evidence(planned_heads=False)).passed


def test_a_plan_without_any_fact_was_not_judged(gate: GateEngine) -> None:
    # PX-2
    bare = GateFacts("e1", "sha256:e1", PlanKind.EXPIRE, {})
    result = judge_one(gate, bare)
    assert not result.passed
    assert result.evaluated == 0
    assert result.error
    assert len(result.failed) == len(GOOD[PlanKind.EXPIRE])


def test_facts_that_no_expectation_is_about_change_nothing(gate: GateEngine) -> None:
    assert judge_one(gate, evidence(moon_phase="full", plan_id_again=math.nan)).passed


def test_a_refusal_names_the_objects_that_make_the_answer_bad(gate: GateEngine) -> None:
    files = ("file:///w/a.parquet", "file:///w/b.parquet")
    result = judge_one(gate, evidence(planned_referenced=2, examples={"planned_referenced": files}))
    [failure] = result.failed
    assert failure.expectation == "planned_referenced is 0"
    assert failure.object == "file:///w/a.parquet, file:///w/b.parquet"
    assert failure.observed == "2"


def test_every_violation_of_one_plan_is_told(gate: GateEngine) -> None:
    result = judge_one(gate, evidence(planned_heads=1, unreadable=3, without="growth"))
    assert {failure.expectation.split()[0] for failure in result.failed} == {
        "planned_heads",
        "unreadable",
        "growth",
    }


def test_no_evidence_gives_no_verdict(gate: GateEngine) -> None:
    assert list(gate.judge([], NOW)) == []


def test_two_pieces_of_evidence_about_one_plan_are_not_judged(gate: GateEngine) -> None:
    with pytest.raises(UsageInvalid) as refusal:
        gate.judge([evidence(planned_heads=1), evidence()], NOW)
    assert refusal.value.object == "e1"


def test_verdicts_come_in_the_order_of_the_evidence_whatever_the_kinds(gate: GateEngine) -> None:
    kinds = [PlanKind.PURGE, PlanKind.EXPIRE, PlanKind.PURGE, PlanKind.EXPIRE]
    items = [evidence(kind, f"p{number}") for number, kind in enumerate(kinds)]
    results = gate.judge(items, NOW)
    assert [result.plan_id for result in results] == ["p0", "p1", "p2", "p3"]
    assert [result.suite for result in results] == ["purge", "expire", "purge", "expire"]
    assert all(result.passed for result in results)


def test_one_validation_serves_two_hundred_plans_and_gives_each_its_own_verdict() -> None:
    contexts = CountedContexts()
    gate = GreatExpectationsEngine(LIMITS, TTL, context_of=contexts)
    items = [evidence(plan_id=f"e{n}", planned_unowned=n % 7 // 6) for n in range(200)]
    results = gate.judge(items, NOW)
    assert contexts.made == 1
    refused = [result.plan_id for result in results if not result.passed]
    assert refused == [f"e{n}" for n in range(200) if n % 7 == 6]


# --- how long, and for what, a verdict counts ------------------------------------------------


def test_a_verdict_approves_its_digest_until_its_time_is_over(gate: GateEngine) -> None:
    # PX-3
    result = judge_one(gate, evidence())
    assert (result.ran_at, result.valid_until) == (NOW, NOW + TTL)
    assert result.approves("sha256:e1", NOW)
    assert result.approves("sha256:e1", NOW + TTL - timedelta(seconds=1))
    assert not result.approves("sha256:e1", NOW + TTL)


def test_a_verdict_approves_no_other_digest(gate: GateEngine) -> None:
    # PX-3
    assert not judge_one(gate, evidence()).approves("sha256:other", NOW)


def test_a_ttl_of_nothing_approves_nothing() -> None:
    result = judge_one(GreatExpectationsEngine(LIMITS, timedelta(0)), evidence())
    assert result.passed
    assert not result.approves(result.digest, NOW)


# --- when the gate itself is broken ----------------------------------------------------------


def broken_context() -> None:
    raise RuntimeError("no context today")


def refused_by(gate: GreatExpectationsEngine) -> list[GateResult]:
    results = gate.judge([evidence(plan_id="a"), evidence(plan_id="b")], NOW)
    assert [result.plan_id for result in results] == ["a", "b"]
    assert not any(result.passed for result in results)
    return list(results)


def with_suite(suite: Suite) -> GreatExpectationsEngine:
    return GreatExpectationsEngine(LIMITS, TTL, suites={PlanKind.EXPIRE: lambda _: suite})


def test_a_crash_of_great_expectations_is_a_refusal_with_its_reason() -> None:
    # PX-2
    gate = GreatExpectationsEngine(LIMITS, TTL, context_of=broken_context)  # type: ignore[arg-type]
    for result in refused_by(gate):
        assert result.error == "RuntimeError: no context today"
        assert result.evaluated == 0
        assert result.digest == f"sha256:{result.plan_id}"


def test_a_crash_over_one_kind_leaves_the_other_kind_its_verdicts() -> None:
    gate = GreatExpectationsEngine(LIMITS, TTL, suites={PlanKind.PURGE: SUITES[PlanKind.PURGE]})
    expire, purge = gate.judge([evidence(), evidence(PlanKind.PURGE, "p1")], NOW)
    assert not expire.passed
    assert purge.passed


def test_an_expectation_that_crashes_refuses_every_plan() -> None:
    backwards = Expectation("growth", "cannot be met", minimum=5, maximum=1)
    heads = Expectation("planned_heads", "heads in the plan", minimum=0, maximum=0)
    for result in refused_by(with_suite(Suite("expire", PlanKind.EXPIRE, (heads, backwards)))):
        assert result.evaluated == 1
        [failure] = result.failed
        assert failure.expectation == str(backwards)
        assert failure.observed.startswith("not evaluated: ")


def test_limits_that_bound_nothing_refuse() -> None:
    for limit in (None, math.nan):
        limits = replace(LIMITS)
        object.__setattr__(limits, "max_delete_ratio", limit)
        for result in refused_by(GreatExpectationsEngine(limits, TTL)):
            assert "delete_ratio" in result.error


def test_a_limit_below_zero_refuses_every_plan() -> None:
    limits = replace(LIMITS)
    object.__setattr__(limits, "max_head_loss", -1)
    refused_by(GreatExpectationsEngine(limits, TTL))


def test_a_kind_without_a_suite_refuses() -> None:
    for result in refused_by(GreatExpectationsEngine(LIMITS, TTL, suites={})):
        assert "no suite" in result.error


def test_an_empty_suite_refuses() -> None:
    for result in refused_by(with_suite(Suite("expire", PlanKind.EXPIRE, ()))):
        assert "empty" in result.error
        assert result.evaluated == 0


def test_a_suite_for_another_kind_refuses() -> None:
    for result in refused_by(with_suite(SUITES[PlanKind.PURGE](LIMITS))):
        assert "is for purge" in result.error


# --- when its answer cannot be believed ------------------------------------------------------


DOCTORED: dict[str, Callable[[Any], object]] = {
    "it is missing": lambda answer: setattr(answer.expectation_config, "meta", {}),
    "it raised": lambda answer: answer.exception_info.update(raised_exception=True),
    "it does not say whether it raised": lambda answer: setattr(answer, "exception_info", {}),
    "it saw no rows": lambda answer: answer.result.update(element_count=0),
    "it saw fewer rows than plans": lambda answer: answer.result.update(element_count=1),
    "it has no details": lambda answer: setattr(answer, "result", {}),
    "it counts a plan that it does not name": lambda answer: answer.result.update(
        unexpected_count=1
    ),
    "it names a plan that it does not count": lambda answer: answer.result.update(
        unexpected_index_list=[{"plan_id": "a"}]
    ),
    "it passed over a plan": lambda answer: answer.result.update(missing_count=1),
    "it failed and names nobody": lambda answer: setattr(answer, "success", False),
    "it does not say whether it held": lambda answer: setattr(answer, "success", None),
}


@pytest.mark.parametrize("check", ["present", "right"])
@pytest.mark.parametrize("doctor", DOCTORED.values(), ids=DOCTORED)
def test_an_answer_that_does_not_add_up_is_no_answer(
    doctor: Callable[[Any], object], check: str
) -> None:
    from meltline.adapters.gx import validation

    suite = SUITES[PlanKind.EXPIRE](LIMITS)
    judged = validation.validate(suite, [evidence(plan_id="a"), evidence(plan_id="b")])
    assert not any(outcome.crash for outcome in judged.outcomes)
    asked = {"fact": "planned_referenced", "check": check}
    configs = [answer.expectation_config for answer in judged.report.results]
    [at] = [n for n, config in enumerate(configs) if config and config.meta == asked]
    doctor(judged.report.results[at])
    outcomes = validation.outcomes_of(suite, judged.report, rows=2)
    assert [o.expectation.fact for o in outcomes if o.crash] == ["planned_referenced"]
