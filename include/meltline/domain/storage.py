"""Storage by stage: what people see, per table and day."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from meltline.domain.names import TableName


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


@dataclass(frozen=True)
class StorageRow:
    """One table's bytes by stage. Bytes stand with the owner, never with a clone (ML-4, ML-18).

    `in_flight_bytes` are files under the table's prefixes that no commit has ever named; None
    when no listing was made.
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
