"""Purge batches: which paths are claimed for deletion right now, and under which lock."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from meltline.adapters.sql_ledger.locks import LockTable
from meltline.adapters.sql_ledger.refusals import batch_not_ours, living_claim
from meltline.adapters.sql_ledger.schema import BatchState, batches, claimed_paths, locks
from meltline.ports import Lock


class BatchRows(LockTable):
    """Undrop, recover, clone and rollback read the claims and refuse (design section 4 step 8)."""

    def claim_batch(self, plan_id: str, number: int, paths: Sequence[str], lock: Lock) -> bool:
        """Claims a batch that is due, or whose holder lost the lock; False when it is done.

        Paths that a dead holder had claimed stay claimed until the batch is finished or dropped:
        its last deletes may still be under way.

        Raises:
            LockLost: The lock has been taken over or has ended.
            LockHeld: Another lock, still alive, holds the batch.
        """
        due = {"plan_id": plan_id, "number": number, "state": BatchState.DUE}
        with self._writing() as connection:
            self._require_lock(connection, lock)
            self._insert_new(connection, batches, [due | {"lock_key": "", "token": 0}])
            wanted = select(batches).where(*_batch(batches, plan_id, number)).with_for_update()
            batch = connection.execute(wanted).one()
            if batch.state is BatchState.DONE:
                return False
            if batch.state is BatchState.PURGING:
                self._refuse_living_claim(connection, batch, lock)
            claim = update(batches).where(*_batch(batches, plan_id, number))
            connection.execute(
                claim.values(
                    state=BatchState.PURGING,
                    lock_key=lock.key,
                    token=lock.token,
                    claimed_at=self._clock.now(),
                )
            )
            _add_paths(connection, plan_id, number, paths)
            return True

    def finish_batch(self, plan_id: str, number: int, lock: Lock) -> None:
        """`purging → done`; finishing a batch that is done changes nothing.

        Raises:
            LockLost: The lock has ended, or the batch is not claimed under it.
        """
        ours = (batches.c.lock_key == lock.key, batches.c.token == lock.token)
        done = update(batches).where(
            *_batch(batches, plan_id, number), batches.c.state != BatchState.DUE, *ours
        )
        with self._writing() as connection:
            self._require_lock(connection, lock)
            if connection.execute(done.values(state=BatchState.DONE)).rowcount != 1:
                raise batch_not_ours(plan_id, number, lock)
            connection.execute(delete(claimed_paths).where(*_batch(claimed_paths, plan_id, number)))

    def drop_claim(self, plan_id: str, number: int, lock: Lock) -> None:
        """`purging → due`: nothing of the batch is being deleted any more.

        A claim that a later lock has taken over is left to its holder.
        """
        ours = (batches.c.lock_key == lock.key, batches.c.token == lock.token)
        purging = batches.c.state == BatchState.PURGING
        dropped = update(batches).where(*_batch(batches, plan_id, number), purging, *ours)
        with self._writing() as connection:
            if connection.execute(dropped.values(state=BatchState.DUE)).rowcount:
                connection.execute(
                    delete(claimed_paths).where(*_batch(claimed_paths, plan_id, number))
                )

    def claimed_paths(self) -> Mapping[str, str]:
        """Paths in claimed, unfinished batches, and the plan that claimed each."""
        with self._reading() as connection:
            wanted = select(claimed_paths.c.path, claimed_paths.c.plan_id)
            return {path: plan_id for path, plan_id in connection.execute(wanted)}

    def _refuse_living_claim(self, connection: Connection, batch: Row[Any], lock: Lock) -> None:
        """Under our own key an older token is dead; tokens of another key do not compare."""
        if batch.lock_key == lock.key:
            return
        living = select(locks.c.holder).where(
            locks.c.key == batch.lock_key,
            locks.c.token == batch.token,
            locks.c.lease_until > self._millis(),
        )
        holder = connection.execute(living).scalar_one_or_none()
        if holder is not None:
            raise living_claim(batch.plan_id, batch.number, holder, batch.lock_key)


def _batch(table: Any, plan_id: str, number: int) -> tuple[Any, Any]:
    return table.c.plan_id == plan_id, table.c.number == number


def _add_paths(connection: Connection, plan_id: str, number: int, paths: Sequence[str]) -> None:
    claimed = select(claimed_paths.c.path).where(*_batch(claimed_paths, plan_id, number))
    known = set(connection.execute(claimed).scalars())
    new = [path for path in dict.fromkeys(paths) if path not in known]
    rows = [
        {"plan_id": plan_id, "number": number, "position": position, "path": path}
        for position, path in enumerate(new, start=len(known))
    ]
    if rows:
        connection.execute(insert(claimed_paths), rows)
