"""How fast requests are sent to a store, whoever sends them: one limiter (decision 033)."""

import time
from collections.abc import Callable
from threading import Lock


class Pace:
    """Lets so many operations pass in a second. Turns that nobody took are not saved up.

    Args:
        per_second: How many; 0 for no limit.
        seconds: A clock that only goes on.
        sleep: Waits for so many seconds.

    Attributes:
        workers: So many processes work side by side; what is sent to one of them takes its share.
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
        return Pace, (self._per_second / self.workers,)  # with a clock of its own

    def shared(self, parts: int) -> "Pace":
        """The pace of each of some that work at once."""
        return Pace(self._per_second / parts, self._seconds, self._sleep)

    def wait(self, operations: int = 1) -> None:
        """Waits until so many operations may be sent together."""
        if delay := self.delay(self._seconds(), operations):
            self._sleep(delay)

    def delay(self, now: float, operations: int = 1) -> float:
        """Takes the turns of operations, and says for how many seconds they have to wait.

        Args:
            now: Seconds on a clock that only goes on.
            operations: How many are sent together.
        """
        if not self._per_second:
            return 0.0
        with self._guard:
            due = max(self._next, now)
            self._next = due + operations / self._per_second
        return due - now
