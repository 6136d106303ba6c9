"""Processes that live batch after batch, until the time is over or somebody ends it."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.seeds import new_seed
from tests.soak import figures
from tests.soak.figures import Figures
from tests.soak.kills import history
from tests.soak.lives import CHUNK_KINDS, batch

BATCHES_A_PROCESS = 20
SOURCES: Mapping[str, Callable[[int, str, Path, Callable[[], bool]], Figures]] = {
    "lives": batch,
    "chunks": partial(batch, kinds=CHUNK_KINDS, source="chunks"),
    "kills": history,
}


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
    def work(cls, source: str, commit: str, folder: Path) -> Figures:
        """One batch."""
        return SOURCES[source](new_seed(), commit, folder, cls.over.is_set)


def soak(seconds: float, workers: Mapping[str, int], folder: Path) -> Iterator[Figures]:
    """Batches as they end; so many workers for each source."""
    spawn = multiprocessing.get_context("spawn")
    over, commit, end = spawn.Event(), figures.this_commit(), time.monotonic() + seconds
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: over.set())
    idle = [source for source, number in workers.items() for _ in range(number)]
    working: dict[Future[Figures], str] = {}
    with ProcessPoolExecutor(
        len(idle), spawn, Worker.begin, (over,), max_tasks_per_child=BATCHES_A_PROCESS
    ) as pool:
        while working or not over.is_set():
            while idle and not over.is_set():
                source = idle.pop()
                working[pool.submit(Worker.work, source, commit, folder)] = source
            done, _ = wait(working, timeout=1, return_when=FIRST_COMPLETED)
            for batch in done:
                idle.append(working.pop(batch))
                yield batch.result()
            if time.monotonic() > end:
                over.set()
