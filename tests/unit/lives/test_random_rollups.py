"""Random lives of a table with rollups: each bucket equals a full look at hot's rows, or what hot
had of it before it left. `MELTLINE_EXAMPLES=2000` looks longer.
"""

import pytest

from tests.chunks.rollup_lives import RollupLives
from tests.lives.recorded import live
from tests.seeds import beginnings


@pytest.mark.slow("random lives")
def test_random_lives_of_rollups_keep_every_bucket() -> None:
    for begin, lives in beginnings(few=2, many=15):
        live(RollupLives, lives=lives, moves=25, begin=begin)
