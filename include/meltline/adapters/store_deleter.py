"""Bulk deletes by this process, at the configured rate (decision 021)."""

import time
from collections.abc import Callable, Sequence

from meltline.ports import DeleteOutcome, ObjectStore

_MOST_AT_ONCE = 2_500  # keys; a store sends them as several requests, some at a time
_SHARE_OF_A_SECOND = 8  # at a set rate, how many portions a second's keys are sent in


class StoreDeleter:
    """The port `Deleter` over the object-store port."""

    def __init__(
        self,
        store: ObjectStore,
        seconds: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the store, a clock that only goes forward, and what waits for some seconds."""
        self._store = store
        self._seconds = seconds
        self._wait = wait

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        """Deletes the paths and returns an outcome for each.

        Where the store has answered for fewer or more than were sent, nothing counts as deleted.
        """
        portion = max(1, min(_MOST_AT_ONCE, keys_per_second // _SHARE_OF_A_SECOND))
        start, answered = self._seconds(), 0
        errors: dict[str, str] = {}
        for at in range(0, len(paths), portion):
            ahead = at / keys_per_second - (self._seconds() - start)
            if ahead > 0:
                self._wait(ahead)
            outcomes = self._store.delete(paths[at : at + portion])
            errors |= {outcome.path: outcome.error for outcome in outcomes if outcome.error}
            answered += len(outcomes)
        if answered != len(paths):
            return [DeleteOutcome(path, "the store did not answer for each file") for path in paths]
        return [DeleteOutcome(path, errors.get(path, "")) for path in paths]
