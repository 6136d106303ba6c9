"""Rate limiter for requests to a store: one for all callers (decision 033).

Stores, deleter and archive share it, so that together they stay below the configured rate.
"""

import time
from collections.abc import Callable
from threading import Lock


class Pace:
    """Limits the operations per second. Unused turns are not saved up.

    Args:
        per_second: The limit; 0 for none.
        seconds: A monotonic clock.
        sleep: Waits for some seconds.

    Attributes:
        workers: The number of parallel processes; a pickled copy gets its share of the rate.
    """

    workers: int = 1

    def __init__(
        self,
        per_second: float = 0,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._seconds, self._sleep = seconds, sleep
        self._next = 0.0
        self._guard = Lock()

    def __reduce__(self) -> tuple[type["Pace"], tuple[float]]:
        return Pace, (self._per_second / self.workers,)  # with its own clock

    def shared(self, parts: int) -> "Pace":
        """Returns a limiter for one of several parallel parts, with its share of the rate."""
        return Pace(self._per_second / parts, self._seconds, self._sleep)

    def wait(self, operations: int = 1) -> None:
        """Waits until a number of operations may be sent together."""
        if delay := self.delay(self._seconds(), operations):
            self._sleep(delay)

    def delay(self, now: float, operations: int = 1) -> float:
        """Reserves turns for operations, and returns how many seconds they have to wait.

        Args:
            now: Seconds on a monotonic clock.
            operations: How many are sent together.
        """
        if not self._per_second:
            return 0.0
        with self._guard:
            due = max(self._next, now)
            self._next = due + operations / self._per_second
        return due - now
