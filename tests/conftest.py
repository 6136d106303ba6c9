"""What holds for every test session, and what it says first."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.real_parts import must_run
from tests.seeds import SEED, SEED_VARIABLE

# No test is about time: on a busy machine an example takes as long as it takes.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_report_header() -> str:
    """The seed of the random tests, as it must be given to see the same ones again."""
    return f"random tests: {SEED_VARIABLE}={SEED}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skip is a failure: a real part that is missing takes no test away unseen."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and must_run(item.nodeid, os.environ):
        report.outcome = "failed"
    return report
