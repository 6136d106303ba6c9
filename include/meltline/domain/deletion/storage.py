"""Storage by stage, per table and day, as the pages and reports show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from meltline.domain.iceberg.names import TableName


class Stage(StrEnum):
    """The stage of a file. It only moves forward, except by a logged restore (ML-1, ML-8)."""

    ACTIVE = "active"
    HISTORICAL = "historical"
    RETAINED_FOR_CLONE = "retained_for_clone"
    FAILSAFE = "failsafe"
    DELETED = "deleted"

    @property
    def rank(self) -> int:
        """The order of the stages: 0 for active to 4 for deleted."""
        return list(Stage).index(self)


@dataclass(frozen=True, slots=True)
class FileReference:
    """A table's reference to some files.

    Attributes:
        stage: The stage that it gives these files, if the table owns them.
        until: None if the table's metadata references them. Otherwise the reference is past, and
            keeps only files that became unreferenced before this instant, or never.
        is_now: Whether the reference is current, as far as is known.
    """

    table_uuid: str
    stage: Stage
    until: datetime | None = None
    is_now: bool = False

    def keeps(self, departed: datetime | None) -> bool:
        """Whether it keeps a file that became unreferenced at that time, or never."""
        return self.until is None or departed is None or departed < self.until

    def stage_of(self, owners: Sequence[str]) -> tuple[Stage, str]:
        """Returns the stage and the owner of a file with these owners, by this reference alone.

        A file that another table owns, or none, is retained for this one.
        """
        if self.table_uuid in owners:
            return self.stage, self.table_uuid
        return Stage.RETAINED_FOR_CLONE, owners[0] if owners else ""


@dataclass(frozen=True)
class StorageRow:
    """One table's bytes by stage. Bytes belong to the owner, never to a clone (ML-4, ML-18).

    `in_flight_bytes` are files under the table's prefixes that no commit has ever referenced; None
    without a listing. `cold_bytes` and `deep_bytes` are in other stores, in no stage.
    """

    table: TableName
    table_uuid: str
    active_bytes: int
    historical_bytes: int
    retained_for_clone_bytes: int
    failsafe_bytes: int
    deleted_bytes: int
    foreign_bytes: int
    in_flight_bytes: int | None
    computed_at: datetime
    cold_bytes: int = 0
    deep_bytes: int = 0
