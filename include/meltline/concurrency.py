"""Many small pieces of work that may each have to wait for a store.

An object store answers after some milliseconds, and many at a time; a local disk at once. Threads
of one Python process then only wait for one another: of thousands of small files, a fifth to
a third of the time to read them was that (decision 023). So the first ones are timed.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

_so_many = [16]
"""So many pieces at a time in this process: stores answer many."""

_AT_ONCE = 0.001  # seconds: what takes no longer is not waited for
_PATIENCE = 0.01  # seconds by which some may be later, in all

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def use_threads(count: int) -> None:
    """Says how many pieces of work this process does at a time, from now on (AR-20)."""
    _so_many[0] = count


def thread_map(
    work: Callable[[Request], Answer], requests: Iterable[Request], threads: int | None = None
) -> Iterator[Answer]:
    """Does pieces of work, in threads from where they turn out to take their time.

    Args:
        work: What is to be done with each; it may run in any thread.
        requests: What with. Answers come in this order, each as soon as it is there.
        threads: So many at a time at the most; None is what `use_threads` has said.
    """
    threads = threads or _so_many[0]
    late, pending = 0.0, iter(requests)
    for request in pending:
        start = perf_counter()
        answer = work(request)
        late = max(0.0, late + perf_counter() - start - _AT_ONCE)
        yield answer
        if late > _PATIENCE and threads > 1:
            break
    if untried := list(pending):
        with ThreadPoolExecutor(min(threads, len(untried))) as pool:
            yield from pool.map(work, untried)
