"""One Great Expectations validation over the gate facts of many plans.

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
    """Result of one expectation for all plans.

    Attributes:
        expectation: The expectation.
        absent: Plans without a fact that can be evaluated.
        violated: Plans whose fact exists and is not as expected.
        crash: Why no plan has a result; empty if they have one.
    """

    expectation: Expectation
    absent: frozenset[str] = frozenset()
    violated: frozenset[str] = frozenset()
    crash: str = ""


@dataclass(frozen=True)
class Validation:
    """The outcomes of one validation, and the report that they were read from."""

    outcomes: tuple[SuiteOutcome, ...]
    report: ExpectationSuiteValidationResult


def ephemeral_context() -> AbstractDataContext:
    """Creates a context in memory: no project, no temporary folder, no progress bars."""
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
    """Validates the facts of all plans at once, in one row each.

    Raises:
        Exception: Whatever Great Expectations raises; no plan has been evaluated then.
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
    """Requires a fact to be present and right: Great Expectations skips missing values."""
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
    """Reads outcomes from a report; a missing, failed or contradictory result is a crash.

    Args:
        suite: The suite that was validated.
        report: The report of Great Expectations.
        rows: The number of plans that were validated.
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
    """Returns the plans that failed a check, if the result is consistent.

    Raises:
        _NoAnswer: It is missing, it raised, or its counts contradict each other.
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
    """Returns whether the counts of a result agree with each other and with the number of plans."""
    detail: dict[str, Any] = answer.result or {}
    return (
        rows > 0
        and detail.get("element_count") == rows
        and detail.get("unexpected_count") == len(plans) == len(set(plans))
        and detail.get("missing_count", 0) == missing
        and answer.success is (not plans)
    )


def _message_of(exception_info: Any) -> str:
    """Returns the first message in either of the two formats that Great Expectations uses."""
    shapes = [exception_info, *(exception_info or {}).values()]
    for shape in shapes:
        if isinstance(shape, dict) and shape.get("exception_message"):
            return str(shape["exception_message"])
    return "Great Expectations does not say whether it was evaluated"
