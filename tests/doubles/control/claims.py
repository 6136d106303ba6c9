"""Purge batches, and the vetoes against a purge, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meltline.adapters.sql_ledger import refusals
from meltline.domain.errors import MeltlineError
from meltline.ports import Claim, Lock, PurgeVeto
from tests.doubles.control.answers import answers_of
from tests.doubles.control.database import MemoryDatabase
from tests.doubles.control.locks import MemoryLockRows


@dataclass
class _Batch:
    claimed_under: Lock | None = None
    done: bool = False
    paths: dict[str, None] = field(default_factory=dict)


@dataclass
class MemoryClaims:
    """The port `ClaimLedger`."""

    database: MemoryDatabase
    locks: MemoryLockRows
    batches: dict[tuple[str, int], _Batch] = field(default_factory=dict)

    def take(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        with self.database.writing():
            return answers_of(self._take, claims)

    def finish(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        with self.database.writing():
            return answers_of(self._finish, claims)

    def drop(self, claims: Sequence[Claim]) -> None:
        with self.database.writing():
            for claim in claims:
                batch = self.batches.get((claim.plan_id, claim.number))
                if batch is not None and not batch.done and batch.claimed_under == claim.lock:
                    del self.batches[claim.plan_id, claim.number]

    def paths(self) -> Mapping[str, str]:
        with self.database.reading():
            return {path: key[0] for key, batch in self.batches.items() for path in batch.paths}

    def _take(self, claim: Claim) -> bool:
        self.locks.require(claim.lock)
        batch = self.batches.setdefault((claim.plan_id, claim.number), _Batch())
        if batch.done:
            return False
        former = batch.claimed_under
        if former is not None and former.key != claim.lock.key and self.locks.is_held(former):
            raise refusals.living_claim(claim.plan_id, claim.number, former.holder, former.key)
        batch.claimed_under = claim.lock
        batch.paths.update(dict.fromkeys(claim.paths))
        return True

    def _finish(self, claim: Claim) -> None:
        self.locks.require(claim.lock)
        batch = self.batches.get((claim.plan_id, claim.number))
        if batch is None or batch.claimed_under != claim.lock:
            raise refusals.batch_not_ours(claim.plan_id, claim.number, claim.lock)
        batch.done = True
        batch.paths.clear()


@dataclass
class MemoryVetoes:
    """The port `VetoLedger`."""

    database: MemoryDatabase
    rows: dict[str, PurgeVeto] = field(default_factory=dict)

    def all(self) -> Sequence[PurgeVeto]:
        with self.database.reading():
            return [self.rows[id] for id in sorted(self.rows)]

    def add(self, veto: PurgeVeto) -> None:
        with self.database.writing():
            self.rows[veto.id] = veto

    def remove(self, ids: Sequence[str]) -> None:
        with self.database.writing():
            self.rows = {id: row for id, row in self.rows.items() if id not in ids}
