"""Epochs: let a catalog detect that a control ledger was restored from an old backup.

Every decision, and the first destruction of every run, begins an epoch. The ledger notes it, the
catalog is set to it, and the ledger confirms it. So a catalog is always at the newest epoch that
the ledger confirmed, or at one noted since (if a process died in between). A restored ledger does
not know the epoch that the catalog is at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.domain.units import format_instant

EPOCH = "meltline.epoch"
"""The namespace property of the ledger that records the catalog's epoch."""

GENERATION = "meltline.ledger-generation"
"""The namespace property that records the control ledger's generation."""

ADOPTED = "adopted as generation"
"""The reason of an epoch in which a catalog adopted a ledger; it names the installation."""

ID_LENGTH = 8
"""Characters of a nonce that people type."""

_DIGITS = 18  # digits of a number that a database can store


@dataclass(frozen=True)
class Epoch:
    """A period that began with a decision or a destruction.

    Attributes:
        number: Increases. Two restored ledgers may assign the same one, so it is no identity.
        nonce: A random value, the epoch's identity.
        why: The decision or destruction that began it.
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
        """Returns the text for the catalog: Meltline reads number and nonce, people the rest."""
        return f"{self.number} {self.nonce} {format_instant(self.at)} {self.who}: {self.why}"

    def is_at(self, stated: str) -> bool:
        """Returns whether a catalog with this recorded text is at this epoch."""
        return stated.split(" ")[:2] == [str(self.number), self.nonce]


@dataclass(frozen=True)
class EpochNote:
    """An epoch as recorded in a catalog or a storage root.

    Attributes:
        stated: The format of `Epoch.written`; anything else if another tool wrote it.
    """

    stated: str

    @property
    def id(self) -> str:
        """Returns the first characters of its nonce: people type them to name the installation."""
        words = self.stated.split(" ")
        return words[1][:ID_LENGTH] if number_in(self.stated) and len(words) > 1 else "unknown"

    @property
    def activity(self) -> str:
        """Returns when something was last decided or destroyed in it, by whom and why."""
        return f"last active {' '.join(self.stated.split(' ')[2:]) or 'at an unknown time'}"


def number_in(stated: str) -> int:
    """Returns the number in a recorded epoch; 0 if there is none, or if it is not readable."""
    first = stated.split(" ", maxsplit=1)[0]
    return int(first) if first.isdecimal() and len(first) <= _DIGITS else 0


def newest_confirmed(epochs: Sequence[Epoch]) -> int:
    """Returns the number of the newest epoch to which the catalog was certainly set; 0 for none."""
    return max((epoch.number for epoch in epochs if epoch.confirmed), default=0)


def standing(stated: str, since: int, epochs: Sequence[Epoch]) -> Epoch | None:
    """Returns which of the ledger's epochs a catalog is at; None if it is at no valid one.

    Args:
        stated: The text recorded in the catalog.
        since: The newest epoch that was confirmed before the catalog was read.
        epochs: The ledger's epochs from that number on, read after the catalog.
    """
    matching = [epoch for epoch in epochs if epoch.is_at(stated)]
    return next((epoch for epoch in matching if epoch.confirmed or epoch.number > since), None)
