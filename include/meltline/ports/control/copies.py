"""Copies in the cold tier, as the ledger remembers them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.archive.cold_proofs import CopyProof


class ArchivedReader(Protocol):
    """Snapshots with a verified copy in cold."""

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        """By table, commit time and id.

        Args:
            uuids: Of these hot tables; None is all.
        """
        ...


class ArchivedLedger(ArchivedReader, Protocol):
    """Remembers such snapshots."""

    def save(self, copies: Sequence[ArchivedSnapshot]) -> None:
        """Stores what is known of copies; what was known of the same ones is replaced."""
        ...

    def forget(self, uuid: str, snapshots: Collection[int]) -> None:
        """Forgets copies of one table that cold has no more; unknown ones are no error."""
        ...


class CopyProofReader(Protocol):
    """Single files in cold."""

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """What is known of files, by their path in cold; unknown ones are left out."""
        ...


class CopyLedger(CopyProofReader, Protocol):
    """Remembers such files."""

    def save(self, proofs: Collection[CopyProof]) -> None:
        """Stores what is known of files; what was known of the same is replaced."""
        ...

    def forget(self, paths: Collection[str]) -> None:
        """Forgets files that cold has no more; unknown ones are no error."""
        ...
