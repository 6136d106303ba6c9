"""Batches of random lives in memory, from seeds that nobody had before."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.chunks.chunk_lives import ChunkLives, ReopenedChunkLives
from tests.chunks.rollup_lives import RollupLives
from tests.lake.wrong_clocks import WrongClocks
from tests.lives.copied_installations import CopiedInstallations
from tests.lives.copied_lives import CopiedArchives, CopiedLifecycles
from tests.lives.recorded import RecordedLife, live
from tests.lives.restored_ledgers import RestoredLedgers
from tests.lives.shrinking import Move
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.lives.watched_lake import WatchedLake
from tests.soak.figures import Figures
from tests.unit.lives.test_random_archives import RandomArchives
from tests.unit.lives.test_random_lifecycles import RandomLifecycles, StrangeLifecycles

KINDS: tuple[type[RecordedLife], ...] = (
    RandomLifecycles,
    UnluckyLifecycles,
    UnluckyLifecycles,
    RestoredLedgers,
    CopiedInstallations,
    StrangeLifecycles,
    StrangeLifecycles,
    WrongClocks,
    RandomArchives,
    CopiedLifecycles,
    CopiedArchives,
)
CHUNK_KINDS = (ChunkLives, ChunkLives, ReopenedChunkLives, ReopenedChunkLives, RollupLives)
LIVES = 8


class LakeLife(Protocol):
    """A life of a lake that is watched."""

    lake: WatchedLake
    moves: list[Move]


class Ended(BaseException):
    """The soak is over; no life goes on."""


def batch(
    seed: int,
    commit: str,
    folder: Path,
    is_over: Callable[[], bool],
    kinds: Sequence[type[RecordedLife]] = KINDS,
    lives: int = LIVES,
    source: str = "lives",
) -> Figures:
    """Some lives of one kind; the first that goes wrong ends it, and is written to the folder."""
    figures = Figures(commit, source, seeds=[seed])
    dice, began = random.Random(seed), time.monotonic()

    def count(life: LakeLife) -> None:
        _count(figures, life)
        if is_over():
            raise Ended

    kind, moves = dice.choice(kinds), dice.choice((15, 30, 60))
    try:
        live(kind, lives=lives, moves=moves, begin=seed, failed=folder, after_each=count)
    except Ended:
        pass
    except Exception as error:
        figures.broken = 1
        figures.lost = str(error).count("file:///") if str(error).startswith("I-1") else 0
        figures.failures = [f"{kind.__name__}, seed {seed}: {error}".splitlines()[0]]
    figures.seconds = time.monotonic() - began
    return figures


def _count(figures: Figures, life: LakeLife) -> None:
    runs = life.struck if isinstance(life, UnluckyLifecycles) else []
    deaths = [process.dead for process in runs if process.is_struck]
    figures.histories += 1
    figures.events += sum(_events(drawn) for _, drawn in life.moves)
    figures.kills += sum(deaths)
    figures.faults += len(deaths) - sum(deaths)
    figures.at_risk += len(life.lake.departed)
    figures.deleted += len(set(life.lake.deleter.deleted))
    figures.checks += life.lake.looks


def _events(drawn: Any) -> int:
    """A move, and each action in it: a list that begins with a name."""
    if isinstance(drawn, dict):
        return 1 + sum(_events(value) for value in drawn.values())
    if not isinstance(drawn, list | tuple):
        return 0
    return sum(_events(item) for item in drawn) if drawn and not isinstance(drawn[0], str) else 1
