"""Groups items by a key.

`itertools.groupby` would need sorted input, and lose the order.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Member = TypeVar("Member")
Key = TypeVar("Key", bound=Hashable)


def grouped(members: Iterable[Member], by: Callable[[Member], Key]) -> dict[Key, list[Member]]:
    """Returns the members of each group; groups and members keep the order of the input."""
    groups: dict[Key, list[Member]] = {}
    for member in members:
        groups.setdefault(by(member), []).append(member)
    return groups
