"""Protocols of decisions that hold until they are revoked, and of the epochs that they start.

`app/safety` and `app/catalog` use them; `adapters/sql_ledger` implements them. They are separate
from the audit log, because that log records events and no current state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from meltline.domain.epochs import Epoch
from meltline.domain.iceberg.names import TableName


@dataclass(frozen=True)
class VouchedFile:
    """An operator's statement that an unreadable table refers to no other table's files.

    It covers one metadata file with its current bytes, under one name. It does not cover another
    file under that name, or other bytes in that file, later.

    Attributes:
        table: The name.
        location: The metadata file, as the catalog had it.
        size: Its length in bytes; None if its bytes could not be read.
        sha256: The digest of its bytes, in hexadecimal; empty if they could not be read.
        who: The operator.
        reason: Why.
        at: When.
    """

    table: TableName
    location: str
    size: int | None
    sha256: str
    who: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class DisownedTime:
    """An operator's statement that a recorded time came from a wrong clock.

    Attributes:
        recorded: The newest time that the ledger had recorded; only this instant is covered.
        who: The operator.
        reason: Why.
        at: When, by a clock that nothing contradicts: the ledger's newest time from then on.
    """

    recorded: datetime
    who: str
    reason: str
    at: datetime


class GuardKind(StrEnum):
    """Events of a registration's guard: of its `gc.enabled`, or of its totals.

    `SET`: Meltline set it to false. `LIFTED`: it no longer shared files, nor was it cloned since.
    `OVERRIDDEN`: an operator decided that Meltline deletes in spite of the owner's setting.
    `TRUSTED`: an operator decided that its manifests are right and its totals are not.
    `DETACHED`: an operator detached it with a reason. Leaving it out is no failure.
    """

    SET = "set"
    LIFTED = "lifted"
    OVERRIDDEN = "overridden"
    TRUSTED = "trusted"
    DETACHED = "detached"


@dataclass(frozen=True)
class GuardRecord:
    """An event of a registration's guard.

    Attributes:
        table_uuid: The registration's id.
        kind: The event.
        who: Who caused it.
        reason: Why.
        at: When.
    """

    table_uuid: str
    kind: GuardKind
    who: str
    reason: str
    at: datetime


class GuardReader(Protocol):
    """Reads the events of registrations' guards."""

    def guards(self) -> Sequence[GuardRecord]:
        """Returns every valid record, by registration and kind."""
        ...


class VouchedReader(Protocol):
    """Reads operators' statements about unreadable tables."""

    def vouched(self) -> Sequence[VouchedFile]:
        """Returns every statement that was not revoked, by table."""
        ...


class Decisions(VouchedReader, GuardReader, Protocol):
    """Stores operators' statements, and the events of tables' guards."""

    def disowned_times(self) -> Sequence[DisownedTime]:
        """Returns every disowned time, oldest first."""
        ...

    def disown_time(self, word: DisownedTime) -> bool:
        """Stores a disowned time, resets `newest_time` to it, and frees locks with later times.

        Returns:
            False if the newest time is another one; then nothing was done.
        """
        ...

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        """Stores statements, all or none; a table's earlier statement is replaced."""
        ...

    def forget_vouched(self, table: TableName) -> bool:
        """Revokes a table's statement; False if there was none."""
        ...

    def save_guard(self, record: GuardRecord) -> None:
        """Stores a record; an earlier one of the same kind is replaced."""
        ...

    def forget_guard(self, table_uuid: str, kind: GuardKind) -> None:
        """Removes a record; a missing one is no error."""
        ...


class EpochReader(Protocol):
    """Reads epochs, recorded and confirmed; none is ever removed."""

    def since(self, number: int | None = None) -> Sequence[Epoch]:
        """Returns epochs by number.

        Args:
            number: The first one; None starts at the newest confirmed epoch.
        """
        ...


class EpochLedger(EpochReader, Protocol):
    """Records and confirms epochs."""

    def add(self, epoch: Epoch) -> None:
        """Records an epoch before the catalog is set to it."""
        ...

    def confirm(self, nonce: str) -> None:
        """Confirms that the catalog was set to an epoch."""
        ...

    def has(self, why: str) -> bool:
        """Returns whether an epoch that started for this reason was confirmed."""
        ...
