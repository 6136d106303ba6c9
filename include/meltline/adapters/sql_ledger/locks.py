"""Locks: a row each, with a lease in real time and a token that grows with every take-over."""

from contextlib import AbstractContextManager
from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, and_, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.holding import Holding, hold
from meltline.adapters.sql_ledger.refusals import lock_lost
from meltline.adapters.sql_ledger.schema import locks
from meltline.domain.quantities import format_instant, from_millis
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

    def check_lock(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held and its lease runs."""
        with self._reading() as connection:
            self._require_lock(connection, lock)

    def take(self, key: str, holder: str, lease: timedelta) -> Lock | None:
        """Takes the lock if it is free or its lease is over; one step of `lock`."""
        now = self._millis()
        free = {"key": key, "holder": "", "token": 0, "since": 0, "lease_until": 0}
        taken = (
            update(locks)
            .where(locks.c.key == key, locks.c.lease_until <= now)
            .values(
                holder=holder,
                token=locks.c.token + 1,
                since=now,
                lease_until=now + lease // timedelta(milliseconds=1),
            )
            .returning(locks.c.token)
        )
        with self._writing(marked=False) as connection:
            self._insert_new(connection, locks, [free])
            token = connection.execute(taken).scalar_one_or_none()
        return None if token is None else Lock(key, holder, token)

    def renew(self, lock: Lock, lease: timedelta) -> bool:
        """Lengthens the lease if nobody took over; one step of `lock`."""
        until = self._millis() + lease // timedelta(milliseconds=1)
        with self._writing(marked=False) as connection:
            renewed = connection.execute(update(locks).where(_is(lock)).values(lease_until=until))
        return renewed.rowcount == 1

    def release(self, lock: Lock) -> None:
        """Frees the lock if nobody took over; the token stays, so that it is never used again."""
        with self._writing(marked=False) as connection:
            connection.execute(update(locks).where(_is(lock)).values(holder="", lease_until=0))

    def holding(self, key: str) -> Holding | None:
        """Who has the lock now, None when it is free."""
        wanted = select(locks).where(locks.c.key == key, locks.c.lease_until > self._millis())
        with self._reading() as connection:
            row = connection.execute(wanted).first()
        if row is None:
            return None
        return Holding(row.holder, from_millis(row.since), from_millis(row.lease_until))

    def _require_lock(self, connection: Connection, lock: Lock) -> None:
        """Checks the token, and on Postgres bars a take-over until this transaction ends."""
        ours = and_(_is(lock), locks.c.lease_until > self._millis())
        wanted = select(locks.c.key).where(ours).with_for_update(read=True)
        if connection.execute(wanted).first() is None:
            row = connection.execute(select(locks).where(locks.c.key == lock.key)).first()
            if row is None or not row.holder:
                raise lock_lost(lock, "free")
            until = format_instant(from_millis(row.lease_until))
            found = f"{row.holder} with token {row.token}, lease until {until}"
            raise lock_lost(lock, found)

    def _millis(self) -> int:
        return int(self._lease_time() * 1000)


def _is(lock: Lock) -> ColumnElement[bool]:
    return and_(locks.c.key == lock.key, locks.c.holder == lock.holder, locks.c.token == lock.token)
