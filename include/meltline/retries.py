"""The retry policy for compare-and-swap conflicts with other writers (decision 033).

All code that changes shared state reads it, makes its change, and commits by compare-and-swap. The
writer that loses the race reads the new state and retries, after a pause that doubles. The pause is
random: two writers that collided once would otherwise collide each time.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt

ATTEMPTS = 5
"""The default number of attempts."""

_FIRST_PAUSE = (0.05, 0.1)  # seconds; each further pause is twice as long
_LONGEST_PAUSE = 1.0  # seconds

Answer = TypeVar("Answer")


def until_done(
    attempt: Callable[[], Answer | None],
    pause: Callable[[float], None] = time.sleep,
    attempts: int = ATTEMPTS,
) -> Answer | None:
    """Repeats an attempt until it returns a result; returns None after the last attempt.

    Args:
        attempt: Reads the current state and changes it. It returns None if another writer certainly
            committed first and nothing was changed. Its exceptions are not retried: a change with
            an unknown outcome must not be repeated.
        pause: Sleeps for a number of seconds.
        attempts: The maximum number of attempts.
    """
    retrying = Retrying(
        retry=retry_if_result(lambda outcome: outcome is None),
        stop=stop_after_attempt(attempts),
        wait=_pause,
        sleep=pause,
        retry_error_callback=lambda _: None,
    )
    return retrying(attempt)


def _pause(state: RetryCallState) -> float:
    doubled: float = random.uniform(*_FIRST_PAUSE) * 2 ** (state.attempt_number - 1)
    return min(doubled, _LONGEST_PAUSE)
