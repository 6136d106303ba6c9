"""Files and their references: kinds, manifests, entries, snapshots as the ledger stores them.

The readers of manifests create them, and the file ledger stores them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum


class FileKind(StrEnum):
    """The kind of a file, in the spec's terms."""

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
    """A manifest in a manifest list; counts are None if format 1 leaves them out."""

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
        """The number of its entries, as far as its list counts them."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Its ADDED, EXISTING and DELETED entries; 0 where its list has no count."""
        return self.added_files or 0, self.existing_files or 0, self.deleted_files or 0

    def contradiction(self, counts: Iterable[int]) -> str:
        """Returns how its list's counts differ from the entries read; empty if none differ.

        Args:
            counts: The ADDED, EXISTING and DELETED entries that were read.
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
    """One row of a manifest. A None is inherited from the manifest, or was never written.

    Attributes:
        part: The offset of a deletion vector in its file: one file may contain several.
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
    """The result of reading one manifest, once.

    Attributes:
        path: The manifest.
        added: Rows with status ADDED; likewise `existing` and `deleted`.
        owners: UUIDs of the tables that own the files it names, by prefix.
        error: Why it cannot be trusted; empty if it was read.
        bytes_added: For an incremental read, the bytes of the files it adds; `bytes_removed` of
            those it removes.
        ambiguity: Why its changes do not determine what its snapshot references, though it is
            valid: it needs a full read.
        places: The folders and stores of the files that it keeps, and which files are links
            (`places_in`).
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
        """Its ADDED, EXISTING and DELETED entries, as read."""
        return self.added, self.existing, self.deleted


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot in the file ledger: enough to determine later which files it referenced.

    Attributes:
        by_changes: Whether it was read incrementally, by the changes along its table's linear
            history (`lines`); else all its manifests were read.
        live_files: For an incremental read, the number of its live files; `live_bytes` is their
            size.
        list_sha256: The digest of its reachable set, as it was read (`ReachableSet`).
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
    """A file that a metadata file references directly: statistics, or a metadata file itself."""

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
        kind: Its kind.
        bytes: Its size.
        owner: UUID of the table that owns its prefix.
        due_at: When it may be purged; None in an expiration plan.
    """

    path: str
    kind: FileKind
    bytes: int
    owner: str
    due_at: datetime | None = None


SWEPT = "sweep-"
"""The prefix of `Departure.plan_id` if a sweep, and not a plan, recorded the departure."""


class DepartureState(StrEnum):
    """The state of a departure."""

    FAILSAFE = "failsafe"
    CANCELLED = "cancelled"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Departure:
    """A file that no retained snapshot of any table references, with its due time.

    `due_at` counts from the first recording after the commit and is never reset. If a purge finds
    another object than was recorded, it records again, after that day, that the file waits.
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
        """Whether a purge kept the object at its path, because it is not the recorded one."""
        return self.state is DepartureState.FAILSAFE and self.recorded_at > self.due_at

    @property
    def is_on_its_way(self) -> bool:
        """Whether it waits for its due time, or for the purge then."""
        return self.state is DepartureState.FAILSAFE and not self.was_left
