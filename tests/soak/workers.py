"""Processes that live batch after batch, until the time is over or somebody ends it."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.seeds import new_seed
from tests.soak import figures
from tests.soak.figures import Figures
from tests.soak.lives import batch

BATCHES_A_PROCESS = 20


class Worker:
    """What each worker process knows."""

    over: Event

    @classmethod
    def begin(cls, over: Event) -> None:
        """At low priority; how it ends, the parent says."""
        cls.over = over
        os.nice(10)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    @classmethod
    def work(cls, seed: int, commit: str, folder: Path) -> Figures:
        """One batch."""
        return batch(seed, commit, folder, cls.over.is_set)


def soak(seconds: float, workers: int, folder: Path) -> Iterator[Figures]:
    """Batches as they end."""
    spawn = multiprocessing.get_context("spawn")
    over, commit, end = spawn.Event(), figures.this_commit(), time.monotonic() + seconds
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: over.set())
    with ProcessPoolExecutor(
        workers, spawn, Worker.begin, (over,), max_tasks_per_child=BATCHES_A_PROCESS
    ) as pool:
        working: set[Future[Figures]] = set()
        while working or not over.is_set():
            while len(working) < workers and not over.is_set():
                working.add(pool.submit(Worker.work, new_seed(), commit, folder))
            done, working = wait(working, timeout=1, return_when=FIRST_COMPLETED)
            yield from (batch.result() for batch in done)
            if time.monotonic() > end:
                over.set()
