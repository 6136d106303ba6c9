"""Locks, under which what is destroyed is destroyed."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from meltline.domain.errors import MeltlineError


@dataclass(frozen=True)
class Lock:
    """A held lock: whoever took it later has a larger token."""

    key: str
    holder: str
    token: int


class LockTable(Protocol):
    """One lifecycle change per key at a time (PX-9)."""

    def take(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        """Takes a lock row with a growing token, renews it while held, frees it at the end.

        Raises:
            LockHeld: Somebody else kept it for the whole wait; names the holder.
        """
        ...

    def take_all(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Takes many locks as `take` does, each for its holder, in the order of their keys.

        So two runs never wait for each other in a ring. Where somebody else keeps a lock for the
        whole wait, LockHeld stands in its place, and the others are taken all the same.
        """
        ...

    def check(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held."""
        ...

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Those of the locks that are not held any more, each with what `check` raises."""
        ...
