"""The protocols behind which catalogs, object stores, ledgers, committers and gates stand."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from meltline.domain.files import (
    Departure,
    DepartureState,
    ManifestOutcome,
    ManifestRef,
    PlannedFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.gate import Evidence, GateResult
from meltline.domain.keep import Sighting
from meltline.domain.locations import Ownership
from meltline.domain.names import TableName
from meltline.domain.plan import Plan, PlanState
from meltline.domain.storage import StorageRow

# --- catalogs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CatalogEntry:
    """One table as its catalog lists it."""

    name: TableName
    metadata_location: str


@dataclass(frozen=True)
class CatalogListing:
    """Everything a catalog holds at one moment; namespaces of every level with properties."""

    entries: tuple[CatalogEntry, ...]
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]]


class Catalog(Protocol):
    """One configured catalog."""

    @property
    def name(self) -> str: ...

    @property
    def observe_only(self) -> bool: ...

    def listing(self) -> CatalogListing:
        """Lists every namespace level and table; views and non-Iceberg tables are passed over.

        Raises:
            CatalogUnlistable: Any part of it could not be listed.
        """
        ...

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None: ...

    def set_namespace_properties(
        self, namespace: tuple[str, ...], updates: Mapping[str, str]
    ) -> None:
        """Sets properties on a namespace and creates it when it is not there."""
        ...


# --- object stores ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing. `path` is spelled as Iceberg would write it under that prefix."""

    path: str
    bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What came of one delete; a file that was gone already counts as done (`error` empty)."""

    path: str
    error: str = ""


class ObjectStore(Protocol):
    """Object storage. Must be picklable: executors use it too."""

    def read(self, path: str) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason.
        """
        ...

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there. Raises StoreRefused otherwise."""
        ...

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns when the store says it was written."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object under a folder, at any depth. A folder that is not there is empty."""
        ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, an outcome per path, with the side files of local ones."""
        ...


# --- manifests ------------------------------------------------------------------------------


class ManifestReader(Protocol):
    """Reads manifest lists and manifests for the planner."""

    def read_list(self, path: str, content: bytes) -> tuple[ManifestRef, ...]:
        """The manifests a manifest list names. Raises MetadataUnreadable."""
        ...

    def live_paths(self, manifest: ManifestRef, content: bytes) -> Sequence[str]:
        """The files a manifest keeps alive, its counts held against its list entry.

        Raises:
            MetadataUnreadable: It does not follow the spec, or is not what its list says.
        """
        ...


# --- committing ------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitOutcome:
    """What an expiration commit did: the metadata file it replaced and the one it wrote."""

    base_location: str
    new_location: str


class Committer(Protocol):
    """Commits an expiration: one metadata-only compare-and-set per table."""

    def expire(
        self, table: TableName, base_location: str, snapshots: Sequence[int], refs: Sequence[str]
    ) -> CommitOutcome | None:
        """Removes exactly these snapshots and refs if the table still stands at the base.

        Returns:
            What was done, or None when the table has moved on and nothing was committed.
        """
        ...


# --- the file ledger -------------------------------------------------------------------------


@dataclass(frozen=True)
class IngestRequest:
    """Manifests of one table that no ledger row covers yet."""

    table_uuid: str
    manifests: tuple[ManifestRef, ...]


@dataclass(frozen=True, slots=True)
class DepartingFile:
    """A file that only candidate snapshots refer to, with the tables whose candidates they are."""

    path: str
    kind: str
    bytes: int
    table_uuids: tuple[str, ...]


@dataclass(frozen=True)
class SnapshotKey:
    """A snapshot of a table."""

    table_uuid: str
    snapshot_id: int


class FileLedger(Protocol):
    """The big facts, as Iceberg tables: manifest index, snapshots, plan items, departures.

    Every append carries a marker; an append whose marker is already there is not made again.
    """

    def prepare(self) -> None:
        """Creates the ledger's namespace and tables where they are missing."""
        ...

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        ...

    def unknown_manifests(self, paths: Sequence[str]) -> set[str]: ...

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once, on executors, and appends the entries of those that agree."""
        ...

    def known_snapshots(self) -> set[SnapshotKey]:
        """Every snapshot ever recorded, whose manifest list has not departed."""
        ...

    def record_snapshots(self, records: Sequence[SnapshotRecord]) -> None: ...

    def side_files(self) -> Sequence[SideFile]: ...

    def record_side_files(self, files: Sequence[SideFile], seen_at: datetime) -> None: ...

    def departing(self, candidates: Sequence[SnapshotKey]) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to.

        Every other known snapshot of every table counts as kept. Files in failsafe are left out.
        """
        ...

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Live files and their bytes of each snapshot, by the index; unknown ones are absent."""
        ...

    def unknown_paths(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        ...

    def store_items(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a plan that has some already keeps those."""
        ...

    def items(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path; a plan without any has an empty list."""
        ...

    def record_departures(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit.

        A marker whose rows are there already adds nothing: recording twice is recording once.
        """
        ...

    def departures(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path, where it is in one of the states."""
        ...

    def referenced_now(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        ...


@dataclass(frozen=True, slots=True)
class IndexedSnapshot:
    """A snapshot as the ledger knows it, with the ids of its manifests."""

    key: SnapshotKey
    committed_at: datetime
    manifest_list: str
    manifest_list_bytes: int
    manifests: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A live entry of the manifest index, or a manifest itself."""

    manifest_id: int
    path: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class LedgerContents:
    """The file ledger, read whole and without a JVM: for reports and explanations."""

    snapshots: Sequence[IndexedSnapshot]
    manifests: Sequence[IndexedFile]
    entries: Sequence[IndexedFile]
    side_files: Sequence[SideFile]
    departures: Sequence[Departure]


class LedgerReader(Protocol):
    """Reads the file ledger's tables without a JVM."""

    def contents(self) -> LedgerContents:
        """Everything; of departures the newest row of each path. Empty before `init`."""
        ...

    def items(self, plan_id: str) -> Sequence[PlannedFile]:
        """A plan's items, sorted by path."""
        ...


class Deleter(Protocol):
    """Deletes files in bulk, from executors where there are any, at no more than the given rate."""

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]: ...


# --- proofs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProofSnapshot:
    """A snapshot whose files a gate reads afresh."""

    table_uuid: str
    snapshot_id: int
    manifest_list: str
    inline_manifests: tuple[str, ...] = ()

    @property
    def key(self) -> SnapshotKey:
        """Which snapshot it is."""
        return SnapshotKey(self.table_uuid, self.snapshot_id)


@dataclass(frozen=True)
class ProofResult:
    """What reading manifest lists and manifests from the files alone has shown.

    Attributes:
        manifests: The manifests of each snapshot, by path.
        live_files: Live entries per manifest, and `live_bytes` their size.
        hits: Wanted paths that a manifest keeps alive, by manifest.
        errors: Why a list or manifest could not be read, per table UUID.
        referenced_bytes: Bytes of distinct live files, per table UUID.
    """

    manifests: Mapping[SnapshotKey, tuple[str, ...]]
    live_files: Mapping[str, int]
    live_bytes: Mapping[str, int]
    hits: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, tuple[str, ...]]
    referenced_bytes: Mapping[str, int]


