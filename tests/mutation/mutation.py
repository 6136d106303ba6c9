"""One way in which the package could be wrong."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One wrong line.

    Attributes:
        name: What is wrong with it, as a sentence.
        file: Where, below `include/meltline`, or `tests/doubles/…`.
        old: The text that is replaced; it stands there exactly once.
        new: What replaces it.
        tests: Those that are to notice.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
