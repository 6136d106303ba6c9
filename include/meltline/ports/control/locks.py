"""Protocol of lease locks with fencing tokens, required for every destructive step.

Each step that expires, deletes or drops takes one. `adapters/sql_ledger` implements them, so that
a lock and the rows it protects are in one database.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from meltline.domain.errors import MeltlineError


@dataclass(frozen=True)
class Lock:
    """A held lock; a later holder has a larger token."""

    key: str
    holder: str
    token: int


class LockTable(Protocol):
    """Allows one lifecycle change per key at a time (PX-9)."""

    def take(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        """Takes a lock row with a growing token, renews it while held, releases it at the end.

        Raises:
            LockHeld: Another holder kept it for the whole wait; the error names the holder.
        """
        ...

    def take_all(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Takes many locks as `take` does, each for its holder, in the order of their keys.

        The order prevents a deadlock between two runs. If another holder keeps a lock for the
        whole wait, the result has LockHeld for its key, and the other locks are taken.
        """
        ...

    def check(self, lock: Lock) -> None:
        """Raises LockLost unless this lock, with this token, is still held."""
        ...

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Returns the locks that are no longer held, each with the error that `check` raises."""
        ...
