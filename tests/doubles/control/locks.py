"""Locks, in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from meltline.adapters.sql_ledger import refusals
from meltline.adapters.sql_ledger.holding import Holding
from meltline.domain.errors import LockLost, MeltlineError
from meltline.domain.units import format_instant, from_millis
from meltline.ports import Lock
from tests.doubles.control.database import MemoryDatabase

_LONG_AGO = from_millis(0)


@dataclass
class _LockRow:
    token: int = 0
    holder: str = ""
    since: datetime = _LONG_AGO
    until: datetime = _LONG_AGO


@dataclass
class MemoryLockRows:
    """The steps that locks are made of; leases run on `lease_time`, in seconds."""

    database: MemoryDatabase
    lease_time: Callable[[], float]
    rows: dict[str, _LockRow] = field(default_factory=dict)

    def take(self, holders: Mapping[str, str], lease: timedelta) -> Sequence[Lock]:
        locked: list[Lock] = []
        with self.database.reading():
            now = self._real_now()
            for key, holder in sorted(holders.items()):
                row = self.rows.get(key, _LockRow())
                if row.until > now:
                    break
                self.rows[key] = _LockRow(row.token + 1, holder, now, now + lease)
                locked.append(Lock(key, holder, row.token + 1))
        return locked

    def renew(self, locks: Sequence[Lock], lease: timedelta) -> Sequence[Lock]:
        with self.database.reading():
            until = self._real_now() + lease
            for lock in filter(self._is_ours, locks):
                self.rows[lock.key].until = until
            return [lock for lock in locks if not self._is_ours(lock)]

    def release(self, locks: Sequence[Lock]) -> None:
        with self.database.reading():
            for lock in filter(self._is_ours, locks):
                # The token stays, so that it is never used again.
                self.rows[lock.key] = _LockRow(lock.token)

    def holding(self, key: str) -> Holding | None:
        with self.database.reading():
            row = self.rows.get(key, _LockRow())
            is_held = row.until > self._real_now()
            return Holding(row.holder, row.since, row.until) if is_held else None

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        with self.database.reading():
            return {lock: self._loss(lock) for lock in locks if not self.is_held(lock)}

    def require(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held."""
        if not self.is_held(lock):
            raise self._loss(lock)

    def free_to_come(self) -> None:
        """Frees locks that were taken at a time which has not come yet."""
        now = self._real_now()
        for row in self.rows.values():
            if row.since > now:
                row.until = _LONG_AGO

    def is_held(self, lock: Lock) -> bool:
        """Whether this very lock is held, and its lease runs."""
        return self._is_ours(lock) and self.rows[lock.key].until > self._real_now()

    def _loss(self, lock: Lock) -> LockLost:
        row = self.rows.get(lock.key, _LockRow())
        until = f"lease until {format_instant(row.until)}"
        holder = f"{row.holder} with token {row.token}, {until}" if row.holder else "free"
        return refusals.lock_lost(lock, holder)

    def _is_ours(self, lock: Lock) -> bool:
        row = self.rows.get(lock.key, _LockRow())
        return (row.token, row.holder) == (lock.token, lock.holder)

    def _real_now(self) -> datetime:
        return from_millis(int(self.lease_time() * 1000))
