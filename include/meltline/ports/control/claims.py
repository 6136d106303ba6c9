"""Protocols of purge claims and purge vetoes: files being deleted, and files to keep.

`app/purge` takes claims; undrop, recover, clone and rollback read them. `app/safety` and
`app/clone` add vetoes. Both are in the control ledger, because commands without a JVM cannot
write the file ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from meltline.domain.errors import MeltlineError
from meltline.ports.control.locks import Lock


@dataclass(frozen=True)
class Claim:
    """A purge batch, and the lock under which it is deleted.

    Attributes:
        paths: Files to delete; paths that a dead holder claimed stay claimed too.
    """

    plan_id: str
    number: int
    lock: Lock
    paths: Sequence[str] = ()


class ClaimReader(Protocol):
    """Reads which files are being purged."""

    def paths(self) -> Mapping[str, str]:
        """Returns the paths of claimed, unfinished batches, and the plan that claimed each."""
        ...


class ClaimLedger(ClaimReader, Protocol):
    """Claims purge batches. Undrop, recover, clone and rollback read the claims and refuse."""

    def take(self, claims: Sequence[Claim]) -> Sequence[bool | MeltlineError]:
        """`due → purging`, each batch once, in one transaction; False for a finished batch.

        Paths that a dead holder claimed stay claimed until the batch is finished or dropped,
        because its last deletes may still be in progress.

        The error of a claim is LockLost if its lock was taken over or has expired, and LockHeld if
        another live lock holds the batch.
        """
        ...

    def finish(self, claims: Sequence[Claim]) -> Sequence[MeltlineError | None]:
        """`purging → done`; finishing a finished batch changes nothing.

        The error is LockLost if the lock has expired, or the batch is not claimed under it.
        """
        ...

    def drop(self, claims: Sequence[Claim]) -> None:
        """`purging → due`: no deletes of the batches are in progress any more.

        A claim that a later lock took over is left to its holder.
        """
        ...


@dataclass(frozen=True)
class PurgeVeto:
    """A request to keep a snapshot's files: no purge may take them.

    Commands without a JVM cannot write the file ledger, so they store a veto. Planning a purge,
    its gate and its recheck respect it, and the next step turns it into cancelled departures.

    Attributes:
        id: The veto's id.
        table_uuid: The snapshot's table.
        manifest_list: The snapshot's manifest list; empty if a snapshot of format 1 has
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
    """Reads vetoes: snapshots whose departures are not cancelled yet."""

    def all(self) -> Sequence[PurgeVeto]: ...


class VetoLedger(VetoReader, Protocol):
    """Adds vetoes, and removes those that are applied."""

    def add(self, veto: PurgeVeto) -> None:
        """Stores a veto for a snapshot; the same id again replaces it."""
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Removes vetoes whose departures are cancelled."""
        ...
