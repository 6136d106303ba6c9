"""Copies in the cold tier, in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_proofs import CopyProof
from tests.doubles.control.database import MemoryDatabase


@dataclass
class MemoryArchived:
    """The port `ArchivedLedger`."""

    database: MemoryDatabase
    rows: dict[tuple[str, int], ArchivedSnapshot] = field(default_factory=dict)

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        with self.database.reading():
            archived = [c for c in self.rows.values() if uuids is None or c.table_uuid in uuids]
        return sorted(archived, key=lambda c: (c.table_uuid, c.committed_at, c.snapshot_id))

    def save(self, copies: Sequence[ArchivedSnapshot]) -> None:
        with self.database.writing():
            self.rows.update({(c.table_uuid, c.snapshot_id): c for c in copies})

    def forget(self, uuid: str, snapshots: Collection[int]) -> None:
        with self.database.writing():
            for snapshot_id in snapshots:
                self.rows.pop((uuid, snapshot_id), None)


@dataclass
class MemoryCopies:
    """The port `CopyLedger`."""

    database: MemoryDatabase
    rows: dict[str, CopyProof] = field(default_factory=dict)

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        with self.database.reading():
            return {path: self.rows[path] for path in paths if path in self.rows}

    def save(self, proofs: Collection[CopyProof]) -> None:
        with self.database.writing():
            self.rows.update({proof.path: proof for proof in proofs})

    def forget(self, paths: Collection[str]) -> None:
        with self.database.writing():
            for path in paths:
                self.rows.pop(path, None)
