"""What was decided and holds until it is taken back, and the epochs that it raised.

State, which no audit keeps.
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
    """A person's word that a table nobody can read refers to no other table's files.

    It covers one metadata file as it was, under one name: nothing that comes to stand under that
    name, or in that file, later.

    Attributes:
        table: The name.
        location: The metadata file, as the catalog had it.
        size: Its length in bytes; None where its bytes could not be had.
        sha256: Of its bytes, in hexadecimal; empty where they could not be had.
        who: Who gave the word.
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
    """A person's word that a time which the ledger recorded was that of a wrong clock.

    Attributes:
        recorded: The newest time that the ledger had recorded; the word covers this instant alone.
        who: Who gave the word.
        reason: Why.
        at: When, by a clock that nothing contradicts: the ledger's newest time from then on.
    """

    recorded: datetime
    who: str
    reason: str
    at: datetime


class GuardKind(StrEnum):
    """What is recorded of a guard of a registration: of its `gc.enabled`, or of its totals.

    `SET`: Meltline set it to false. `LIFTED`: it shared no file any more, and was not cloned since.
    `OVERRIDDEN`: a person decided that Meltline deletes in spite of the owner's setting.
    `TRUSTED`: a person decided that its manifests are right and its totals are not.
    `DETACHED`: a person detached it with a reason. It is no failure that it is left out.
    """

    SET = "set"
    LIFTED = "lifted"
    OVERRIDDEN = "overridden"
    TRUSTED = "trusted"
    DETACHED = "detached"


@dataclass(frozen=True)
class GuardRecord:
    """That something happened to a guard of a registration.

    Attributes:
        table_uuid: The registration's id.
        kind: What.
        who: Who did it.
        reason: Why.
        at: When.
    """

    table_uuid: str
    kind: GuardKind
    who: str
    reason: str
    at: datetime


class GuardReader(Protocol):
    """What happened to the guards of registrations."""

    def guards(self) -> Sequence[GuardRecord]:
        """Every record that holds, by registration and kind."""
        ...


class VouchedReader(Protocol):
    """People's words for tables that nobody can read."""

    def vouched(self) -> Sequence[VouchedFile]:
        """Every word that was given and not taken back, by table."""
        ...


class Decisions(VouchedReader, GuardReader, Protocol):
    """Words of people, and what happened to the guards of tables."""

    def disowned_times(self) -> Sequence[DisownedTime]:
        """Every such word, the oldest first."""
        ...

    def disown_time(self, word: DisownedTime) -> bool:
        """Stores a word, has `newest_time` go back to it, and frees locks that are of no time yet.

        Returns:
            False where the newest time is another one; then nothing was done.
        """
        ...

    def save_vouched(self, files: Sequence[VouchedFile]) -> None:
        """Stores words, all or none; a table's earlier word is replaced."""
        ...

    def forget_vouched(self, table: TableName) -> bool:
        """Takes a table's word back; False where there was none."""
        ...

    def save_guard(self, record: GuardRecord) -> None:
        """Stores a record; an earlier one of the same kind is replaced."""
        ...

    def forget_guard(self, table_uuid: str, kind: GuardKind) -> None:
        """Takes a record away; one that is not there is no error."""
        ...


class EpochReader(Protocol):
    """Epochs that were noted, and those that were confirmed; none is ever forgotten."""

    def since(self, number: int | None = None) -> Sequence[Epoch]:
        """Epochs by number.

        Args:
            number: From this one on; None is from the newest that was confirmed.
        """
        ...


class EpochLedger(EpochReader, Protocol):
    """Notes and confirms epochs."""

    def add(self, epoch: Epoch) -> None:
        """Notes an epoch to which the catalog is about to be set."""
        ...

    def confirm(self, nonce: str) -> None:
        """The catalog was set to it."""
        ...

    def has(self, why: str) -> bool:
        """Whether one that began with this was confirmed."""
        ...
