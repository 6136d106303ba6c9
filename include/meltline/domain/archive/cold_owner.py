"""Marks of installations: record which installation writes a table in cold.

A copied lake has the same table UUIDs as its original. So a UUID does not show whose rows or
history a table in cold contains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meltline.domain.epochs import ADOPTED, ID_LENGTH, Epoch, EpochNote
from meltline.domain.errors import LedgerOutOfStep
from meltline.domain.safe_text import quote

INSTALLATION = "meltline.installation"
"""Property of a table in cold: the id of the installation that writes it, and its epoch then."""


@dataclass(frozen=True)
class ColdMark:
    """The installation recorded in a table in cold.

    Attributes:
        stated: The id of the installation and its newest epoch; empty if the table has no mark.
    """

    stated: str

    @property
    def id(self) -> str:
        """The id of the installation; `unknown` for a table without a mark."""
        return self.stated.split(" ", maxsplit=1)[0] or "unknown"

    @property
    def note(self) -> EpochNote:
        """The installation's newest epoch when the table was last written."""
        return EpochNote(self.stated.partition(" ")[2])

    def refusal(self, table: str, own: "ColdMark") -> LedgerOutOfStep:
        """Builds the error for the mark of another installation, or of a copy of this one."""
        is_copy = bool(self.stated) and self.id == own.id
        activity = self.note.activity if self.stated else "the table has no mark"
        return LedgerOutOfStep(
            f"{table} in cold belongs to {'a copy of this' if is_copy else 'another'} installation",
            object=table,
            expected=f"installation {own.id} at an epoch of this ledger, as {own.note.id}",
            found=f"installation {self.id} at epoch {self.note.id}: {activity}",
            next="give a copy of a lake a cold catalog of its own, or a synced table a name of its "
            "own: `meltline chunks sync TABLE --to NAME`. Only if the other installation has ended "
            f"for good: `meltline cold adopt --installation {quote(self.id)} --reason TEXT`",
        )


def require_same_installation(
    table: str, properties: Mapping[str, str], marks: Mapping[str, str]
) -> None:
    """Refuses to write to a table in cold that another installation has marked meanwhile.

    Args:
        table: Its name.
        properties: Its current properties.
        marks: The properties that are to mark it.

    Raises:
        LedgerOutOfStep: Names the other installation.
    """
    mark, own = (ColdMark(stated.get(INSTALLATION, "")) for stated in (properties, marks))
    if mark.stated and own.stated and mark.id != own.id:
        raise mark.refusal(table, own)


@dataclass(frozen=True)
class OwnInstallation:
    """The installation of a control ledger, by its epochs.

    An adopted ledger is another installation from then on. So a copy has the id of its original
    until it is adopted, but not the epochs that its original begins after the copy.

    Attributes:
        epochs: All epochs that the ledger has confirmed.
    """

    epochs: Sequence[Epoch]

    @property
    def id(self) -> str:
        """The start of the nonce of its first epoch; empty if it has had none."""
        adopted = [epoch for epoch in self.epochs if epoch.why.startswith(ADOPTED)]
        first = min(self.epochs, key=_number, default=None)
        begun = max(adopted, key=_number, default=first)
        return begun.nonce[:ID_LENGTH] if begun else ""

    @property
    def mark(self) -> ColdMark:
        """The mark that it writes in cold."""
        newest = max(self.epochs, key=_number, default=None)
        return ColdMark(f"{self.id} {newest.written}" if newest else "")

    def has_written(self, mark: ColdMark) -> bool:
        """Whether this installation made a mark, and not a copy of it."""
        is_known = any(epoch.is_at(mark.note.stated) for epoch in self.epochs)
        return mark.id == self.id and is_known


def _number(epoch: Epoch) -> int:
    return epoch.number
