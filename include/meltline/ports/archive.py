"""The archive: copies snapshots, with everything they need, to the cold tier."""

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
    """A snapshot that is to be in cold."""

    snapshot: Snapshot
    validity: Validity


@dataclass(frozen=True)
class HandoffRequest:
    """What is to be handed over of one table.

    Attributes:
        hot: The table as its hot catalog has it; every chosen snapshot is still in it.
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
    """What came of one snapshot.

    Attributes:
        cold_location: The cold metadata file that has it; empty where it could not be handed over.
        error: Why it stays hot; empty where its copy is verified and registered.
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
    """A file of hot that no snapshot has any more, and of which cold may hold a copy."""

    path: str
    bytes: int
    kind: FileKind


@dataclass(frozen=True, slots=True)
class Mended:
    """What came of one copy.

    Attributes:
        path: Of the original.
        is_new: Whether it was copied anew: what was in its place was lost or damaged.
        error: Why nobody knows the copy for whole; empty where it is.
    """

    path: str
    is_new: bool = False
    error: str = ""


class Archive(Protocol):
    """Writes the cold tier. It only ever adds (AR-33, I-8)."""

    def mend(
        self, originals: Sequence[Original], may_go_on: Callable[[], bool]
    ) -> Iterator[Mended]:
        """Has cold hold the copies of files that snapshots in cold refer to, whole and recorded.

        A copy that is not recorded is read whole and held against its original; one that is lost,
        or not what was recorded, is made anew from it.

        Yields:
            What came of each, in any order; those not begun after a no are not yielded.
        """
        ...

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        """Copies what cold lacks, verifies it, and registers the snapshots; safe to repeat.

        Each data file is copied once and each manifest rewritten once, however many snapshots
        share it. A snapshot is registered, with its original id, sequence number, time, schema,
        partition spec, first row id and summary, only when everything it refers to is there and
        agrees with the original. What was done before a kill is found and not done again.

        Args:
            requests: What to hand over, of any number of tables.
            may_go_on: Asked before each batch; after a no nothing new is begun.

        Yields:
            The hot table's name and what came of one of its snapshots, as it is done. One that
            cannot be handed over does not stop the others; those not begun are not yielded.
        """
        ...


class CopyCache(Protocol):
    """What is known of single files in cold."""

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """By their path there; unknown ones are left out."""
        ...

    def save(self, proofs: Collection[CopyProof]) -> None:
        """Stores it; what was known of the same files is replaced."""
        ...


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """A manifest as a manifest list names it.

    Attributes:
        bytes: Its length, as the list says.
        added_by: The snapshot that wrote it; None where the list does not say.
    """

    path: str
    bytes: int
    added_by: int | None


@dataclass(frozen=True, slots=True)
class ManifestPair:
    """A manifest in hot and what should be its copy in cold."""

    hot: ListedCopy
    cold: ListedCopy


@dataclass(frozen=True)
class CopiedManifest:
    """What a manifest of cold keeps alive.

    Attributes:
        files: Data and delete files; `bytes` their sizes.
        rows: Rows of the data files.
        shown: The files, as their store shows them; those that are missing or cut left out.
        absent: Those that are missing or of another length, with what they are.
        problems: Why it cannot be read, or what of it is not where or what it should be: a few.
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
    """A snapshot whose rows are to be read on both sides."""

    hot: TableName
    cold: TableName
    snapshot_id: int


class CopyReader(Protocol):
    """The gate's own reading of copies; it shares nothing with what wrote them.

    Whatever cannot be read is told in the answer, never passed over.
    """

    def lists(
        self, manifest_lists: Sequence[str], *, of_copies: bool
    ) -> Mapping[str, tuple[ListedCopy, ...] | str]:
        """The manifests of each list, in cold or in hot, or why it cannot be read."""
        ...

    def differences(self, pairs: Sequence[ManifestPair], warehouse: str) -> Sequence[str]:
        """What of the copies is not what the originals have.

        A copy has the same live files, in the same order: each at its mirrored path below
        `warehouse`, of the same kind, with the same rows, data files with the same bytes.
        """
        ...

    def alive(
        self, manifests: Sequence[ListedCopy], paths: Sequence[str], *, of_copies: bool
    ) -> set[str]:
        """Those of the paths that manifests keep alive; all where one cannot be read."""
        ...

    def audit(self, manifests: Sequence[ListedCopy], warehouse: str) -> Sequence[CopiedManifest]:
        """Opens manifests of cold and looks for each file that they keep alive in the store."""
        ...

    def unequal(self, paths: Sequence[str], warehouse: str) -> Sequence[str]:
        """Which of some files of hot have a copy with other bytes, or one that cannot be read.

        A file that hot has not any more is passed over: a purge that was begun has deleted it.
        """
        ...


class RowComparer(Protocol):
    """Reads rows of snapshots on both sides."""

    def differing(self, samples: Sequence[RowSample]) -> Sequence[str]:
        """What differs, or cannot be read, of a part of each snapshot; empty where all agree."""
        ...

    def count(self, table: TableName, snapshot_id: int) -> int | str:
        """Reads every row of a snapshot: how many there are, or why they cannot be read."""
        ...
