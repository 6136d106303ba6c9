"""Reading manifests, for the planner and apart from it for the gate; and a table's rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from meltline.domain.chunks.complete import CompleteRead
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports.file_ledger import SnapshotKey


class ManifestReader(Protocol):
    """Reads manifest lists and manifests for the planner."""

    def read_list(self, path: str, content: bytes) -> tuple[ManifestFile, ...]:
        """The manifests a manifest list names. Raises MetadataUnreadable."""
        ...

    def live_paths(self, manifest: ManifestFile, content: bytes) -> Sequence[str]:
        """The files a manifest keeps alive, its counts held against its list entry.

        Raises:
            MetadataUnreadable: It does not follow the spec, or is not what its list says.
        """
        ...


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
    """What manifest lists and manifests were seen to hold, from the files themselves.

    Attributes:
        manifests: The manifests of each snapshot, by path.
        live_files: Live entries per manifest, and `live_bytes` their size.
        sizes: The length in bytes of each manifest, and of each manifest list.
        hits: Wanted paths that a manifest keeps alive, by manifest; compared by the hashes of their
            locations, so a collision counts as a hit.
        lists: How the manifest lists are that were read from the files for this result.
        errors: Why a list or manifest could not be read, per table UUID.
        contradictions: How lists count other entries than manifests have, likewise.
        read: How many manifests were read from the files for this result; of the others it is known
            what an earlier reading found.
    """

    manifests: Mapping[SnapshotKey, tuple[str, ...]]
    live_files: Mapping[str, int]
    live_bytes: Mapping[str, int]
    sizes: Mapping[str, int]
    hits: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, tuple[str, ...]]
    read: int
    lists: Mapping[SnapshotKey, ReachableSet] = field(default_factory=dict)
    contradictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class ProofReader(Protocol):
    """Reads manifest lists and manifests afresh, sharing nothing with the index's reader."""

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        sought: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        """Looks for the wanted paths in everything the snapshots refer to.

        What was read from the files since then is not read again, if what was kept of it is sound:
        such files never change. None reads everything: a full proof.
        """
        ...

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> Mapping[str, int]:
        """Bytes of the distinct live files of each table's snapshots, read from the files."""
        ...


class ProofCache(ProofReader, Protocol):
    """Keeps what was read for earlier proofs."""

    def forget(self, before: datetime) -> str:
        """Drops what was read before then, where it pays: no gate asks for it any more.

        Returns:
            What was done; empty where nothing was.
        """
        ...


@dataclass(frozen=True)
class ReadColumn:
    """A column of an answer: its name, and its type in Spark SQL."""

    name: str
    type: str


@dataclass(frozen=True)
class ReadRows:
    """Rows as JSON values, in the order of the columns.

    Instants are text in UTC, bytes are Base64, numbers that JSON would round are text.
    """

    columns: tuple[ReadColumn, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class PastView:
    """A table as it was.

    Attributes:
        table: The table.
        snapshot_id: The snapshot that was current; None for no rows at all.
        schema_id: Under which of the table's schemas; None is the present one, by field id.
    """

    table: TableName
    snapshot_id: int | None = None
    schema_id: int | None = None


TableView = PastView | CompleteRead
"""What a name in a statement stands for: a table as it was, or all rows of hot and cold."""


class SnapshotReader(Protocol):
    """Reads the rows of a table as it was."""

    def read(self, view: PastView, limit: int | None) -> ReadRows:
        """The rows, at most so many; None is all.

        Raises:
            StatementRefused: The engine cannot read it.
        """
        ...


class SqlEngine(Protocol):
    """Carries out SQL."""

    def run(self, text: str, statement_id: str, views: Mapping[str, TableView]) -> object:
        """Carries out a statement; every snapshot it makes has the id in its summary.

        Args:
            text: The statement.
            statement_id: Its id.
            views: Names in the text, and what they stand for. They are nobody else's names, and
                are forgotten afterwards.

        Returns:
            The answer; its rows are computed when somebody fetches them.

        Raises:
            StatementRefused: It cannot be carried out.
        """
        ...

    def knows(self, name: Sequence[str]) -> bool:
        """Whether the session has a table or view of a name, its temporary ones too."""
        ...

    def fetch(self, frame: object, limit: int | None) -> ReadRows:
        """The rows of an answer. Raises StatementRefused where they cannot be computed."""
        ...


class SessionEngine(SqlEngine, Protocol):
    """The same in somebody's own session."""

    @property
    def standing(self) -> ObjectName:
        """Where the session stands: its current catalog, and the namespace in it."""
        ...

    def rows(self, view: TableView) -> object:
        """The rows of a view, computed when somebody fetches them.

        Raises:
            MeltlineError: The session cannot read it.
        """
        ...

    def frame(self, read: ReadRows) -> object:
        """Rows that are no answer of its own, as one."""
        ...
