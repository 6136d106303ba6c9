"""Stores purge batches: the paths claimed for deletion, and the lock of each claim."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.parts.locks import LockRows
from meltline.adapters.sql_ledger.refusals import batch_not_ours, living_claim
from meltline.adapters.sql_ledger.rows import delete_in, insert_new, rows_in, to_row
from meltline.adapters.sql_ledger.tables.schema import (
    BatchState,
    batches,
    claimed_paths,
    wanted_back,
)
from meltline.domain.errors import MeltlineError
from meltline.ports import Claim, PurgeVeto

_Key: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class ClaimRows:
    """The port `ClaimLedger`."""

    database: Database
    locks: LockRows

    def take(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        if not claims:
            return []
        due = {"state": BatchState.DUE, "lock_key": "", "token": 0}
        with self.database.writing() as connection:
            lost = self.locks.lost_within(connection, [claim.lock for claim in claims])
            sound = [claim for claim in claims if claim.lock not in lost]
            new = [due | {"plan_id": id, "number": number} for id, number in sorted(_keys(sound))]
            insert_new(connection, batches, new)
            stored = _stored(connection, sound)
            answers = [
                lost.get(claim.lock) or self._may(connection, stored[_key(claim)], claim)
                for claim in claims
            ]
            accepted = [c for c, answer in zip(claims, answers, strict=True) if answer is True]
            self._take(connection, accepted, stored)
        return answers

    def finish(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        if not claims:
            return []
        with self.database.writing() as connection:
            lost = self.locks.lost_within(connection, [claim.lock for claim in claims])
            stored = _stored(connection, claims)
            answers = [
                lost.get(claim.lock)
                or (None if _is_of(stored.get(_key(claim)), claim) else _not_ours(claim))
                for claim in claims
            ]
            done = [c for c, answer in zip(claims, answers, strict=True) if answer is None]
            _settle(connection, done, BatchState.DONE)
        return answers

    def drop(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        with self.database.writing() as connection:
            stored = _stored(connection, claims)
            purging = {key: row for key, row in stored.items() if row.state is BatchState.PURGING}
            ours = [claim for claim in claims if _is_of(purging.get(_key(claim)), claim)]
            _settle(connection, ours, BatchState.DUE)

    def paths(self) -> Mapping[str, str]:
        with self.database.reading() as connection:
            query = select(claimed_paths.c.path, claimed_paths.c.plan_id)
            return {path: plan_id for path, plan_id in connection.execute(query)}

    def _may(self, connection: Connection, batch: Row[Any], claim: Claim) -> bool | MeltlineError:
        """Returns whether a batch may be claimed; under our own key an older token is dead."""
        if batch.state is BatchState.DONE:
            return False
        if batch.state is BatchState.DUE or batch.lock_key == claim.lock.key:
            return True
        # Tokens of another key do not compare.
        holder = self.locks.holder(connection, batch.lock_key, batch.token)
        if holder is None:
            return True
        return living_claim(batch.plan_id, batch.number, holder, batch.lock_key)

    def _take(
        self, connection: Connection, claims: Sequence[Claim], stored: Mapping[_Key, Row[Any]]
    ) -> None:
        if not claims:
            return
        connection.execute(
            _of_batch(update(batches), batches),
            [
                _batch_key(claim)
                | {
                    "state": BatchState.PURGING,
                    "lock_key": claim.lock.key,
                    "token": claim.lock.token,
                    "claimed_at": self.database.clock.now(),
                }
                for claim in claims
            ],
        )
        again = [c for c in claims if stored[_key(c)].state is BatchState.PURGING]
        prior = _paths_of(connection, again)
        rows = [row for claim in claims for row in _path_rows(claim, prior.get(_key(claim), ()))]
        if rows:
            connection.execute(insert(claimed_paths), rows)


@dataclass(frozen=True)
class VetoRows:
    """The port `VetoLedger`."""

    database: Database

    def all(self) -> Sequence[PurgeVeto]:
        return self.database.records(PurgeVeto, select(wanted_back).order_by(wanted_back.c.id))

    def add(self, veto: PurgeVeto) -> None:
        self.database.save(wanted_back, [to_row(veto)])

    def remove(self, ids: Sequence[str]) -> None:
        with self.database.writing() as connection:
            delete_in(connection, wanted_back.c.id, ids)


def _key(claim: Claim) -> _Key:
    return claim.plan_id, claim.number


def _keys(claims: Iterable[Claim]) -> set[_Key]:
    return {_key(claim) for claim in claims}


def _stored(connection: Connection, claims: Sequence[Claim]) -> dict[_Key, Row[Any]]:
    """Returns the batches of some claims; on Postgres locks them against concurrent changes."""
    query = select(batches).order_by(batches.c.plan_id, batches.c.number).with_for_update()
    rows = rows_in(connection, query, batches.c.plan_id, _plans(claims))
    by_key, keys = {(row.plan_id, row.number): row for row in rows}, _keys(claims)
    return {key: row for key, row in by_key.items() if key in keys}


def _plans(claims: Iterable[Claim]) -> set[str]:
    return {claim.plan_id for claim in claims}


def _is_of(batch: Row[Any] | None, claim: Claim) -> bool:
    """Returns whether a batch is, or was, claimed under this very lock."""
    if batch is None or batch.state is BatchState.DUE:
        return False
    ours: bool = (batch.lock_key, batch.token) == (claim.lock.key, claim.lock.token)
    return ours


def _not_ours(claim: Claim) -> MeltlineError:
    return batch_not_ours(claim.plan_id, claim.number, claim.lock)


def _settle(connection: Connection, claims: Sequence[Claim], state: BatchState) -> None:
    """Changes the state of batches, and releases their claimed paths."""
    if claims:
        changes = [_batch_key(claim) | {"state": state} for claim in claims]
        connection.execute(_of_batch(update(batches), batches), changes)
        ended = [_batch_key(claim) for claim in claims]
        connection.execute(_of_batch(delete(claimed_paths), claimed_paths), ended)


def _of_batch(statement: Any, table: Any) -> Any:
    """Restricts a statement to the batch that `_batch_key` identifies."""
    is_plan = table.c.plan_id == bindparam("of_plan")
    return statement.where(is_plan, table.c.number == bindparam("of_number"))


def _batch_key(claim: Claim) -> dict[str, object]:
    return {"of_plan": claim.plan_id, "of_number": claim.number}


def _paths_of(connection: Connection, claims: Sequence[Claim]) -> dict[_Key, list[str]]:
    paths: dict[_Key, list[str]] = {}
    query = select(claimed_paths).order_by(claimed_paths.c.position)
    for row in rows_in(connection, query, claimed_paths.c.plan_id, _plans(claims)):
        paths.setdefault((row.plan_id, row.number), []).append(row.path)
    return paths


def _path_rows(claim: Claim, earlier: Sequence[str]) -> list[dict[str, object]]:
    claimed = set(earlier)
    new = [path for path in dict.fromkeys(claim.paths) if path not in claimed]
    return [
        {"plan_id": claim.plan_id, "number": claim.number, "position": position, "path": path}
        for position, path in enumerate(new, start=len(earlier))
    ]
