"""Identifies the tables in cold that belong to this installation, and refuses all others.

Replication, drops, the archive and everything that reads them call it. A copied lake has the same
table UUIDs as its original: a mark in each cold table names the installation that writes it.
"""

from dataclasses import dataclass
from functools import cached_property

from meltline.app.services import ReadSources
from meltline.domain.archive.cold_owner import INSTALLATION, ColdMark, OwnInstallation
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import EpochReader


@dataclass
class ColdOwner:
    """This installation, as the owner of tables in cold."""

    epochs: EpochReader

    @classmethod
    def of(cls, context: ReadSources) -> "ColdOwner":
        """Returns the installation of a command or a step."""
        return cls(context.control.epochs)

    @cached_property
    def installation(self) -> OwnInstallation:
        """The installation, by the epochs that the control ledger has confirmed."""
        return OwnInstallation([epoch for epoch in self.epochs.since(0) if epoch.confirmed])

    @property
    def properties(self) -> dict[str, str]:
        """The properties that mark a table in cold as this installation's."""
        mark = self.installation.mark.stated
        return {INSTALLATION: mark} if mark else {}

    def owns(self, state: TableMetadata) -> bool:
        """Returns whether a table in cold has the mark of this installation."""
        if self.installation.has_written(mark_of(state)):
            return True
        self.__dict__.pop("installation", None)  # a run may have begun an epoch since the read
        return self.installation.has_written(mark_of(state))

    def require(self, state: TableMetadata) -> None:
        """Refuses a table in cold that is not this installation's.

        Raises:
            LedgerOutOfStep: It belongs to another installation, or its installation is unknown.
        """
        if not self.owns(state):
            raise mark_of(state).refusal(str(state.name), self.installation.mark)


def mark_of(state: TableMetadata) -> ColdMark:
    """Returns the mark of a table in cold."""
    return ColdMark(state.properties.get(INSTALLATION, ""))
