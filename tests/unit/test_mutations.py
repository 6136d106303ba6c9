"""The list of mutations that `python -m tests.mutation` tries cannot rot."""

import pytest

from tests.mutation.__main__ import fits
from tests.mutation.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_still_fits_its_source(mutation: Mutation) -> None:
    assert fits(mutation)


def test_there_are_at_least_twenty() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) >= 20
