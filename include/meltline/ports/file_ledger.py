"""The file ledger: the manifest index, snapshots, plan items, departures; and reading it."""

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
    """Manifests of one table that no ledger row covers yet.

    Attributes:
        changes_of: The snapshot on the table's line that these manifests are read for: only what
            it changed is kept. None keeps every entry.
        homes: Folders of the table, each with a slash at its end and as Iceberg writes it, under
            which no other table owns anything: a file there is the table's own.
    """

    table_uuid: str
    manifests: tuple[ManifestFile, ...]
    homes: tuple[str, ...] = ()
    changes_of: SnapshotDelta | None = None


@dataclass(frozen=True, slots=True)
class DepartingFile:
    """A file that only candidate snapshots refer to, with the tables whose candidates they are."""

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
    """Where to look for what else refers to the files of some snapshots.

    It narrows the search, it proves nothing: the gate looks everywhere.

    Attributes:
        tables: Tables that may refer to files of the candidates' tables: their groups.
        linear: Those with one unbroken line of history and nothing shared. What was added to them
            before the first candidate file cannot be that file, nor come back as it.
    """

    tables: frozenset[str]
    linear: frozenset[str] = frozenset()


class ManifestIndex(Protocol):
    """What manifests hold, each read once."""

    def counted(self, paths: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
        """Those of the manifests that were read wholly: their ADDED, EXISTING, DELETED entries."""
        ...

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        """Reads each manifest once, on executors, and appends the entries of those it can read.

        Of a manifest that is read for its changes only those are appended. They count once their
        snapshot is recorded.
        """
        ...


class IndexedSnapshots(Protocol):
    """Which snapshots there are, and the manifests of each.

    Known is every snapshot ever recorded, whose manifest list has not departed.
    """

    def known(self) -> set[SnapshotKey]:
        """All known snapshots."""
        ...

    def tips(self) -> Mapping[str, IndexedHead]:
        """The newest snapshot of each table that is known by its changes, by the table's UUID."""
        ...

    def reachable_sets(self, keys: Collection[SnapshotKey]) -> Mapping[SnapshotKey, ReachableSet]:
        """How the manifest lists of known snapshots were when they were read."""
        ...

    def places(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Where the known snapshots of some tables were read, as `Snapshot.place` says it."""
        ...

    def live_totals(self, heads: Sequence[SnapshotKey]) -> Mapping[SnapshotKey, tuple[int, int]]:
        """Live files and their bytes of each snapshot, by the index; unknown ones are absent."""
        ...

    def forgotten_manifests(
        self, records: Sequence[SnapshotRecord], read: Collection[str]
    ) -> set[str]:
        """Manifests of new snapshots that were read long ago and no known snapshot refers to now.

        Args:
            records: Snapshots that are not recorded yet.
            read: Manifests that were read just now: never among the answers.
        """
        ...


class SnapshotIndex(IndexedSnapshots, Protocol):
    """Takes in new snapshots."""

    def record(self, records: Sequence[SnapshotRecord]) -> None:
        """Appends snapshots, with the manifests that each refers to."""
        ...


class FileReferences(Protocol):
    """Who refers to which files: what manifests hold and snapshots name, put together."""

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Files, manifests and manifest lists that only these snapshots refer to.

        Every other known snapshot of every table counts as kept, or of the tables `within`. Files
        in failsafe are left out.
        """
        ...

    def among(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Those of the paths that any known snapshot but the dead ones refers to."""
        ...

    def unknown(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that no row of the index or of the side files names."""
        ...

    def waiting_in(self, manifests: Sequence[str]) -> set[str]:
        """Files in failsafe that are one of these manifests, or alive in one of them."""
        ...

    def places(self) -> set[str]:
        """Where all files lie that the index knows, and those of them that are links.

        One job over all of the index, for a control ledger that does not know them yet.
        """
        ...


class SideFileIndex(Protocol):
    """Metadata files and statistics."""

    def known(self) -> Sequence[SideFile]:
        """Those ever seen that have not departed."""
        ...

    def record(self, files: Sequence[SideFile], seen_at: datetime) -> None:
        """Appends some that were seen for the first time."""
        ...


class PlannedItems(Protocol):
    """The files that plans are about."""

    def of(self, plan_ids: Sequence[str]) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path; a plan without any has an empty list."""
        ...


class PlanItems(PlannedItems, Protocol):
    """Stores them."""

    def store(self, plans: Mapping[str, Sequence[PlannedFile]]) -> None:
        """Stores the items of plans, in one commit; a plan that has some already keeps those."""
        ...


class DepartedFiles(Protocol):
    """Files that have left every kept snapshot, and what became of them."""

    def in_states(
        self,
        states: frozenset[DepartureState],
        *,
        due_by: datetime | None = None,
        paths: Sequence[str] | None = None,
    ) -> Sequence[Departure]:
        """The newest row of each departed path that is not settled, in one of the states."""
        ...

    def waiting_plans(self) -> set[str]:
        """Plans of which files are on their way: they wait, and no purge has left them alone."""
        ...

    def settled(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that were deleted and set aside."""
        ...


class DepartureLog(DepartedFiles, Protocol):
    """Records what becomes of them."""

    def record(self, departures: Mapping[str, Sequence[Departure]]) -> None:
        """Appends states of departures, by marker, in one commit.

        A marker whose rows are there already adds nothing: recording twice is recording once.
        """
        ...


class LedgerUpkeep(Protocol):
    """The ledger's own tables: made, kept small, forgotten."""

    def prepare(self) -> Sequence[str]:
        """Creates the ledger's namespace and tables where they are missing.

        Returns:
            The names of the tables that the catalog must have in that namespace from now on.

        Raises:
            SetupMissing: They could not be made.
        """
        ...

    def maintain(self) -> Sequence[str]:
        """Compacts and expires the ledger's own tables where it pays; says what was done."""
        ...

    def settle(self, before: datetime, unfinished: Collection[str]) -> str:
        """Sets aside what no run needs to read again, once it pays.

        That is what was deleted before then, and of lines what no snapshot can refer to again.
        Of a deleted file `DepartureLog` tells nothing any more, and its snapshot, if it is a
        manifest list, and its side file are not asked of again. `LedgerReader` tells of all as
        before.

        Args:
            before: UTC; later deletions stay, for runs may be under way that go by them.
            unfinished: Plans that were begun and are not applied: what departed by them stays.

        Returns:
            What was done; empty when it did not pay yet.
        """
        ...

    def rebuild(self, readable: Collection[str]) -> None:
        """Forgets what these tables' metadata can tell again; what others refer to stays known."""
        ...


@dataclass(frozen=True)
class FileLedger:
    """The big facts, as Iceberg tables, in parts that all see the same rows.

    Every append carries a marker; an append whose marker is already there is not made again.
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
        by_changes: Its files are those whose spans on its table's line reach over its sequence
            number (`IndexedSpan`); else all that its manifests hold (`IndexedFile`).
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
    """A file that was alive on its table's line from one sequence number until before another.

    `until` is None where no snapshot has removed it.
    """

    table_uuid: str
    path: str
    kind: str
    bytes: int
    since: int
    until: int | None


class LedgerReader(Protocol):
    """Reads the file ledger's tables without a JVM. Everything is empty before `init`."""

    def registrations(self) -> set[str]:
        """The ids of registrations of which a snapshot was ever recorded."""
        ...

    def snapshots(self) -> Sequence[IndexedSnapshot]:
        """Every snapshot ever recorded."""
        ...

    def side_files(self) -> Sequence[SideFile]:
        """Every metadata file and statistics file ever recorded."""
        ...

    def departures(
        self, kinds: Collection[FileKind] | None = None, *paths: str
    ) -> Sequence[Departure]:
        """The newest row of each departed path: of all, or of some kinds and of some paths."""
        ...

    def files(self, *paths: str) -> Iterator[IndexedFile]:
        """Every manifest and every live entry, or those that are one of some paths."""
        ...

    def spans(self, *paths: str) -> Iterator[IndexedSpan]:
        """Every file that snapshots known by their changes refer to, or those at some paths."""
        ...

    def weigh(self, weighing: UsageQuery) -> UsageTotals:
        """Bytes by owner and stage, of everything that manifests hold and that has departed.

        Millions of files cost some seconds and a few dozen bytes of memory each.

        Raises:
            SetupMissing: Some of the tables are there and some are not.
        """
        ...

    def items(self, *plan_ids: str) -> Mapping[str, Sequence[PlannedFile]]:
        """The items of plans, each sorted by path; a plan without any has an empty list."""
        ...
