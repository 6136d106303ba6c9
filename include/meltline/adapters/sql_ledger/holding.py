"""Holding a lock: wait for it, keep its lease alive while working, let go of it.

Leases run on real time, never on a sandbox's simulated clock: they are about processes that live
or have died. No safety argument rests on them (design section 4); tokens refuse late writers.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Protocol

from meltline.domain.errors import LockHeld
from meltline.domain.quantities import format_duration, format_instant
from meltline.ports import Lock

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Holding:
    """Who has a lock, since when and until when, in real time."""

    holder: str
    since: datetime
    until: datetime


class LockRows(Protocol):
    """The three compare-and-set steps that a lock is made of."""

    def take(self, key: str, holder: str, lease: timedelta) -> Lock | None:
        """Takes a lock that is free or whose lease is over, with a larger token; else None."""
        ...

    def renew(self, lock: Lock, lease: timedelta) -> bool:
        """Lengthens the lease if the lock is still this very one."""
        ...

    def release(self, lock: Lock) -> None:
        """Frees the lock if it is still this very one."""
        ...

    def holding(self, key: str) -> Holding | None:
        """Who has the lock now."""
        ...


@contextmanager
def hold(
    rows: LockRows, key: str, holder: str, *, wait: timedelta, lease: timedelta
) -> Iterator[Lock]:
    """Holds a lock for the length of a `with` block.

    Raises:
        LockHeld: Somebody else had it for the whole wait.
    """
    lock = _take(rows, key, holder, wait, lease)
    done = Event()
    heart = Thread(target=_beat, args=(rows, lock, lease, done), daemon=True, name=f"lock {key}")
    heart.start()
    try:
        yield lock
    finally:
        done.set()
        heart.join()
        _release(rows, lock)


def _take(rows: LockRows, key: str, holder: str, wait: timedelta, lease: timedelta) -> Lock:
    deadline = time.monotonic() + wait.total_seconds()
    while True:
        if lock := rows.take(key, holder, lease):
            return lock
        left = deadline - time.monotonic()
        if left <= 0:
            raise _held(key, rows.holding(key), wait)
        time.sleep(min(_POLL_SECONDS, left))


def _held(key: str, holding: Holding | None, wait: timedelta) -> LockHeld:
    # It may have been freed between the last try and this look.
    holder = holding.holder if holding else "another run"
    times = (
        f"since {format_instant(holding.since)}, lease until {format_instant(holding.until)}"
        if holding
        else "freed just now"
    )
    return LockHeld(
        f"{holder} holds the lock {key} ({times})",
        object=key,
        expected=f"free within {format_duration(wait)}",
        found=f"{holder}, {times}",
        next="wait for that run to end; if its process is dead, the lock frees itself",
    )


def _beat(rows: LockRows, lock: Lock, lease: timedelta, done: Event) -> None:
    while not done.wait((lease / 3).total_seconds()):
        try:
            if not rows.renew(lock, lease):
                _log.warning("%s lost the lock %s", lock.holder, lock.key)
                return
        except Exception as failure:  # the next beat may succeed; every write checks the token
            _log.warning("the lock %s could not be renewed: %s", lock.key, failure)


def _release(rows: LockRows, lock: Lock) -> None:
    try:
        rows.release(lock)
    except Exception as failure:  # the work is done, and the lease ends by itself
        _log.warning("the lock %s could not be released: %s", lock.key, failure)
