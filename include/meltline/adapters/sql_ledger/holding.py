"""Acquires locks, waits for them, renews their leases during the work, and releases them.

Leases use real time, never a sandbox's simulated clock: they concern processes that live or have
died. Safety does not depend on them: fencing tokens refuse late writers.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from threading import Event, Thread
from typing import Protocol

from meltline.domain.errors import LockHeld, MeltlineError
from meltline.domain.units import format_duration, format_instant
from meltline.ports import Lock

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
_AT_ONCE = 500  # locks that one transaction acquires


@dataclass(frozen=True)
class Holding:
    """A lock's holder, and the start and end of its lease, in real time."""

    holder: str
    since: datetime
    until: datetime


class LockSteps(Protocol):
    """The compare-and-swap steps of locks."""

    def take(self, holders: Mapping[str, str], lease: timedelta) -> Sequence[Lock]:
        """Acquires locks for their holders in the order of the keys, up to the first taken one.

        A lock whose lease is over is free too. Each gets a larger token than before.
        """
        ...

    def renew(self, locks: Sequence[Lock], lease: timedelta) -> Sequence[Lock]:
        """Extends the leases of locks still held with the same token; returns the others."""
        ...

    def release(self, locks: Sequence[Lock]) -> None:
        """Releases the locks that are still held with the same token."""
        ...

    def holding(self, key: str) -> Holding | None:
        """Returns the lock's current holder and lease."""
        ...

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Returns the locks that are not held any more, each with its error."""
        ...


@dataclass(frozen=True)
class HeldLocks:
    """The port `LockTable` over any rows, with one heartbeat for all locks acquired together."""

    rows: LockSteps

    @contextmanager
    def take(self, key: str, holder: str, *, wait: timedelta, lease: timedelta) -> Iterator[Lock]:
        """Holds a lock for the duration of a `with` block.

        Raises:
            LockHeld: Another holder had it for the whole wait.
        """
        with self.take_all({key: holder}, wait=wait, lease=lease) as held:
            lock = held[key]
            if not isinstance(lock, Lock):
                raise lock
            yield lock

    @contextmanager
    def take_all(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> Iterator[Mapping[str, Lock | MeltlineError]]:
        """Holds many locks; a lock that could not be acquired has its error."""
        held: dict[str, Lock | MeltlineError] = {}
        done = Event()
        beat = (self.rows, held, lease, done)
        heart = Thread(target=_beat, args=beat, daemon=True, name="locks")
        heart.start()
        try:
            _take(self.rows, dict(sorted(holders.items())), held, wait, lease)
            yield held
        finally:
            done.set()
            heart.join()
            if locks := _locks(held):
                _release(self.rows, locks)

    def check(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held and its lease is valid."""
        for lost in self.lost([lock]).values():
            raise lost

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Returns the locks that are not held any more, each with its error."""
        return self.rows.lost(locks)


def _take(
    rows: LockSteps,
    holders: dict[str, str],
    held: dict[str, Lock | MeltlineError],
    wait: timedelta,
    lease: timedelta,
) -> None:
    """Acquires locks into `held`, which the heartbeat reads; waits for each in turn."""
    deadline = time.monotonic() + wait.total_seconds()
    while holders:
        locks = rows.take(dict(islice(holders.items(), _AT_ONCE)), lease)
        for lock in locks:
            held[lock.key] = lock
            del holders[lock.key]
        remaining = deadline - time.monotonic()
        if not locks and remaining > 0:
            time.sleep(min(_POLL_SECONDS, remaining))
            continue
        if not locks:
            key = next(iter(holders))
            held[key] = _held(key, rows.holding(key), wait)
            del holders[key]
        deadline = time.monotonic() + wait.total_seconds()


def _locks(held: Mapping[str, Lock | MeltlineError]) -> list[Lock]:
    # A list first: the acquiring thread may be adding more.
    return [lock for lock in list(held.values()) if isinstance(lock, Lock)]


def _held(key: str, holding: Holding | None, wait: timedelta) -> LockHeld:
    # It may have been freed between the last attempt and this read.
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


def _beat(
    rows: LockSteps, held: Mapping[str, Lock | MeltlineError], lease: timedelta, done: Event
) -> None:
    lost: set[Lock] = set()
    while not done.wait((lease / 3).total_seconds()):
        alive = [lock for lock in _locks(held) if lock not in lost]
        try:
            for lock in rows.renew(alive, lease):
                _log.warning("%s lost the lock %s", lock.holder, lock.key)
                lost.add(lock)
        except Exception as failure:  # the next heartbeat may succeed; every write checks the token
            _log.warning("%d locks could not be renewed: %s", len(alive), failure)


def _release(rows: LockSteps, locks: Sequence[Lock]) -> None:
    try:
        rows.release(locks)
    except Exception as failure:  # the work is done, and the leases expire
        _log.warning("%d locks could not be released: %s", len(locks), failure)
