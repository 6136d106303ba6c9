"""Where random tests begin: at the same place each time, and in CI some at a new one.

`MELTLINE_SEED=N` begins at N, as a run before did that printed it. `MELTLINE_EXAMPLES=N` looks at
so many examples, and at new ones unless a seed is given.
"""

import os
from collections.abc import Mapping

from tests.real_parts import is_ci

SEED_VARIABLE, EXAMPLES_VARIABLE = "MELTLINE_SEED", "MELTLINE_EXAMPLES"


def new_seed() -> int:
    """One that nobody had before."""
    return int.from_bytes(os.urandom(6), "big")


def chosen_seed(environment: Mapping[str, str]) -> int:
    """The seed of this run; 0 where nobody asks for another."""
    if given := environment.get(SEED_VARIABLE):
        return int(given)
    return new_seed() if is_ci(environment) or EXAMPLES_VARIABLE in environment else 0


SEED = chosen_seed(os.environ)


def examples(default: int) -> int:
    """How many to look at."""
    return int(os.environ.get(EXAMPLES_VARIABLE, default))


def beginnings(
    lives: int, environment: Mapping[str, str] = os.environ, *, draws_new: bool = True
) -> list[tuple[int, int]]:
    """Where so many lives begin, and how many at each place.

    In CI most are those of every day, so that what a change breaks is seen as such; the others are
    new each time, for what chance finds, where such are drawn.
    """
    if EXAMPLES_VARIABLE in environment or SEED_VARIABLE in environment or not SEED:
        return [(SEED, lives)]
    if not draws_new:
        return [(0, lives)]
    new = max(1, lives // 4)
    return [(0, lives - new), (SEED, new)]
