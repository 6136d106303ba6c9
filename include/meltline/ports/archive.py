"""Protocols of the archive: copying snapshots to cold, and checking the copies.

`app/archive`, the gates and the prune use them; `adapters/archive` implements them. The gate's
readers are separate protocols, because a check must not trust the code that wrote the copies.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from meltline.domain.archive.archive import Validity
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports.stores import StoredObject


@dataclass(frozen=True)
class ChosenSnapshot:
    """A snapshot that the policy chose for cold."""

    snapshot: Snapshot
    validity: Validity


@dataclass(frozen=True)
class HandoffRequest:
    """One table's snapshots that a run archives.

    Attributes:
        hot: The table's metadata in its hot catalog; every chosen snapshot is still in it.
        cold: Its name in the cold catalog.
        snapshots: The chosen ones, in the order of their commits.
        marks: The properties that mark the cold table as this installation's.
    """

    hot: TableMetadata
    cold: TableName
    snapshots: tuple[ChosenSnapshot, ...]
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HandedOver:
    """The result of archiving one snapshot.

    Attributes:
        cold_location: The cold metadata file that has the snapshot; empty if archiving failed.
        error: Why it stays hot; empty if its copy is verified and registered.
    """

    snapshot_id: int
    files: int = 0
    bytes: int = 0
    rows: int = 0
    files_copied: int = 0
    bytes_copied: int = 0
    cold_location: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Original:
    """A file of hot that no snapshot has any more, and that cold may hold a copy of."""

    path: str
    bytes: int
    kind: FileKind


@dataclass(frozen=True, slots=True)
class Mended:
    """The result of repairing one copy.

    Attributes:
        path: The original's.
        is_new: Whether it was copied again, because the copy was lost or damaged.
        error: Why the copy is not proved complete; empty if it is.
    """

    path: str
    is_new: bool = False
    error: str = ""


class Archive(Protocol):
    """Writes the cold tier. It only ever adds (AR-33, I-8)."""

    def mend(
        self, originals: Sequence[Original], may_go_on: Callable[[], bool]
    ) -> Iterator[Mended]:
        """Verifies and records the copies of files that snapshots in cold refer to.

        A copy that is not recorded is read completely and compared with its original. A copy that
        is lost, or differs from its record, is written again from the original.

        Args:
            originals: The files of hot.
            may_go_on: Asked before each batch; once it returns False, no new batch is begun.

        Yields:
            One result per file, in any order; files that were not begun yield none.
        """
        ...

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        """Copies what cold lacks, verifies it, and registers the snapshots; safe to repeat.

        Each data file is copied once and each manifest rewritten once, however many snapshots
        share it. A snapshot is registered only when every file it refers to exists in cold and
        agrees with the original. It keeps its id, sequence number, time, schema, partition spec,
        first row id and summary. A retry after a kill finds finished work and skips it.

        Args:
            requests: The snapshots to archive, of any number of tables.
            may_go_on: Asked before each batch; once it returns False, no new batch is begun.

        Yields:
            The hot table's name and the result for one of its snapshots, as soon as it is known.
            A failed snapshot does not stop the others; snapshots not begun yield nothing.
        """
        ...


class CopyCache(Protocol):
    """Stored copy proofs: the digests of single files in cold."""

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """Returns the proofs by path in cold; files without a proof are left out."""
        ...

    def save(self, proofs: Collection[CopyProof]) -> None:
        """Stores proofs; a file's earlier proof is replaced."""
        ...


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """A manifest as its manifest list describes it.

    Attributes:
        bytes: Its length, according to the list.
        added_by: The snapshot that wrote it; None if the list does not record it.
    """

    path: str
    bytes: int
    added_by: int | None


@dataclass(frozen=True, slots=True)
class ManifestPair:
    """A manifest in hot and its expected copy in cold."""

    hot: ListedCopy
    cold: ListedCopy


@dataclass(frozen=True)
class CopiedManifest:
    """The files that a manifest of cold keeps alive, checked in the store.

    Attributes:
        files: Data and delete files; `bytes` their sizes.
        rows: Rows of the data files.
        shown: The files as their store lists them, without those that are missing or truncated.
        absent: The missing files, and those of another length, with their kinds.
        problems: Why it cannot be read, or which files are wrong: a few examples.
    """

    path: str
    files: int = 0
    bytes: int = 0
    rows: int = 0
    shown: tuple[StoredObject, ...] = ()
    absent: tuple[tuple[str, FileKind], ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowSample:
    """A snapshot whose rows the gate reads in hot and in cold."""

    hot: TableName
    cold: TableName
    snapshot_id: int


class CopyReader(Protocol):
    """Reads copies for the gate; shares no code with the writer of the copies.

    An unreadable file is reported in the result, never skipped.
    """

    def lists(
        self, manifest_lists: Sequence[str], *, of_copies: bool
    ) -> Mapping[str, tuple[ListedCopy, ...] | str]:
        """Returns the manifests of each list, in cold or in hot, or why it cannot be read."""
        ...

    def differences(self, pairs: Sequence[ManifestPair], warehouse: str) -> Sequence[str]:
        """Describes each difference between copies and originals.

        A copy has the same live files, in the same order: each at its mirrored path below
        `warehouse`, of the same kind, with the same rows, data files with the same bytes.
        """
        ...

    def alive(
        self, manifests: Sequence[ListedCopy], paths: Sequence[str], *, of_copies: bool
    ) -> set[str]:
        """Returns the paths that manifests keep alive; all of them if a manifest is unreadable."""
        ...

    def audit(self, manifests: Sequence[ListedCopy], warehouse: str) -> Sequence[CopiedManifest]:
        """Reads manifests of cold and checks that every file they keep alive is in the store."""
        ...

    def unequal(self, paths: Sequence[str], warehouse: str) -> Sequence[str]:
        """Returns the files of hot whose copy has other bytes or cannot be read.

        A file that is no longer in hot is skipped: a purge in progress has deleted it.
        """
        ...


class RowComparer(Protocol):
    """Compares rows of snapshots in hot and cold."""

    def differing(self, samples: Sequence[RowSample]) -> Sequence[str]:
        """Describes what differs or is unreadable in a sample of each snapshot; empty if equal."""
        ...

    def count(self, table: TableName, snapshot_id: int) -> int | str:
        """Reads every row of a snapshot and returns their number, or why they are unreadable."""
        ...
