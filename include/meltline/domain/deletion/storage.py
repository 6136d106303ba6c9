"""Storage by stage: what people see, per table and day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from meltline.domain.iceberg.names import TableName


class Stage(StrEnum):
    """The stage of a file. Moves right only, except by a logged restore (ML-1, ML-8)."""

    ACTIVE = "active"
    HISTORICAL = "historical"
    RETAINED_FOR_CLONE = "retained_for_clone"
    FAILSAFE = "failsafe"
    DELETED = "deleted"

    @property
    def rank(self) -> int:
        """0 for active to 4 for deleted."""
        return list(Stage).index(self)


@dataclass(frozen=True, slots=True)
class FileReference:
    """That a table refers to some files.

    Attributes:
        stage: What that makes of them, if the table owns them.
        until: None where the table's metadata refers to them. Else it did once, and keeps only
            those that had departed before this instant, or not at all.
        is_now: Whether it does so today, as far as anybody knows.
    """

    table_uuid: str
    stage: Stage
    until: datetime | None = None
    is_now: bool = False

    def keeps(self, departed: datetime | None) -> bool:
        """Whether a file that departed then, or never did, is referred to."""
        return self.until is None or departed is None or departed < self.until

    def stage_of(self, owners: Sequence[str]) -> tuple[Stage, str]:
        """The stage and the owner of a file with these owners, by this use alone.

        What another table owns is retained for this one, and so is what nobody owns.
        """
        if self.table_uuid in owners:
            return self.stage, self.table_uuid
        return Stage.RETAINED_FOR_CLONE, owners[0] if owners else ""


@dataclass(frozen=True)
class StorageRow:
    """One table's bytes by stage. Bytes stand with the owner, never with a clone (ML-4, ML-18).

    `in_flight_bytes` are files under the table's prefixes that no commit has ever named; None
    when no listing was made. `cold_bytes` and `deep_bytes` lie in other stores, in no stage.
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
