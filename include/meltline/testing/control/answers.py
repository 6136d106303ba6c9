"""Many questions at once, each with an answer of its own."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from meltline.domain.errors import MeltlineError

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def answers_of(
    work: Callable[[Asked], Answer], requests: Iterable[Asked]
) -> list[Answer | MeltlineError]:
    """What is refused of one is its answer, and the others go on."""
    answers: list[Answer | MeltlineError] = []
    for request in requests:
        try:
            answers.append(work(request))
        except MeltlineError as refused:
            answers.append(refused)
    return answers
