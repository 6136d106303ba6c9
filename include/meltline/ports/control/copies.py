"""Protocols of the ledger's records of the cold tier: archived snapshots and copied files.

The archive and its gate use them; `adapters/sql_ledger` implements them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_proofs import CopyProof


class ArchivedReader(Protocol):
    """Reads which snapshots have a verified copy in cold."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        """Returns archived snapshots by table, commit time and id.

        Args:
            uuids: Hot tables; None is all.
        """
        ...


class ArchivedLedger(ArchivedReader, Protocol):
    """Stores archived snapshots."""

    def save(self, copies: Sequence[ArchivedSnapshot]) -> None:
        """Stores records of copies; an earlier record of the same copy is replaced."""
        ...

    def forget(self, uuid: str, snapshots: Collection[int]) -> None:
        """Removes records of a table's copies that left cold; unknown ones are no error."""
        ...


class CopyProofReader(Protocol):
    """Reads copy proofs of single files in cold."""

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """Returns copy proofs by path in cold; files without one are left out."""
        ...


class CopyLedger(CopyProofReader, Protocol):
    """Stores copy proofs of single files."""

    def save(self, proofs: Collection[CopyProof]) -> None:
        """Stores proofs; a file's earlier proof is replaced."""
        ...

    def forget(self, paths: Collection[str]) -> None:
        """Removes proofs of files that cold no longer has; unknown ones are no error."""
        ...
