"""What is being purged right now, and what may not be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.errors import MeltlineError
from meltline.ports.control.locks import Lock


@dataclass(frozen=True)
class Claim:
    """A purge batch that is to be deleted under a lock.

    Attributes:
        paths: What will be deleted; those that a dead holder claimed stay claimed besides.
    """

    plan_id: str
    number: int
    lock: Lock
    paths: Sequence[str] = ()


class ClaimReader(Protocol):
    """Which files are being purged."""

    def paths(self) -> Mapping[str, str]:
        """Paths in claimed, unfinished batches, and the plan that claimed each."""
        ...


class ClaimLedger(ClaimReader, Protocol):
    """Purge batches. Undrop, recover, clone and rollback read the claims and refuse."""

    def take(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        """`due → purging`, each batch once, in one transaction; False for one that is done already.

        Paths that a dead holder had claimed stay claimed until the batch is finished or dropped:
        its last deletes may still be under way.

        The error of a claim is LockLost where its lock has been taken over or has ended, and
        LockHeld where another lock, still alive, holds the batch.
        """
        ...

    def finish(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        """`purging → done`; finishing a batch that is done changes nothing.

        The error is LockLost where the lock has ended, or the batch is not claimed under it.
        """
        ...

    def drop(self, claims: Sequence[Claim]) -> None:
        """`purging → due`: nothing of these batches is being deleted any more.

        A claim that a later lock has taken over is left to its holder.
        """
        ...


@dataclass(frozen=True)
class PurgeVeto:
    """A snapshot whose files somebody wants: none of them may be purged.

    Commands without a JVM cannot write the file ledger. They leave this word, which planning a
    purge, its gate and its last proof obey, and which the next step turns into cancelled
    departures.

    Attributes:
        id: Names it.
        table_uuid: The table whose snapshot it is.
        manifest_list: Where the snapshot's files are named; empty where format 1 lists
            `inline_manifests`.
        reason: The command, for the audit.
    """

    id: str
    table_uuid: str
    snapshot_id: int
    manifest_list: str
    inline_manifests: tuple[str, ...]
    who: str
    reason: str
    at: datetime


class VetoReader(Protocol):
    """Vetoes against a purge: snapshots whose departures are not cancelled yet."""

    def all(self) -> Sequence[PurgeVeto]: ...


class VetoLedger(VetoReader, Protocol):
    """Adds vetoes, and forgets those that are done."""

    def add(self, veto: PurgeVeto) -> None:
        """Stores a word for a snapshot; the same id again replaces it."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Forgets them: their departures are cancelled."""
        ...
