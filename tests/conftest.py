"""What every test session says first."""

from tests.seeds import SEED, SEED_VARIABLE


def pytest_report_header() -> str:
    """The seed of the random tests, as it must be given to see the same ones again."""
    return f"random tests: {SEED_VARIABLE}={SEED}"
