"""Maps a function over many small I/O requests, with threads only if requests are slow.

An object store answers after some milliseconds, and serves many requests in parallel. A local disk
answers at once: threads of one Python process then only wait for one another. For thousands of
small files that took a fifth to a third of the read time (decision 023). So the first requests run
sequentially and are timed.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

_so_many = [16]
"""Maximum number of parallel requests of this process: stores serve many."""

_AT_ONCE = 0.001  # seconds: a request that takes no longer counts as immediate
_PATIENCE = 0.01  # seconds of total delay that are accepted before threads start

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def use_threads(count: int) -> None:
    """Sets the maximum number of parallel requests of this process, from now on (AR-20)."""
    _so_many[0] = count


def thread_map(
    work: Callable[[Request], Answer], requests: Iterable[Request], threads: int | None = None
) -> Iterator[Answer]:
    """Applies `work` to each request, and starts threads once requests turn out to be slow.

    Args:
        work: The function to apply; it may run in any thread.
        requests: Its inputs. Results keep this order, and each is yielded once it is available.
        threads: The maximum number of threads; None for the limit set by `use_threads`.
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
