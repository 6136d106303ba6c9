"""Makes a recorded life smaller, as long as it goes wrong."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Move = tuple[str, Mapping[str, Any]]


def shrunk(
    moves: Sequence[Move], goes_wrong: Callable[[Sequence[Move]], bool], seconds: float
) -> Sequence[Move]:
    """Fewer moves, and fewer actions in them, that go wrong as well; within so many seconds."""
    end = time.monotonic() + seconds
    moves = copy.deepcopy(list(moves))
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for items in list(_lists(moves)):
            size = (len(items) + 1) // 2
            while size:
                for at in range(len(items) - size, -1, -size):
                    if time.monotonic() > end:
                        return moves
                    left_out, items[at : at + size] = items[at : at + size], []
                    if goes_wrong(moves):
                        is_smaller = True
                    else:
                        items[at:at] = left_out
                size //= 2
    return moves


def _lists(value: Any) -> Iterator[list[Any]]:
    """All lists in it, the outer ones first."""
    if isinstance(value, list):
        yield value
    if isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _lists(item)
