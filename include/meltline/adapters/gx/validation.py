"""One Great Expectations validation over the evidence of many plans.

Importing this module imports Great Expectations, which takes seconds: import it late.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
    ExpectColumnValuesToBeInSet,
)
from great_expectations.expectations.core.expect_column_values_to_not_be_null import (
    ExpectColumnValuesToNotBeNull,
)
from great_expectations.expectations.expectation import Expectation as Check

from meltline.domain.deletion.gate import GateFacts
from meltline.gates.suites import Expectation, Suite

PLAN_ID = "plan_id"
RESULT_FORMAT = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": [PLAN_ID],
    "return_unexpected_index_query": False,
}


@dataclass(frozen=True)
class SuiteOutcome:
    """What Great Expectations found out about one expectation, for every plan at once.

    Attributes:
        expectation: Which one.
        absent: Plans without a fact that could be judged.
        violated: Plans whose fact is there and not as expected.
        crash: Why there is no answer for any plan; empty when there is one.
    """

    expectation: Expectation
    absent: frozenset[str] = frozenset()
    violated: frozenset[str] = frozenset()
    crash: str = ""


@dataclass(frozen=True)
class Validation:
    """The outcomes of one validation, and the result that they were read from."""

    outcomes: tuple[SuiteOutcome, ...]
    report: ExpectationSuiteValidationResult


def ephemeral_context() -> AbstractDataContext:
    """A context that lives in memory: no project, no temporary folder, no progress bars."""
    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            progress_bars=ProgressBarsConfig(globally=False),
            analytics_enabled=False,
        ),
    )


def validate(
    suite: Suite,
    evidence: Sequence[GateFacts],
    context_of: Callable[[], AbstractDataContext] = ephemeral_context,
) -> Validation:
    """Validates the evidence of all these plans, a row each, in one go.

    Raises:
        Exception: Whatever Great Expectations raises; nothing has been judged then.
    """
    context = context_of()
    batch = (
        context.data_sources.add_pandas("evidence")
        .add_dataframe_asset(suite.name)
        .add_batch_definition_whole_dataframe("plans")
    )
    checks = [check for expectation in suite.expectations for check in _checks(expectation)]
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(
            name=suite.name,
            data=batch,
            suite=context.suites.add(gx.ExpectationSuite(name=suite.name, expectations=checks)),
        )
    )
    report = definition.run(
        batch_parameters={"dataframe": _frame(suite, evidence)},
        result_format=RESULT_FORMAT,
    )
    return Validation(tuple(outcomes_of(suite, report, len(evidence))), report)


def _checks(expectation: Expectation) -> Iterator[Check]:
    """A fact must be there and be right: Great Expectations passes over what is not there."""
    yield ExpectColumnValuesToNotBeNull(
        column=expectation.fact,
        notes=expectation.meaning,
        meta={"fact": expectation.fact, "check": "present"},
    )
    meta = {"fact": expectation.fact, "check": "right"}
    if expectation.flag:
        yield ExpectColumnValuesToBeInSet(column=expectation.fact, value_set=[True], meta=meta)
    else:
        yield ExpectColumnValuesToBeBetween(
            column=expectation.fact,
            min_value=expectation.minimum,
            max_value=expectation.maximum,
            meta=meta,
        )


def _frame(suite: Suite, evidence: Sequence[GateFacts]) -> pd.DataFrame:
    columns = {PLAN_ID: pd.Series([facts.plan_id for facts in evidence], dtype=object)}
    for expectation in suite.expectations:
        columns[expectation.fact] = pd.Series(
            [expectation.reading(facts.facts) for facts in evidence],
            dtype=object if expectation.flag else float,
        )
    return pd.DataFrame(columns)


def outcomes_of(
    suite: Suite, report: ExpectationSuiteValidationResult, rows: int
) -> Iterator[SuiteOutcome]:
    """Reads a result, and believes no answer of it that is not there, raised or contradicts itself.

    Args:
        suite: What was asked.
        report: What Great Expectations answered.
        rows: How many plans it was asked about.
    """
    answers: dict[tuple[str, str], ExpectationValidationResult] = {}
    for answer in report.results:
        meta = answer.expectation_config.meta if answer.expectation_config else None
        if meta and "check" in meta:
            answers[(str(meta["fact"]), str(meta["check"]))] = answer
    for expectation in suite.expectations:
        present = answers.get((expectation.fact, "present"))
        right = answers.get((expectation.fact, "right"))
        try:
            absent = _unexpected(present, rows)
            violated = _unexpected(right, rows, missing=len(absent))
        except _NoAnswer as reason:
            yield SuiteOutcome(expectation, crash=str(reason))
        else:
            yield SuiteOutcome(expectation, absent, violated)


class _NoAnswer(Exception):
    """A result from which no plan's verdict can be derived."""


def _unexpected(
    answer: ExpectationValidationResult | None, rows: int, missing: int = 0
) -> frozenset[str]:
    """The plans that did not meet a check, provided that the result adds up.

    Raises:
        _NoAnswer: It is not there, it raised, or its counts contradict each other.
    """
    if answer is None:
        raise _NoAnswer("Great Expectations returned no result for it")
    if (answer.exception_info or {}).get("raised_exception") is not False:
        raise _NoAnswer(_message_of(answer.exception_info))
    listed = (answer.result or {}).get("unexpected_index_list") or []
    plans = [row[PLAN_ID] for row in listed]
    if not _adds_up(answer, plans, rows, missing):
        raise _NoAnswer("the counts in its result do not add up")
    return frozenset(map(str, plans))


def _adds_up(
    answer: ExpectationValidationResult, plans: Sequence[Any], rows: int, missing: int
) -> bool:
    """Whether the counts of a result agree with each other and with what was asked."""
    detail: dict[str, Any] = answer.result or {}
    return (
        rows > 0
        and detail.get("element_count") == rows
        and detail.get("unexpected_count") == len(plans) == len(set(plans))
        and detail.get("missing_count", 0) == missing
        and answer.success is (not plans)
    )


def _message_of(exception_info: Any) -> str:
    """The first message in either of the two shapes that Great Expectations uses."""
    shapes = [exception_info, *(exception_info or {}).values()]
    for shape in shapes:
        if isinstance(shape, dict) and shape.get("exception_message"):
            return str(shape["exception_message"])
    return "Great Expectations does not say whether it was evaluated"
