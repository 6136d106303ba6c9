"""Stores locks: a row each, with a lease in real time and a fencing token that grows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Any, TypeGuard

from sqlalchemy import Connection, Row, bindparam, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.holding import Holding
from meltline.adapters.sql_ledger.refusals import lock_lost
from meltline.adapters.sql_ledger.rows import insert_new, rows_in
from meltline.adapters.sql_ledger.tables.schema import locks
from meltline.domain.errors import MeltlineError
from meltline.domain.units import format_instant, from_millis
from meltline.ports import Lock


class LockRows:
    """The compare-and-swap steps of locks (`holding.LockSteps`).

    They use real time only: a sandbox's simulated clock neither ages nor renews a lease.
    """

    def __init__(self, database: Database, lease_time: Callable[[], float]) -> None:
        self._database = database
        self._lease_time = lease_time

    def take(self, holders: Mapping[str, str], lease: timedelta) -> Sequence[Lock]:
        """Acquires locks up to the first that is not free."""
        now = self._millis()
        keys = sorted(holders)
        free = {"holder": "", "token": 0, "since": 0, "lease_until": 0}
        with self._database.writing(marked=False) as connection:
            insert_new(connection, locks, [free | {"key": key} for key in keys])
            rows = _stored(connection, keys, update=True)
            locked = [
                Lock(key, holders[key], rows[key].token + 1)
                for key in takewhile(lambda key: rows[key].lease_until <= now, keys)
            ]
            until = now + lease // timedelta(milliseconds=1)
            _set(
                connection,
                locked,
                lambda lock: {
                    "holder": lock.holder,
                    "token": lock.token,
                    "since": now,
                    "lease_until": until,
                },
            )
        return locked

    def renew(self, held: Sequence[Lock], lease: timedelta) -> Sequence[Lock]:
        """Extends leases of locks that were not taken over, and returns the others."""
        until = self._millis() + lease // timedelta(milliseconds=1)
        with self._database.writing(marked=False) as connection:
            rows = _stored(connection, [lock.key for lock in held], update=True)
            ours = [lock for lock in held if _is(rows.get(lock.key), lock)]
            _set(connection, ours, lambda _: {"lease_until": until})
        return [lock for lock in held if not _is(rows.get(lock.key), lock)]

    def release(self, held: Sequence[Lock]) -> None:
        """Releases locks that were not taken over; a token stays, so that it is never reused."""
        with self._database.writing(marked=False) as connection:
            rows = _stored(connection, [lock.key for lock in held], update=True)
            ours = [lock for lock in held if _is(rows.get(lock.key), lock)]
            _set(connection, ours, lambda _: {"holder": "", "lease_until": 0})

    def holding(self, key: str) -> Holding | None:
        """Returns the lock's current holder and lease; None if it is free."""
        query = select(locks).where(locks.c.key == key, locks.c.lease_until > self._millis())
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        return Holding(row.holder, from_millis(row.since), from_millis(row.lease_until))

    def lost(self, locks: Sequence[Lock]) -> Mapping[Lock, MeltlineError]:
        """Returns the locks that are not held any more, each with its error."""
        with self._database.reading() as connection:
            return self.lost_within(connection, locks)

    def lost_within(
        self, connection: Connection, held: Sequence[Lock]
    ) -> dict[Lock, MeltlineError]:
        """Checks tokens and leases; on Postgres blocks a take-over until this transaction ends."""
        rows = _stored(connection, [lock.key for lock in held])
        now = self._millis()
        return {
            lock: lock_lost(lock, _holder_text(rows.get(lock.key)))
            for lock in held
            if not _is(row := rows.get(lock.key), lock) or row.lease_until <= now
        }

    def holder(self, connection: Connection, key: str, token: int) -> str | None:
        """Returns the holder of a lock if it still has this very token."""
        living = select(locks.c.holder).where(
            locks.c.key == key, locks.c.token == token, locks.c.lease_until > self._millis()
        )
        return connection.execute(living).scalar_one_or_none()

    def free_to_come(self, connection: Connection) -> None:
        """Frees locks whose recorded start is in the future."""
        to_come = update(locks).where(locks.c.since > self._millis())
        connection.execute(to_come.values(holder="", lease_until=0))

    def _millis(self) -> int:
        return int(self._lease_time() * 1000)


def _stored(
    connection: Connection, keys: Iterable[str], *, update: bool = False
) -> dict[str, Row[Any]]:
    """Returns the rows of some locks, by key; on Postgres locks them against concurrent changes."""
    query = select(locks).order_by(locks.c.key).with_for_update(read=not update)
    return {row.key: row for row in rows_in(connection, query, locks.c.key, keys)}


def _set(
    connection: Connection, held: Sequence[Lock], values: Callable[[Lock], dict[str, object]]
) -> None:
    if held:
        change = update(locks).where(locks.c.key == bindparam("of_key"))
        connection.execute(change, [{"of_key": lock.key, **values(lock)} for lock in held])


def _is(row: Row[Any] | None, lock: Lock) -> TypeGuard[Row[Any]]:
    """Returns whether a lock's row still has this holder and token."""
    return row is not None and (row.holder, row.token) == (lock.holder, lock.token)


def _holder_text(row: Row[Any] | None) -> str:
    if row is None or not row.holder:
        return "free"
    until = format_instant(from_millis(row.lease_until))
    return f"{row.holder} with token {row.token}, lease until {until}"
