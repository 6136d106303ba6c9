"""The control ledger: the small transactional facts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.deletion.withheld import Withheld
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports.decisions import Decisions
from meltline.ports.epochs import EpochLedger
from meltline.ports.incidents import IncidentLedger
from meltline.ports.plan_ledger import PlanLedger


@dataclass(frozen=True)
class KnownTable:
    """What the control ledger remembers of a registration of a table.

    Attributes:
        uuid: The registration's id.
        status: `live`, `unreadable` (error says why), `gone` from every catalog, or `let go`: its
            retention as a dropped table has ended, and its registration was taken away.
        incomplete: Whether some of its references have never been read.
        table_uuid: Iceberg's UUID; other registrations may have the same.
        newest: Main's head when the table was last seen, as `id location of its list`; empty
            where it had none. It proves the lineage of a table whose log was cut meanwhile.
    """

    uuid: str
    name: TableName
    metadata_location: str
    location: str
    status: str
    observed_at: datetime
    error: str = ""
    incomplete: bool = False
    table_uuid: str = ""
    newest: str = ""


@dataclass(frozen=True)
class Lease:
    """A reader's claim on a snapshot: it is kept until the lease ends.

    Attributes:
        table: By which name it was asked for.
        who: Who reads.
        ttl_ms: How long each renewal makes it last, in milliseconds.
    """

    id: str
    table_uuid: str
    snapshot_id: int
    expires_at: datetime
    table: str = ""
    who: str = ""
    ttl_ms: int = 0


class StatementState(StrEnum):
    """How far a statement has come."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class StatementRecord:
    """A statement that `meltline sql` has run (TT-30, TT-31).

    Attributes:
        id: As the summaries of its snapshots have it.
        kind: Its first word; the text may hold what is nobody's business.
        completed_at: When it ended, well or not; None while it runs.
    """

    id: str
    kind: str
    who: str
    state: StatementState
    started_at: datetime
    completed_at: datetime | None = None


@dataclass(frozen=True)
class PurgeVeto:
    """A snapshot whose files somebody wants: none of them may be purged.

    Commands without a JVM cannot write the file ledger. They leave this word, which planning a
    purge, its gate and its last proof obey, and which the next step turns into cancelled
    departures.

    Attributes:
        id: Names it.
        table_uuid: The table whose snapshot it is.
        manifest_list: Where the snapshot's files are named; empty where format 1 lists
            `inline_manifests`.
        reason: The command, for the audit.
    """

    id: str
    table_uuid: str
    snapshot_id: int
    manifest_list: str
    inline_manifests: tuple[str, ...]
    who: str
    reason: str
    at: datetime


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


@dataclass(frozen=True)
class RememberedMetadata:
    """What one metadata file says, as far as Meltline needs it.

    Attributes:
        location: The file; `size` is its length in bytes.
        content: The JSON document, compressed, without what lifecycles do not depend on.
        version: Which object it was (`StoredObject.version`); empty where an earlier release
            remembered it: then it is read again.
    """

    location: str
    size: int
    content: bytes
    version: str = ""


class ControlLedger(PlanLedger, Decisions, EpochLedger, IncidentLedger, Protocol):
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
    def open_entries(self, tables: Sequence[KnownTable]) -> Sequence[KnownTable]:
        """Stores registrations that are new; returns those whose id nobody had before.

        An id is given once, whoever else asks for it at the same moment.
        """
        ...

    def save_tables(self, tables: Sequence[KnownTable]) -> None: ...
    def ownerships(self) -> Sequence[Ownership]: ...
    def add_ownerships(self, ownerships: Iterable[Ownership], at: datetime) -> None: ...
    def sharing(self) -> Sequence[tuple[str, str]]:
        """Pairs of tables that share, or ever shared, files."""
        ...

    def add_sharing(self, pairs: Iterable[tuple[str, str]]) -> None: ...

    def places(self) -> frozenset[str]:
        """Where files lie, or ever lay, that a table referred to (`domain.places`)."""
        ...

    def add_places(self, places: Iterable[str]) -> None:
        """Adds what is new; a place is never taken away."""
        ...

    def withheld(self) -> Sequence[Withheld]:
        """What the last plans of each kind kept although nothing refers to it."""
        ...

    def save_withheld(self, step: str, files: Sequence[Withheld]) -> None:
        """Stores what a step kept; what it kept before is forgotten."""
        ...

    def sightings(
        self, uuids: Collection[str] | None = None
    ) -> Mapping[str, Mapping[int, SnapshotObservation]]:
        """Per table UUID and snapshot id.

        Args:
            uuids: Of these tables at least; None is all.
        """
        ...

    def save_sightings(
        self, sightings: Mapping[str, Mapping[int, SnapshotObservation]]
    ) -> None: ...
    def leases(self, now: datetime) -> Sequence[Lease]:
        """Leases that have not ended."""
        ...

    def save_lease(self, lease: Lease) -> None: ...
    def renew_lease(self, id: str, now: datetime) -> Lease | None:
        """Makes a lease last its time anew from now on; None where it has ended or is not there."""
        ...

    def remove_lease(self, id: str) -> bool:
        """Ends a lease at once; False where there was none."""
        ...

    def save_statement(self, statement: StatementRecord) -> None:
        """Stores a statement, or how far it has come."""
        ...

    def statement(self, id: str) -> StatementRecord | None: ...

    def policies(self) -> Mapping[str, Mapping[str, str]]:
        """The newest policies that were in order, per object and property.

        An object is a table's UUID, a namespace as `catalog.levels`, or `account`.
        """
        ...

    def save_policies(self, policies: Mapping[str, Mapping[str, str | None]]) -> None:
        """Stores these values, and forgets where one is None; others stay as they are."""
        ...

    def metadata_documents(self, locations: Sequence[str]) -> Mapping[str, RememberedMetadata]:
        """Those of the metadata files that are remembered, by location."""
        ...

    def save_metadata_documents(
        self, documents: Sequence[RememberedMetadata], current: Collection[str]
    ) -> None:
        """Remembers documents, and forgets those of files that are no longer current."""
        ...

    def wanted_back(self) -> Sequence[PurgeVeto]:
        """Snapshots whose files are wanted and whose departures are not cancelled yet."""
        ...

    def add_wanted_back(self, wanted: PurgeVeto) -> None: ...
    def settle_wanted_back(self, ids: Sequence[str]) -> None:
        """Forgets them: their departures are cancelled."""
        ...

    def archived(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        """Snapshots with a verified copy in cold, by table, commit time and id.

        Args:
            uuids: Of these hot tables; None is all.
        """
        ...

    def save_archived(self, copies: Sequence[ArchivedSnapshot]) -> None:
        """Stores what is known of copies; what was known of the same ones is replaced."""
        ...

    def forget_archived(self, uuid: str, snapshots: Collection[int]) -> None:
        """Forgets copies of one table that cold has no more; unknown ones are no error."""
        ...

    def copies(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """What is known of single files in cold, by their path there; unknown ones are left out."""
        ...

    def save_copies(self, proofs: Collection[CopyProof]) -> None:
        """Stores what is known of single files in cold; what was known of the same is replaced."""
        ...

    def forget_copies(self, paths: Collection[str]) -> None:
        """Forgets files that cold has no more; unknown ones are no error."""
        ...

    # runs, switch, audit, storage
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
