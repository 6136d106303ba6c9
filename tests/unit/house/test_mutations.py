"""The list of mutations that `python -m tests.mutation` tries cannot rot."""

import pytest

from tests.mutation.__main__ import ROOT, fits
from tests.mutation.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_still_fits_its_source(mutation: Mutation) -> None:
    assert fits(mutation)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_tests_that_are_to_notice_it_are_there(mutation: Mutation) -> None:
    """One that is not would be passed over, and with none left the whole suite would run."""
    assert mutation.tests
    for test in mutation.tests:
        assert (ROOT / test.partition("::")[0]).is_file(), test


def test_there_are_at_least_twenty() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) >= 20