class ProofReader(Protocol):
    """Reads manifest lists and manifests afresh, sharing nothing with the index's reader."""

    def prove(self, snapshots: Sequence[ProofSnapshot], wanted: Sequence[str]) -> ProofResult:
        """Reads everything the snapshots refer to and looks for the wanted paths in it."""
        ...


# --- the control ledger ----------------------------------------------------------------------


@dataclass(frozen=True)
class KnownTable:
    """What the control ledger remembers of a table.

    Attributes:
        status: `live`, `unreadable` (error says why), or `gone` from every catalog.
        incomplete: Whether some of its references have never been read.
    """

    uuid: str
    name: TableName
    metadata_location: str
    location: str
    status: str
    observed_at: datetime
    error: str = ""
    incomplete: bool = False


@dataclass(frozen=True)
class Lock:
    """A held lock: whoever took it later has a larger token."""

    key: str
    holder: str
    token: int


@dataclass(frozen=True)
class Approval:
    """A person's word for one digest."""

    plan_id: str
    digest: str
    who: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class Lease:
    """A reader's claim on a snapshot."""

    id: str
    table_uuid: str
    snapshot_id: int
    expires_at: datetime


@dataclass(frozen=True)
class AuditEntry:
    """Who did what to which object, when and why (PX-13)."""

    at: datetime
    who: str
    action: str
    object: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class RunRecord:
    """One execution with a logical date. `summary` is the JSON that `run --json` prints."""

    id: str
    as_of: datetime
    started_at: datetime
    ended_at: datetime | None = None
    summary: str = ""


@dataclass(frozen=True)
class StopSwitch:
    """That somebody holds back every destructive step."""

    who: str
    reason: str
    at: datetime


