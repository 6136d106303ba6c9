"""What the control ledger knows of the epochs that the catalog was set to."""

from collections.abc import Sequence
from typing import Protocol

from meltline.domain.epochs import Epoch


class EpochLedger(Protocol):
    """Epochs that were noted, and those that were confirmed; none is ever forgotten."""

    def epochs(self, since: int | None = None) -> Sequence[Epoch]:
        """Epochs by number.

        Args:
            since: From this number on; None is from the newest that was confirmed.
        """
        ...

    def add_epoch(self, epoch: Epoch) -> None:
        """Notes an epoch to which the catalog is about to be set."""
        ...

    def confirm_epoch(self, nonce: str) -> None:
        """The catalog was set to it."""
        ...

    def has_epoch(self, why: str) -> bool:
        """Whether one that began with this was confirmed."""
        ...
