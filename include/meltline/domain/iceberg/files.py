"""Files and what refers to them: kinds, manifests, entries, snapshots as the ledger keeps them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum


class FileKind(StrEnum):
    """What a file is, in the spec's words."""

    DATA = "data"
    POSITION_DELETE = "position_delete"
    EQUALITY_DELETE = "equality_delete"
    DELETION_VECTOR = "deletion_vector"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest_list"
    STATISTICS = "statistics"
    METADATA = "metadata"


class EntryStatus(IntEnum):
    """A manifest entry's status. DELETED does not keep a file (AR-7)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


_COUNTED = (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as a manifest list names it; counts are None where format 1 leaves them out."""

    path: str
    bytes: int
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    added_snapshot_id: int | None = None
    sequence_number: int = 0
    is_deletes: bool = False

    @property
    def entries(self) -> int:
        """How many entries it has, as far as its list counts them."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Its ADDED, EXISTING and DELETED entries; what its list does not count is none."""
        return self.added_files or 0, self.existing_files or 0, self.deleted_files or 0

    def contradiction(self, counts: Iterable[int]) -> str:
        """How its list counts other entries than were read; empty where none differ.

        Args:
            counts: ADDED, EXISTING and DELETED entries that it really has.
        """
        listed = (self.added_files, self.existing_files, self.deleted_files)
        differences = [
            f"{read} {status.name} entries where its list says {stated}"
            for status, stated, read in zip(_COUNTED, listed, counts, strict=True)
            if stated is not None and stated != read
        ]
        return f"{self.path} has {' and '.join(differences)}" if differences else ""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One row of a manifest. What is None is inherited from the manifest, or was never written.

    Attributes:
        part: Where in the file a deletion vector begins: one file may hold several.
    """

    path: str
    kind: FileKind
    bytes: int
    status: EntryStatus
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class ManifestOutcome:
    """What came of reading one manifest, once.

    Attributes:
        path: The manifest.
        added: Rows with status ADDED; likewise `existing` and `deleted`.
        owners: UUIDs of the tables that own the files it names, by prefix.
        error: Why it cannot be trusted; empty when it was read.
        bytes_added: Of a manifest that was read for its changes, the bytes of the files it adds;
            `bytes_removed` of those it removes.
        ambiguity: Why its changes do not tell what its snapshot refers to, though nothing is
            wrong with it: it has to be read wholly.
        places: Where the files lie that it keeps, and those of them that are links (`places_in`).
    """

    path: str
    added: int = 0
    existing: int = 0
    deleted: int = 0
    owners: tuple[str, ...] = ()
    error: str = ""
    bytes_added: int = 0
    bytes_removed: int = 0
    ambiguity: str = ""
    places: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int]:
        """Its ADDED, EXISTING and DELETED entries, as they were read."""
        return self.added, self.existing, self.deleted


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot as the file ledger keeps it: enough to tell, later, what it referenced.

    Attributes:
        by_changes: Known by what it and those before it on its table's line changed (`lines`);
            else its manifests were read wholly.
        live_files: Of one known by changes, how many files are alive in it, by those changes;
            `live_bytes` is their size.
        list_sha256: Of its reachable set, as it was read (`ReachableSet`).
    """

    table_uuid: str
    snapshot_id: int
    committed_at: datetime
    parent_id: int | None
    manifest_list: str
    manifest_list_bytes: int
    manifests: tuple[ManifestFile, ...]
    sequence_number: int = 0
    by_changes: bool = False
    live_files: int = 0
    live_bytes: int = 0
    list_sha256: str = ""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file that a metadata file names directly: statistics, or a metadata file itself."""

    table_uuid: str
    path: str
    kind: FileKind
    bytes: int
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of a plan.

    Attributes:
        path: As Iceberg wrote it.
        kind: What it is.
        bytes: Its size.
        owner: UUID of the table under whose prefix it lies.
        due_at: From when it may be purged; None in an expiration plan.
    """

    path: str
    kind: FileKind
    bytes: int
    owner: str
    due_at: datetime | None = None


SWEPT = "sweep-"
"""How `Departure.plan_id` begins where no plan, but a sweep, let a file depart."""


class DepartureState(StrEnum):
    """Where a departed file is on its way out."""

    FAILSAFE = "failsafe"
    CANCELLED = "cancelled"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Departure:
    """A file that left every kept snapshot of every table, and until when it waits.

    `due_at` counts from the first recording after the commit and is never reset. A purge that finds
    another object than was recorded records once more, after that day, that the file waits.
    """

    path: str
    kind: FileKind
    bytes: int
    owner: str
    plan_id: str
    departed_at: datetime
    due_at: datetime
    state: DepartureState
    recorded_at: datetime

    @property
    def was_left(self) -> bool:
        """Whether a purge has left alone what lies there: it is not as it was recorded."""
        return self.state is DepartureState.FAILSAFE and self.recorded_at > self.due_at

    @property
    def is_on_its_way(self) -> bool:
        """Whether it waits for its day, or for the purge of that day."""
        return self.state is DepartureState.FAILSAFE and not self.was_left
