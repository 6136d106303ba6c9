"""What went wrong and is not over: named to people until it is mended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Incident:
    """Something that happened to files of a table and that a person must know of.

    Attributes:
        id: What happened to what: raised once more it is the same incident.
        kind: One word for its kind, as in the error's type.
        object: The file, snapshot or table that it is about.
        table: The table's name, for people; `table_uuid` is its registration.
        at: When it was raised first, by the wall clock.
        message: What happened.
        next: What a person can do.
    """

    id: str
    kind: str
    object: str
    table: str
    table_uuid: str
    at: datetime
    message: str
    next: str


class IncidentAlarm(Protocol):
    """Raises incidents; it ends none."""

    def add(self, incidents: Sequence[Incident]) -> None:
        """Stores incidents; one that stands already keeps the time at which it was raised."""
        ...


class IncidentLedger(IncidentAlarm, Protocol):
    """Incidents that are not over."""

    def all(self) -> Sequence[Incident]:
        """The oldest first."""
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Forgets incidents that are over; unknown ones are no error."""
        ...
