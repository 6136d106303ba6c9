"""Random lives of a table with rollups: each bucket equals a full look at hot's rows, or what hot
had of it before it left. `MELTLINE_EXAMPLES=2000` looks longer.
"""

from tests.chunks.rollup_lives import RollupLives
from tests.lives.recorded import live
from tests.seeds import beginnings, examples


def test_random_lives_of_rollups_keep_every_bucket() -> None:
    for begin, lives in beginnings(examples(15)):
        live(RollupLives, lives=lives, moves=25, begin=begin)
