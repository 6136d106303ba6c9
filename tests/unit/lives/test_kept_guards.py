"""Each guard that random lives hunt has a kept life that fails without it; neither can rot."""

from pathlib import Path

import pytest

from tests.mutation.mutations import MUTATIONS
from tests.soak.guards import GUARDS
from tests.soak.kept_guards import KEPT_LIVES, failure_without

HUNTED = {guard.name: guard for guard in MUTATIONS if guard.name in GUARDS}


def test_each_guard_is_a_mutation_and_has_a_kept_life() -> None:
    assert GUARDS.keys() == HUNTED.keys() == KEPT_LIVES.keys()


@pytest.mark.parametrize("name", KEPT_LIVES)
def test_the_kept_life_of_a_guard_fails_without_it(name: str, tmp_path: Path) -> None:
    """A crash of the broken package proves nothing: a promise has to be broken."""
    failed = failure_without(HUNTED[name], tmp_path)
    assert failed.startswith("AssertionError: "), failed or "it does not fail without the guard"
