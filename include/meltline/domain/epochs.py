"""Epochs: by which a catalog tells the control ledger that belongs to it from an old backup of it.

Every decision, and the first destruction of every run, begins an epoch: the ledger notes it, the
catalog is set to it, the ledger confirms it. So a catalog stands at the newest epoch that the
ledger confirmed, or at one that it has noted since (a process died in between). A ledger that was
restored knows nothing of the epoch at which the catalog stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant

EPOCH = "meltline.epoch"
"""The property of the ledger's namespace that has the epoch of the catalog."""

GENERATION = "meltline.ledger-generation"
"""The property that has the generation of the control ledger."""

ADOPTED = "adopted as generation"
"""Why an epoch began with which a ledger became that of a catalog: it names the installation."""

ID_LENGTH = 8
"""Letters of a nonce that people type."""

_DIGITS = 18  # of a number that a database holds


@dataclass(frozen=True)
class Epoch:
    """A time that began with a decision or a destruction.

    Attributes:
        number: Grows. Two restored ledgers may give the same one, so it is no identity.
        nonce: Drawn at random, its identity.
        why: What began it.
        confirmed: Whether the ledger knows that the catalog was set to it.
    """

    number: int
    nonce: str
    why: str
    who: str
    at: datetime
    confirmed: bool = False

    @property
    def written(self) -> str:
        """As the catalog has it: for Meltline, the first two words; the rest is for people."""
        return f"{self.number} {self.nonce} {format_instant(self.at)} {self.who}: {self.why}"

    def is_at(self, stated: str) -> bool:
        """Whether a catalog that says this stands at it."""
        return stated.split(" ")[:2] == [str(self.number), self.nonce]


@dataclass(frozen=True)
class EpochNote:
    """An epoch as a catalog or a storage root states it.

    Attributes:
        stated: As `Epoch.written`; anything else where somebody else wrote it.
    """

    stated: str

    @property
    def id(self) -> str:
        """The first letters of its nonce: what a person types to name the installation."""
        words = self.stated.split(" ")
        return words[1][:ID_LENGTH] if number_in(self.stated) and len(words) > 1 else "unknown"

    @property
    def activity(self) -> str:
        """When something was last decided or destroyed in it, by whom and why."""
        return f"last active {' '.join(self.stated.split(' ')[2:]) or 'at an unknown time'}"


def number_in(stated: str) -> int:
    """The number of an epoch as a catalog has it; 0 where it has none, or nobody can read it."""
    first = stated.split(" ", maxsplit=1)[0]
    return int(first) if first.isdecimal() and len(first) <= _DIGITS else 0


def newest_confirmed(epochs: Sequence[Epoch]) -> int:
    """The number of the newest epoch to which the catalog was surely set; 0 for none."""
    return max((epoch.number for epoch in epochs if epoch.confirmed), default=0)


def standing(stated: str, since: int, epochs: Sequence[Epoch]) -> Epoch | None:
    """Which of the ledger's epochs a catalog stands at; None where it is none that may be.

    Args:
        stated: What the catalog says.
        since: The newest epoch that was confirmed before the catalog was asked.
        epochs: What the ledger knew after it, from that number on.
    """
    matching = [epoch for epoch in epochs if epoch.is_at(stated)]
    return next((epoch for epoch in matching if epoch.confirmed or epoch.number > since), None)
