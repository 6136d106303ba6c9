"""What holds for every test session, and what it says first."""

from hypothesis import settings

from tests.seeds import SEED, SEED_VARIABLE

# No test is about time: on a busy machine an example takes as long as it takes.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_report_header() -> str:
    """The seed of the random tests, as it must be given to see the same ones again."""
    return f"random tests: {SEED_VARIABLE}={SEED}"
