"""Protocols of the file ledger: manifest index, snapshots, plan items and departures.

`app` and the gates use them; `adapters/file_index` implements them on Iceberg tables. Small
transactional facts are in the control ledger (`ports/control`) instead.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    FileKind,
    ManifestFile,
    ManifestOutcome,
    PlannedFile,
    SideFile,
    SnapshotRecord,
)
from meltline.domain.iceberg.linear_history import IndexedHead, SnapshotDelta
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports.storage import UsageQuery, UsageTotals


@dataclass(frozen=True)
class IngestRequest:
    """Manifests of one table that the index has not read yet.

    Attributes:
        changes_of: The snapshot in the table's linear history that these manifests are read for:
            only its changes are kept. None keeps every entry.
        homes: Folders of the table that no other table owns a part of. Each ends with a slash and
            is spelled as Iceberg writes it. A file there is the table's own.
    """

    table_uuid: str
    manifests: tuple[ManifestFile, ...]
    homes: tuple[str, ...] = ()
    changes_of: SnapshotDelta | None = None


@dataclass(frozen=True, slots=True)
class DepartingFile:
    """A file that only candidate snapshots refer to, with the candidates' tables."""

    path: str
    kind: str
    bytes: int
    table_uuids: tuple[str, ...]


class SnapshotKey(NamedTuple):  # of millions of snapshots, in sets
    """A snapshot of a table."""

    table_uuid: str
    snapshot_id: int


@dataclass(frozen=True)
class Neighbourhood:
    """Limits the search for other references to the files of some snapshots.

    It narrows the search and proves nothing: the gate searches everywhere.

    Attributes:
        tables: Tables that may refer to files of the candidates' tables: their sharing groups.
        linear: Tables with one unbroken linear history and nothing shared. A file that was added
            to them before the first candidate file cannot be that file, nor become it again.
    """

    tables: frozenset[str]
    linear: frozenset[str] = frozenset()


