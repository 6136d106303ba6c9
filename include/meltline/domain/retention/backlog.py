"""Splits the backlog of a table that was never maintained into portions that gates pass.

A gate refuses a plan that removes more than `max_delete_ratio` of a table's bytes. On a first night
a sound plan does. So the oldest snapshots within that share expire first, and the others on later
nights. `app.expire.catching_up` calls it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meltline.domain.units import counted

_BELOW = 0.99  # margin below the limit: the gate measures the remaining bytes differently
_MOST_NIGHTS = 1000


@dataclass(frozen=True)
class Backlog:
    """The expired snapshots of a table, and their bytes.

    Attributes:
        snapshots: Those that were due before the last expiration, the oldest first.
        due: The number of snapshots that expire in all.
        bytes: The bytes of all files that these snapshots alone reference.
        remaining_bytes: The bytes of the files that stay after that.
    """

    snapshots: Sequence[int]
    due: int
    bytes: int
    remaining_bytes: int

    def is_too_much(self, limit: float) -> bool:
        """Whether a gate with that limit refuses all of it at once, and portions can finish it.

        If no bytes remain, no portion passes either.
        """
        return limit < 1 and self.remaining_bytes > 0 and self.bytes > self.most_bytes(limit)

    def most_bytes(self, limit: float) -> float:
        """Returns how many bytes may become unreferenced in one night."""
        return _BELOW * limit * (self.bytes + self.remaining_bytes)

    def sentence(self, count: int, size: int, limit: float) -> str:
        """Returns the estimated number of nights until the backlog is gone, as a sentence.

        Args:
            count: Snapshots that expire tonight.
            size: Bytes that become unreferenced with them.
            limit: The gate's limit.
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
    """Returns the lengths of the longest prefixes that fit; bisects all sequences together.

    Args:
        lengths: The lengths of the sequences; each is too long as a whole.
        fits: Returns whether each prefix fits, given one length for each sequence.
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
