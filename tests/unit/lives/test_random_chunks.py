"""Random lives of a table that is cut into chunks: hot and cold together have all rows ever
accepted, and nothing unproven is dropped without force. `MELTLINE_EXAMPLES=2000` looks longer.
"""

import pytest

from tests.chunks.chunk_lives import ChunkLives, ReopenedChunkLives
from tests.lives.recorded import live
from tests.seeds import beginnings


@pytest.mark.slow("random lives")
def test_random_lives_of_chunks_lose_no_row() -> None:
    for begin, lives in beginnings(few=2, many=20):
        live(ChunkLives, lives=lives, moves=25, begin=begin)


def test_random_lives_of_chunks_that_come_back_have_each_row_once() -> None:
    for begin, lives in beginnings(few=2, many=10):
        live(ReopenedChunkLives, lives=lives, moves=20, begin=begin)