class ManifestIndex(Protocol):
    """Stores the entries of manifests; each manifest is read once."""

    def counted(self, paths: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
        """Returns the counts of ADDED, EXISTING, DELETED entries of completely read manifests."""
        ...

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once, on executors, and appends the entries of readable ones.

        A manifest that is read for its changes adds only those. They become visible once their
        snapshot is recorded.
        """
        ...


class IndexedSnapshots(Protocol):
    """Reads which snapshots are indexed, and the manifests of each.

    A recorded snapshot is known until its manifest list is tombstoned.
    """

    def known(self) -> set[SnapshotKey]:
        """Returns all known snapshots."""
        ...

    def tips(self) -> Mapping[str, IndexedHead]:
        """Returns the indexed head of each table that is read incrementally, by table UUID."""
        ...

    def reachable_sets(self, keys: Collection[SnapshotKey]) -> Mapping[SnapshotKey, ReachableSet]:
        """Returns the reachable sets of known snapshots, as read from their manifest lists."""
        ...

    def places(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Returns where the known snapshots of some tables were read, as in `Snapshot.place`."""
        ...

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Returns live files and bytes of each snapshot from the index; unknown ones are absent."""
        ...

    def forgotten_manifests(
        self, records: Sequence[SnapshotRecord], read: Collection[str]
    ) -> set[str]:
        """Returns manifests of new snapshots that were read before and are unreferenced since.

        Args:
            records: Snapshots that are not recorded yet.
            read: Manifests that were read just now; never returned.
        """
        ...


class SnapshotIndex(IndexedSnapshots, Protocol):
    """Adds new snapshots to the index."""

    def record(self, records: Sequence[SnapshotRecord]) -> None:
        """Appends snapshots, with the manifests that each refers to."""
        ...


class FileReferences(Protocol):
    """Finds which snapshots refer to which files, by joining manifest entries and snapshots."""

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Returns files, manifests and manifest lists that only these snapshots refer to.

        Every other known snapshot of every table counts as kept; with `within`, only snapshots in
        those tables. Files in failsafe are left out.
        """
        ...

    def among(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Returns the paths that a known snapshot other than the dead ones refers to."""
        ...

    def unknown(self, paths: Sequence[str]) -> set[str]:
        """Returns the paths that neither the index nor the side files name."""
        ...

    def waiting_in(self, manifests: Sequence[str]) -> set[str]:
        """Returns files in failsafe that equal one of the manifests or are alive in one."""
        ...

    def places(self) -> set[str]:
        """Returns the locations of all indexed files, and the indexed files that are links.

        One job over the whole index, for a control ledger that does not know them yet.
        """
        ...


class SideFileIndex(Protocol):
    """Indexes metadata files and statistics."""

    def known(self) -> Sequence[SideFile]:
        """Returns the recorded side files that have not departed."""
        ...

    def record(self, files: Sequence[SideFile], seen_at: datetime) -> None:
        """Appends side files that were seen for the first time."""
        ...


class PlannedItems(Protocol):
    """Reads the files of plans."""

    def of(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """Returns the items of plans, each sorted by path; empty for a plan without items."""
        ...


class PlanItems(PlannedItems, Protocol):
    """Stores the files of plans."""

    def store(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans in one commit; a plan that already has items keeps those."""
        ...


class DepartedFiles(Protocol):
    """Reads files that no retained snapshot refers to, and their states."""

    def in_states(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """Returns the newest row of each departed path in one of the states, unless compacted."""
        ...

    def waiting_plans(self) -> set[str]:
        """Returns plans with files in failsafe, unless a purge has withheld the files."""
        ...

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Returns the paths that were deleted and moved to the history tables."""
        ...


class DepartureLog(DepartedFiles, Protocol):
    """Records state changes of departures."""

    def record(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit.

        A marker that is already recorded adds nothing, so a retry is safe.
        """
        ...


class LedgerUpkeep(Protocol):
    """Creates, compacts and rebuilds the ledger's own tables."""

    def prepare(self) -> Sequence[str]:
        """Creates the ledger's namespace and missing tables.

        Returns:
            The names of the tables that the catalog must have in that namespace from now on.

        Raises:
            SetupMissing: They could not be created.
        """
        ...

    def maintain(self) -> Sequence[str]:
        """Compacts and expires the ledger's own tables if it pays; returns a report."""
        ...

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Compacts the ledger: moves rows that no run reads again to history tables, if it pays.

        These are files deleted before that time, and lifetimes in linear histories that no
        snapshot can refer to again. `DepartureLog` no longer returns a compacted file. Its side
        file, or its snapshot if it is a manifest list, is no longer known. `LedgerReader` still
        returns everything.

        Args:
            before: UTC. Later deletions stay, because runs in progress may depend on them.
            unfinished: Plans that were begun and are not applied: their departures stay.

        Returns:
            A report; empty if it did not pay yet.
        """
        ...

    def rebuild(self, readable: Collection[str]) -> None:
        """Removes rows that these tables' metadata can restore; references of others stay."""
        ...


@dataclass(frozen=True)
class FileLedger:
    """The large facts, as Iceberg tables; all parts read the same rows.

    Every append has a marker; an append whose marker is recorded is skipped.
    """

    manifests: ManifestIndex
    snapshots: SnapshotIndex
    references: FileReferences
    side_files: SideFileIndex
    items: PlanItems
    departures: DepartureLog
    upkeep: LedgerUpkeep


@dataclass(frozen=True, slots=True)
class IndexedSnapshot:
    """A snapshot as the ledger knows it, with the ids of its manifests.

    Attributes:
        by_changes: Whether its files are those whose lifetimes in the table's linear history cover
            its sequence number (`IndexedSpan`). Otherwise its manifests hold all (`IndexedFile`).
    """

    key: SnapshotKey
    committed_at: datetime
    manifest_list: str
    manifest_list_bytes: int
    manifests: tuple[int, ...]
    sequence_number: int = 0
    by_changes: bool = False


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A live entry of the manifest index, or a manifest itself."""

    manifest_id: int
    path: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class IndexedSpan:
    """A file that was live in its table's linear history from one sequence number to another.

    `until` is exclusive, and None if no snapshot has removed the file.
    """

    table_uuid: str
    path: str
    kind: str
    bytes: int
    since: int
    until: int | None


class LedgerReader(Protocol):
    """Reads the file ledger's tables without a JVM. Every result is empty before `init`."""

    def registrations(self) -> set[str]:
        """Returns the ids of registrations with a recorded snapshot."""
        ...

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Returns every snapshot ever recorded."""
        ...

    def side_files(self) -> Sequence[SideFile]:
        """Returns every metadata file and statistics file ever recorded."""
        ...

    def departures(
        self, kinds: Collection[FileKind] | None = None, *paths: str
    ) -> Sequence[Departure]:
        """Returns the newest row of each departed path: all, or those of some kinds and paths."""
        ...

    def files(self, *paths: str) -> Iterator[IndexedFile]:
        """Yields every manifest and every live entry, or those at some paths."""
        ...

    def spans(self, *paths: str) -> Iterator[IndexedSpan]:
        """Yields every file of snapshots that are read incrementally, or those at some paths."""
        ...

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Returns bytes by owner and stage, of every file in manifests and every departed file.

        Millions of files cost some seconds and a few dozen bytes of memory each.

        Raises:
            SetupMissing: Some of the tables exist and some do not.
        """
        ...

    def items(self, *plan_ids: str) -> Mapping[str, Sequence[PlannedFile]]:
        """Returns the items of plans, each sorted by path; empty for a plan without items."""
        ...
