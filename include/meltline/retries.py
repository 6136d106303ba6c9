"""One policy for trying again where somebody else got in between (decision 033).

Everything here that changes what others change too reads it, makes its change and compares and
sets. Whoever comes second begins anew on what is there now, after a pause that doubles and that no
two writers share: those that met once would else meet each time.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt

ATTEMPTS = 5
"""So often, where nobody says otherwise."""

_FIRST_PAUSE = (0.05, 0.1)  # seconds; the next one is twice as long
_LONGEST_PAUSE = 1.0  # seconds

Answer = TypeVar("Answer")


def until_done(
    attempt: Callable[[], Answer | None],
    pause: Callable[[float], None] = time.sleep,
    attempts: int = ATTEMPTS,
) -> Answer | None:
    """Makes an attempt until it has a result, or has been made so often; then None.

    Args:
        attempt: Reads anew what it changes, and returns None where somebody else surely came
            first and nothing was done. What it raises is not tried again: of a change whose
            outcome is unknown nobody may make a second one.
        pause: Waits for so many seconds.
        attempts: How often at the most.
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
