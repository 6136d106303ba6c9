"""Many questions at once, each with an answer of its own."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from meltline.domain.errors import MeltlineError

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def answers_of(
    work: Callable[[Request], Answer], requests: Iterable[Request]
) -> list[Answer | MeltlineError]:
    """What is refused of one is its answer, and the others go on."""
    answers: list[Answer | MeltlineError] = []
    for request in requests:
        try:
            answers.append(work(request))
        except MeltlineError as refused:
            answers.append(refused)
    return answers