class ControlLedger(Protocol):
    """The small transactional facts."""

    def prepare(self) -> None:
        """Creates or migrates the schema."""
        ...

    def is_prepared(self) -> bool: ...

    def generation(self) -> int: ...

    def set_generation(self, number: int) -> None: ...

    def newest_time(self) -> datetime | None:
        """The newest wall-clock time that any row records."""
        ...

    def database_now(self) -> datetime:
        """The database's own clock."""
        ...

    # objects
    def tables(self) -> Sequence[KnownTable]: ...
    def save_tables(self, tables: Sequence[KnownTable]) -> None: ...
    def ownerships(self) -> Sequence[Ownership]: ...
    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None: ...
    def sharing(self) -> Sequence[tuple[str, str]]:
        """Pairs of tables that share, or ever shared, files."""
        ...

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None: ...
    def sightings(self) -> Mapping[str, Mapping[int, Sighting]]:
        """Per table UUID and snapshot id."""
        ...

    def save_sightings(self, sightings: Mapping[str, Mapping[int, Sighting]]) -> None: ...
    def leases(self, now: datetime) -> Sequence[Lease]:
        """Leases that have not ended."""
        ...

    def save_lease(self, lease: Lease) -> None: ...

    # plans and gates
    def add_plan(self, plan: Plan) -> Plan:
        """Stores a plan's header; one of the same id that exists already is returned instead."""
        ...

    def plan(self, id_or_prefix: str) -> Plan:
        """A plan by id, unique prefix or `last`. Raises PlanNotFound."""
        ...

    def plans(
        self,
        *,
        run_id: str = "",
        states: Iterable[PlanState] = (),
        table_uuid: str = "",
        limit: int | None = None,
    ) -> Sequence[Plan]:
        """Plans, newest first."""
        ...

    def move_plan(
        self,
        plan: Plan,
        to: PlanState,
        *,
        lock: Lock | None = None,
        note: str = "",
        committed_base: str = "",
    ) -> Plan:
        """Compare-and-set from the plan's state; checks the lock's token where one is given.

        Raises:
            PlanStale: The stored plan is in another state, or the move does not exist.
            LockLost: The lock has been taken over or has ended.
        """
        ...

    def save_gate_result(self, result: GateResult) -> None: ...
    def gate_result(self, plan_id: str) -> GateResult | None:
        """The newest result for a plan."""
        ...

    def save_approval(self, approval: Approval) -> None: ...
    def approval(self, plan_id: str, digest: str) -> Approval | None: ...

    # purge batches
    def claim_batch(self, plan_id: str, number: int, paths: Sequence[str], lock: Lock) -> bool:
        """`due → purging`; False when the batch is done already. Raises LockLost."""
        ...

    def finish_batch(self, plan_id: str, number: int, lock: Lock) -> None: ...
    def drop_claim(self, plan_id: str, number: int, lock: Lock) -> None: ...
    def claimed_paths(self) -> Mapping[str, str]:
        """Paths in claimed, unfinished batches, and the plan that claimed each."""
        ...

    # locks, runs, switch, audit, storage
    def lock(
        self, key: str, holder: str, *, wait: timedelta, lease: timedelta
    ) -> AbstractContextManager[Lock]:
        """Takes a lock row with a growing token, renews it while held, frees it at the end.

        Raises:
            LockHeld: Somebody else kept it for the whole wait; names the holder.
        """
        ...

    def check_lock(self, lock: Lock) -> None:
        """Raises LockLost unless this very lock is still held."""
        ...

    def start_run(self, run: RunRecord) -> None: ...
    def finish_run(self, run: RunRecord) -> None: ...
    def runs(self, limit: int) -> Sequence[RunRecord]: ...
    def stopped(self) -> StopSwitch | None: ...
    def set_stop(self, switch: StopSwitch | None) -> None: ...
    def add_audit(self, entry: AuditEntry) -> None: ...
    def audit(self, object: str = "", since: datetime | None = None) -> Sequence[AuditEntry]: ...
    def save_storage(self, day: str, rows: Sequence[StorageRow]) -> None:
        """Upserts a day's totals; `day` is `YYYY-MM-DD` in UTC."""
        ...

    def storage(self, day: str) -> Sequence[StorageRow]: ...


# --- gates -----------------------------------------------------------------------------------


class GateEngine(Protocol):
    """Judges evidence; one validation may serve many plans, its verdict is per plan."""

    def judge(self, evidence: Sequence[Evidence], now: datetime) -> Sequence[GateResult]:
        """One result per piece of evidence. A crash is a result that has not passed."""
        ...
