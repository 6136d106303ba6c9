"""Catching up: the backlog of a table that was never maintained, in portions that gates let pass.

A gate refuses a plan that takes more than `max_delete_ratio` of a table's bytes. On a first night a
sound plan does: so the oldest snapshots within that share go first, and the others on later nights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meltline.domain.units import counted

_BELOW = 0.99  # of the gate's limit: it measures what remains by another reader
_MOST_NIGHTS = 1000


@dataclass(frozen=True)
class Backlog:
    """What a table has to lose.

    Attributes:
        snapshots: That were due before the last expiration, the oldest first.
        due: How many snapshots expire in all.
        bytes: Of all files that depart with these.
        remaining_bytes: Of the files that stay after that.
    """

    snapshots: Sequence[int]
    due: int
    bytes: int
    remaining_bytes: int

    def is_too_much(self, limit: float) -> bool:
        """Whether a gate with that limit refuses it as a whole, and portions of it come to an end.

        Where nothing remains, no portion helps.
        """
        return limit < 1 and self.remaining_bytes > 0 and self.bytes > self.most_bytes(limit)

    def most_bytes(self, limit: float) -> float:
        """How many may depart in one night."""
        return _BELOW * limit * (self.bytes + self.remaining_bytes)

    def sentence(self, count: int, size: int, limit: float) -> str:
        """In about how many nights the backlog is gone, for people.

        Args:
            count: Snapshots that go tonight.
            size: Bytes that depart with them.
            limit: The gate's.
        """
        waiting, nights = self.bytes - size, 1
        while waiting > 0 and nights < _MOST_NIGHTS:
            part = _BELOW * limit * (waiting + self.remaining_bytes)
            waiting, nights = waiting - int(part), nights + 1
        oldest = f"the {count} oldest of {counted(self.due, 'snapshot')} expire first"
        return f"catching up: {oldest}, all in about {counted(nights, 'night')}"


def longest_prefixes(
    lengths: Sequence[int], fits: Callable[[Sequence[int]], Sequence[bool]]
) -> list[int]:
    """How long the longest prefixes of some sequences are that fit; all are halved together.

    Args:
        lengths: Of the sequences, none of which fits as a whole.
        fits: Tells of a prefix of each, by their lengths, whether it fits.
    """
    short, long = [0] * len(lengths), list(lengths)
    while any(above - below > 1 for below, above in zip(short, long, strict=True)):
        middle = [(below + above) // 2 for below, above in zip(short, long, strict=True)]
        for number, is_fit in enumerate(fits(middle)):
            if is_fit:
                short[number] = middle[number]
            else:
                long[number] = middle[number]
    return short
