"""Rules of every test session: the seed, the tier, the xdist groups, and skips that fail in CI."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.real_parts import must_run
from tests.seeds import SEED, SEED_VARIABLE, is_large
from tests.tiers.declared import chosen_tier, without_group
from tests.tiers.durations import Recorder
from tests.tiers.selection import in_order, part_of_item, tier_of_item

# No test is about time: on a busy machine an example takes as long as it takes.
# Only the larger tiers draw new examples: what fails in `make test` fails again.
settings.register_profile("any machine", deadline=None, derandomize=not is_large(os.environ))
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Records the durations of this run where the environment names a folder for them."""
    folder = os.environ.get(Recorder.VARIABLE)
    if folder and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder.into(folder))


def pytest_report_header() -> str:
    """The seed of the random tests, as it must be given to see the same ones again."""
    return f"random tests: {SEED_VARIABLE}={SEED}"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the cases of later tiers, and groups the rest for xdist, longest group first."""
    tier = chosen_tier(os.environ)
    chosen = [item for item in items if tier is None or tier_of_item(item) <= tier]
    left_out = set(items) - set(chosen)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    for item in chosen:
        item.user_properties.append(("part", part_of_item(item)))
    is_grouped = getattr(config.option, "loadgroup", False)  # in a worker of xdist
    items[:] = in_order(chosen) if is_grouped else chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skip is a failure: a real part that is missing takes no test away unseen."""
    report = yield
    test = without_group(item.nodeid)
    if report.skipped and not hasattr(report, "wasxfail") and must_run(test, os.environ):
        report.outcome = "failed"
    return report
