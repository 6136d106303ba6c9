"""Locks: a row each, with a lease in real time and a token that grows with every take-over."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import takewhile
from typing import Any, TypeGuard

from sqlalchemy import Connection, Row, bindparam, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.holding import Holding, hold, hold_all
from meltline.adapters.sql_ledger.refusals import lock_lost
from meltline.adapters.sql_ledger.rows import in_parts
from meltline.adapters.sql_ledger.tables.schema import locks
from meltline.domain.errors import MeltlineError
from meltline.domain.units import format_instant, from_millis
from meltline.ports import Lock


class LockTable(Database):
    """One lifecycle change per key at a time (PX-9).

    The rows know real time only: a sandbox's simulated clock neither ages nor renews a lease.
    """

    def lock(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        """Takes a lock, renews it every third of its lease while held, frees it at the end.

        Raises:
            LockHeld: Somebody else had it for the whole wait.
        """
        return hold(self, key, holder, wait=wait, lease=lease)

    def locks(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Mapping[str, Lock | MeltlineError]]:
        """Takes many locks, in the order of their keys; what cannot be had has its error."""
        return hold_all(self, holders, wait=wait, lease=lease)

    def check_lock(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held and its lease runs."""
        for lost in self.lost_locks([lock]).values():
            raise lost

    def lost_locks(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Those that are not held any more, and what became of them."""
        with self._reading() as connection:
            return self._lost(connection, locks)

    def take(self, holders: Mapping[str, str], lease: timedelta) -> Sequence[Lock]:
        """Takes locks up to the first that is not free; one step of `lock`."""
        now = self._millis()
        keys = sorted(holders)
        free = {"holder": "", "token": 0, "since": 0, "lease_until": 0}
        with self._writing(marked=False) as connection:
            self._insert_new(connection, locks, [free | {"key": key} for key in keys])
            rows = _stored(connection, keys, update=True)
            taken = [
                Lock(key, holders[key], rows[key].token + 1)
                for key in takewhile(lambda key: rows[key].lease_until <= now, keys)
            ]
            until = now + lease // timedelta(milliseconds=1)
            _set(
                connection,
                taken,
                lambda lock: {
                    "holder": lock.holder,
                    "token": lock.token,
                    "since": now,
                    "lease_until": until,
                },
            )
        return taken

    def renew(self, held: Sequence[Lock], lease: timedelta) -> Sequence[Lock]:
        """Lengthens leases where nobody took over, and returns the others; one step of `lock`."""
        until = self._millis() + lease // timedelta(milliseconds=1)
        with self._writing(marked=False) as connection:
            rows = _stored(connection, [lock.key for lock in held], update=True)
            ours = [lock for lock in held if _is(rows.get(lock.key), lock)]
            _set(connection, ours, lambda _: {"lease_until": until})
        return [lock for lock in held if not _is(rows.get(lock.key), lock)]

    def release(self, held: Sequence[Lock]) -> None:
        """Frees locks where nobody took over; a token stays, so that it is never used again."""
        with self._writing(marked=False) as connection:
            rows = _stored(connection, [lock.key for lock in held], update=True)
            ours = [lock for lock in held if _is(rows.get(lock.key), lock)]
            _set(connection, ours, lambda _: {"holder": "", "lease_until": 0})

    def holding(self, key: str) -> Holding | None:
        """Who has the lock now, None when it is free."""
        wanted = select(locks).where(locks.c.key == key, locks.c.lease_until > self._millis())
        with self._reading() as connection:
            row = connection.execute(wanted).first()
        if row is None:
            return None
        return Holding(row.holder, from_millis(row.since), from_millis(row.lease_until))

    def _lost(self, connection: Connection, held: Sequence[Lock]) -> dict[Lock, MeltlineError]:
        """Checks tokens and leases; on Postgres bars a take-over until this transaction ends."""
        rows = _stored(connection, [lock.key for lock in held])
        now = self._millis()
        return {
            lock: lock_lost(lock, _told(rows.get(lock.key)))
            for lock in held
            if not _is(row := rows.get(lock.key), lock) or row.lease_until <= now
        }

    def _millis(self) -> int:
        return int(self._lease_time() * 1000)


def _stored(
    connection: Connection, keys: Iterable[str], *, update: bool = False
) -> dict[str, Row[Any]]:
    """The rows of some locks, by key; on Postgres nobody else changes them meanwhile."""
    wanted = select(locks).order_by(locks.c.key).with_for_update(read=not update)
    parts = in_parts(sorted(set(keys)))
    rows = (
        row for some in parts for row in connection.execute(wanted.where(locks.c.key.in_(some)))
    )
    return {row.key: row for row in rows}


def _set(
    connection: Connection, held: Sequence[Lock], values: Callable[[Lock], dict[str, object]]
) -> None:
    if held:
        change = update(locks).where(locks.c.key == bindparam("of_key"))
        connection.execute(change, [{"of_key": lock.key, **values(lock)} for lock in held])


def _is(row: Row[Any] | None, lock: Lock) -> TypeGuard[Row[Any]]:
    """Whether a lock's row is still of this very lock."""
    return row is not None and (row.holder, row.token) == (lock.holder, lock.token)


def _told(row: Row[Any] | None) -> str:
    if row is None or not row.holder:
        return "free"
    until = format_instant(from_millis(row.lease_until))
    return f"{row.holder} with token {row.token}, lease until {until}"
