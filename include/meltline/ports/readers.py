"""Protocols that read manifests, separately for planner and gate, and the rows of a table.

`app` calls them. Planner and gate have one protocol each, so that the gate's check does not share
a reader's error with the plan that it checks.
"""

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
        """Returns the manifests that a manifest list names. Raises MetadataUnreadable."""
        ...

    def live_paths(self, manifest: ManifestFile, content: bytes) -> Sequence[str]:
        """Returns a manifest's live files, after comparing its counts with its list entry.

        Raises:
            MetadataUnreadable: It does not follow the spec, or contradicts its list.
        """
        ...


@dataclass(frozen=True)
class ProofSnapshot:
    """A snapshot whose manifests a gate reads again."""

    table_uuid: str
    snapshot_id: int
    manifest_list: str
    inline_manifests: tuple[str, ...] = ()

    @property
    def key(self) -> SnapshotKey:
        """The snapshot's key in the file ledger."""
        return SnapshotKey(self.table_uuid, self.snapshot_id)


@dataclass(frozen=True)
class ProofResult:
    """The content of manifest lists and manifests, read from the files themselves.

    Attributes:
        manifests: The manifests of each snapshot, by path.
        live_files: Live entries per manifest, and `live_bytes` their size.
        sizes: The length in bytes of each manifest, and of each manifest list.
        hits: Sought paths that a manifest keeps alive, by manifest; compared by the hashes of their
            locations, so a collision counts as a hit.
        lists: The reachable sets of the manifest lists that were read for this result.
        errors: Why a list or manifest could not be read, per table UUID.
        contradictions: Where the counts of lists and manifests differ, likewise.
        read: How many manifests were read from the files for this result; the others' content is
            known from an earlier read.
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
    """Reads manifest lists and manifests for the gate; shares no code with the index's reader."""

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        sought: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        """Searches for paths in every file that the snapshots refer to.

        Files read since that time are not read again if their stored result is sound: such files
        never change. None reads everything: a full proof.
        """
        ...

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> Mapping[str, int]:
        """Returns bytes of the distinct live files of each table's snapshots, from the files."""
        ...


class ProofCache(ProofReader, Protocol):
    """Caches the results of earlier proofs."""

    def forget(self, before: datetime) -> str:
        """Drops results read before that time, if it pays: no gate uses them any more.

        Returns:
            A report; empty if nothing was done.
        """
        ...


@dataclass(frozen=True)
class ReadColumn:
    """A column of a result: its name, and its type in Spark SQL."""

    name: str
    type: str


@dataclass(frozen=True)
class ReadRows:
    """Rows as JSON values, in the order of the columns.

    Instants are text in UTC, bytes are Base64, and numbers that JSON would round are text.
    """

    columns: tuple[ReadColumn, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class PastView:
    """A table at an earlier snapshot.

    Attributes:
        table: The table.
        snapshot_id: The snapshot that was current; None for a table without rows.
        schema_id: The schema to read with; None is the current one, by field id.
    """

    table: TableName
    snapshot_id: int | None = None
    schema_id: int | None = None


TableView = PastView | CompleteRead
"""The meaning of a name in a statement: a table at a snapshot, or all rows of hot and cold."""


class SnapshotReader(Protocol):
    """Reads the rows of a table at an earlier snapshot."""

    def read(self, view: PastView, limit: int | None) -> ReadRows:
        """Returns at most `limit` rows; None is all.

        Raises:
            StatementRefused: The engine cannot read it.
        """
        ...


class SqlEngine(Protocol):
    """Runs SQL statements."""

    def run(self, text: str, statement_id: str, views: Mapping[str, TableView]) -> object:
        """Runs a statement; every snapshot that it commits has the id in its summary.

        Args:
            text: The statement.
            statement_id: Its id.
            views: Names in the text, and their meanings. No other statement uses these names, and
                they are removed afterwards.

        Returns:
            The result; its rows are computed when they are fetched.

        Raises:
            StatementRefused: It cannot be run.
        """
        ...

    def knows(self, name: Sequence[str]) -> bool:
        """Returns whether the session has a table or view with a name, even a temporary one."""
        ...

    def fetch(self, frame: object, limit: int | None) -> ReadRows:
        """Returns the rows of a result. Raises StatementRefused if they cannot be computed."""
        ...


class SessionEngine(SqlEngine, Protocol):
    """Runs SQL statements in a session that the caller owns."""

    @property
    def standing(self) -> ObjectName:
        """The session's current catalog, and its current namespace."""
        ...

    def rows(self, view: TableView) -> object:
        """Returns the rows of a view, computed when they are fetched.

        Raises:
            MeltlineError: The session cannot read it.
        """
        ...

    def frame(self, read: ReadRows) -> object:
        """Converts rows from elsewhere to a result of this engine."""
        ...
