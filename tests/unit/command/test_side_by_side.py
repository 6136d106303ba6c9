"""Small pieces of work: one after the other where they are quick, else many at a time."""

import threading
import time
from collections.abc import Callable

import pytest

from meltline.concurrency import thread_map


def threads_of(work: Callable[[int], int], pieces: int, most: int = 16) -> tuple[list[int], int]:
    """The answers, and in how many threads they were found."""
    seen: set[int] = set()

    def noted(one: int) -> int:
        seen.add(threading.get_ident())
        return work(one)

    return list(thread_map(noted, range(pieces), most)), len(seen)


def slow(one: int) -> int:
    time.sleep(0.02)
    return one


def test_quick_work_is_done_in_this_thread_alone() -> None:
    assert threads_of(lambda one: one * 2, 500) == ([one * 2 for one in range(500)], 1)


def test_work_that_has_to_wait_is_done_by_many_threads_and_its_answers_keep_their_order() -> None:
    answers, threads = threads_of(slow, 40)
    assert answers == list(range(40)) and threads > 4


def test_work_that_gets_slow_on_the_way_is_shared_from_there_on() -> None:
    answers, threads = threads_of(lambda one: slow(one) if one > 100 else one, 140)
    assert answers == list(range(140)) and threads > 4


def test_no_more_threads_are_used_than_may_be() -> None:
    assert threads_of(slow, 10, most=1) == (list(range(10)), 1)


def test_of_nothing_there_is_no_answer() -> None:
    assert list(thread_map(slow, [])) == []


@pytest.mark.parametrize("at", [0, 30])
def test_what_a_piece_raises_reaches_the_asker(at: int) -> None:
    def work(one: int) -> int:
        if one == at:
            raise LookupError(one)
        return slow(one)

    with pytest.raises(LookupError):
        list(thread_map(work, range(40)))
