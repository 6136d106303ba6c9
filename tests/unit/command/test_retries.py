"""The one policy for trying again: how often, after which pauses, and what is never tried again."""

import pytest

from meltline.retries import ATTEMPTS, until_done


def test_the_first_result_ends_the_attempts() -> None:
    results, pauses = iter([None, None, "committed", "committed twice"]), list[float]()
    assert until_done(lambda: next(results), pauses.append) == "committed"
    assert len(pauses) == 2


def test_after_the_last_attempt_nobody_waits_any_more() -> None:
    pauses: list[float] = []
    made: list[int] = []
    assert until_done(lambda: made.append(1), pauses.append) is None
    assert (len(made), len(pauses)) == (ATTEMPTS, ATTEMPTS - 1)


def test_no_pause_is_longer_than_a_second_however_many_there_are() -> None:
    pauses: list[float] = []
    until_done(lambda: None, pauses.append, attempts=20)
    assert max(pauses) == 1.0 and len(pauses) == 19


def test_an_attempt_that_raises_is_not_made_again() -> None:
    made: list[int] = []

    def attempt() -> str:
        made.append(1)
        raise TimeoutError("nobody knows whether it was done")

    with pytest.raises(TimeoutError):
        until_done(attempt, lambda _: pytest.fail("it waited"))
    assert made == [1]
