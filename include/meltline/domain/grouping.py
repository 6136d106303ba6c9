"""Things by what they have in common."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Member = TypeVar("Member")
Key = TypeVar("Key", bound=Hashable)


def grouped(members: Iterable[Member], by: Callable[[Member], Key]) -> dict[Key, list[Member]]:
    """The members of each group, groups and members in the order in which they came."""
    groups: dict[Key, list[Member]] = {}
    for member in members:
        groups.setdefault(by(member), []).append(member)
    return groups
