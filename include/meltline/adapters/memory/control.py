"""The control ledger in memory, for tests and dry runs. One object is one database."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from meltline.adapters.memory.journal import MemoryJournal
from meltline.adapters.sql_ledger import refusals
from meltline.adapters.sql_ledger.holding import Holding, hold
from meltline.domain.archive import ArchivedSnapshot
from meltline.domain.clock import Clock, WallClock
from meltline.domain.gate import GateResult
from meltline.domain.keep import Sighting
from meltline.domain.locations import Ownership
from meltline.domain.names import TableName
from meltline.domain.plan import Plan, PlanState
from meltline.domain.quantities import format_instant, from_millis
from meltline.ports import (
    Approval,
    KnownTable,
    Lease,
    Lock,
    RememberedMetadata,
    StatementRecord,
    WantedBack,
)

_LONG_AGO = from_millis(0)


@dataclass
class _LockRow:
    token: int = 0
    holder: str = ""
    since: datetime = _LONG_AGO
    until: datetime = _LONG_AGO


@dataclass
class _Batch:
    claimed_under: Lock | None = None
    done: bool = False
    paths: dict[str, None] = field(default_factory=dict)


class MemoryControlLedger(MemoryJournal):
    """`ports.ControlLedger` in this process's memory, safe for its threads.

    `database` stands for the database's clock; `lease_time` is real time in seconds.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        database: Clock | None = None,
        lease_time: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock)
        self._database = database or WallClock()
        self._lease_time = lease_time
        self._generation = 0
        self._tables: dict[tuple[str, TableName], KnownTable] = {}
        self._ownerships: set[Ownership] = set()
        self._sharing: set[tuple[str, str]] = set()
        self._sightings: dict[str, dict[int, Sighting]] = {}
        self._leases: dict[str, Lease] = {}
        self._statements: dict[str, StatementRecord] = {}
        self._policies: dict[str, dict[str, str]] = {}
        self._documents: dict[str, RememberedMetadata] = {}
        self._wanted: dict[str, WantedBack] = {}
        self._archived: dict[tuple[str, int], ArchivedSnapshot] = {}
        self._plans: dict[str, Plan] = {}
        self._results: dict[str, GateResult] = {}
        self._approvals: dict[tuple[str, str], Approval] = {}
        self._batches: dict[tuple[str, int], _Batch] = {}
        self._locks: dict[str, _LockRow] = {}

    def prepare(self) -> None:
        self._prepared = True

    def is_prepared(self) -> bool:
        return self._prepared

    def generation(self) -> int:
        with self._reading():
            return self._generation

    def set_generation(self, number: int) -> None:
        with self._writing():
            self._generation = number

    def newest_time(self) -> datetime | None:
        with self._reading():
            return self._newest

    def database_now(self) -> datetime:
        with self._reading():
            return self._database.now()

    # objects

    def tables(self) -> Sequence[KnownTable]:
        with self._reading():
            return sorted(self._tables.values(), key=lambda table: (table.name, table.uuid))

    def save_tables(self, tables: Sequence[KnownTable]) -> None:
        with self._writing():
            self._tables.update({(table.uuid, table.name): table for table in tables})

    def ownerships(self) -> Sequence[Ownership]:
        with self._reading():
            return sorted(self._ownerships, key=lambda one: (one.prefix, one.table_uuid))

    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None:
        with self._writing():
            self._ownerships.update(ownerships)

    def sharing(self) -> Sequence[tuple[str, str]]:
        with self._reading():
            return sorted(self._sharing)

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None:
        with self._writing():
            self._sharing.update((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, Sighting]]:
        with self._reading():
            return {
                uuid: dict(of_table)
                for uuid, of_table in self._sightings.items()
                if uuids is None or uuid in uuids
            }

    def save_sightings(self, sightings: Mapping[str, Mapping[int, Sighting]]) -> None:
        with self._writing():
            for uuid, of_table in sightings.items():
                if of_table:
                    self._sightings.setdefault(uuid, {}).update(of_table)

    def leases(self, now: datetime) -> Sequence[Lease]:
        with self._reading():
            lasting = (lease for lease in self._leases.values() if lease.expires_at >= now)
            return sorted(lasting, key=lambda lease: lease.id)

    def save_lease(self, lease: Lease) -> None:
        with self._writing():
            self._leases[lease.id] = lease

    def renew_lease(self, id: str, now: datetime) -> Lease | None:
        with self._writing():
            lease = self._leases.get(id)
            if lease is None or lease.expires_at < now:
                return None
            renewed = replace(lease, expires_at=now + timedelta(milliseconds=lease.ttl_ms))
            self._leases[id] = renewed
            return renewed

    def remove_lease(self, id: str) -> bool:
        with self._writing():
            return self._leases.pop(id, None) is not None

    def save_statement(self, statement: StatementRecord) -> None:
        with self._writing():
            self._statements[statement.id] = statement

    def statement(self, id: str) -> StatementRecord | None:
        with self._reading():
            return self._statements.get(id)

    def policies(self) -> Mapping[str, Mapping[str, str]]:
        with self._reading():
            return {name: dict(found) for name, found in self._policies.items() if found}

    def save_policies(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        with self._writing():
            for name, found in policies.items():
                known = {**self._policies.get(name, {}), **found}
                self._policies[name] = {k: v for k, v in known.items() if v is not None}

    def metadata_documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        with self._reading():
            return {at: self._documents[at] for at in locations if at in self._documents}

    def save_metadata_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        with self._writing():
            known = self._documents | {document.location: document for document in documents}
            self._documents = {at: found for at, found in known.items() if at in set(current)}

    def wanted_back(self) -> Sequence[WantedBack]:
        with self._reading():
            return [self._wanted[id] for id in sorted(self._wanted)]

    def add_wanted_back(self, wanted: WantedBack) -> None:
        with self._writing():
            self._wanted[wanted.id] = wanted

    def settle_wanted_back(self, ids: Sequence[str]) -> None:
        with self._writing():
            self._wanted = {id: row for id, row in self._wanted.items() if id not in ids}

    def archived(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        with self._reading():
            found = [c for c in self._archived.values() if uuids is None or c.table_uuid in uuids]
        return sorted(found, key=lambda c: (c.table_uuid, c.committed_at, c.snapshot_id))

    def save_archived(self, copies: Sequence[ArchivedSnapshot]) -> None:
        with self._writing():
            self._archived.update({(c.table_uuid, c.snapshot_id): c for c in copies})

    def forget_archived(self, uuid: str, snapshots: Collection[int]) -> None:
        with self._writing():
            for snapshot_id in snapshots:
                self._archived.pop((uuid, snapshot_id), None)

    # plans and gates

    def add_plan(self, plan: Plan) -> Plan:
        with self._writing():
            return self._plans.setdefault(plan.id, plan)

    def plan(self, id_or_prefix: str) -> Plan:
        if id_or_prefix == "last":
            if newest := self.plans(limit=1):
                return newest[0]
            raise refusals.no_plan("last")
        with self._reading():
            if id_or_prefix in self._plans:
                return self._plans[id_or_prefix]
            matches = [one for one in self._plans if one.startswith(id_or_prefix)]
            if len(matches) != 1 or not id_or_prefix:
                raise refusals.no_plan(id_or_prefix, matches[:5])
            return self._plans[matches[0]]

    def plans(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        limit: int | None = None,
    ) -> Sequence[Plan]:
        wanted = frozenset(states)
        with self._reading():
            found = [
                plan
                for plan in reversed(self._plans.values())
                if run_id in ("", plan.run_id)
                and table_uuid in ("", plan.table_uuid)
                and (not wanted or plan.state in wanted)
            ]
        found.sort(key=lambda plan: plan.created_at, reverse=True)
        return found[:limit]

    def move_plan(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        refusals.require_move(plan, to)
        with self._writing():
            if lock is not None:
                self.check_lock(lock)
            stored = self._plans.get(plan.id)
            if stored is None:
                raise refusals.no_plan(plan.id)
            if stored.state is not plan.state:
                raise refusals.moved_meanwhile(plan, to, stored.state)
            base = committed_base or stored.committed_base
            moved = replace(stored, state=to, note=note, committed_base=base)
            self._plans[plan.id] = moved
            return moved

    def save_gate_result(self, result: GateResult) -> None:
        with self._writing():
            self._results[result.plan_id] = result

    def gate_result(self, plan_id: str) -> GateResult | None:
        with self._reading():
            return self._results.get(plan_id)

    def save_approval(self, approval: Approval) -> None:
        with self._writing():
            self._approvals[approval.plan_id, approval.digest] = approval

    def approval(self, plan_id: str, digest: str) -> Approval | None:
        with self._reading():
            return self._approvals.get((plan_id, digest))

    # purge batches

    def claim_batch(self, plan_id: str, number: int, paths: Sequence[str], lock: Lock) -> bool:
        with self._writing():
            self.check_lock(lock)
            batch = self._batches.setdefault((plan_id, number), _Batch())
            if batch.done:
                return False
            former = batch.claimed_under
            if former is not None and former.key != lock.key and self._is_held(former):
                raise refusals.living_claim(plan_id, number, former.holder, former.key)
            batch.claimed_under = lock
            batch.paths.update(dict.fromkeys(paths))
            return True

    def finish_batch(self, plan_id: str, number: int, lock: Lock) -> None:
        with self._writing():
            self.check_lock(lock)
            batch = self._batches.get((plan_id, number))
            if batch is None or batch.claimed_under != lock:
                raise refusals.batch_not_ours(plan_id, number, lock)
            batch.done = True
            batch.paths.clear()

    def drop_claim(self, plan_id: str, number: int, lock: Lock) -> None:
        with self._writing():
            batch = self._batches.get((plan_id, number))
            if batch is not None and not batch.done and batch.claimed_under == lock:
                del self._batches[plan_id, number]

    def claimed_paths(self) -> Mapping[str, str]:
        with self._reading():
            return {path: key[0] for key, batch in self._batches.items() for path in batch.paths}

    # locks

    def lock(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        return hold(self, key, holder, wait=wait, lease=lease)

    def check_lock(self, lock: Lock) -> None:
        with self._reading():
            if not self._is_held(lock):
                row = self._locks.get(lock.key, _LockRow())
                until = f"lease until {format_instant(row.until)}"
                found = f"{row.holder} with token {row.token}, {until}" if row.holder else "free"
                raise refusals.lock_lost(lock, found)

    def take(self, key: str, holder: str, lease: timedelta) -> Lock | None:
        with self._reading():
            row, now = self._locks.setdefault(key, _LockRow()), self._real_now()
            if row.until > now:
                return None
            self._locks[key] = _LockRow(row.token + 1, holder, now, now + lease)
            return Lock(key, holder, row.token + 1)

    def renew(self, lock: Lock, lease: timedelta) -> bool:
        with self._reading():
            row = self._locks[lock.key]
            if (row.token, row.holder) != (lock.token, lock.holder):
                return False
            row.until = self._real_now() + lease
            return True

    def release(self, lock: Lock) -> None:
        with self._reading():
            row = self._locks[lock.key]
            if (row.token, row.holder) == (lock.token, lock.holder):
                self._locks[lock.key] = _LockRow(row.token)

    def holding(self, key: str) -> Holding | None:
        with self._reading():
            row = self._locks.get(key, _LockRow())
            is_held = row.until > self._real_now()
            return Holding(row.holder, row.since, row.until) if is_held else None

    def _is_held(self, lock: Lock) -> bool:
        row = self._locks.get(lock.key, _LockRow())
        ours = (row.token, row.holder) == (lock.token, lock.holder)
        return ours and row.until > self._real_now()

    def _real_now(self) -> datetime:
        return from_millis(int(self._lease_time() * 1000))
