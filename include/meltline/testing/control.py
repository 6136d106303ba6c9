"""The control ledger in memory, for tests and dry runs. One object is one database."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.clock import Clock, WallClock
from meltline.domain.deletion.withheld import Withheld, order
from meltline.domain.epochs import Epoch, newest_confirmed
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports import (
    DisownedTime,
    Incident,
    KnownTable,
    Lease,
    PurgeVeto,
    RememberedMetadata,
    StatementRecord,
    VouchedFile,
)
from meltline.testing.plans import MemoryPlans


class MemoryControlLedger(MemoryPlans):
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
        super().__init__(clock, lease_time)
        self._database = database or WallClock()
        self._generation = 0
        self._epochs: dict[str, Epoch] = {}
        self._tables: dict[tuple[str, TableName], KnownTable] = {}
        self._incidents: dict[str, Incident] = {}
        self._ownerships: set[Ownership] = set()
        self._sharing: set[tuple[str, str]] = set()
        self._places: frozenset[str] = frozenset()
        self._withheld: dict[str, Sequence[Withheld]] = {}
        self._sightings: dict[str, dict[int, SnapshotObservation]] = {}
        self._leases: dict[str, Lease] = {}
        self._statements: dict[str, StatementRecord] = {}
        self._policies: dict[str, dict[str, str]] = {}
        self._documents: dict[str, RememberedMetadata] = {}
        self._wanted: dict[str, PurgeVeto] = {}
        self._vouched: dict[TableName, VouchedFile] = {}
        self._lifted: set[str] = set()
        self._disowned: list[DisownedTime] = []
        self._archived: dict[tuple[str, int], ArchivedSnapshot] = {}
        self._copies: dict[str, CopyProof] = {}

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

    def epochs(self, since: int | None = None) -> Sequence[Epoch]:
        with self._reading():
            known = sorted(self._epochs.values(), key=lambda epoch: (epoch.number, epoch.nonce))
            since = newest_confirmed(known) if since is None else since
            return [epoch for epoch in known if epoch.number >= since]

    def add_epoch(self, epoch: Epoch) -> None:
        with self._writing():
            self._epochs[epoch.nonce] = epoch

    def confirm_epoch(self, nonce: str) -> None:
        with self._writing():
            self._epochs[nonce] = replace(self._epochs[nonce], confirmed=True)

    def has_epoch(self, why: str) -> bool:
        with self._reading():
            return any(epoch.why == why and epoch.confirmed for epoch in self._epochs.values())

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

    def open_entries(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        with self._writing():
            taken = {uuid for uuid, _ in self._tables}
            opened: list[KnownTable] = []
            for table in tables:
                if table.uuid not in taken:
                    taken.add(table.uuid)
                    opened.append(table)
            self._tables.update({(table.uuid, table.name): table for table in opened})
            return opened

    def incidents(self) -> Sequence[Incident]:
        with self._reading():
            return sorted(self._incidents.values(), key=lambda one: (one.at, one.id))

    def raise_incidents(self, incidents: Sequence[Incident]) -> None:
        with self._writing():
            for incident in incidents:
                self._incidents.setdefault(incident.id, incident)

    def end_incidents(self, ids: Sequence[str]) -> None:
        with self._writing():
            for id in ids:
                self._incidents.pop(id, None)

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

    def places(self) -> frozenset[str]:
        with self._reading():
            return self._places

    def add_places(self, places: Iterable[str]) -> None:
        with self._writing():
            self._places |= frozenset(places)

    def withheld(self) -> Sequence[Withheld]:
        with self._reading():
            return [file for _, files in sorted(self._withheld.items()) for file in files]

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        with self._writing():
            self._withheld[step] = sorted(files, key=order)

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        with self._reading():
            return {
                uuid: dict(of_table)
                for uuid, of_table in self._sightings.items()
                if uuids is None or uuid in uuids
            }

    def save_sightings(self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]) -> None:
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

    def wanted_back(self) -> Sequence[PurgeVeto]:
        with self._reading():
            return [self._wanted[id] for id in sorted(self._wanted)]

    def add_wanted_back(self, wanted: PurgeVeto) -> None:
        with self._writing():
            self._wanted[wanted.id] = wanted

    def settle_wanted_back(self, ids: Sequence[str]) -> None:
        with self._writing():
            self._wanted = {id: row for id, row in self._wanted.items() if id not in ids}

    def disowned_times(self) -> Sequence[DisownedTime]:
        with self._reading():
            return list(self._disowned)

    def disown_time(self, word: DisownedTime) -> bool:
        with self._reading():
            if self._newest != word.recorded:
                return False
            self._newest = word.at
            self._disowned.append(word)
            self._free_locks_to_come()
            return True

    def vouched(self) -> Sequence[VouchedFile]:
        with self._reading():
            return [self._vouched[table] for table in sorted(self._vouched)]

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        with self._writing():
            self._vouched.update({one.table: one for one in files})

    def forget_vouched(self, table: TableName) -> bool:
        with self._writing():
            return self._vouched.pop(table, None) is not None

    def lifted_guards(self) -> frozenset[str]:
        with self._reading():
            return frozenset(self._lifted)

    def save_lifted_guard(self, table_uuid: str) -> None:
        with self._writing():
            self._lifted.add(table_uuid)

    def forget_lifted_guard(self, table_uuid: str) -> None:
        with self._writing():
            self._lifted.discard(table_uuid)

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

    def copies(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        with self._reading():
            return {path: self._copies[path] for path in paths if path in self._copies}

    def save_copies(self, proofs: Collection[CopyProof]) -> None:
        with self._writing():
            self._copies.update({one.path: one for one in proofs})

    def forget_copies(self, paths: Collection[str]) -> None:
        with self._writing():
            for path in paths:
                self._copies.pop(path, None)
