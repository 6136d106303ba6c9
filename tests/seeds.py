"""Seeds and sizes of random tests: few at a fixed seed in `make test`, more in `make test-all`.

`MELTLINE_SEED=N` begins at N, as an earlier run printed it. `MELTLINE_EXAMPLES=N` sets the number
of examples, at a new seed unless one is given.
"""

import os
from collections.abc import Mapping

from tests.tiers.declared import Tier, chosen_tier

SEED_VARIABLE, EXAMPLES_VARIABLE = "MELTLINE_SEED", "MELTLINE_EXAMPLES"
DRAWN_VARIABLE = "MELTLINE_DRAWN_SEED"
"""The new seed that all processes of one run share; `tests/tiers/__main__.py` sets it."""


def is_large(environment: Mapping[str, str]) -> bool:
    """Whether random tests run in the sizes of `make test-all`."""
    return (chosen_tier(environment) or Tier.TEST) >= Tier.ALL


def new_seed() -> int:
    """Returns a random seed of 48 bits."""
    return int.from_bytes(os.urandom(6), "big")


def chosen_seed(environment: Mapping[str, str]) -> int:
    """Returns the seed of this run: 0 in `make test`, a new one in the larger tiers."""
    if given := environment.get(SEED_VARIABLE):
        return int(given)
    if is_large(environment) or EXAMPLES_VARIABLE in environment:
        return int(environment.get(DRAWN_VARIABLE, 0)) or new_seed()
    return 0


SEED = chosen_seed(os.environ)


def examples(few: int, many: int, environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number of examples of one test.

    Args:
        few: In `make test`, and where no tier is named.
        many: In `make test-all` and `make nightly`.
        environment: The variables that choose the tier, or set the number.
    """
    default = many if is_large(environment) else few
    return int(environment.get(EXAMPLES_VARIABLE, default))


def beginnings(
    few: int,
    many: int,
    environment: Mapping[str, str] = os.environ,
    *,
    draws_new: bool = True,
    seed: int = SEED,
) -> list[tuple[int, int]]:
    """Returns the seeds at which random lives begin, and the number of lives at each.

    In the larger tiers most lives are those of every day, so that a failure that a change causes
    is seen as such. A quarter begins at a new seed, unless `draws_new` is false.
    """
    lives = examples(few, many, environment)
    if EXAMPLES_VARIABLE in environment or SEED_VARIABLE in environment:
        return [(seed, lives)]
    if not is_large(environment) or not draws_new:
        return [(0, lives)]
    new = max(1, lives // 4)
    return [(0, lives - new), (seed, new)]
